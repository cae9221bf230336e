/* fleet.c: builds and frees the description of a fleet. */
#include "run/fleet.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "text/tokens.h"
#include "text/url.h"

void fleet_free(struct fleet *f) {
  for (size_t i = 0; i < f->n_replicas; i++) {
    mem_free(f->replicas[i].id);
    mem_free(f->replicas[i].url);
    mem_free(f->replicas[i].metrics);
    mem_free(f->replicas[i].admin_id);
    mem_free(f->replicas[i].kv_events);
    mem_free(f->replicas[i].kv_replay);
  }
  mem_free(f->replicas);
  char *const strings[] = {f->gateway,  f->model,       f->tenant,  f->tokenizer, f->family,
                           f->template, f->headers,     f->ca_file, f->cert_file, f->key_file,
                           f->proxy,    f->hash_scheme, f->now,     f->admin,     f->admin_token};
  for (size_t i = 0; i < ARRAY_LEN(strings); i++)
    mem_free(strings[i]);
  tokens_close(f->tokens);
  value_free(&f->announced);
  value_free(&f->taken);
  *f = (struct fleet){0};
}

int fleet_load_tokens(struct fleet *f, struct err *err) {
  const struct tokens_load_options options = {.family = f->family, .shared = f->shared};
  if (!f->tokenizer || f->tokens)
    return 0;
  return tokens_open(f->tokenizer, &options, &f->tokens, err);
}

/* The length of the id in front of the URL: text up to the first '=' or '|', 0 when there is none.
 */
static size_t id_length(const char *text) {
  const char *scheme = strstr(text, "://");
  size_t n = strcspn(text, "=|");
  return text[n] && (!scheme || text + n < scheme) ? n : 0;
}

static int check_id(const char *id, const char *text, struct err *err) {
  if (strlen(id) > FLEET_ID_MAX)
    return err_set(err, ERR_INVALID, "replica '%.40s...': an id has at most %d bytes", text,
                   FLEET_ID_MAX);
  for (const char *p = id; *p; p++) {
    if ((unsigned char)*p <= ' ' || *p == 0x7f || strchr("\"'{},", *p))
      return err_set(err, ERR_INVALID,
                     "replica '%.200s': an id has no spaces, quotes, commas or braces", text);
  }
  return 0;
}

int fleet_add_replica(struct fleet *f, const char *text, struct err *err) {
  size_t id_len = id_length(text);
  const char *url = text + (id_len ? id_len + 1 : strspn(text, "=|"));
  if (url != text && id_len == 0)
    return err_set(err, ERR_INVALID, "replica '%.200s': the id is empty; write id=http://host:port",
                   text);
  struct url parsed;
  if (url_parse(url, strlen(url), &parsed, err)) {
    err_prefix(err, "replica '%.200s'", text);
    return err->code;
  }
  size_t path_len = strlen(parsed.path);
  bool has_v1 = path_len >= 3 && strcmp(parsed.path + path_len - 3, "/v1") == 0;
  url_free(&parsed);
  if (has_v1)
    return err_set(err, ERR_INVALID, "replica '%.200s': leave /v1 off, it is added", text);
  char number[24];
  snprintf(number, sizeof number, "r%zu", f->n_replicas);
  if (f->n_replicas >= FLEET_REPLICAS_MAX)
    return err_set(err, ERR_INVALID, "a fleet has at most %d replicas", FLEET_REPLICAS_MAX);
  char *id = id_len ? mem_strndup(text, id_len) : mem_strdup(number);
  int rc = check_id(id, text, err);
  for (size_t i = 0; i < f->n_replicas && !rc; i++) {
    if (strcmp(f->replicas[i].id, id) == 0)
      rc = err_set(err, ERR_INVALID, "replica '%.200s': the id '%s' is taken by %s", text, id,
                   f->replicas[i].url);
  }
  if (rc) {
    mem_free(id);
    return rc;
  }
  size_t len = strlen(url);
  while (len > 0 && url[len - 1] == '/')
    len--;
  f->replicas = mem_resize(f->replicas, f->n_replicas + 1, sizeof *f->replicas);
  f->replicas[f->n_replicas++] = (struct fleet_replica){.id = id, .url = mem_strndup(url, len)};
  return 0;
}

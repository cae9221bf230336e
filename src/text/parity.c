/* parity.c: ids held against ids, and the difference in words; see parity.h. */
#include "text/parity.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "text/json.h"
#include "text/parity_impl.h"

#define AROUND 8 /* tokens shown on either side of a difference */

const char *parity_form_name(enum parity_form form) {
  return form == PARITY_PROMPT ? "prompt" : "messages";
}

const char *parity_verdict_name(enum parity_verdict verdict) {
  static const char *const names[] = {"equal", "count", "differs"};
  return names[verdict];
}

const char *parity_strength_name(enum parity_strength s) {
  static const char *const names[] = {"exact", "count", "partial"};
  return names[s];
}

int parity_encode(const struct parity_local *local, const struct parity_case *c,
                  struct tokens_list *out, struct err *err) {
  struct tokens_options options = {.special = true, .add_special = c->chat.add_special_tokens};
  if (c->form == PARITY_PROMPT)
    return tokens_encoder_encode(local->encoder, c->text, c->len, &options, out, err);
  if (!local->chat)
    return err_set(err, ERR_UNSUPPORTED, "no chat template is known here: messages need one");
  return chattemplate_encode(local->chat, local->encoder, &c->chat, out, err);
}

size_t parity_common(const uint32_t *a, size_t n, const uint32_t *b, size_t m) {
  size_t most = n < m ? n : m, i = 0;
  while (i < most && a[i] == b[i])
    i++;
  return i;
}

/* ---- texts ---- */

char *parity_quote(const char *bytes, size_t len) {
  struct buf text;
  size_t at = 0;
  buf_init(&text, BUF_MAX_OWN);
  buf_putc(&text, '"');
  while (at < len) {
    size_t good = json_utf8_valid(bytes + at, len - at);
    struct buf part;
    buf_init(&part, BUF_MAX_OWN);
    json_write_string(&part, bytes + at, good);
    buf_put(&text, part.data + 1, part.len - 2); /* without its quotes */
    buf_free(&part);
    at += good;
    if (at < len)
      buf_printf(&text, "\\x%02x", (unsigned)(unsigned char)bytes[at++]);
  }
  buf_putc(&text, '"');
  return buf_take(&text, NULL);
}

/* The text of the ids; bytes that are no character become \xNN, so that a token that holds part of
 * one can be read, and an id outside the vocabulary <id N>. */
static char *quote(const struct tokens *t, const uint32_t *ids, size_t n) {
  struct buf bytes;
  struct err err;
  buf_init(&bytes, BUF_MAX_OWN);
  for (size_t i = 0; i < n; i++)
    if (tokens_decode(t, &ids[i], 1, &bytes, &err))
      buf_printf(&bytes, "<id %u>", ids[i]);
  char *quoted = parity_quote(bytes.data ? bytes.data : "", bytes.len);
  buf_free(&bytes);
  return quoted;
}

static size_t at_most(size_t n) {
  return n < AROUND ? n : AROUND;
}

static void describe(const struct parity_trial *t, struct parity_result *out) {
  const struct tokens *tokens = t->local->encoder->tokens;
  size_t i = t->common, before = at_most(i);
  size_t left = t->ours->n - i, right = t->server_n - i;
  out->has_difference = true;
  out->index = i;
  out->local_id = left ? (int64_t)t->ours->ids[i] : -1;
  out->server_id = right ? (int64_t)t->server[i] : -1;
  out->before = quote(tokens, t->server + i - before, before);
  out->local_text = quote(tokens, left ? t->ours->ids + i : NULL, at_most(left));
  out->server_text = quote(tokens, right ? t->server + i : NULL, at_most(right));
}

static void decode_both(struct parity_trial *t, struct parity_result *out) {
  const struct tokens *tokens = t->local->encoder->tokens;
  struct err err;
  int rc = tokens_decode(tokens, t->ours->ids, t->ours->n, &t->our_text, &err);
  if (!rc)
    rc = tokens_decode(tokens, t->server, t->server_n, &t->server_text, &err);
  t->decoded = !rc;
  if (rc) {
    parity_add_vocabulary(t, err.text, out);
    return;
  }
  const char *a = t->our_text.data ? t->our_text.data : "";
  const char *b = t->server_text.data ? t->server_text.data : "";
  size_t most = t->our_text.len < t->server_text.len ? t->our_text.len : t->server_text.len;
  while (t->common_bytes < most && a[t->common_bytes] == b[t->common_bytes])
    t->common_bytes++;
  out->same_text = t->our_text.len == t->server_text.len && t->common_bytes == most;
}

/* ---- causes ---- */

void parity_add_cause(struct parity_result *out, const char *name, enum parity_strength strength,
                      const char *text, const char *test) {
  for (size_t i = 0; i < out->n_causes; i++)
    if (strcmp(out->causes[i].name, name) == 0)
      return;
  if (out->n_causes == PARITY_MAX_CAUSES)
    return;
  const char *fix = parity_fix(name);
  out->causes[out->n_causes++] = (struct parity_cause){name, mem_strdup(text), mem_strdup(test),
                                                       fix ? mem_strdup(fix) : NULL, strength};
}

void parity_compare(const struct parity_local *local, const struct parity_case *c,
                    const struct tokens_list *ours, const uint32_t *server, size_t server_n,
                    struct parity_result *out) {
  struct parity_trial t = {
      .local = local, .c = c, .ours = ours, .server = server, .server_n = server_n};
  *out = (struct parity_result){.local_n = ours->n, .server_n = server_n};
  if (server)
    t.common = parity_common(ours->ids, ours->n, server, server_n);
  if (server ? t.common == ours->n && t.common == server_n : ours->n == server_n) {
    out->verdict = server ? PARITY_EQUAL : PARITY_COUNT;
    return;
  }
  out->verdict = PARITY_DIFFERS;
  buf_init(&t.our_text, BUF_MAX_OWN);
  buf_init(&t.server_text, BUF_MAX_OWN);
  if (server) {
    describe(&t, out);
    decode_both(&t, out);
  }
  if (local->other_vocabulary) {
    parity_add_vocabulary(&t, "another request has shown it", out);
  } else {
    parity_try_variants(&t, out);
    if (server)
      parity_try_rest(&t, out);
    parity_fix_date(&t, out);
  }
  buf_free(&t.our_text);
  buf_free(&t.server_text);
}

void parity_judge_usage(struct parity_result *r, size_t usage, bool same_request) {
  size_t ids = same_request ? r->server_n : r->local_n;
  char text[400], test[160];
  if (usage == ids)
    return;
  size_t by = usage > ids ? usage - ids : ids - usage;
  const char *more = usage > ids ? "more" : "fewer";
  if (same_request)
    snprintf(
        text, sizeof text,
        "usage.prompt_tokens counts %zu %s than the ids that the same reply says were run: the "
        "server, or something in front of it, counts wrongly",
        by, more);
  else
    snprintf(text, sizeof text,
             "usage.prompt_tokens counts %zu %s than the ids that the server gives of the same "
             "request: inference runs other tokens than it says, or something counts wrongly",
             by, more);
  snprintf(test, sizeof test, "%zu ids, usage.prompt_tokens %zu", ids, usage);
  r->verdict = PARITY_DIFFERS;
  parity_add_cause(r, "usage", same_request ? PARITY_EXACT : PARITY_BY_COUNT, text, test);
}

void parity_result_free(struct parity_result *r) {
  mem_free(r->before);
  mem_free(r->local_text);
  mem_free(r->server_text);
  for (size_t i = 0; i < r->n_causes; i++) {
    mem_free(r->causes[i].text);
    mem_free(r->causes[i].test);
    mem_free(r->causes[i].fix);
  }
  *r = (struct parity_result){0};
}

/* ---- as values ---- */

struct value parity_difference_value(const struct parity_result *r) {
  if (!r->has_difference)
    return value_null();
  struct value v = value_object();
  value_set(&v, "index", value_int((int64_t)r->index));
  value_set(&v, "local_id", r->local_id < 0 ? value_null() : value_int(r->local_id));
  value_set(&v, "server_id", r->server_id < 0 ? value_null() : value_int(r->server_id));
  value_set(&v, "same_text", value_bool(r->same_text));
  value_set(&v, "before", value_cstring(r->before));
  value_set(&v, "local", value_cstring(r->local_text));
  value_set(&v, "server", value_cstring(r->server_text));
  return v;
}

struct value parity_causes_value(const struct parity_result *r) {
  struct value list = value_array();
  for (size_t i = 0; i < r->n_causes; i++) {
    struct value *v = value_push(&list, value_object());
    value_set(v, "name", value_cstring(r->causes[i].name));
    value_set(v, "text", value_cstring(r->causes[i].text));
    value_set(v, "fix", value_cstring(r->causes[i].fix));
    value_set(v, "test", value_cstring(r->causes[i].test));
    value_set(v, "strength", value_cstring(parity_strength_name(r->causes[i].strength)));
  }
  return list;
}

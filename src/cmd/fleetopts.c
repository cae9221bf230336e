/* fleetopts.c: a fleet from a fleet file and the command line. */
#include "cmd/fleetopts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "bind/script.h"
#include "net/http.h"
#include "text/url.h"

static void replace(char **field, const char *value) {
  if (!value)
    return;
  mem_free(*field);
  *field = mem_strdup(value);
}

/* Appends "Name: value\r\n" to the fleet's header lines, after checking that it is one header. */
static int add_header(struct fleet *f, const char *name, size_t name_len, const char *value,
                      struct err *err) {
  static const char token[] =
      "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  if (!name_len || strspn(name, token) < name_len)
    return err_set(err, ERR_INVALID, "\"%.*s\" is not a header name", (int)name_len, name);
  if (strpbrk(value, "\r\n"))
    return err_set(err, ERR_INVALID, "the value of header %.*s holds a line break", (int)name_len,
                   name);
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  if (f->headers)
    buf_puts(&b, f->headers);
  buf_printf(&b, "%.*s: %s\r\n", (int)name_len, name, value);
  mem_free(f->headers);
  f->headers = buf_take(&b, NULL);
  return 0;
}

static int add_header_line(struct fleet *f, const char *line, struct err *err) {
  const char *colon = strchr(line, ':');
  if (!colon)
    return err_set(err, ERR_INVALID, "--header: \"%s\" has no colon; write \"Name: value\"", line);
  const char *value = colon + 1 + strspn(colon + 1, " ");
  int rc = add_header(f, line, (size_t)(colon - line), value, err);
  if (rc)
    err_prefix(err, "--header");
  return rc;
}

static int add_key(struct fleet *f, const struct fleet_options *o, struct err *err) {
  struct buf line;
  buf_init(&line, 1 << 16);
  int rc = 0;
  buf_puts(&line, "Bearer ");
  size_t prefix = line.len;
  if (o->api_key_env) {
    const char *key = getenv(o->api_key_env);
    if (!key || !*key)
      rc = err_set(err, ERR_NOT_FOUND, "--api-key-env: the variable %s is not set", o->api_key_env);
    else
      rc = buf_add(&line, key, strlen(key));
  } else if (o->api_key_file) {
    FILE *file = fopen(o->api_key_file, "re");
    char key[8192];
    if (!file)
      rc = err_set(err, ERR_NOT_FOUND, "--api-key-file: %s: %s", o->api_key_file, strerror(errno));
    else if (!fgets(key, sizeof key, file) || !key[strcspn(key, "\r\n")])
      rc = err_set(err, ERR_INVALID, "--api-key-file: %s has no whole first line", o->api_key_file);
    else
      rc = buf_add(&line, key, strcspn(key, "\r\n"));
    if (file)
      fclose(file);
    explicit_bzero(key, sizeof key);
  }
  if (!rc && line.len == prefix && (o->api_key_env || o->api_key_file))
    rc = err_set(err, ERR_INVALID, "the API key is empty");
  if (!rc && line.len > prefix)
    rc = add_header(f, "Authorization", 13, line.data, err);
  buf_free(&line);
  return rc;
}

static int check_url(const char *what, const char *text, struct err *err) {
  struct url url;
  if (url_parse(text, strlen(text), &url, err)) {
    err_prefix(err, "%s", what);
    return err->code;
  }
  url_free(&url);
  return 0;
}

static int set_metrics(struct fleet *f, const char *text, struct err *err) {
  const char *eq = strchr(text, '=');
  if (!eq || eq == text)
    return err_set(err, ERR_INVALID, "--metrics: \"%s\" is not ID=URL", text);
  for (size_t i = 0; i < f->n_replicas; i++)
    if (strlen(f->replicas[i].id) == (size_t)(eq - text) &&
        memcmp(f->replicas[i].id, text, (size_t)(eq - text)) == 0) {
      replace(&f->replicas[i].metrics, eq + 1);
      return check_url("--metrics", eq + 1, err);
    }
  return err_set(err, ERR_NOT_FOUND, "--metrics: there is no replica \"%.*s\"", (int)(eq - text),
                 text);
}

/* A text field of the fleet file into *field; absent: untouched. */
static int take_text(const struct value *file, const char *key, char **field, struct err *err) {
  const struct value *v = value_get(file, key);
  if (!v)
    return 0;
  if (v->kind != VALUE_STRING)
    return err_set(err, ERR_INVALID, "%s must be a string", key);
  replace(field, value_to_string(v));
  return 0;
}

static int take_replicas(const struct value *list, struct fleet *f, struct err *err) {
  if (list->kind != VALUE_ARRAY)
    return err_set(err, ERR_INVALID, "replicas must be a list of {id=, url=}");
  for (size_t i = 0; i < value_count(list); i++) {
    const struct value *r = value_at(list, i);
    const char *id = value_to_string(value_get(r, "id"));
    const char *url = value_to_string(value_get(r, "url"));
    if (!url)
      return err_set(err, ERR_INVALID, "replicas[%zu] has no url", i + 1);
    struct buf b;
    buf_init(&b, BUF_MAX_OWN);
    buf_printf(&b, "%s%s%s", id ? id : "", id ? "=" : "", url);
    int rc = fleet_add_replica(f, b.data, err);
    buf_free(&b);
    if (rc)
      return rc;
    rc = take_text(r, "metrics", &f->replicas[f->n_replicas - 1].metrics, err);
    if (rc)
      return rc;
  }
  return 0;
}

static int take_headers(const struct value *headers, struct fleet *f, struct err *err) {
  if (headers->kind != VALUE_OBJECT)
    return err_set(err, ERR_INVALID, "headers must be {[\"Name\"] = \"value\"}");
  for (size_t i = 0; i < headers->u.object.n; i++) {
    const struct value_pair *p = &headers->u.object.pairs[i];
    const char *text = value_to_string(&p->value);
    if (!text)
      return err_set(err, ERR_INVALID, "headers: the value of %s is not a string", p->key);
    int rc = add_header(f, p->key, p->key_len, text, err);
    if (rc)
      return rc;
  }
  return 0;
}

static int take_tls(const struct value *tls, struct fleet *f, struct err *err) {
  int rc = take_text(tls, "ca", &f->ca_file, err);
  if (!rc)
    rc = take_text(tls, "cert", &f->cert_file, err);
  if (!rc)
    rc = take_text(tls, "key", &f->key_file, err);
  const struct value *insecure = value_get(tls, "insecure");
  if (insecure)
    f->insecure = insecure->kind == VALUE_BOOL && insecure->u.boolean;
  return rc;
}

static int take_file(const struct value *file, struct fleet *f, struct err *err) {
  static const char *const known[] = {"replicas", "gateway", "model", "tokenizer",
                                      "tenant",   "headers", "tls"};
  static const char *const later[] = {"lookup", "template", "hash_scheme", "block_size"};
  for (size_t i = 0; i < file->u.object.n; i++) {
    const char *key = file->u.object.pairs[i].key;
    for (size_t j = 0; j < ARRAY_LEN(later); j++)
      if (strcmp(key, later[j]) == 0)
        return err_set(err, ERR_UNSUPPORTED, "%s is not supported by this version", key);
    bool found = false;
    for (size_t j = 0; j < ARRAY_LEN(known); j++)
      found = found || strcmp(key, known[j]) == 0;
    const char *near = err_nearest(key, known, ARRAY_LEN(known));
    if (!found)
      return err_set(err, ERR_INVALID, "unknown field \"%s\"%s%s%s", key,
                     near ? " (did you mean \"" : "", near ? near : "", near ? "\"?)" : "");
  }
  int rc = 0;
  const struct value *v = value_get(file, "replicas");
  if (v)
    rc = take_replicas(v, f, err);
  if (!rc)
    rc = take_text(file, "gateway", &f->gateway, err);
  if (!rc)
    rc = take_text(file, "model", &f->model, err);
  if (!rc)
    rc = take_text(file, "tokenizer", &f->tokenizer, err);
  if (!rc)
    rc = take_text(file, "tenant", &f->tenant, err);
  if (!rc && (v = value_get(file, "headers")))
    rc = take_headers(v, f, err);
  if (!rc && (v = value_get(file, "tls")))
    rc = take_tls(v, f, err);
  return rc;
}

static int read_file(const char *path, struct fleet *f, struct err *err) {
  struct value file;
  int rc = script_value(path, &file, err);
  if (!rc && file.kind != VALUE_OBJECT)
    rc = err_set(err, ERR_INVALID, "a fleet file returns a table with named fields");
  if (!rc)
    rc = take_file(&file, f, err);
  if (rc)
    err_prefix(err, "--fleet %s", path);
  value_free(&file);
  return rc;
}

int fleet_options_build(const struct fleet_options *o, struct fleet *f, struct err *err) {
  int rc = 0;
  if (o->api_key_env && o->api_key_file)
    return err_set(err, ERR_INVALID, "give --api-key-env or --api-key-file, not both");
  if (o->fleet_file)
    rc = read_file(o->fleet_file, f, err);
  for (size_t i = 0; i < o->replicas.n && !rc; i++) {
    rc = fleet_add_replica(f, o->replicas.items[i], err);
    if (rc)
      err_prefix(err, "--replica");
  }
  replace(&f->gateway, o->gateway);
  if (!rc && f->gateway)
    rc = check_url("--gateway", f->gateway, err);
  for (size_t i = 0; i < o->metrics.n && !rc; i++)
    rc = set_metrics(f, o->metrics.items[i], err);
  for (size_t i = 0; i < o->headers.n && !rc; i++)
    rc = add_header_line(f, o->headers.items[i], err);
  if (!rc)
    rc = add_key(f, o, err);
  replace(&f->model, o->model);
  replace(&f->tokenizer, o->tokenizer);
  replace(&f->tenant, o->tenant);
  replace(&f->ca_file, o->ca_file);
  replace(&f->cert_file, o->cert_file);
  replace(&f->key_file, o->key_file);
  replace(&f->proxy, o->proxy);
  if (!rc && f->proxy) {
    rc = http_proxy_check(f->proxy, err);
    if (rc)
      err_prefix(err, "--proxy");
  }
  f->insecure = f->insecure || o->insecure;
  f->http2 = f->http2 || o->http2;
  if (!rc && f->tokenizer && strcmp(f->tokenizer, "bytes") != 0)
    rc = err_set(err, ERR_UNSUPPORTED,
                 "--tokenizer %s: this version knows \"bytes\" alone (one byte, one token)",
                 f->tokenizer);
  return rc;
}

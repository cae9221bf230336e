/* fleetopts.c: a fleet from a fleet file and the command line. */
#include "cmd/fleetopts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "cmd/readtable.h"
#include "cmd/tlsfiles.h"
#include "kv/blockhash_chain.h"
#include "net/http.h"
#include "text/pytime.h"
#include "text/tokenizer.h"
#include "text/url.h"

static int check_url(const char *what, const char *text, struct err *err) {
  struct url url;
  if (url_parse(text, strlen(text), &url, err)) {
    err_prefix(err, "%s", what);
    return err->code;
  }
  url_free(&url);
  return 0;
}

static int check_gateway(const char *what, const char *text, struct err *err) {
  size_t len = strlen(text);
  while (len > 0 && text[len - 1] == '/')
    len--;
  if (len >= 3 && memcmp(text + len - 3, "/v1", 3) == 0)
    return err_set(err, ERR_INVALID, "%s: leave /v1 off %s, it is added", what, text);
  return check_url(what, text, err);
}

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
  static const char *const own[] = {"Content-Length", "Transfer-Encoding"};
  for (size_t i = 0; i < ARRAY_LEN(own); i++)
    if (strlen(own[i]) == name_len && strncasecmp(own[i], name, name_len) == 0)
      return err_set(err, ERR_INVALID, "%s is written by the client itself; leave it out", own[i]);
  for (const char *p = value; *p; p++)
    if ((unsigned char)*p < ' ' && !strchr("\t\r\n", *p))
      return err_set(err, ERR_INVALID, "the value of header %.*s holds a control character",
                     (int)name_len, name);
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

/* The first line of the file, appended. */
static int read_key_file(const char *path, struct buf *out, struct err *err) {
  char key[8192];
  errno = 0;
  FILE *file = fopen(path, "re");
  bool got = file && fgets(key, sizeof key, file);
  size_t len = got ? strcspn(key, "\r\n") : 0;
  int rc = 0;
  if (!file || (!got && errno))
    rc = err_set(err, ERR_NOT_FOUND, "--api-key-file: cannot read %s: %s", path, strerror(errno));
  else if (!len)
    rc = err_set(err, ERR_INVALID, "--api-key-file: the first line of %s is empty", path);
  else if (!key[len] && !feof(file))
    rc = err_set(err, ERR_INVALID, "--api-key-file: the first line of %s is longer than %zu bytes",
                 path, sizeof key - 2);
  else
    rc = buf_add(out, key, len);
  if (file)
    fclose(file);
  explicit_bzero(key, sizeof key);
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
    rc = read_key_file(o->api_key_file, &line, err);
  }
  if (!rc && line.len > prefix) {
    rc = add_header(f, "Authorization", 13, line.data, err);
    if (rc) /* of an environment variable: a file gives one line */
      err_prefix(err, "--api-key-env");
  }
  buf_free(&line);
  return rc;
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

/* Only these names. */
static int check_fields(const struct value *table, const char *const *known, size_t n,
                        struct err *err) {
  for (size_t i = 0; i < table->u.object.n; i++) {
    const char *key = table->u.object.pairs[i].key;
    bool found = false;
    for (size_t j = 0; j < n; j++)
      found = found || strcmp(key, known[j]) == 0;
    const char *near = err_nearest(key, known, n);
    if (!found)
      return err_set(err, ERR_INVALID, "unknown field \"%s\"%s%s%s", key,
                     near ? " (did you mean \"" : "", near ? near : "", near ? "\"?)" : "");
  }
  return 0;
}

/* A text field of the fleet file into *field; absent: untouched. */
static int take_text(const struct value *file, const char *key, char **field, struct err *err) {
  const struct value *v = value_get(file, key);
  if (!v)
    return 0;
  if (v->kind != VALUE_STRING)
    return err_set(err, ERR_INVALID, "%s must be a string", key);
  if (!*value_to_string(v))
    return err_set(err, ERR_INVALID, "%s is empty; leave it out, or name one", key);
  replace(field, value_to_string(v));
  return 0;
}

static int take_replicas(const struct value *list, struct fleet *f, struct err *err) {
  static const char *const known[] = {"id", "url", "metrics", "kv_events"};
  if (list->kind != VALUE_ARRAY)
    return err_set(err, ERR_INVALID, "replicas must be a list of {id=, url=}");
  for (size_t i = 0; i < value_count(list); i++) {
    const struct value *r = value_at(list, i);
    if (r->kind != VALUE_OBJECT || check_fields(r, known, ARRAY_LEN(known), err))
      return r->kind == VALUE_OBJECT
                 ? err_prefix(err, "replicas[%zu]", i + 1)
                 : err_set(err, ERR_INVALID, "replicas[%zu] must be {id =, url =}", i + 1);
    if (value_get(r, "kv_events"))
      return err_set(
          err, ERR_UNSUPPORTED,
          "replicas[%zu]: kv_events: reading KV events comes with a later version; leave "
          "it out",
          i + 1);
    const struct value *named = value_get(r, "id");
    if (named && named->kind != VALUE_STRING)
      return err_set(err, ERR_INVALID, "replicas[%zu]: id must be a string, as in id = \"r%zu\"",
                     i + 1, i);
    const char *id = value_to_string(named);
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
  static const char *const known[] = {"ca", "cert", "key", "insecure"};
  if (tls->kind != VALUE_OBJECT)
    return err_set(err, ERR_INVALID, "tls must be {ca =, cert =, key =, insecure =}");
  if (check_fields(tls, known, ARRAY_LEN(known), err))
    return err_prefix(err, "tls");
  int rc = take_text(tls, "ca", &f->ca_file, err);
  if (!rc)
    rc = take_text(tls, "cert", &f->cert_file, err);
  if (!rc)
    rc = take_text(tls, "key", &f->key_file, err);
  const struct value *insecure = value_get(tls, "insecure");
  if (!rc && insecure && insecure->kind != VALUE_BOOL)
    rc = err_set(err, ERR_INVALID, "insecure must be true or false");
  else if (insecure)
    f->insecure = insecure->u.boolean;
  return rc ? err_prefix(err, "tls") : 0;
}

/* How the engines hash and cut their caches: the defaults of conv:hashes, the built-in fleet's
 * blocks. */
static int take_blocks(const struct value *file, struct fleet *f, struct err *err) {
  const struct value *size = value_get(file, "block_size");
  int rc = take_text(file, "hash_scheme", &f->hash_scheme, err);
  if (!rc && f->hash_scheme && !blockhash_scheme_find(f->hash_scheme)) {
    struct buf all;
    buf_init(&all, BUF_MAX_OWN);
    for (size_t i = 0; blockhash_scheme_at(i); i++)
      buf_printf(&all, "%s%s", i ? " " : "", blockhash_scheme_name(blockhash_scheme_at(i)));
    rc = err_set(err, ERR_INVALID, "hash_scheme: there is no \"%.60s\"; there are %s",
                 f->hash_scheme, all.data);
    buf_free(&all);
  }
  if (rc || !size)
    return rc;
  if (size->kind != VALUE_INT || size->u.integer < 1 || size->u.integer > 1 << 20)
    return err_set(err, ERR_INVALID, "block_size must be a whole number of tokens from 1 to %d",
                   1 << 20);
  f->block_size = (uint32_t)size->u.integer;
  return 0;
}

/* {url =, token =}, as `perigee sim` announces it. */
static int take_admin(const struct value *admin, struct fleet *f, struct err *err) {
  static const char *const known[] = {"url", "token"};
  if (admin->kind != VALUE_OBJECT)
    return err_set(err, ERR_INVALID,
                   "admin must be {url =, token =}, as `perigee sim --announce` says it");
  int rc = check_fields(admin, known, ARRAY_LEN(known), err);
  if (!rc)
    rc = take_text(admin, "url", &f->admin, err);
  if (!rc)
    rc = take_text(admin, "token", &f->admin_token, err);
  if (rc)
    return err_prefix(err, "admin");
  if (!f->admin)
    return err_set(err, ERR_INVALID,
                   "admin: url is missing, as in url = \"http://127.0.0.1:9000\"");
  return check_url("admin.url", f->admin, err);
}

static int take_file(const struct value *file, struct fleet *f, struct err *err) {
  static const char *const known[] = {"replicas",    "gateway",    "model", "tokenizer", "family",
                                      "tenant",      "template",   "now",   "headers",   "tls",
                                      "hash_scheme", "block_size", "admin"};
  if (value_get(file, "lookup"))
    return err_set(err, ERR_UNSUPPORTED,
                   "lookup: routing by LookupRoute comes with a later version; leave it out");
  if (check_fields(file, known, ARRAY_LEN(known), err))
    return err->code;
  int rc = 0;
  const struct value *v = value_get(file, "replicas");
  if (v)
    rc = take_replicas(v, f, err);
  if (!rc)
    rc = take_text(file, "gateway", &f->gateway, err);
  if (!rc && f->gateway)
    rc = check_gateway("gateway", f->gateway, err);
  if (!rc)
    rc = take_text(file, "model", &f->model, err);
  if (!rc)
    rc = take_text(file, "tokenizer", &f->tokenizer, err);
  if (!rc)
    rc = take_text(file, "family", &f->family, err);
  if (!rc)
    rc = take_text(file, "template", &f->template, err);
  if (!rc)
    rc = take_text(file, "now", &f->now, err);
  if (!rc)
    rc = take_text(file, "tenant", &f->tenant, err);
  if (!rc)
    rc = take_blocks(file, f, err);
  if (!rc && (v = value_get(file, "headers")))
    rc = take_headers(v, f, err);
  if (!rc && (v = value_get(file, "tls")))
    rc = take_tls(v, f, err);
  if (!rc && (v = value_get(file, "admin")))
    rc = take_admin(v, f, err);
  return rc;
}

static int read_file(const char *path, struct fleet *f, struct err *err) {
  struct value file = value_null();
  int rc = readtable("--fleet", path, &file, err);
  if (!rc && file.kind != VALUE_OBJECT)
    rc = err_set(err, ERR_INVALID, "a fleet file returns a table with named fields");
  if (!rc)
    rc = take_file(&file, f, err);
  if (rc)
    err_prefix(err, "--fleet %s", path);
  value_free(&file);
  return rc;
}

static int check_tls_files(const struct fleet_options *o, const struct fleet *f, struct err *err) {
  char where[3][300];
  static const char *const fields[] = {"ca", "cert", "key"};
  for (size_t i = 0; i < 3; i++)
    snprintf(where[i], sizeof where[i], "--fleet %.256s: tls.%s",
             o->fleet_file ? o->fleet_file : "", fields[i]);
  bool by_option = !o->fleet_file || o->cert_file || o->key_file; /* what is missing is one too */
  struct tlsfile ca = {f->ca_file, o->ca_file ? "--ca-file" : where[0]};
  struct tlsfile cert = {f->cert_file, o->cert_file ? "--cert-file" : where[1]};
  struct tlsfile key = {f->key_file,
                        o->key_file || (by_option && !f->key_file) ? "--key-file" : where[2]};
  return tlsfiles_check(&ca, &cert, &key, err);
}

/* Cleartext HTTP/2 fails on reused connections in this libcurl (facts/native.md, section 1). */
static int check_http2(const char *text, struct err *err) {
  struct url url;
  int rc = url_parse(text, strlen(text), &url, err);
  if (rc)
    return rc;
  if (!url.tls)
    rc = err_set(err, ERR_INVALID,
                 "--http2 is for https:// servers, and %s is not one; leave --http2 out", text);
  url_free(&url);
  return rc;
}

int fleet_options_check(const struct fleet *f, struct err *err) {
  int rc = 0;
  if (!f->http2)
    return 0;
  if (!f->n_replicas && !f->gateway)
    return err_set(err, ERR_INVALID,
                   "--http2 is for https:// servers, and the built-in fleet is none; leave it out");
  if (f->gateway)
    rc = check_http2(f->gateway, err);
  for (size_t i = 0; i < f->n_replicas && !rc; i++)
    rc = check_http2(f->replicas[i].url, err);
  return rc;
}

int fleet_options_find_template(struct fleet *f, struct err *err) {
  static const char *const files[] = {"chat_template.jinja", "tokenizer_config.json"};
  if (strcmp(f->template, "harmony") == 0 || access(f->template, R_OK) == 0)
    return 0;
  int rc = err_set(err, ERR_NOT_FOUND, "cannot read %s: %s", f->template, strerror(errno));
  struct buf path;
  buf_init(&path, 1 << 16);
  for (size_t i = 0; i < ARRAY_LEN(files) && rc; i++)
    if (tokenfile_find(f->template, files[i], &path)) {
      path.data[path.len - strlen(files[i]) - 1] = '\0';
      replace(&f->template, path.data);
      rc = 0;
    }
  buf_free(&path);
  return rc;
}

/* The tokenizer is loaded here, so that a wrong name is found before anything is started. */
static int check_tokens(const struct fleet_options *o, struct fleet *f, struct err *err) {
  if (f->family && !f->tokenizer)
    return err_set(err, ERR_INVALID, "--family says whose rank file --tokenizer is; give both");
  if (f->template && fleet_options_find_template(f, err))
    return err_prefix(err, "%s", o->template ? "--template" : "template");
  if (fleet_load_tokens(f, err))
    return err_prefix(err, "%s", o->tokenizer ? "--tokenizer" : "tokenizer");
  return 0;
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
  if (!rc && o->gateway)
    rc = check_gateway("--gateway", f->gateway, err);
  for (size_t i = 0; i < o->metrics.n && !rc; i++)
    rc = set_metrics(f, o->metrics.items[i], err);
  for (size_t i = 0; i < o->headers.n && !rc; i++)
    rc = add_header_line(f, o->headers.items[i], err);
  if (!rc)
    rc = add_key(f, o, err);
  replace(&f->model, o->model);
  replace(&f->tokenizer, o->tokenizer);
  replace(&f->family, o->family);
  replace(&f->template, o->template);
  replace(&f->tenant, o->tenant);
  replace(&f->now, o->now);
  struct pytime now;
  if (!rc && f->now) {
    rc = pytime_parse(f->now, strlen(f->now), &now, err);
    if (rc)
      err_prefix(err, o->now ? "--now" : "now");
  }
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
  if (!rc)
    rc = check_tokens(o, f, err);
  return rc ? rc : check_tls_files(o, f, err);
}

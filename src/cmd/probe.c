/* probe.c: asking each server of a fleet for its models, on a loop of its own. */
#include "cmd/probe.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/printable.h"
#include "cmd/fleetopts.h"
#include "io/loop.h"
#include "net/http.h"
#include "text/chattemplate.h"
#include "text/json.h"
#include "text/tokens.h"

struct probe {
  struct loop *loop;
  size_t left;
};

struct ask {
  struct http_request request;
  struct probe *probe;
  bool started, over;
};

static void on_done(struct http_request *r) {
  struct ask *ask = r->user;
  ask->over = true;
  if (--ask->probe->left == 0)
    loop_stop(ask->probe->loop);
}

/* What one /v1/models answer says: the first model's id (NULL when there is none), whether `wanted`
 * is listed, whether the server says that it is simulated. The texts lie in `answer`. */
struct models {
  struct value answer;
  const struct value *simulated; /* the entry that says so, with what its prompts are made with */
  const char *first;
  bool lists_wanted;
};

static void read_entries(const struct value *answer, const char *wanted, struct models *m) {
  const struct value *data = value_get(answer, "data");
  for (size_t i = 0; i < value_count(data); i++) {
    const struct value *entry = value_at(data, i), *flag = value_get(entry, "simulated");
    const char *id = value_to_string(value_get(entry, "id"));
    if (!id || !*id)
      continue;
    m->first = m->first ? m->first : id;
    m->lists_wanted = m->lists_wanted || (wanted && strcmp(id, wanted) == 0);
    if (flag && flag->kind == VALUE_BOOL && flag->u.boolean)
      m->simulated = entry;
  }
}

static struct models read_models(const struct http_request *r, const char *wanted) {
  struct models m = {.answer = value_null()};
  if (r->status != 200 || json_parse(r->body.data, r->body.len, &m.answer, NULL))
    m.answer = value_null();
  read_entries(&m.answer, wanted, &m);
  return m;
}

/* ---- what a simulated server's prompts are made with ---- */

static void hex(uint64_t hash, char out[20]) {
  snprintf(out, 20, "%016llx", (unsigned long long)hash);
}

static bool same_text(const char *a, const char *b) {
  return a && b ? strcmp(a, b) == 0 : a == b;
}

static void note_taken(struct fleet *fleet, const char *what, const char *url) {
  if (fleet->taken.kind != VALUE_OBJECT)
    fleet->taken = value_object();
  value_set(&fleet->taken, what, value_cstring(url));
}

/* The server's tokenizer becomes the fleet's, or is the one that was given (`strict`). */
static int take_tokenizer(struct fleet *fleet, const char *url, const struct value *own,
                          bool strict, struct err *err) {
  const char *name = value_to_string(value_get(own, "tokenizer"));
  const char *family = value_to_string(value_get(own, "tokenizer_family"));
  const char *hash = value_to_string(value_get(own, "tokenizer_hash"));
  char here[20];
  struct err why = {0};
  bool given = fleet->tokenizer != NULL;
  if (!name || (given && !strict)) /* no name: an older one, nothing is known nor counted */
    return 0;
  if (!given) {
    fleet->tokenizer = mem_strdup(name);
    fleet->family = family ? mem_strdup(family) : NULL;
    note_taken(fleet, "tokenizer", url);
  }
  int rc = fleet_load_tokens(fleet, &why);
  if (rc)
    return err_set(
        err, rc,
        "%s serves tokenizer %s (hash %s), which is not found here: %s; give --tokenizer "
        "the same file (%s)",
        url, name, hash ? hash : "none", why.text, family ? "with its --family" : "or its folder");
  hex(fleet->tokens->hash, here);
  bool same = fleet->tokens->hash ? same_text(hash, here) : strcmp(name, "bytes") == 0;
  if (same)
    return 0;
  return err_set(err, ERR_INVALID,
                 "%s serves tokenizer %s (hash %s), and %s%s is another (hash %s): counts would be "
                 "wrong; %s",
                 url, name, hash ? hash : "none", given ? "--tokenizer " : "what is here as ",
                 fleet->tokenizer, fleet->tokens->hash ? here : "none",
                 given ? "give the same file, or leave --tokenizer out"
                       : "give --tokenizer the same file");
}

/* The server's template, where it is found here and is the same; a given one must be. */
static int take_template(struct fleet *fleet, const char *url, const struct value *own, bool strict,
                         struct err *err) {
  const char *name = value_to_string(value_get(own, "template"));
  const char *hash = value_to_string(value_get(own, "template_hash"));
  const char *given = fleet->template;
  struct chattemplate *t;
  struct err why = {0};
  char here[20];
  if (!name || (!given && !hash) || (given && !strict)) /* no hash: the fleet's own */
    return 0;
  int rc = chattemplate_load(given ? given : name, fleet->tokenizer, &t, &why);
  if (rc && given)
    return err_set(err, rc, "--template: %s", why.text);
  if (rc)
    return 0;
  hex(chattemplate_hash(t), here);
  chattemplate_delete(t);
  bool same = same_text(hash, here);
  if (same && !given) {
    fleet->template = mem_strdup(name);
    note_taken(fleet, "template", url);
    return fleet_options_find_template(fleet, err);
  }
  if (same || !given)
    return 0;
  return err_set(err, ERR_INVALID,
                 "%s renders with template %s (hash %s), and --template %s is another (hash %s); "
                 "give the same file, or leave --template out",
                 url, name, hash ? hash : "none", given, here);
}

static int take_block_size(struct fleet *fleet, const char *url, const struct value *own,
                           struct err *err) {
  int64_t size;
  if (!value_to_int(value_get(own, "block_size"), &size) || size < 1 || size > UINT32_MAX)
    return 0;
  if (!fleet->block_size)
    fleet->block_size = (uint32_t)size;
  if (fleet->block_size == (uint32_t)size)
    return 0;
  return err_set(err, ERR_INVALID, "%s has blocks of %lld tokens, and block_size says %u", url,
                 (long long)size, fleet->block_size);
}

/* Whether its usage has cached tokens; some servers it can play never say them. */
static bool reports_cached(const struct value *own) {
  const struct value *says = value_get(own, "reports_cached_tokens");
  return says && says->kind == VALUE_BOOL && says->u.boolean;
}

/* perigee sim says of itself what it is: the report must tell, and this side counts as it does. */
static int take_simulated(struct fleet *fleet, const char *url, const struct value *own,
                          bool strict, struct err *err) {
  const char *now = value_to_string(value_get(own, "now"));
  int rc = take_tokenizer(fleet, url, own, strict, err);
  if (!rc)
    rc = take_template(fleet, url, own, strict, err);
  if (!rc && strict)
    rc = take_block_size(fleet, url, own, err);
  if (now && !fleet->now) {
    fleet->now = mem_strdup(now);
    note_taken(fleet, "now", url);
  }
  return rc;
}

/* What the entry of the model, else the first one, says of what prompts are made with. */
static void note_announced(struct fleet *fleet, const char *url, const struct value *answer) {
  static const char *const fields[] = {"root",     "tokenizer",     "tokenizer_hash",
                                       "template", "template_hash", "now"};
  const struct value *data = value_get(answer, "data"), *entry = value_at(data, 0);
  struct value said = value_object();
  for (size_t i = 0; i < value_count(data) && fleet->model; i++) {
    const char *id = value_to_string(value_get(value_at(data, i), "id"));
    if (id && strcmp(id, fleet->model) == 0)
      entry = value_at(data, i);
  }
  for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
    const struct value *v = value_get(entry, fields[i]);
    if (v && v->kind == VALUE_STRING)
      value_set(&said, fields[i], value_copy(v));
  }
  if (fleet->announced.kind != VALUE_OBJECT)
    fleet->announced = value_object();
  value_set(&fleet->announced, url, said);
}

/* ---- judging ---- */

static int take_model(struct fleet *fleet, const char *url, const struct models *m, bool given,
                      struct err *err) {
  if (given && m->first && !m->lists_wanted)
    return err_set(err, ERR_NOT_FOUND,
                   "%s serves %s, not %s; name one it serves with --model (or --no-preflight to "
                   "start anyway)",
                   url, m->first, fleet->model);
  if (!fleet->model && m->first)
    fleet->model = mem_strdup(m->first);
  return 0;
}

/* How the answer begins, on one line; "" when it is empty. */
static void beginning(const struct http_request *r, char out[80]) {
  size_t len = r->body.len < 60 ? r->body.len : 60;
  out[0] = '\0';
  if (!len)
    return;
  int n = snprintf(out, 80, "; its answer begins \"%.*s\"", (int)len, r->body.data);
  for (char *p = out; *p; p++)
    if (*p == '\n' || *p == '\r' || *p == '\t')
      *p = ' ';
  printable_make(out, n < 80 ? (size_t)n : 79);
}

/* No answer named a model: what this one said instead, and the way out that fits. */
static int no_model(const struct fleet *fleet, const struct http_request *r, struct err *err) {
  const char *url = http_target_url(r->target), *way = NULL;
  size_t len = 0;
  const char *where = http_response_header(r, "location", &len);
  char text[80];
  beginning(r, text);
  if (r->status >= 300 && r->status < 400)
    return err_set(err, ERR_NOT_FOUND,
                   "%s/v1/models leads elsewhere (status %d%s%.*s): name the final address, or a "
                   "model with --model",
                   url, r->status, where ? ", to " : "", where ? (int)(len < 120 ? len : 120) : 0,
                   where ? where : "");
  if (r->status == 401 || r->status == 403)
    way = "give the server's key with --api-key-env VAR or --api-key-file FILE";
  else if (r->status == 407)
    way = fleet->proxy ? "give the proxy's user, --proxy http://USER:PASSWORD@HOST:PORT"
                       : "this is a proxy's address, not a server's: name it with --proxy";
  else if (r->status == 429)
    way = "wait until it takes requests, or name a model with --model";
  else if (r->status == 404 || r->status == 405)
    way =
        "is this the server's address, without a path of its API? If it has no list, name a model "
        "with --model";
  else if (r->status == 502 || r->status == 503 || r->status == 504)
    way = fleet->proxy ? "the server behind the proxy may be loading or gone: try again later"
                       : "the server may still be loading: try again when it is ready";
  else if (r->status >= 400)
    way = "see what the server logs, or name a model with --model";
  if (way)
    return err_set(err, ERR_NOT_FOUND, "%s%s does not list its models (status %d%s); %s", url,
                   fleet->proxy ? " (through the proxy)" : "", r->status, text, way);
  if (r->error != SAMPLE_OK)
    return err_set(err, ERR_NOT_FOUND, "%s/v1/models: %s; name a model with --model", url,
                   r->detail);
  return err_set(err, ERR_NOT_FOUND,
                 "%s/v1/models lists no model (status %d%s); name one with --model", url, r->status,
                 text);
}

static int judge(struct fleet *fleet, const struct ask *asks, size_t n, bool strict,
                 struct err *err) {
  for (size_t i = 0; i < n; i++)
    if (asks[i].request.status == 0) {
      int code = asks[i].request.error == SAMPLE_TLS       ? ERR_TLS
                 : asks[i].request.error == SAMPLE_RESOLVE ? ERR_RESOLVE
                                                           : ERR_CONNECT;
      return err_set(err, code, "%s", asks[i].request.detail);
    }
  bool given = fleet->model != NULL, simulated = true, reports = true;
  int rc = 0;
  for (size_t i = 0; i < n && !rc; i++) {
    const char *url = http_target_url(asks[i].request.target);
    struct models m = read_models(&asks[i].request, fleet->model);
    simulated = simulated && m.simulated;
    reports = reports && m.simulated && reports_cached(m.simulated);
    rc = take_model(fleet, url, &m, given, err);
    if (!rc)
      note_announced(fleet, url, &m.answer);
    if (!rc && m.simulated)
      rc = take_simulated(fleet, url, m.simulated, strict, err);
    value_free(&m.answer);
  }
  if (rc)
    return rc;
  fleet->simulated = fleet->simulated || simulated;
  fleet->reports_cached = fleet->reports_cached || reports;
  if (!fleet->model)
    return no_model(fleet, &asks[0].request, err);
  return 0;
}

static int ask_all(const struct fleet *fleet, struct http_client *client, uint64_t timeout_ns,
                   struct ask *asks, size_t n, struct err *err) {
  for (size_t i = 0; i < n; i++) {
    struct http_target_options options = {
        .url = fleet->gateway ? fleet->gateway : fleet->replicas[i].url,
        .tls = {fleet->ca_file, fleet->cert_file, fleet->key_file, fleet->insecure},
        .proxy = fleet->proxy,
        .http2 = fleet->http2};
    struct http_request *r = &asks[i].request;
    http_request_init(r);
    int rc = http_client_target(client, &options, &r->target, err);
    if (rc)
      return rc;
    r->method = "GET";
    r->path = "/v1/models";
    r->headers = fleet->headers;
    r->timeouts.total_ns = timeout_ns;
    r->done = on_done;
    r->user = &asks[i];
    rc = http_request_start(client, r, err);
    if (rc)
      return rc;
    asks[i].started = true;
    asks[i].probe->left++;
  }
  return 0;
}

static int probe(struct fleet *fleet, bool strict, uint64_t timeout_ns, struct err *err) {
  size_t n = fleet->gateway ? 1 : fleet->n_replicas;
  assert(n > 0);
  struct probe probe = {.loop = loop_new(err)};
  if (!probe.loop)
    return err->code;
  int rc = 0;
  struct ask *asks = mem_calloc(n, sizeof *asks);
  struct http_client *client =
      http_client_new(&(struct http_client_options){.loop = probe.loop}, err);
  if (!client) {
    rc = err->code;
    goto out;
  }
  for (size_t i = 0; i < n; i++)
    asks[i].probe = &probe;
  rc = ask_all(fleet, client, timeout_ns, asks, n, err);
  if (!rc) {
    loop_run(probe.loop);
    rc = judge(fleet, asks, n, strict, err);
  }
  for (size_t i = 0; i < n; i++) {
    if (asks[i].started && !asks[i].over)
      http_request_cancel(&asks[i].request, SAMPLE_CANCELLED);
    if (asks[i].request.target)
      http_request_free(&asks[i].request);
  }
  http_client_delete(client);
out:
  mem_free(asks);
  loop_delete(probe.loop);
  return rc;
}

int probe_take(struct fleet *fleet, const char *url, const struct value *answer, struct err *err) {
  struct models m = {.answer = value_null()};
  read_entries(answer, fleet->model, &m);
  note_announced(fleet, url, answer);
  return m.simulated ? take_simulated(fleet, url, m.simulated, false, err) : 0;
}

int probe_fleet(struct fleet *fleet, struct err *err) {
  return probe(fleet, true, 10 * NS_PER_S, err);
}

int probe_models(struct fleet *fleet, uint64_t timeout_ns, struct err *err) {
  return probe(fleet, false, timeout_ns, err);
}

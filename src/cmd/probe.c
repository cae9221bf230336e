/* probe.c: asking each server of a fleet for its models, on a loop of its own. */
#include "cmd/probe.h"

#include <string.h>

#include "base/mem.h"
#include "io/loop.h"
#include "net/http.h"
#include "text/json.h"

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

/* What one /v1/models answer says: the first model's id (a copy, NULL when there is none), whether
 * `wanted` is listed, whether the server says that it is simulated. */
struct models {
  char *first;
  bool lists_wanted, simulated;
};

static struct models read_models(const struct http_request *r, const char *wanted) {
  struct models m = {0};
  struct value v;
  if (r->status != 200 || json_parse(r->body.data, r->body.len, &v, NULL))
    return m;
  const struct value *data = value_get(&v, "data");
  for (size_t i = 0; i < value_count(data); i++) {
    const struct value *flag = value_get(value_at(data, i), "simulated");
    const char *id = value_to_string(value_get(value_at(data, i), "id"));
    if (!id || !*id)
      continue;
    m.first = m.first ? m.first : mem_strdup(id);
    m.lists_wanted = m.lists_wanted || (wanted && strcmp(id, wanted) == 0);
    m.simulated = m.simulated || (flag && flag->kind == VALUE_BOOL && flag->u.boolean);
  }
  value_free(&v);
  return m;
}

static int judge(struct fleet *fleet, const struct ask *asks, size_t n, struct err *err) {
  for (size_t i = 0; i < n; i++)
    if (asks[i].request.status == 0) {
      int code = asks[i].request.error == SAMPLE_TLS       ? ERR_TLS
                 : asks[i].request.error == SAMPLE_RESOLVE ? ERR_RESOLVE
                                                           : ERR_CONNECT;
      return err_set(err, code, "%s", asks[i].request.detail);
    }
  bool given = fleet->model != NULL, simulated = true;
  for (size_t i = 0; i < n; i++) {
    struct models m = read_models(&asks[i].request, fleet->model);
    simulated = simulated && m.simulated;
    bool missing = given && m.first && !m.lists_wanted;
    if (missing)
      err_set(err, ERR_NOT_FOUND,
              "%s serves %s, not %s; name one it serves with --model (or --no-preflight to start "
              "anyway)",
              http_target_url(asks[i].request.target), m.first, fleet->model);
    if (!fleet->model && m.first)
      fleet->model = mem_strdup(m.first);
    mem_free(m.first);
    if (missing)
      return err->code;
  }
  if (simulated) { /* perigee sim says so: a token is a byte there, and the report must tell */
    fleet->simulated = fleet->reports_cached = true;
    if (!fleet->tokenizer)
      fleet->tokenizer = mem_strdup("bytes");
  }
  if (!fleet->model)
    return err_set(err, ERR_NOT_FOUND,
                   "%s/v1/models lists no model (status %d); name one with --model",
                   http_target_url(asks[0].request.target), asks[0].request.status);
  return 0;
}

static int ask_all(const struct fleet *fleet, struct http_client *client, struct ask *asks,
                   size_t n, struct err *err) {
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
    r->timeouts.total_ns = 10 * NS_PER_S;
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

int probe_fleet(struct fleet *fleet, struct err *err) {
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
  rc = ask_all(fleet, client, asks, n, err);
  if (!rc) {
    loop_run(probe.loop);
    rc = judge(fleet, asks, n, err);
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

/* admin.c: the fleet's admin port. */
#include "sim/admin.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/mem.h"
#include "sim/actionfields.h"
#include "sim/actionrules.h"
#include "sim/actions.h"
#include "sim/genprompt.h"
#include "sim/simfleet.h"
#include "text/json.h"

struct waiting;

struct admin {
  struct simfleet *fleet;
  struct waiting *waiting;
  struct httpd *server;
  char url[48];
  char token[33];
};

/* ---- who may ---- */

/* In time that does not depend on where they differ. */
static bool same_text(const char *a, const char *b) {
  size_t len = strlen(b);
  if (strlen(a) != len)
    return false;
  unsigned char diff = 0;
  for (size_t i = 0; i < len; i++)
    diff |= (unsigned char)(a[i] ^ b[i]);
  return diff == 0;
}

static bool host_is_ours(const struct admin *a, const char *host) {
  static const char *const names[] = {"127.0.0.1", "localhost"};
  char want[32];
  for (size_t i = 0; host && i < ARRAY_LEN(names); i++) {
    snprintf(want, sizeof want, "%s:%d", names[i], httpd_port(a->server));
    if (strcmp(host, want) == 0)
      return true;
  }
  return false;
}

static bool has_token(const struct admin *a, const char *header) {
  static const char scheme[] = "Bearer ";
  return header && strncmp(header, scheme, sizeof scheme - 1) == 0 &&
         same_text(header + sizeof scheme - 1, a->token);
}

/* ---- answers ---- */

static void send_value(struct httpd_request *req, int status, struct value *v) {
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  json_write(&b, v);
  httpd_reply(req, status, "Content-Type: application/json\r\n", b.data, b.len);
  buf_free(&b);
  value_free(v);
}

static void send_error(struct httpd_request *req, int status, const char *text) {
  struct value v = value_object();
  value_set(&v, "error", value_cstring(text));
  send_value(req, status, &v);
}

/* ---- GET /admin/state ---- */

static struct value describe_events(const struct kvevents *k) {
  struct value v = value_object();
  struct kvevents_counts c;
  kvevents_get_counts(k, &c);
  value_set(&v, "batches", value_int((int64_t)c.batches));
  value_set(&v, "sent", value_int((int64_t)c.sent));
  value_set(&v, "lost", value_int((int64_t)c.lost));
  value_set(&v, "late", value_int((int64_t)c.late));
  value_set(&v, "kept", value_int((int64_t)c.kept));
  value_set(&v, "replays", value_int((int64_t)c.replays));
  value_set(&v, "refused", value_int((int64_t)c.refused));
  return v;
}

static struct value describe_host(const struct simfleet *f, struct simhost *h) {
  struct value v = value_object();
  struct engine *e = replica_engine(h->replica);
  struct engine_totals t;
  engine_get_totals(e, &t);
  value_set(&v, "id", value_cstring(h->id));
  value_set(&v, "url", value_cstring(h->url));
  value_set(&v, "state", value_cstring(simhost_life_name(h->life)));
  value_set(&v, "since_ns", value_int((int64_t)h->life_ns));
  value_set(&v, "under_way", simactions_under_way(f, h));
  value_set(&v, "processes", value_int((int64_t)h->processes));
  value_set(&v, "event_delay_ns", value_int((int64_t)h->shaping.delay_ns));
  value_set(&v, "event_drop_p", value_double(h->shaping.drop_p));
  value_set(&v, "event_drop_count", value_int((int64_t)h->shaping.drop_count));
  value_set(&v, "events_dropped", value_int((int64_t)h->shaping.dropped));
  value_set(&v, "refusing", value_bool(faults_refuse(&h->faults) != NULL));
  value_set(&v, "connections", value_int((int64_t)httpd_connections(h->server)));
  value_set(&v, "requests", value_int((int64_t)h->n_requests));
  value_set(&v, "running", value_int(engine_running(e)));
  value_set(&v, "waiting", value_int(engine_waiting(e)));
  value_set(&v, "free_blocks", value_int(engine_free_blocks(e)));
  value_set(&v, "usage", value_double(engine_usage(e)));
  value_set(&v, "steps", value_int((int64_t)t.steps));
  value_set(&v, "finished", value_int((int64_t)t.finished));
  value_set(&v, "aborted", value_int((int64_t)t.aborted));
  value_set(&v, "preemptions", value_int((int64_t)t.preemptions));
  value_set(&v, "prefix_queries", value_int((int64_t)t.prefix_queries));
  value_set(&v, "prefix_hits", value_int((int64_t)t.prefix_hits));
  if (h->kv)
    value_set(&v, "kv_events", describe_events(h->kv));
  struct value *faults = value_set(&v, "faults", value_array());
  for (size_t i = 0; i < h->faults.n; i++) {
    if (h->faults.items[i].over)
      continue;
    struct buf b;
    buf_init(&b, BUF_MAX_OWN);
    faults_format(&h->faults.items[i], &b);
    struct value *fault = value_push(faults, value_object());
    value_set(fault, "fault", value_string(b.data, b.len));
    value_set(fault, "hits", value_int((int64_t)h->faults.items[i].used));
    buf_free(&b);
  }
  return v;
}

static void get_state(struct admin *a, struct httpd_request *req, const struct value *body) {
  (void)body;
  struct simfleet *f = a->fleet;
  struct value v = simfleet_describe(f);
  struct value *replicas = value_set(&v, "replicas", value_array());
  for (size_t i = 0; i < f->n_hosts; i++)
    value_push(replicas, describe_host(f, f->hosts[i]));
  value_set(&v, "admin", value_null());
  value_set(&v, "seed", value_int((int64_t)f->seed));
  value_set(&v, "now_ns", value_int((int64_t)loop_now(f->loop)));
  send_value(req, 200, &v);
}

/* ---- POST ---- */

/* A request that is answered when its action has ended. */
struct waiting {
  struct simactions_watch watch;
  struct admin *admin;
  struct httpd_request *req;
  struct value answer;
  struct waiting *next;
};

static void take_out(struct waiting *w) {
  struct waiting **at = &w->admin->waiting;
  while (*at != w)
    at = &(*at)->next;
  *at = w->next;
}

static void on_action_end(struct simactions_watch *watch) {
  struct waiting *w = CONTAINER_OF(watch, struct waiting, watch);
  take_out(w);
  value_set(&w->answer, "done", value_bool(true));
  httpd_on_close(w->req, NULL);
  send_value(w->req, 200, &w->answer);
  mem_free(w);
}

static void on_asker_left(struct httpd_request *req, void *user) {
  (void)req;
  struct waiting *w = user;
  simactions_unwatch(w->admin->fleet, &w->watch);
  take_out(w);
  value_free(&w->answer);
  mem_free(w);
}

static void answer_later(struct admin *a, struct httpd_request *req, struct value *answer) {
  int64_t id = 0;
  struct waiting *w = MEM_NEW(struct waiting);
  *w = (struct waiting){.watch.fn = on_action_end, .admin = a, .req = req, .answer = *answer};
  w->next = a->waiting;
  a->waiting = w;
  httpd_set_user(req, w);
  httpd_on_close(req, on_asker_left);
  value_to_int(value_get(answer, "id"), &id);
  if (!simactions_watch(a->fleet, (uint64_t)id, &w->watch))
    on_action_end(&w->watch);
}

/* POST /admin/NAME: the body's fields, but `wait`, are the action's. */
static void post_action(struct admin *a, struct httpd_request *req, const struct value *body,
                        const char *name) {
  struct err err;
  struct value action = value_object(), answer;
  bool wait = false;
  value_set(&action, "action", value_cstring(name));
  int rc = actionfields_bool(body, "wait", &wait, &err);
  for (size_t i = 0; i < value_count(body); i++) {
    const struct value_pair *p = &body->u.object.pairs[i];
    if (strcmp(p->key, "wait") != 0 && strcmp(p->key, "action") != 0)
      value_set_len(&action, p->key, p->key_len, value_copy(&p->value));
  }
  if (!rc)
    rc = simfleet_act(a->fleet, &action, &answer, &err);
  value_free(&action);
  if (rc) {
    send_error(req,
               rc == ERR_NOT_FOUND ? 404
               : rc == ERR_LIMIT   ? 409
               : rc == ERR_IO      ? 500
                                   : 400,
               err.text);
    return;
  }
  const struct value *done = value_get(&answer, "done");
  if (wait && !done->u.boolean)
    answer_later(a, req, &answer);
  else
    send_value(req, 200, &answer);
}

static int peek_tokens(struct admin *a, const struct value *body, uint32_t **ids, uint32_t *n,
                       struct apierror *e) {
  const struct value *list = value_get(body, "tokens"), *prompt = value_get(body, "prompt");
  if (list && list->kind == VALUE_ARRAY)
    return reqfield_tokens(list, "tokens", &a->fleet->model, ids, n, e);
  if (!prompt || prompt->kind != VALUE_STRING)
    return apierror_set(e, 400, NULL, "tokens (a list of ids) or prompt (a string) is required");
  struct tokens_list out = {0};
  if (genprompt_text(&a->fleet->model, body, prompt, &out, e)) {
    tokens_list_free(&out);
    return ERR_INVALID;
  }
  *ids = out.ids;
  *n = (uint32_t)out.n;
  return 0;
}

/* The adapter that `model` names; NULL: the model's own name, or none. ERR_INVALID: no replica has
 * such a one. */
static int peek_adapter(const struct admin *a, const struct value *body, const char **adapter,
                        struct apierror *e) {
  const char *name = value_to_string(value_get(body, "model"));
  *adapter = NULL;
  if (!name || strcmp(name, a->fleet->model.name) == 0)
    return 0;
  for (size_t i = 0; !*adapter && i < a->fleet->n_hosts; i++)
    if (adapters_find(&a->fleet->hosts[i]->adapters, name))
      *adapter = name;
  return *adapter ? 0
                  : apierror_set(e, 400, "model",
                                 "model: \"%.200s\" is neither the model nor an adapter of any "
                                 "replica",
                                 name);
}

static void post_peek(struct admin *a, struct httpd_request *req, const struct value *body) {
  uint32_t *ids = NULL, n = 0;
  struct apierror e = {0};
  const char *adapter = NULL;
  if (peek_adapter(a, body, &adapter, &e) || peek_tokens(a, body, &ids, &n, &e)) {
    send_error(req, 400, e.message);
    return;
  }
  const char *salt = value_to_string(value_get(body, "cache_salt"));
  struct value v = value_object();
  struct value *cached = value_set(&v, "cached", value_object());
  for (size_t i = 0; i < a->fleet->n_hosts; i++) {
    struct simhost *h = a->fleet->hosts[i];
    bool served = !adapter || adapters_find(&h->adapters, adapter);
    uint32_t hit = served ? engine_peek(replica_engine(h->replica), ids, n,
                                        salt && salt[0] ? salt : NULL, adapter)
                          : 0;
    value_set(cached, h->id, value_int(hit));
  }
  mem_free(ids);
  send_value(req, 200, &v);
}

/* ---- dispatch ---- */

static const struct route {
  const char *method, *path;
  void (*fn)(struct admin *a, struct httpd_request *req, const struct value *body);
} routes[] = {
    {"GET", "/admin/state", get_state},
    {"POST", "/admin/peek", post_peek},
};

/* `r`, or the action of that name. */
static void run_route(struct admin *a, struct httpd_request *req, const struct route *r,
                      const char *action) {
  struct value body = value_object();
  size_t len;
  const char *data = httpd_body(req, &len);
  struct apierror e = {0};
  if (len) {
    value_free(&body);
    if (reqfield_object(data, len, &body, &e)) {
      send_error(req, 400, e.message);
      return;
    }
  }
  if (r)
    r->fn(a, req, &body);
  else
    post_action(a, req, &body, action);
  value_free(&body);
}

/* "/admin/restart" -> "restart"; NULL when it is no action's. */
static const char *action_of(const char *path) {
  static const char prefix[] = "/admin/";
  if (strncmp(path, prefix, sizeof prefix - 1) != 0)
    return NULL;
  const char *const *names = actionrules_names();
  for (size_t i = 0; names[i]; i++)
    if (strcmp(path + sizeof prefix - 1, names[i]) == 0)
      return names[i];
  return NULL;
}

/* `method`: what the path takes; NULL: there is no such path. */
static void refuse(struct httpd_request *req, const char *method) {
  const char *const *names = actionrules_names();
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  if (method)
    buf_printf(&text, "%.80s takes %s, not %.20s, as in curl%s URL%.80s", httpd_path(req), method,
               httpd_method(req), strcmp(method, "POST") == 0 ? " -X POST" : "", httpd_path(req));
  else
    buf_puts(&text, "no such path; there are");
  for (size_t i = 0; !method && i < ARRAY_LEN(routes); i++)
    buf_printf(&text, "%s %s %s", i ? "," : "", routes[i].method, routes[i].path);
  for (size_t i = 0; !method && names[i]; i++)
    buf_printf(&text, "%s%s", i ? ", " : ", and with POST /admin/: ", names[i]);
  send_error(req, method ? 405 : 404, text.data);
  buf_free(&text);
}

static void on_request(void *user, struct httpd_request *req) {
  struct admin *a = user;
  if (!host_is_ours(a, httpd_header(req, "Host"))) {
    send_error(req, 403, "this Host header is not the admin port's; use its announced URL");
    return;
  }
  if (!has_token(a, httpd_header(req, "Authorization"))) {
    send_error(req, 401, "Authorization: Bearer TOKEN is required; the fleet announces the token");
    return;
  }
  const char *method = NULL;
  for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
    if (strcmp(routes[i].path, httpd_path(req)) != 0)
      continue;
    method = routes[i].method;
    if (strcmp(routes[i].method, httpd_method(req)) == 0) {
      run_route(a, req, &routes[i], NULL);
      return;
    }
  }
  const char *action = action_of(httpd_path(req));
  if (action && strcmp(httpd_method(req), "POST") == 0) {
    run_route(a, req, NULL, action);
    return;
  }
  refuse(req, action ? "POST" : method);
}

static int make_token(char *out, struct err *err) {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
    return err_set(err, ERR_IO, "no random bytes for the admin token: %s", strerror(errno));
  for (size_t i = 0; i < sizeof bytes; i++)
    snprintf(out + 2 * i, 3, "%02x", bytes[i]);
  return 0;
}

int admin_start(struct simfleet *fleet, int port, struct admin **out, struct err *err) {
  struct admin *a = MEM_NEW(struct admin);
  a->fleet = fleet;
  struct httpd_options options = {.port = port, .on_request = on_request, .user = a};
  int rc = make_token(a->token, err);
  if (!rc)
    rc = httpd_listen(fleet->loop, &options, &a->server, err);
  if (rc) {
    err_prefix(err, "admin port");
    mem_free(a);
    return rc;
  }
  snprintf(a->url, sizeof a->url, "http://127.0.0.1:%d", httpd_port(a->server));
  *out = a;
  return 0;
}

void admin_stop(struct admin *a) {
  if (!a)
    return;
  httpd_close(a->server);
  mem_free(a);
}

const char *admin_url(const struct admin *a) {
  return a->url;
}

const char *admin_token(const struct admin *a) {
  return a->token;
}

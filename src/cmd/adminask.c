/* adminask.c: see adminask.h. */
#include "cmd/adminask.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "io/loop.h"
#include "net/http.h"
#include "text/json.h"
#include "text/url.h"

#define ANSWER_MAX ((size_t)16 << 20) /* some 1.5 kB a replica */

/* ---- by URL ---- */

static const char *host_of(const struct url *u) {
  return strcmp(u->host, "localhost") == 0 ? "127.0.0.1" : u->host;
}

/* A server that listens on all addresses announces none that could be compared. */
static bool is_any(const char *host) {
  return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

static bool same_server(const char *ours, const char *theirs) {
  struct url a, b;
  bool same = false;
  if (url_parse(ours, strlen(ours), &a, NULL))
    return false;
  if (url_parse(theirs, strlen(theirs), &b, NULL) == 0) {
    same = a.port == b.port && (is_any(b.host) || strcmp(host_of(&a), host_of(&b)) == 0);
    url_free(&b);
  }
  url_free(&a);
  return same;
}

/* Those that are up, and those that can be added. */
static const char *find(const struct value *state, const char *url) {
  static const char *const lists[] = {"replicas", "spares"};
  for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
    const struct value *list = value_get(state, lists[k]);
    for (size_t i = 0; i < value_count(list); i++) {
      const char *theirs = value_to_string(value_get(value_at(list, i), "url"));
      if (theirs && same_server(url, theirs))
        return value_to_string(value_get(value_at(list, i), "id"));
    }
  }
  return NULL;
}

static int not_there(const struct fleet *f, const struct fleet_replica *r,
                     const struct value *state, struct err *err) {
  const struct value *list = value_get(state, "replicas");
  struct buf there;
  buf_init(&there, BUF_MAX_OWN);
  for (size_t i = 0; i < value_count(list) && i < 4; i++) {
    const char *id = value_to_string(value_get(value_at(list, i), "id"));
    const char *url = value_to_string(value_get(value_at(list, i), "url"));
    buf_printf(&there, "%s%.60s = %.120s", i ? ", " : "", id ? id : "", url ? url : "");
  }
  if (value_count(list) > 4)
    buf_printf(&there, " and %zu more", value_count(list) - 4);
  int rc = err_set(err, ERR_INVALID,
                   "replica %s: %s is none of the fleet whose admin port is %s (%s): which one is "
                   "meant by an action would not be known; write its URL as there, or leave admin "
                   "out",
                   r->id, r->url, f->admin, there.data ? there.data : "it has none");
  buf_free(&there);
  return rc;
}

int adminask_take(struct fleet *f, const struct value *state, struct err *err) {
  if (!value_get(state, "replicas"))
    return err_set(err, ERR_IO, "%s/admin/state is not the answer of a `perigee sim`", f->admin);
  for (size_t i = 0; i < f->n_replicas; i++) {
    struct fleet_replica *r = &f->replicas[i];
    const char *id = find(state, r->url);
    if (!id)
      return not_there(f, r, state, err);
    for (size_t k = 0; k < i; k++)
      if (strcmp(f->replicas[k].admin_id, id) == 0)
        return err_set(err, ERR_INVALID,
                       "replicas %s and %s are the same one, %s (%s) of the admin port %s: name it "
                       "once",
                       f->replicas[k].id, r->id, r->url, id, f->admin);
    mem_free(r->admin_id);
    r->admin_id = mem_strdup(id);
  }
  return 0;
}

/* ---- asking ---- */

static void on_done(struct http_request *r) {
  loop_stop(r->user);
}

static int judge(struct fleet *f, const struct http_request *r, struct err *err) {
  struct value answer = value_null();
  if (r->status == 0)
    return err_set(err, ERR_IO, "%s", r->detail);
  int rc = json_parse(r->body.data ? r->body.data : "", r->body.len, &answer, NULL);
  const char *why = rc ? NULL : value_to_string(value_get(&answer, "error"));
  if (r->status == 200 && !rc)
    rc = adminask_take(f, &answer, err);
  else if (why)
    rc = err_set(err, ERR_INVALID, "%s: %s", f->admin, why);
  else
    rc = err_set(
        err, ERR_IO,
        "%s/admin/state answered with status %d: is that the admin port of a `perigee sim`?",
        f->admin, r->status);
  value_free(&answer);
  return rc;
}

static int ask(struct fleet *f, struct loop *loop, struct http_client *client, struct err *err) {
  const struct http_target_options target = {.url = f->admin};
  struct http_request r;
  struct buf headers;
  http_request_init(&r);
  int rc = http_client_target(client, &target, &r.target, err);
  if (rc)
    return rc;
  buf_init(&headers, BUF_MAX_OWN);
  if (f->admin_token)
    buf_printf(&headers, "Authorization: Bearer %s\r\n", f->admin_token);
  r.method = "GET";
  r.path = "/admin/state";
  r.headers = headers.data;
  r.timeouts.total_ns = 10 * NS_PER_S;
  r.max_body = ANSWER_MAX;
  r.done = on_done;
  r.user = loop;
  rc = http_request_start(client, &r, err);
  if (!rc) {
    loop_run(loop);
    rc = judge(f, &r, err);
  }
  http_request_free(&r);
  buf_free(&headers);
  return rc;
}

int adminask_names(struct fleet *f, struct err *err) {
  struct loop *loop = loop_new(err);
  if (!loop)
    return err->code;
  struct http_client *client = http_client_new(&(struct http_client_options){.loop = loop}, err);
  int rc = client ? ask(f, loop, client, err) : err->code;
  if (client)
    http_client_delete(client);
  loop_delete(loop);
  return rc ? err_prefix(err, "the fleet's admin port") : 0;
}

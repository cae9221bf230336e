/* fleetport.c: actions as POST requests to the admin port of a simulated fleet. */
#include "run/fleetport.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "net/http.h"
#include "run/actionids.h"
#include "text/json.h"

#define CONNECT_NS (10 * NS_PER_S)
#define ANSWER_MAX ((size_t)1 << 20)

struct fleetport_http {
  struct fleetport port;
  struct loop *loop;
  struct http_client *client;
  struct http_target *target;
  char *headers;
  struct actionids *ids;
};

struct carrier {
  struct fleetport_http *port;
  struct fleetport_call *call;
  struct http_request request;
  struct blob *body;
  char path[80];
  struct loop_task task; /* of one that could not even be sent */
};

static void free_carrier(struct carrier *c) {
  c->call->carrier = NULL;
  http_request_free(&c->request);
  blob_unref(c->body);
  mem_free(c);
}

/* ---- the answer ---- */

static int code_of(int status) {
  return status == 404                   ? ERR_NOT_FOUND
         : status == 409                 ? ERR_LIMIT
         : status >= 400 && status < 500 ? ERR_INVALID
                                         : ERR_IO;
}

/* Refusals are {"error": text}. */
static int refused(const struct fleetport_http *p, const struct http_request *r, struct err *err) {
  struct value v = value_null();
  const char *text = NULL;
  if (json_parse(r->body.data ? r->body.data : "", r->body.len, &v, NULL) == 0)
    text = value_to_string(value_get(&v, "error"));
  int rc = text ? err_set(err, code_of(r->status), "%s", text)
                : err_set(err, code_of(r->status),
                          "%s answered with status %d and no reason: is that the admin port of a "
                          "`perigee sim`?",
                          http_target_url(p->target), r->status);
  value_free(&v);
  return rc;
}

static int read_answer(const struct fleetport_http *p, const struct http_request *r,
                       struct value *out, struct err *err) {
  if (r->status >= 400)
    return refused(p, r, err);
  if (r->error != SAMPLE_OK)
    return err_set(err, ERR_IO, "the fleet's admin port does not answer: %s", r->detail);
  if (json_parse(r->body.data ? r->body.data : "", r->body.len, out, err))
    return err_prefix(err, "the answer of the admin port %s", http_target_url(p->target));
  return 0;
}

static void on_done(struct http_request *r) {
  struct carrier *c = r->user;
  struct fleetport_call *call = c->call;
  call->answer = value_null();
  call->rc = read_answer(c->port, r, &call->answer, &call->err);
  if (call->rc)
    actionids_error(c->port->ids, &call->err);
  else
    actionids_answer(c->port->ids, &call->answer);
  free_carrier(c);
  call->done(call);
}

static void on_not_sent(struct loop_task *task) {
  struct carrier *c = CONTAINER_OF(task, struct carrier, task);
  struct fleetport_call *call = c->call;
  free_carrier(c);
  call->done(call);
}

/* ---- the request ---- */

static int body_of(const struct fleetport_http *p, const struct value *action, struct blob **out,
                   struct err *err) {
  struct value body = value_copy(action);
  struct buf b;
  int rc = actionids_ask(p->ids, &body, err);
  value_set(&body, "wait", value_bool(true));
  buf_init(&b, BUF_MAX_OWN);
  json_write(&b, &body);
  value_free(&body);
  *out = blob_from_buf(&b);
  buf_free(&b);
  return rc;
}

static void begin(void *self, struct fleetport_call *call) {
  struct fleetport_http *p = self;
  struct carrier *c = MEM_NEW(struct carrier);
  const char *name = value_to_string(value_get(call->action, "action"));
  *c = (struct carrier){.port = p, .call = call};
  c->task.run = on_not_sent;
  call->carrier = c;
  snprintf(c->path, sizeof c->path, "/admin/%.40s", name ? name : "");
  http_request_init(&c->request);
  c->request.target = p->target;
  c->request.method = "POST";
  c->request.path = c->path;
  c->request.headers = p->headers;
  c->request.parts = &c->body;
  c->request.n_parts = 1;
  c->request.timeouts.connect_ns = CONNECT_NS; /* what an action takes is not known here */
  c->request.max_body = ANSWER_MAX;
  c->request.done = on_done;
  c->request.user = c;
  call->answer = value_null();
  call->rc = body_of(p, call->action, &c->body, &call->err);
  if (!call->rc)
    call->rc = http_request_start(p->client, &c->request, &call->err);
  if (call->rc)
    loop_ready(p->loop, &c->task);
}

static void cancel(void *self, struct fleetport_call *call) {
  struct fleetport_http *p = self;
  struct carrier *c = call->carrier;
  if (c->task.queued)
    loop_unready(p->loop, &c->task);
  else
    http_request_cancel(&c->request, SAMPLE_CANCELLED);
  free_carrier(c);
}

/* ---- the port ---- */

int fleetport_http_new(struct loop *loop, const char *url, const char *token,
                       const struct fleet *fleet, struct fleetport_http **out, struct err *err) {
  struct fleetport_http *p = MEM_NEW(struct fleetport_http);
  const struct http_client_options options = {.loop = loop};
  const struct http_target_options target = {.url = url};
  struct buf headers;
  *out = NULL;
  p->loop = loop;
  p->port = (struct fleetport){.begin = begin, .cancel = cancel, .self = p};
  buf_init(&headers, BUF_MAX_OWN);
  buf_puts(&headers, "Content-Type: application/json\r\n");
  if (token)
    buf_printf(&headers, "Authorization: Bearer %s\r\n", token);
  p->headers = buf_take(&headers, NULL);
  p->ids = actionids_new(fleet);
  p->client = http_client_new(&options, err);
  if (!p->client || http_client_target(p->client, &target, &p->target, err)) {
    fleetport_http_delete(p);
    return err->code;
  }
  *out = p;
  return 0;
}

void fleetport_http_delete(struct fleetport_http *p) {
  if (!p)
    return;
  if (p->client)
    http_client_delete(p->client);
  mem_free(p->headers);
  actionids_free(p->ids);
  mem_free(p);
}

const struct fleetport *fleetport_http_port(struct fleetport_http *p) {
  return &p->port;
}

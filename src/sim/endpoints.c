/* endpoints.c: everything a replica answers besides generation: models, health, metrics,
 * tokenizing, cache reset. A fault with a `path` reaches these too. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "sim/babble.h"
#include "sim/background.h"
#include "sim/delivery.h"
#include "sim/devapi.h"
#include "sim/endpoints.h"
#include "sim/faceapi.h"
#include "sim/generation.h"
#include "sim/textapi.h"
#include "text/json.h"

void endpoint_error(struct answer *a, const struct apierror *e) {
  a->status = face_status(a->face, e->status);
  a->content_type = "application/json";
  buf_reset(&a->body);
  face_refusal(a->face, e, &a->body);
}

bool endpoint_flag(const char *query, const char *name) {
  char text[16] = "";
  return endpoint_param(query, name, text, sizeof text) &&
         (strcmp(text, "true") == 0 || strcmp(text, "1") == 0 || strcmp(text, "True") == 0);
}

bool endpoint_param(const char *query, const char *name, char *out, size_t size) {
  size_t len = strlen(name);
  for (const char *p = query; p; p = strchr(p, '&')) {
    p += *p == '&';
    if (strncmp(p, name, len) == 0 && p[len] == '=') {
      size_t n = strcspn(p + len + 1, "&");
      snprintf(out, size, "%.*s", (int)(n < size ? n : size - 1), p + len + 1);
      return true;
    }
    if (!*p)
      break;
  }
  return false;
}

/* ---- the endpoints ---- */

static void get_health(struct simhost *h, struct httpd_request *req, struct answer *a) {
  (void)h;
  (void)req;
  a->content_type = NULL;
}

static void get_version(struct simhost *h, struct httpd_request *req, struct answer *a) {
  (void)h;
  (void)req;
  buf_puts(&a->body, "{\"version\":\"perigee-sim\",\"simulated\":true}");
}

/* What comes before and behind `max_model_len`. */
static void put_card(const struct simhost *h, const char *id, const char *root, const char *parent,
                     struct buf *out) {
  uint64_t now = (uint64_t)((int64_t)loop_now(h->loop) + loop_realtime_offset(h->loop)) / NS_PER_S;
  buf_puts(out, "{\"id\":");
  json_write_string(out, id, strlen(id));
  buf_printf(out, ",\"object\":\"model\",\"created\":%llu,\"owned_by\":\"%s\",\"root\":",
             (unsigned long long)now, face_get(h->face)->owned_by);
  json_write_string(out, root, strlen(root));
  buf_puts(out, ",\"parent\":");
  if (parent)
    json_write_string(out, parent, strlen(parent));
  else
    buf_puts(out, "null");
  buf_puts(out, ",\"max_model_len\":");
}

static void get_models(struct simhost *h, struct httpd_request *req, struct answer *a) {
  (void)req;
  const char *name = h->model->name;
  buf_puts(&a->body, "{\"object\":\"list\",\"data\":[");
  put_card(h, name, name, NULL, &a->body);
  buf_printf(&a->body, "%u,\"permission\":[],", h->model->max_model_len);
  struct value own = value_object(); /* no server else says this: what its prompts are made with */
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  value_set(&own, "simulated", value_bool(true));
  if (h->face != FACE_VLLM)
    value_set(&own, "face", value_cstring(face_get(h->face)->title));
  value_set(&own, "block_size", value_int(h->model->block_size));
  value_set(&own, "reports_cached_tokens",
            value_bool(face_get(h->face)->says_cached && !h->flags.no_cached));
  genmodel_describe(h->model, &own);
  json_write(&text, &own);
  buf_put(&a->body, text.data + 1, text.len - 1); /* goes on in the open object */
  for (size_t i = 0; i < h->adapters.n; i++) {
    buf_putc(&a->body, ',');
    put_card(h, h->adapters.items[i].name, h->adapters.items[i].path, name, &a->body);
    buf_puts(&a->body, "null,\"permission\":[]}");
  }
  buf_puts(&a->body, "]}");
  buf_free(&text);
  value_free(&own);
}

static void get_metrics(struct simhost *h, struct httpd_request *req, struct answer *a) {
  (void)req;
  if (h->face == FACE_LLAMACPP && !h->flags.metrics) {
    struct apierror e = {0};
    apierror_set(&e, 501, NULL,
                 "This server does not support metrics endpoint. Start it with `--metrics`");
    endpoint_error(a, &e);
    return;
  }
  a->content_type = "text/plain; version=0.0.4; charset=utf-8";
  struct buf running, waiting;
  buf_init(&running, BUF_MAX_OWN);
  buf_init(&waiting, BUF_MAX_OWN);
  generation_adapters(h, &running, &waiting);
  buf_puts(&running, "");
  buf_puts(&waiting, "");
  double now = (double)((int64_t)loop_now(h->loop) + loop_realtime_offset(h->loop)) / 1e9;
  struct replica_state state = {.model = h->model->name,
                                .asleep = h->asleep ? (h->discarded ? 2 : 1) : 0,
                                .limits = h->flags.max_queued_reqs || h->flags.max_queued_tokens,
                                .adapters = h->adapters.n,
                                .running_adapters = running.data,
                                .waiting_adapters = waiting.data,
                                .now_s = now};
  replica_write_metrics(h->replica, &state, &a->body);
  buf_free(&running);
  buf_free(&waiting);
}

/* ---- tokenizing ---- */

typedef int json_fn(const struct genmodel *model, const struct value *body, struct buf *out,
                    struct apierror *e);

static void answer_json(struct simhost *h, struct httpd_request *req, struct answer *a,
                        json_fn *fn) {
  struct apierror e = {0};
  struct value body;
  size_t len;
  const char *data = httpd_body(req, &len);
  int rc = reqfield_object(data, len, &body, &e);
  if (!rc) {
    rc = fn(h->model, &body, &a->body, &e);
    value_free(&body);
  }
  if (rc)
    endpoint_error(a, &e);
}

static void post_tokenize(struct simhost *h, struct httpd_request *req, struct answer *a) {
  answer_json(h, req, a, textapi_tokenize);
}

static void post_detokenize(struct simhost *h, struct httpd_request *req, struct answer *a) {
  answer_json(h, req, a, textapi_detokenize);
}

static void render(struct simhost *h, struct httpd_request *req, struct answer *a,
                   enum gen_api api) {
  struct apierror e = {0};
  char made[32];
  size_t len;
  const char *body = httpd_body(req, &len), *id = httpd_header(req, "X-Request-Id");
  snprintf(made, sizeof made, "%016llx", (unsigned long long)babble_mix(h->seed ^ h->n_renders++));
  if (textapi_render(h->model, api, body, len, id && *id ? id : made, &a->body, &e))
    endpoint_error(a, &e);
}

static void post_render_chat(struct simhost *h, struct httpd_request *req, struct answer *a) {
  render(h, req, a, GEN_CHAT);
}

static void post_render_completion(struct simhost *h, struct httpd_request *req, struct answer *a) {
  render(h, req, a, GEN_COMPLETION);
}

/* ---- stored responses ---- */

static const char responses_path[] = "/v1/responses/";

/* GET /v1/responses/ID (a stream with stream=true; whole when a fault shapes it), POST
 * /v1/responses/ID/cancel. */
static void stored_response(struct simhost *h, struct httpd_request *req, struct answer *a) {
  char id[160];
  struct apierror e = {0};
  snprintf(id, sizeof id, "%s", httpd_path(req) + sizeof responses_path - 1);
  char *slash = strchr(id, '/');
  bool cancel = slash && strcmp(slash, "/cancel") == 0;
  if (slash)
    *slash = '\0';
  struct response_entry *x = response_store_get(&h->responses, id);
  bool stream = endpoint_flag(httpd_query(req), "stream");
  if (slash && !cancel)
    apierror_set(&e, 404, NULL, "Not Found");
  else if (strcmp(httpd_method(req), cancel ? "POST" : "GET") != 0)
    apierror_set(&e, 405, NULL, "Method Not Allowed");
  else if (!x)
    responses_not_found(id, &e);
  else if (cancel)
    background_cancel(h, x, a, &e);
  else if (stream && a->may_take)
    a->taken = background_follow(h, req, x, &e);
  else
    buf_puts(&a->body, x->reply);
  if (e.status)
    endpoint_error(a, &e);
}

/* ---- dispatch ---- */

enum { ANY = (1 << FACE_KINDS) - 1, VLLM = 1 << FACE_VLLM, SGLANG = 1 << FACE_SGLANG };

static const struct endpoint {
  const char *method, *path;
  endpoint_fn *fn;
  unsigned faces; /* bits by enum face_kind: who has it */
} endpoints[] = {
    {"POST", "/v1/chat/completions", NULL, ANY}, /* generation.c */
    {"POST", "/v1/completions", NULL, ANY},
    {"POST", "/v1/responses", NULL, VLLM},
    {"POST", "/generate", NULL, SGLANG},
    {"POST", "/completion", NULL, 1 << FACE_LLAMACPP},
    {"POST", "/completions", NULL, 1 << FACE_LLAMACPP},
    {"GET", "/v1/models", get_models, ANY},
    {"GET", "/health", get_health, ANY & ~(1u << FACE_OLLAMA)},
    {"GET", "/health_generate", get_health, SGLANG},
    {"GET", "/ping", get_health, VLLM},
    {"GET", "/version", get_version, VLLM | 1 << FACE_TRTLLM},
    {"GET", "/metrics", get_metrics, VLLM | SGLANG | 1 << FACE_TGI | 1 << FACE_LLAMACPP},
    {"POST", "/tokenize", post_tokenize, VLLM | SGLANG},
    {"POST", "/tokenize", faceapi_tokenize, 1 << FACE_LLAMACPP},
    {"POST", "/detokenize", post_detokenize, VLLM | SGLANG},
    {"POST", "/v1/chat/completions/render", post_render_chat, VLLM},
    {"POST", "/v1/completions/render", post_render_completion, VLLM},
    {"GET", "/load", devapi_load, VLLM},
    {"POST", "/reset_prefix_cache", devapi_reset_prefix, VLLM},
    {"POST", "/reset_mm_cache", devapi_nothing, VLLM},
    {"POST", "/reset_encoder_cache", devapi_nothing, VLLM},
    {"POST", "/sleep", devapi_sleep, VLLM},
    {"POST", "/wake_up", devapi_wake_up, VLLM},
    {"GET", "/is_sleeping", devapi_is_sleeping, VLLM},
    {"POST", "/v1/load_lora_adapter", devapi_load_adapter, VLLM},
    {"POST", "/v1/unload_lora_adapter", devapi_unload_adapter, VLLM},
    {"POST", "/flush_cache", faceapi_flush, SGLANG},
    {"GET", "/get_server_info", faceapi_server_info, SGLANG},
    {"GET", "/props", faceapi_props, 1 << FACE_LLAMACPP},
    {"GET", "/info", faceapi_info, 1 << FACE_TGI},
};

static void make_answer(struct simhost *h, struct httpd_request *req, struct answer *a) {
  struct apierror e = {0};
  const char *path = httpd_path(req), *method = httpd_method(req);
  a->status = 200;
  a->content_type = "application/json";
  for (size_t i = 0; i < ARRAY_LEN(endpoints); i++) {
    if (strcmp(endpoints[i].path, path) != 0 || !(endpoints[i].faces & 1u << h->face))
      continue;
    if (strcmp(endpoints[i].method, method) != 0) {
      apierror_set(&e, 405, NULL, "Method Not Allowed");
      endpoint_error(a, &e);
    } else {
      endpoints[i].fn(h, req, a);
    }
    return;
  }
  if (h->face == FACE_VLLM && strncmp(path, responses_path, sizeof responses_path - 1) == 0) {
    stored_response(h, req, a);
    return;
  }
  apierror_set(&e, 404, NULL, "Not Found");
  e.type = "Not Found"; /* the web server's, not an endpoint's */
  endpoint_error(a, &e);
}

static void make_head(const struct simhost *h, const struct answer *a, char *head, size_t size) {
  if (a->content_type)
    snprintf(head, size, "%sContent-Type: %s\r\n", h->header, a->content_type);
  else
    snprintf(head, size, "%s", h->header);
}

/* An answer with a fault: it may take its time, so it lives on the heap. */
struct plain {
  struct simhost *host;
  struct delivery delivery;
  struct loop_timer stall;
};

static void plain_delete(struct plain *p) {
  loop_timer_clear(p->host->loop, &p->stall);
  delivery_free(&p->delivery);
  mem_free(p);
}

static void plain_over(struct delivery *d) {
  plain_delete(CONTAINER_OF(d, struct plain, delivery));
}

static void plain_left(struct httpd_request *req, void *user) {
  (void)req;
  plain_delete(user);
}

static void plain_proceed(struct plain *p) {
  enum delivery_state state;
  if (p->delivery.plan.instead != FAULT_KINDS) {
    state = delivery_instead(&p->delivery, p->host->header);
  } else {
    char head[160];
    struct answer a = {.face = p->host->face};
    buf_init(&a.body, BUF_MAX_OWN);
    make_answer(p->host, p->delivery.req, &a);
    make_head(p->host, &a, head, sizeof head);
    state = delivery_whole(&p->delivery, a.status, head, a.body.data, a.body.len);
    buf_free(&a.body);
  }
  if (state == DELIVERY_OVER)
    plain_delete(p);
}

static void plain_stalled(struct loop_timer *t) {
  plain_proceed(CONTAINER_OF(t, struct plain, stall));
}

static void answer_faulty(struct simhost *h, struct httpd_request *req,
                          const struct fault_plan *decided) {
  struct plain *p = MEM_NEW(struct plain);
  struct fault_plan plan = *decided;
  bool stalled = plan.stall_after == 0;
  if (stalled)
    plan.stall_after = FAULT_NEVER;
  p->host = h;
  loop_timer_init(&p->stall, plain_stalled);
  delivery_init(&p->delivery, req, &plan, false, plain_over);
  p->delivery.face = h->face;
  httpd_set_user(req, p);
  httpd_on_close(req, plain_left);
  if (!stalled)
    plain_proceed(p);
  else if (plan.stall_ns)
    loop_timer_set(h->loop, &p->stall, loop_now(h->loop) + plan.stall_ns);
}

void endpoints_answer(struct simhost *h, struct httpd_request *req) {
  if (h->faults.n) {
    struct fault_plan plan;
    faults_decide(&h->faults, httpd_path(req), h->n_others++, &plan);
    if (plan.kinds) {
      answer_faulty(h, req, &plan);
      return;
    }
  }
  char head[160];
  struct answer a = {.body = h->page, .face = h->face, .may_take = true};
  make_answer(h, req, &a);
  make_head(h, &a, head, sizeof head);
  if (!a.taken)
    httpd_reply(req, a.status, head, a.body.data, a.body.len);
  buf_reset(&a.body);
  h->page = a.body;
}

/* generation.c: a generation request between the socket and the engine. */
#include "sim/generation.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "sim/delivery.h"
#include "sim/reply.h"

enum { ID_MAX = 128, HEAD_MAX = 160 };

struct generation {
  struct replica_seq seq;
  struct simhost *host;
  struct generation *prev, *next; /* in host->open */
  struct genrequest gen;
  struct reply reply;
  struct delivery delivery;
  struct loop_timer start_timer; /* a stall before the head */
  struct loop_timer queue_timer; /* the profile's overhead before the engine */
  uint64_t number;
  char id[ID_MAX];
  char *request_id;   /* the client's X-Request-Id; NULL */
  const char *path;   /* static */
  const char *finish; /* how it ended, for the log */
  uint64_t created_s;
  uint32_t sent;  /* output tokens that are in events */
  bool in_engine; /* added and not gone */
  bool has_gen;   /* gen and reply are filled in */
  bool asked_usage;
};

/* ---- the end ---- */

static const char *fault_names(const struct fault_plan *plan, struct buf *b) {
  if (!plan->kinds)
    return NULL;
  for (int k = 0; k < FAULT_KINDS; k++)
    if (plan->kinds & 1u << k) {
      buf_puts(b, b->len ? " " : "");
      buf_puts(b, faults_kind_name((enum fault_kind)k));
    }
  return b->data;
}

static void log_truth(struct generation *x) {
  struct simhost *h = x->host;
  if (!h->truth)
    return;
  struct buf names;
  buf_init(&names, BUF_MAX_OWN);
  const struct engine_request *e = &x->seq.engine;
  struct truth_line line = {
      .replica = h->id,
      .id = x->id,
      .request_id = x->request_id,
      .path = x->path,
      .fault = fault_names(&x->delivery.plan, &names),
      .finish = x->finish,
      .number = x->number,
      .stream = x->gen.stream,
      .status = x->delivery.status,
      .received_ns = x->seq.received_ns,
      .scheduled_ns = x->seq.scheduled_ns,
      .first_token_ns = x->seq.first_ns,
      .last_token_ns = x->seq.last_ns,
      .prompt_tokens = x->gen.prompt_len,
      .output_tokens = e->num_output,
      .cached_tokens = e->num_cached > 0 ? (uint32_t)e->num_cached : 0,
      .offload_tokens = e->num_loaded[ENGINE_OFFLOAD],
      .shared_tokens = e->num_loaded[ENGINE_SHARED],
      .transfer_tokens = e->num_loaded[ENGINE_TRANSFER],
      .preemptions = e->num_preemptions,
      .writes = x->delivery.writes,
      .n_writes = x->delivery.n_writes,
  };
  truth_add(h->truth, &line);
  buf_free(&names);
}

/* Frees it once neither the engine nor the client has anything to do with it. */
static void settle(struct generation *x) {
  if (x->in_engine || x->delivery.state != DELIVERY_OVER)
    return;
  log_truth(x);
  struct simhost *h = x->host;
  if (x->next)
    x->next->prev = x->prev;
  *(x->prev ? &x->prev->next : &h->open) = x->next;
  loop_timer_clear(h->loop, &x->start_timer);
  loop_timer_clear(h->loop, &x->queue_timer);
  delivery_free(&x->delivery);
  if (x->has_gen) {
    reply_free(&x->reply);
    genrequest_free(&x->gen);
  }
  mem_free(x->request_id);
  mem_free(x);
}

static void on_gone(struct replica_seq *seq) {
  struct generation *x = CONTAINER_OF(seq, struct generation, seq);
  x->in_engine = false;
  settle(x);
}

/* The last thing its caller does with x: it may be gone afterwards. */
static void leave_engine(struct generation *x, const char *why) {
  if (!x->in_engine) {
    x->finish = why;
    settle(x);
  } else if (!x->seq.gone) {
    struct simhost *h = x->host;
    x->finish = why;
    replica_abort(h->replica, &x->seq);
    simhost_kick(h); /* its blocks are free now */
  }
}

static void on_client_left(struct httpd_request *req, void *user) {
  (void)req;
  struct generation *x = user;
  loop_timer_clear(x->host->loop, &x->start_timer);
  loop_timer_clear(x->host->loop, &x->queue_timer);
  delivery_lost(&x->delivery);
  leave_engine(x, "abort");
}

static void on_delivery_over(struct delivery *d) {
  settle(CONTAINER_OF(d, struct generation, delivery));
}

/* ---- output ---- */

/* One event from the scratch buffer; false when the answer ended by it (then the caller stops). */
static bool push(struct generation *x, enum truth_kind kind) {
  struct buf *b = &x->host->scratch;
  enum delivery_state s = delivery_event(&x->delivery, b->data, b->len, kind);
  buf_reset(b);
  return s == DELIVERY_OPEN;
}

static uint32_t cached_of(const struct generation *x) {
  return x->seq.engine.num_cached > 0 ? (uint32_t)x->seq.engine.num_cached : 0;
}

static bool push_tokens(struct generation *x, uint32_t n, bool last) {
  struct buf *b = &x->host->scratch;
  bool hide = x->delivery.plan.no_output;
  if (hide && !last)
    return true;
  reply_delta(&x->reply, x->sent, n, last, hide, b);
  x->sent = n;
  return push(x, last ? TRUTH_FINISH : TRUTH_CONTENT);
}

/* Returns whether the answer is still open. */
static bool stream_token(struct generation *x, bool last) {
  struct buf *b = &x->host->scratch;
  uint32_t n = x->seq.engine.num_output;
  if (n == 1 && x->gen.api == GEN_CHAT) {
    reply_role(&x->reply, b);
    if (!push(x, TRUTH_ROLE))
      return false;
  }
  if (n <= x->gen.hidden && !last)
    return true;
  bool due = n == x->gen.hidden + 1 || last || n - x->sent >= x->gen.stream_interval;
  if (due && !push_tokens(x, n, last))
    return false;
  if (!last)
    return true;
  if (x->asked_usage && !x->delivery.plan.no_usage) {
    reply_usage(&x->reply, cached_of(x), n, b);
    if (!push(x, TRUTH_USAGE))
      return false;
  }
  reply_done(b);
  if (!push(x, TRUTH_DONE))
    return false;
  return delivery_finish(&x->delivery) == DELIVERY_OPEN;
}

static void send_whole(struct generation *x) {
  char head[HEAD_MAX];
  struct buf *b = &x->host->scratch;
  const struct fault_plan *plan = &x->delivery.plan;
  snprintf(head, sizeof head, "%sContent-Type: application/json\r\n", x->host->header);
  reply_whole(&x->reply, cached_of(x), !plan->no_usage, plan->no_output, b);
  delivery_whole(&x->delivery, 200, head, b->data, b->len);
  buf_reset(b);
}

static void on_token(struct replica_seq *seq, bool last, uint64_t now_ns) {
  (void)now_ns;
  struct generation *x = CONTAINER_OF(seq, struct generation, seq);
  if (last) {
    x->in_engine = false;
    x->finish = x->gen.finish;
  }
  if (x->gen.stream) {
    bool open = stream_token(x, last);
    if (!open && !last) {
      leave_engine(x, "fault");
      return;
    }
  } else if (last) {
    send_whole(x);
  }
  if (last)
    settle(x);
}

/* ---- arrival ---- */

static void refuse(struct generation *x, const struct apierror *e) {
  char head[HEAD_MAX];
  struct buf *b = &x->host->scratch;
  snprintf(head, sizeof head, "%sContent-Type: application/json\r\n", x->host->header);
  apierror_write(e, b);
  x->finish = "refused";
  delivery_whole(&x->delivery, e->status, head, b->data, b->len);
  buf_reset(b);
  settle(x);
}

static void make_id(struct generation *x, const char *prefix) {
  const char *base = x->request_id ? x->request_id : x->gen.request_id;
  if (base) {
    snprintf(x->id, sizeof x->id, "%s-%s", prefix, base);
    return;
  }
  struct rng r;
  rng_init(&r, x->host->seed, x->number);
  uint64_t high = rng_u64(&r), low = rng_u64(&r);
  snprintf(x->id, sizeof x->id, "%s-%016llx%016llx", prefix, (unsigned long long)high,
           (unsigned long long)low);
}

static uint32_t next_sample(void *user, const struct engine_request *req, uint32_t index) {
  (void)req;
  const struct genrequest *gen = user;
  return gen->output[index];
}

/* The request's checks are stricter than the engine's, so it cannot refuse. */
static void add_to_engine(struct generation *x) {
  struct genrequest *gen = &x->gen;
  struct replica_seq *seq = &x->seq;
  struct err err;
  seq->engine.tokens = gen->tokens;
  seq->engine.prompt_len = gen->prompt_len;
  seq->engine.max_output = gen->output_len;
  seq->engine.salt = gen->salt;
  seq->engine.user = gen;
  seq->engine.sample = next_sample;
  seq->max_tokens = gen->max_tokens;
  seq->finish = strcmp(gen->finish, "stop") == 0 ? METER_STOP : METER_LENGTH;
  seq->on_token = on_token;
  seq->on_gone = on_gone;
  seq->queued_ns = loop_now(x->host->loop);
  int rc = replica_add(x->host->replica, seq, &err);
  assert(rc == 0);
  (void)rc;
  x->in_engine = true;
  simhost_kick(x->host);
}

static void on_queue_due(struct loop_timer *t) {
  add_to_engine(CONTAINER_OF(t, struct generation, queue_timer));
}

static void start(struct generation *x) {
  struct simhost *h = x->host;
  struct apierror e = {0};
  char head[HEAD_MAX];
  size_t len;
  const char *body = httpd_body(x->delivery.req, &len);
  if (genrequest_parse(x->gen.api, body, len, h->model, &x->gen, &e)) {
    refuse(x, &e);
    return;
  }
  bool chat = x->gen.api == GEN_CHAT;
  make_id(x, chat ? "chatcmpl" : "cmpl");
  x->asked_usage = x->gen.include_usage;
  if (x->delivery.plan.no_usage)
    x->gen.continuous_usage = false;
  reply_init(&x->reply, &x->gen, h->model->name, x->id, x->created_s);
  x->has_gen = true;
  if (x->gen.stream) {
    snprintf(head, sizeof head, "%sContent-Type: text/event-stream; charset=utf-8\r\n", h->header);
    delivery_start(&x->delivery, 200, head);
  }
  if (h->overhead_ns)
    loop_timer_set(h->loop, &x->queue_timer, loop_now(h->loop) + h->overhead_ns);
  else
    add_to_engine(x);
}

static void proceed(struct generation *x) {
  if (x->delivery.plan.instead == FAULT_KINDS) {
    start(x);
    return;
  }
  x->finish = "fault";
  delivery_instead(&x->delivery, x->host->header);
  settle(x);
}

static void on_start_due(struct loop_timer *t) {
  proceed(CONTAINER_OF(t, struct generation, start_timer));
}

void generation_begin(struct simhost *h, struct httpd_request *req, enum gen_api api) {
  struct generation *x = MEM_NEW(struct generation);
  x->host = h;
  x->gen.api = api;
  x->path = api == GEN_CHAT ? "/v1/chat/completions" : "/v1/completions";
  x->number = h->n_requests++;
  x->seq.received_ns = httpd_received_ns(req);
  x->created_s = (uint64_t)((int64_t)x->seq.received_ns + loop_realtime_offset(h->loop)) / NS_PER_S;
  const char *given = httpd_header(req, "X-Request-Id");
  x->request_id = given && given[0] ? mem_strdup(given) : NULL;
  make_id(x, api == GEN_CHAT ? "chatcmpl" : "cmpl");
  x->next = h->open;
  if (x->next)
    x->next->prev = x;
  h->open = x;
  loop_timer_init(&x->start_timer, on_start_due);
  loop_timer_init(&x->queue_timer, on_queue_due);

  struct fault_plan plan;
  faults_decide(&h->faults, x->path, x->number, &plan);
  bool stalled = plan.stall_after == 0;
  if (stalled)
    plan.stall_after = FAULT_NEVER;
  delivery_init(&x->delivery, req, &plan, h->truth != NULL, on_delivery_over);
  httpd_set_user(req, x);
  httpd_on_close(req, on_client_left);
  if (!stalled)
    proceed(x);
  else if (plan.stall_ns)
    loop_timer_set(h->loop, &x->start_timer, loop_now(h->loop) + plan.stall_ns);
}

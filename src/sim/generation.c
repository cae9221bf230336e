/* generation.c: a generation request between the socket and the engine. */
#include "sim/generation.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "sim/background.h"
#include "sim/genopen.h"
#include "sim/genstream.h"
#include "sim/gentruth.h"
#include "sim/genturns.h"
#include "sim/native.h"
#include "sim/transfer.h"

static const struct {
  const char *path, *prefix; /* prefix: of response ids */
  const struct reply_form *form;
} apis[] = {
    [GEN_CHAT] = {"/v1/chat/completions", "chatcmpl-", &reply_vllm},
    [GEN_COMPLETION] = {"/v1/completions", "cmpl-", &reply_vllm},
    [GEN_RESPONSES] = {"/v1/responses", "resp_", &reply_responses},
    [GEN_NATIVE] = {NULL, "", NULL}, /* native.h */
};

/* ---- the end ---- */

uint32_t generation_cached(const struct generation *x) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < (x->gen.api == GEN_RESPONSES ? x->n_parts : x->n_parts > 0); i++)
    n += (uint32_t)(x->parts[i].seq.engine.num_cached > 0 ? x->parts[i].seq.engine.num_cached : 0);
  return n;
}

static bool in_engine(const struct generation *x) {
  for (uint32_t i = 0; i < x->n_parts; i++)
    if (x->parts[i].in_engine)
      return true;
  return false;
}

static void tell_generated(const struct generation *x) {
  const struct simhost_watch *watch = x->host->watch;
  for (uint32_t i = 0; watch && i < x->n_parts; i++) {
    const struct engine_request *r = &x->parts[i].seq.engine;
    watch->generated(watch->user, r->tokens, r->num_tokens, r->salt);
  }
}

static void free_part(struct gen_part *part) {
  mem_free(part->token_ns);
  mem_free(part->seq.stamps);
}

/* Frees it once neither the engine nor the client has anything to do with it. */
static void settle(struct generation *x) {
  if (x->held || x->working || in_engine(x) || x->delivery.state != DELIVERY_OVER)
    return;
  gentruth_log(x);
  tell_generated(x);
  struct simhost *h = x->host;
  if (x->next)
    x->next->prev = x->prev;
  *(x->prev ? &x->prev->next : &h->open) = x->next;
  loop_timer_clear(h->loop, &x->start_timer);
  loop_timer_clear(h->loop, &x->queue_timer);
  loop_timer_clear(h->loop, &x->tool_timer);
  loop_timer_clear(h->loop, &x->alive_timer);
  delivery_free(&x->delivery);
  if (x->has_gen) {
    reply_free(&x->reply);
    genrequest_free(&x->gen);
    response_ask_free(&x->ask);
  }
  for (uint32_t i = 0; i < x->n_parts; i++)
    free_part(&x->parts[i]);
  mem_free(x->parts);
  mem_free(x->request_id);
  mem_free(x);
}

/* The decode leg has the KV, or does not want it any more. */
static void fetched(struct gen_part *part) {
  const struct generation *x = part->owner;
  if (part->seq.engine.remote_tokens)
    transfer_done(x->host, &x->gen);
  part->seq.engine.remote_tokens = 0;
}

static void on_gone(struct replica_seq *seq) {
  struct gen_part *part = CONTAINER_OF(seq, struct gen_part, seq);
  part->in_engine = false;
  fetched(part);
  settle(part->owner);
}

/* Takes what is still in the engine out of it. The last thing its caller does with x: it may be
 * gone afterwards. */
static void leave_engine(struct generation *x, const char *why) {
  struct simhost *h = x->host;
  bool aborted = false;
  x->finish = why;
  x->held = true;
  for (uint32_t i = 0; i < x->n_parts; i++)
    if (x->parts[i].in_engine && !x->parts[i].seq.gone) {
      replica_abort(h->replica, &x->parts[i].seq);
      aborted = true;
    }
  x->held = false;
  settle(x);
  if (aborted)
    simhost_kick(h); /* its blocks are free now */
}

void generation_give_up(struct generation *x) {
  loop_timer_clear(x->host->loop, &x->start_timer);
  loop_timer_clear(x->host->loop, &x->queue_timer);
  loop_timer_clear(x->host->loop, &x->tool_timer);
  if (x->delivery.state == DELIVERY_OPEN) /* a stream of a response that was cancelled */
    delivery_finish(&x->delivery);
  leave_engine(x, "abort");
}

static void on_client_left(struct httpd_request *req, void *user) {
  (void)req;
  struct generation *x = user;
  delivery_lost(&x->delivery);
  if (!x->working)
    generation_give_up(x);
}

void generation_reset_all(struct simhost *h) {
  struct generation *next;
  for (struct generation *x = h->open; x; x = next) {
    struct httpd_request *req = x->delivery.req;
    next = x->next;
    if (!req)
      continue; /* answered, and about to go */
    genstream_on_look(req, x);
    httpd_reset_connection(req);
    on_client_left(req, x);
  }
}

static void on_delivery_over(struct delivery *d) {
  settle(CONTAINER_OF(d, struct generation, delivery));
}

/* ---- output ---- */

static void on_token(struct replica_seq *seq, bool last, uint64_t now_ns) {
  struct gen_part *part = CONTAINER_OF(seq, struct gen_part, seq);
  struct generation *x = part->owner;
  bool open = true;
  gentruth_token(part, now_ns);
  fetched(part);
  x->gen.choices[part->index].cached =
      (uint32_t)(seq->engine.num_cached > 0 ? seq->engine.num_cached : 0);
  if (last) {
    part->in_engine = false;
    x->n_done++;
    if (seq->engine.num_output > x->longest)
      x->longest = seq->engine.num_output;
  }
  if (x->gen.stream)
    open = genstream_tokens(x, part, last);
  if (open && x->n_done == x->n_parts && genturns_go_on(&x->gen))
    loop_timer_set(x->host->loop, &x->tool_timer, now_ns + x->host->model->tools.latency_ns);
  else if (open && x->n_done == x->n_parts)
    genstream_finish(x);
  else if (!open && x->n_done < x->n_parts) {
    leave_engine(x, "fault");
    return;
  } else if (!open)
    x->finish = x->gen.choices[part->index].finish;
  if (last)
    settle(x);
}

void generation_abort_all(struct simhost *h) {
  struct generation *next;
  for (struct generation *x = h->open; x; x = next) {
    next = x->next;
    if (!in_engine(x) || (x->delivery.state != DELIVERY_OPEN && !x->working))
      continue;
    struct events *ev = &h->events;
    genstream_untell(x);
    x->held = true;
    for (uint32_t i = 0; i < x->n_parts; i++) {
      struct gen_part *part = &x->parts[i];
      struct replica_seq *seq = &part->seq;
      if (!part->in_engine || seq->gone)
        continue;
      genrequest_cut(&x->gen.choices[i], seq->engine.num_output, "abort");
      replica_abort(h->replica, seq);
      struct reply_facts f = genstream_facts(x);
      if (x->gen.stream)
        x->reply.o.form->tokens(&x->reply, i, part->sent, seq->engine.num_output, true, &f, ev);
    }
    x->finish = "abort";
    if (!x->gen.stream || genstream_push(x))
      genstream_conclude(x);
    x->held = false;
    settle(x);
  }
}

/* ---- arrival ---- */

static void refuse(struct generation *x, const struct apierror *e) {
  char head[GENERATION_HEAD_MAX];
  struct buf *b = &x->host->scratch;
  genstream_make_head(x, "application/json", head);
  if (x->gen.api == GEN_NATIVE)
    native_refusal(x->host->face, e, b);
  else
    face_refusal(x->host->face, e, b);
  x->finish = "refused";
  delivery_whole(&x->delivery, face_status(x->host->face, e->status), head, b->data, b->len);
  buf_reset(b);
  settle(x);
}

static void make_id(struct generation *x) {
  const char *prefix = apis[x->gen.api].prefix;
  const char *base = x->request_id ? x->request_id : x->gen.request_id;
  if (base) { /* vLLM takes a response's own request_id as it is */
    bool whole = x->gen.api == GEN_RESPONSES && !x->request_id;
    char *end = x->id + sizeof x->id - 1, *p = x->id;
    if (!whole)
      p = (char *)memccpy(p, prefix, '\0', sizeof x->id - 1) - 1;
    if (!memccpy(p, base, '\0', (size_t)(end - p)))
      *end = '\0';
    return;
  }
  struct rng r;
  rng_init(&r, x->host->seed, x->number);
  uint64_t high = rng_u64(&r), low = rng_u64(&r);
  snprintf(x->id, sizeof x->id, "%s%016llx%016llx", prefix, (unsigned long long)high,
           (unsigned long long)low);
}

static void on_progress(struct replica_seq *seq, uint64_t now_ns) {
  struct gen_part *part = CONTAINER_OF(seq, struct gen_part, seq);
  genstream_progress(part->owner, part, now_ns);
}

/* The request's checks are stricter than the engine's, so it cannot refuse. */
static void add_part(struct generation *x, struct gen_part *part) {
  struct genchoice *c = &x->gen.choices[part->index];
  struct replica_seq *seq = &part->seq;
  struct err err;
  bool turns = x->gen.api == GEN_RESPONSES;
  part->owner = x;
  seq->engine.tokens = c->tokens;
  seq->engine.prompt_len = c->prompt_len;
  seq->engine.max_output = c->output_len;
  seq->engine.salt = part->index && turns && x->host->model->tools.salt_lost ? NULL : x->gen.salt;
  seq->engine.adapter = x->gen.adapter;
  seq->engine.skip_lookup = x->gen.logprobs.prompt >= 0;
  memcpy(c->tokens + c->prompt_len, c->output, c->output_len * sizeof *c->output);
  if (x->gen.remote_prefill && !part->index)
    seq->engine.remote_tokens = transfer_ask(x->host, &x->gen);
  /* a streamed reply has no place to say where the KV is, nor have several choices */
  seq->engine.hold = x->gen.remote_decode && !x->gen.stream && x->gen.n_choices == 1;
  seq->max_tokens = c->max_tokens;
  seq->finish = strcmp(c->finish, "stop") == 0 ? METER_STOP : METER_LENGTH;
  seq->quiet = !x->host->truth && (x->told || !x->gen.stream);
  if (x->told)
    seq->stamps = mem_alloc(c->output_len * sizeof *seq->stamps);
  seq->on_token = on_token;
  if (x->gen.stream && x->gen.progress && x->reply.o.form->progress)
    seq->on_progress = on_progress;
  seq->on_gone = on_gone;
  seq->queued_ns = loop_now(x->host->loop);
  seq->received_ns = part->index && turns ? seq->queued_ns : x->received_ns;
  int rc = replica_add(x->host->replica, seq, &err);
  assert(rc == 0);
  (void)rc;
  part->in_engine = true;
}

static void add_to_engine(struct generation *x) {
  x->n_parts = x->gen.n_choices;
  x->parts = mem_calloc(x->n_parts, sizeof *x->parts);
  for (uint32_t i = 0; i < x->n_parts; i++) {
    x->parts[i].index = i;
    add_part(x, &x->parts[i]);
  }
  simhost_kick(x->host);
}

/* The stream says so, or the whole reply is a refusal. The last thing its caller does with x. */
static void fail(struct generation *x, const struct apierror *e) {
  x->finish = "error";
  if (!x->gen.stream && !x->working) {
    refuse(x, e);
    return;
  }
  if (x->gen.stream)
    x->reply.o.form->error(&x->reply, e, &x->host->events);
  if (genstream_push(x))
    delivery_finish(&x->delivery);
  if (x->working)
    background_fail(x);
  settle(x);
}

/* A tool of the server's own has its result: the model goes on. */
static void on_tool_due(struct loop_timer *t) {
  struct generation *x = CONTAINER_OF(t, struct generation, tool_timer);
  struct apierror e = {0};
  if (x->delivery.state != DELIVERY_OPEN && !x->working)
    return;
  if (genturns_next(&x->ask, &x->gen, x->host->model, &e)) {
    fail(x, &e);
    return;
  }
  uint32_t i = x->n_parts++;
  x->parts = mem_resize(x->parts, x->n_parts, sizeof *x->parts);
  x->parts[i] = (struct gen_part){.index = i};
  add_part(x, &x->parts[i]);
  simhost_kick(x->host);
}

static void on_queue_due(struct loop_timer *t) {
  add_to_engine(CONTAINER_OF(t, struct generation, queue_timer));
}

static void begin_reply(struct generation *x) {
  struct simhost *h = x->host;
  const struct fault_plan *plan = &x->delivery.plan;
  make_id(x);
  if (!x->gen.stream_interval)
    x->gen.stream_interval = h->flags.stream_interval ? h->flags.stream_interval : 1;
  if (h->flags.force_usage)
    x->gen.include_usage = true;
  const struct reply_form *own = apis[x->gen.api].form;
  if (x->gen.api == GEN_NATIVE)
    own = native_form(h->face);
  else if (x->gen.api != GEN_RESPONSES)
    own = face_get(h->face)->form;
  if (h->face != FACE_VLLM) {
    char id[GENERATION_ID_MAX];
    face_id(h->face, x->id, id, sizeof id);
    memcpy(x->id, id, sizeof id);
  }
  struct reply_options o = {.form = own,
                            .ask = &x->ask,
                            .model = x->gen.adapter ? x->gen.adapter : h->model->name,
                            .model_of = h->model,
                            .id = x->id,
                            .created_s = x->created_s,
                            .metrics = h->flags.request_metrics,
                            .no_cached = h->flags.no_cached,
                            .hide = plan->no_output,
                            .no_usage = plan->no_usage};
  reply_init(&x->reply, &x->gen, &o);
  x->delivery.write_error = genstream_write_error;
  x->has_gen = true;
}

static void start(struct generation *x) {
  struct simhost *h = x->host;
  struct apierror e = {0};
  char head[GENERATION_HEAD_MAX];
  size_t len;
  const char *body = httpd_body(x->delivery.req, &len);
  enum gen_api api = x->gen.api;
  int rc = api == GEN_RESPONSES
               ? responses_parse(body, len, h->model, &h->responses, &x->gen, &x->ask, &e)
           : api == GEN_NATIVE ? native_parse(h->face, body, len, h->model, &x->gen, &e)
                               : genrequest_parse(api, body, len, h->model, &x->gen, &e);
  x->gen.api = api;
  bool probabilities = !rc && (x->gen.logprobs.output >= 0 || x->gen.logprobs.prompt >= 0);
  int taken = rc;
  if (h->face != FACE_VLLM && probabilities)
    rc = apierror_set(&e, 400, "logprobs", "logprobs: this simulated %s knows no probabilities",
                      face_get(h->face)->title);
  if (!rc)
    rc = genopen_room(x, &e);
  if (rc && !taken) {
    genrequest_free(&x->gen);
    response_ask_free(&x->ask);
    x->gen.api = api;
  }
  if (rc) {
    refuse(x, &e);
    return;
  }
  if (h->watch)
    h->watch->accepted(h->watch->user, x->delivery.req, &x->gen);
  begin_reply(x);
  gentruth_arrived(x);
  if (x->ask.background)
    background_begin(x);
  if (x->gen.stream) {
    genstream_make_head(x, "text/event-stream; charset=utf-8", head);
    delivery_start(&x->delivery, 200, head);
    genstream_begin(x);
    genstream_stay_alive(x);
  }
  if (x->gen.stream && x->reply.o.form->begin) {
    x->reply.o.form->begin(&x->reply, &h->events);
    if (!genstream_push(x)) {
      x->finish = "fault";
      settle(x);
      return;
    }
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
  x->path = api == GEN_NATIVE ? native_path(h->face) : apis[api].path;
  x->number = h->n_requests++;
  x->received_ns = httpd_received_ns(req);
  x->created_s = (uint64_t)((int64_t)x->received_ns + loop_realtime_offset(h->loop)) / NS_PER_S;
  const char *given = httpd_header(req, "X-Request-Id");
  x->request_id = given && given[0] ? mem_strdup(given) : NULL;
  make_id(x);
  x->next = h->open;
  if (x->next)
    x->next->prev = x;
  h->open = x;
  loop_timer_init(&x->start_timer, on_start_due);
  loop_timer_init(&x->queue_timer, on_queue_due);
  loop_timer_init(&x->tool_timer, on_tool_due);
  loop_timer_init(&x->alive_timer, genstream_on_silence);

  struct fault_plan plan;
  faults_decide(&h->faults, x->path, x->number, &plan);
  bool stalled = plan.stall_after == 0;
  if (stalled)
    plan.stall_after = FAULT_NEVER;
  delivery_init(&x->delivery, req, &plan, h->truth != NULL, on_delivery_over);
  x->delivery.face = h->face;
  httpd_set_user(req, x);
  httpd_on_close(req, on_client_left);
  if (!stalled)
    proceed(x);
  else if (plan.stall_ns)
    loop_timer_set(h->loop, &x->start_timer, loop_now(h->loop) + plan.stall_ns);
}

/* genstream.c: see genstream.h. */
#include "sim/genstream.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "sim/background.h"
#include "sim/reply_told.h"
#include "sim/transfer.h"

/* llama.cpp's clients may say how long it may be silent. */
static uint64_t keep_alive_ns(const struct generation *x) {
  const struct simhost *h = x->host;
  if (h->face == FACE_LLAMACPP && x->has_gen && x->gen.ping_s != GENREQUEST_NO_PING)
    return x->gen.ping_s > 0 ? (uint64_t)x->gen.ping_s * NS_PER_S : 0;
  return h->flags.keep_alive_ns ? h->flags.keep_alive_ns : face_get(h->face)->keep_alive_ns;
}

/* From now on so much silence is too much. */
void genstream_stay_alive(struct generation *x) {
  uint64_t ns = keep_alive_ns(x);
  loop_timer_clear(x->host->loop, &x->alive_timer);
  if (ns && x->delivery.state == DELIVERY_OPEN)
    loop_timer_set(x->host->loop, &x->alive_timer, loop_now(x->host->loop) + ns);
}

void genstream_on_silence(struct loop_timer *t) {
  struct generation *x = CONTAINER_OF(t, struct generation, alive_timer);
  delivery_comment(&x->delivery, x->host->face == FACE_VLLM ? ": keep-alive\n\n" : ":\n\n");
  genstream_stay_alive(x);
}

/* Hands on what is in the host's list of events; false when the answer ended by one of them. */
bool genstream_push(struct generation *x) {
  struct events *ev = &x->host->events;
  enum delivery_state s = DELIVERY_OPEN;
  for (size_t i = 0; i < ev->n && s == DELIVERY_OPEN; i++) {
    size_t len;
    const char *data = events_at(ev, i, &len);
    s = delivery_marked(&x->delivery, data, len, &ev->marks[i]);
  }
  for (size_t i = 0; x->working && i < ev->n; i++) {
    size_t len;
    const char *data = events_at(ev, i, &len);
    background_event(x, data, len);
  }
  if (ev->n)
    genstream_stay_alive(x);
  events_reset(ev);
  return s == DELIVERY_OPEN || x->working;
}

/* Of the choice whose cached tokens are told. */
static uint32_t created_tokens(const struct generation *x, uint32_t cached) {
  const struct engine_config *c = replica_config(x->host->replica);
  uint32_t whole = x->gen.choices[0].prompt_len / c->block_size * c->block_size;
  return c->enable_prefix_caching && whole > cached ? whole - cached : 0;
}

struct reply_facts genstream_facts(const struct generation *x) {
  struct reply_facts f = {.cached = generation_cached(x)};
  f.created = created_tokens(x, f.cached);
  for (uint32_t i = 0; i < x->n_parts; i++) {
    const struct replica_seq *seq = &x->parts[i].seq;
    f.completion += seq->engine.num_output;
    if (i || !seq->first_ns)
      continue;
    f.queue_ns = seq->scheduled_ns - seq->queued_ns;
    f.first_tokens = seq->engine.num_output;
    f.prefill_ns = seq->first_ns - seq->scheduled_ns;
    f.decode_ns = seq->last_ns - seq->first_ns;
  }
  return f;
}

/* ---- events without bytes ---- */

/* A dry run makes no bytes of a stream whose events hold a piece of text and no more. */
static bool may_tell(const struct generation *x) {
  const struct genchoice *c = x->gen.choices;
  return delivery_is_plain(&x->delivery) && !keep_alive_ns(x) &&
         httpd_takes(x->delivery.req, c->visible, c->output_len) && reply_told_possible(&x->reply);
}

void genstream_begin(struct generation *x) {
  x->told = may_tell(x);
  if (x->told)
    httpd_on_look(x->delivery.req, genstream_on_look);
}

/* The events of the tokens that are in none yet; returns how many there are. */
static size_t make_pieces(struct generation *x, struct gen_part *part, bool last,
                          struct openai_piece *pieces) {
  const struct genchoice *c = &x->gen.choices[0];
  uint32_t to = part->seq.n_stamps, at = reply_shown(c, part->sent);
  size_t n = 0;
  for (uint32_t k = part->sent + 1; k <= to; k++) {
    if (k > 1 && k - part->sent < x->gen.stream_interval && !(last && k == to))
      continue; /* not enough for an event */
    uint32_t end = reply_shown(c, k);
    uint32_t thought = at < c->thought ? (end < c->thought ? end : c->thought) - at : 0;
    pieces[n++] = (struct openai_piece){
        .stamp_ns = part->seq.stamps[k - 1], .reasoning = thought, .visible = end - at - thought};
    at = end;
    part->sent = k;
  }
  return n;
}

/* Tells what was sent by now; `last`: all of it, and that it is over. */
static void tell(struct generation *x, bool last) {
  struct gen_part *part = &x->parts[0];
  const struct genchoice *c = &x->gen.choices[0];
  struct openai_usage usage;
  struct reply_facts f;
  if (x->delivery.state != DELIVERY_OPEN || !x->n_parts || part->sent == part->seq.n_stamps)
    return;
  struct openai_told t = {.text = c->text + reply_shown(c, part->sent)};
  struct openai_piece *pieces = mem_alloc((part->seq.n_stamps - part->sent) * sizeof *pieces);
  t.pieces = pieces;
  t.n_pieces = make_pieces(x, part, last, pieces);
  if (last)
    f = genstream_facts(x);
  if (t.n_pieces) {
    reply_told_fill(&x->reply, !x->began, last ? &f : NULL, &usage, &t);
    x->began = true;
    httpd_tell(x->delivery.req, &t);
  }
  mem_free(pieces);
}

void genstream_on_look(struct httpd_request *req, void *x) {
  (void)req;
  if (((struct generation *)x)->told)
    tell(x, false);
}

void genstream_untell(struct generation *x) {
  if (!x->told)
    return;
  tell(x, false);
  x->told = false;
  for (uint32_t i = 0; i < x->n_parts; i++)
    x->parts[i].seq.quiet = false;
}

/* The next tokens of a choice, when it is time for an event. Returns whether the answer is open. */
bool genstream_tokens(struct generation *x, struct gen_part *part, bool last) {
  const struct reply_form *form = x->reply.o.form;
  const struct genchoice *c = &x->gen.choices[part->index];
  uint32_t n = part->seq.engine.num_output;
  if (x->told) {
    if (!x->began && !last)
      tell(x, false); /* deadlines hang on the first byte */
    return x->delivery.state == DELIVERY_OPEN;
  }
  struct reply_facts f = genstream_facts(x);
  struct events *ev = &x->host->events;
  if (!x->began && form->first)
    form->first(&x->reply, &f, ev);
  x->began = true;
  bool due =
      last || n == c->hidden + 1 || (n > c->hidden && n - part->sent >= x->gen.stream_interval);
  if (due) {
    form->tokens(&x->reply, part->index, part->sent, n, last, &f, ev);
    part->sent = n;
  }
  return genstream_push(x);
}

void genstream_progress(struct generation *x, const struct gen_part *part, uint64_t now_ns) {
  const struct engine_request *r = &part->seq.engine;
  struct reply_progress p = {.total = r->prompt_len,
                             .cached = (uint32_t)(r->num_cached > 0 ? r->num_cached : 0),
                             .processed =
                                 r->num_computed < r->prompt_len ? r->num_computed : r->prompt_len,
                             .time_ns = now_ns - part->seq.scheduled_ns};
  x->reply.o.form->progress(&x->reply, part->index, &p, &x->host->events);
  (void)genstream_push(x); /* an answer that ended here is found out with the next token */
}

bool genstream_end(struct generation *x) {
  if (x->told) {
    tell(x, true);
    return delivery_finish(&x->delivery) == DELIVERY_OPEN;
  }
  struct reply_facts f = genstream_facts(x);
  x->reply.o.form->end(&x->reply, &f, &x->host->events);
  return genstream_push(x) && delivery_finish(&x->delivery) == DELIVERY_OPEN;
}

void genstream_write_error(struct delivery *d, const struct apierror *e, struct events *out) {
  struct generation *x = CONTAINER_OF(d, struct generation, delivery);
  x->reply.sequence = d->taken; /* the event it takes the place of is not sent */
  x->reply.o.form->error(&x->reply, e, out);
}

/* Headers of every answer, with a content type. */
void genstream_make_head(const struct generation *x, const char *type, char *head) {
  const struct simhost *h = x->host;
  const char *id = h->flags.request_id_headers && x->request_id ? x->request_id : NULL;
  const char *const parts[] = {h->header, "Content-Type: ", type, "\r\n"};
  size_t n = 0;
  for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
    size_t len = strlen(parts[i]);
    assert(n + len < GENERATION_HEAD_MAX);
    memcpy(head + n, parts[i], len + 1);
    n += len;
  }
  if (id)
    snprintf(head + n, GENERATION_HEAD_MAX - n, "X-Request-Id: %.100s\r\n", id);
}

/* TGI's figures in the head of a whole reply, milliseconds. */
static void put_times(const struct generation *x, const struct reply_facts *f, char *head) {
  size_t len = strlen(head);
  uint64_t inference = f->prefill_ns + f->decode_ns;
  uint32_t n = f->first_tokens ? f->first_tokens : 1;
  snprintf(head + len, GENERATION_HEAD_MAX - len,
           "x-compute-time: %.3f\r\nx-queue-time: %llu\r\nx-inference-time: %llu\r\n"
           "x-time-per-token: %llu\r\nx-prompt-tokens: %u\r\n",
           (double)(f->queue_ns + inference) / 1e9, (unsigned long long)(f->queue_ns / NS_PER_MS),
           (unsigned long long)(inference / NS_PER_MS),
           (unsigned long long)(inference / n / NS_PER_MS), genrequest_prompt_tokens(&x->gen));
}

void genstream_send_whole(struct generation *x) {
  char head[GENERATION_HEAD_MAX];
  struct buf *b = &x->host->scratch;
  struct reply_facts f = genstream_facts(x);
  genstream_make_head(x, "application/json", head);
  if (x->host->face == FACE_TGI)
    put_times(x, &f, head);
  if (x->parts[0].seq.engine.hold_id)
    x->reply.transfer = transfer_offer(x->host, x->id, &x->parts[0].seq.engine);
  x->reply.o.form->whole(&x->reply, &f, b);
  delivery_whole(&x->delivery, 200, head, b->data, b->len);
  buf_reset(b);
}

/* The response is kept as it was sent. */
static void store(struct generation *x) {
  struct reply_facts f = genstream_facts(x);
  struct buf b;
  if (x->gen.api != GEN_RESPONSES || !x->ask.store || (x->working && !background_keeps(x)))
    return;
  buf_init(&b, BUF_MAX_OWN);
  x->reply.o.form->whole(&x->reply, &f, &b);
  response_store_put(&x->host->responses, x->id, x->number, x->ask.messages, x->ask.kept_items,
                     b.data);
  x->ask.messages = value_null();
  buf_free(&b);
}

void genstream_conclude(struct generation *x) {
  if (x->working)
    store(x);
  if (x->gen.stream)
    genstream_end(x);
  else if (!x->working)
    genstream_send_whole(x);
  background_end(x);
}

/* The last choice is through. */
void genstream_finish(struct generation *x) {
  x->finish = x->gen.choices[x->gen.n_choices - 1].finish;
  replica_count_request(x->host->replica, x->gen.n, x->longest);
  if (!x->working)
    store(x);
  genstream_conclude(x);
}

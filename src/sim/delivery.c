/* delivery.c: writing an answer as its fault plan wants it. */
#include "sim/delivery.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "sim/reply.h"

static void on_stall_over(struct loop_timer *t);
static void on_piece(struct loop_timer *t);

void delivery_init(struct delivery *d, struct httpd_request *req, const struct fault_plan *plan,
                   bool record, void (*on_over)(struct delivery *d)) {
  *d = (struct delivery){
      .req = req, .loop = httpd_loop(req), .plan = *plan, .on_over = on_over, .record = record};
  d->shaped = plan->piece_bytes || plan->coalesce > 1 || plan->stall_after != FAULT_NEVER;
  buf_init(&d->held_bytes, BUF_MAX_OWN);
  buf_init(&d->pieces, BUF_MAX_OWN);
  loop_timer_init(&d->stall_timer, on_stall_over);
  loop_timer_init(&d->piece_timer, on_piece);
}

void delivery_free(struct delivery *d) {
  loop_timer_clear(d->loop, &d->stall_timer);
  loop_timer_clear(d->loop, &d->piece_timer);
  buf_free(&d->held_bytes);
  buf_free(&d->pieces);
  mem_free(d->held);
  mem_free(d->writes);
}

void delivery_lost(struct delivery *d) {
  loop_timer_clear(d->loop, &d->stall_timer);
  loop_timer_clear(d->loop, &d->piece_timer);
  d->req = NULL;
  d->state = DELIVERY_OVER;
}

/* ---- writes ---- */

/* Reads the clock; the write must follow at once. */
static struct truth_write *note(struct delivery *d, size_t bytes, enum truth_kind kind,
                                size_t events) {
  if (!d->record)
    return NULL;
  MEM_GROW(d->writes, d->n_writes, d->cap_writes);
  struct truth_write *w = &d->writes[d->n_writes++];
  *w = (struct truth_write){.ns = loop_refresh(d->loop),
                            .bytes = (uint32_t)bytes,
                            .events = (uint16_t)events,
                            .kind = (uint8_t)kind};
  return w;
}

/* The n events in one write. */
static void write_events(struct delivery *d, const void *data, size_t len,
                         const struct delivery_event *events, size_t n) {
  struct truth_write *w = note(d, len, (enum truth_kind)events[0].kind, n);
  for (size_t i = 0; w && i < n; i++) {
    w->outputs = (uint16_t)(w->outputs + events[i].output);
    if (events[i].visible && !d->first_visible_ns)
      d->first_visible_ns = w->ns;
  }
  httpd_write(d->req, data, len);
}

void delivery_start(struct delivery *d, int status, const char *headers) {
  d->status = status;
  d->streamed = true;
  note(d, 0, TRUTH_HEADERS, 0);
  httpd_stream(d->req, status, headers);
}

static void over(struct delivery *d) {
  struct httpd_request *req = d->req;
  delivery_lost(d);
  if (d->end == DELIVERY_END_OK)
    httpd_end(req);
  else if (d->end == DELIVERY_END_CLOSE)
    httpd_close_connection(req);
  else
    httpd_reset_connection(req);
}

/* ---- shaping ---- */

static void send_piece(struct delivery *d) {
  size_t len = d->pieces.len < d->plan.piece_bytes ? d->pieces.len : d->plan.piece_bytes;
  note(d, len, TRUTH_PIECE, 1);
  httpd_write(d->req, d->pieces.data, len);
  buf_drop(&d->pieces, len);
  loop_timer_set(d->loop, &d->piece_timer, loop_now(d->loop) + d->plan.piece_delay_ns);
}

/* What was made during a stall keeps its pace, as from an engine that stood still: were it let out
 * at once, it would be one burst. Sets the timer for what is to come. */
static bool is_due(struct delivery *d, const struct delivery_event *e) {
  uint64_t due = d->stall_over ? e->made_ns + d->plan.stall_ns : 0;
  if (due <= loop_now(d->loop))
    return true;
  if (!d->stall_timer.slot)
    loop_timer_set(d->loop, &d->stall_timer, due);
  return false;
}

/* How many of the held events may go now: 0 = none yet. */
static size_t releasable(struct delivery *d) {
  size_t n = d->n_held;
  if (d->plan.stall_after != FAULT_NEVER && !d->stall_over) {
    if (d->released >= d->plan.stall_after) {
      if (n && d->plan.stall_ns && !d->stall_timer.slot)
        loop_timer_set(d->loop, &d->stall_timer, loop_now(d->loop) + d->plan.stall_ns);
      return 0;
    }
    if (n >= d->plan.stall_after - d->released)
      return d->plan.coalesce > 1 ? d->plan.stall_after - d->released : 1;
  }
  size_t want = d->plan.coalesce > 1 ? d->plan.coalesce : 1;
  if (n < want)
    want = d->end ? n : 0;
  return want && is_due(d, &d->held[want - 1]) ? want : 0;
}

static void release(struct delivery *d, size_t n) {
  size_t len = 0;
  for (size_t i = 0; i < n; i++)
    len += d->held[i].len;
  if (d->plan.piece_bytes) {
    buf_put(&d->pieces, d->held_bytes.data, len);
    if (!d->piece_timer.slot)
      send_piece(d);
  } else {
    write_events(d, d->held_bytes.data, len, d->held, n);
  }
  buf_drop(&d->held_bytes, len);
  d->n_held -= n;
  memmove(d->held, d->held + n, d->n_held * sizeof *d->held);
  d->released += (uint32_t)n;
}

/* Lets out what may go, and ends the answer when all is out. */
static enum delivery_state pump(struct delivery *d) {
  for (size_t n; (n = releasable(d)) > 0;)
    release(d, n);
  if (d->end && !d->n_held && !d->pieces.len)
    over(d);
  return d->state;
}

static void pump_later(struct delivery *d) {
  if (pump(d) == DELIVERY_OVER)
    d->on_over(d);
}

static void on_stall_over(struct loop_timer *t) {
  struct delivery *d = CONTAINER_OF(t, struct delivery, stall_timer);
  d->stall_over = true;
  pump_later(d);
}

static void on_piece(struct loop_timer *t) {
  struct delivery *d = CONTAINER_OF(t, struct delivery, piece_timer);
  if (d->pieces.len)
    send_piece(d);
  pump_later(d);
}

static void hold(struct delivery *d, const void *data, const struct delivery_event *e) {
  MEM_GROW(d->held, d->n_held, d->cap_held);
  d->held[d->n_held++] = *e;
  buf_put(&d->held_bytes, data, e->len);
}

/* ---- events ---- */

static void put_event(struct delivery *d, const void *data, size_t len,
                      const struct event_mark *mark) {
  struct delivery_event e = {.made_ns = loop_now(d->loop),
                             .len = (uint32_t)len,
                             .kind = (uint8_t)mark->kind,
                             .output = mark->output,
                             .visible = mark->visible};
  if (d->shaped)
    hold(d, data, &e);
  else
    write_events(d, data, len, &e, 1);
  d->taken++;
}

/* An event that breaks off in the middle of its JSON. */
static void put_spoiled(struct delivery *d, const char *data, size_t len, enum truth_kind kind) {
  struct event_mark mark = {.kind = kind};
  struct buf half;
  buf_init(&half, BUF_MAX_OWN);
  buf_put(&half, data, len / 2);
  buf_puts(&half, "\n\n");
  put_event(d, half.data, half.len, &mark);
  buf_free(&half);
}

static void put_error(struct delivery *d) {
  struct apierror e = {0};
  struct events events;
  events_init(&events);
  apierror_set(&e, 500, NULL, "The simulated engine failed on demand.");
  if (d->write_error)
    d->write_error(d, &e, &events);
  else
    reply_error_event(&e, &events);
  for (size_t i = 0; i < events.n; i++) {
    size_t len;
    const char *data = events_at(&events, i, &len);
    put_event(d, data, len, &events.marks[i]);
  }
  events_free(&events);
}

/* Whether the plan ends the answer instead of sending this event. */
static bool ends_here(const struct delivery *d, enum truth_kind kind) {
  if (d->plan.ending == FAULT_KINDS)
    return false;
  if (d->plan.ending_after == FAULT_NEVER)
    return kind == TRUTH_DONE;
  return d->taken >= d->plan.ending_after;
}

enum delivery_state delivery_event(struct delivery *d, const void *data, size_t len,
                                   enum truth_kind kind) {
  return delivery_marked(d, data, len, &(struct event_mark){.kind = kind});
}

enum delivery_state delivery_marked(struct delivery *d, const void *data, size_t len,
                                    const struct event_mark *mark) {
  enum truth_kind kind = mark->kind;
  if (d->state != DELIVERY_OPEN)
    return d->state;
  if (ends_here(d, kind)) {
    enum fault_kind how = d->plan.ending;
    if (how == FAULT_ERROR)
      put_error(d);
    d->state = DELIVERY_CLOSING;
    d->end = how == FAULT_RESET ? DELIVERY_END_RESET
             : how == FAULT_CUT ? DELIVERY_END_CLOSE
                                : DELIVERY_END_OK;
    return pump(d);
  }
  if (d->taken == d->plan.bad_json_at && kind != TRUTH_DONE)
    put_spoiled(d, data, len, kind);
  else
    put_event(d, data, len, mark);
  return d->shaped ? pump(d) : d->state;
}

bool delivery_is_plain(const struct delivery *d) {
  return d->state == DELIVERY_OPEN && !d->shaped && !d->record && d->plan.ending == FAULT_KINDS &&
         d->plan.bad_json_at == FAULT_NEVER;
}

void delivery_comment(struct delivery *d, const char *text) {
  if (d->state == DELIVERY_OPEN && !d->shaped)
    httpd_write(d->req, text, strlen(text));
}

enum delivery_state delivery_finish(struct delivery *d) {
  if (d->state != DELIVERY_OPEN)
    return d->state;
  d->state = DELIVERY_CLOSING;
  d->end = DELIVERY_END_OK;
  return pump(d);
}

/* ---- whole replies ---- */

/* Half of the body under a head that promises all of it, then the end of the connection. */
static void send_half(struct delivery *d, int status, const char *headers, const void *body,
                      size_t len) {
  struct httpd_request *req = d->req;
  note(d, len / 2, TRUTH_BODY, 1);
  delivery_lost(d);
  httpd_half(req, status, headers, body, len, len / 2);
}

static void send_reply(struct delivery *d, int status, const char *headers, const void *body,
                       size_t len) {
  struct httpd_request *req = d->req;
  note(d, len, TRUTH_BODY, 1);
  delivery_lost(d);
  httpd_reply(req, status, headers, body, len);
}

enum delivery_state delivery_whole(struct delivery *d, int status, const char *headers,
                                   const void *body, size_t len) {
  const struct fault_plan *p = &d->plan;
  d->status = status;
  bool ends = p->ending_after == 0 || p->ending_after == FAULT_NEVER;
  if (p->bad_json_at == 0)
    len /= 2;
  if (p->piece_bytes) {
    delivery_start(d, status, headers);
    delivery_event(d, body, len, TRUTH_BODY);
    return delivery_finish(d);
  }
  if (ends && (p->ending == FAULT_TRUNCATED || p->ending == FAULT_CUT)) {
    send_half(d, status, headers, body, len);
  } else if (ends && p->ending == FAULT_ERROR) {
    struct apierror e = {0};
    struct buf b;
    buf_init(&b, BUF_MAX_OWN);
    apierror_set(&e, 500, NULL, "The simulated engine failed on demand.");
    face_refusal(d->face, &e, &b);
    d->status = 500;
    send_reply(d, 500, headers, b.data, b.len);
    buf_free(&b);
  } else {
    send_reply(d, status, headers, body, len);
  }
  return d->state;
}

static void send_status(struct delivery *d, const char *headers) {
  struct apierror e = {0};
  struct buf head, body;
  buf_init(&head, BUF_MAX_OWN);
  buf_init(&body, BUF_MAX_OWN);
  buf_puts(&head, headers);
  buf_puts(&head, "Content-Type: application/json\r\n");
  if (d->plan.retry_after_s)
    buf_printf(&head, "Retry-After: %llu\r\n", (unsigned long long)d->plan.retry_after_s);
  apierror_set(&e, (int)d->plan.status, NULL, "The simulated replica answers %u on demand.",
               d->plan.status);
  face_refusal(d->face, &e, &body);
  d->status = (int)d->plan.status;
  send_reply(d, d->status, head.data, body.data, body.len);
  buf_free(&head);
  buf_free(&body);
}

enum delivery_state delivery_instead(struct delivery *d, const char *headers) {
  static const char html[] =
      "<!doctype html><title>Gateway</title><p>The upstream is being replaced.</p>\n";
  static const char done[] = "data: [DONE]\n\n";
  char head[256];
  switch (d->plan.instead) {
  case FAULT_RESET:
    d->end = DELIVERY_END_RESET;
    over(d);
    break;
  case FAULT_STATUS:
    send_status(d, headers);
    break;
  case FAULT_NOT_SSE:
    snprintf(head, sizeof head, "%sContent-Type: text/html\r\n", headers);
    d->status = 200;
    send_reply(d, 200, head, html, sizeof html - 1);
    break;
  default: /* EMPTY, ONLY_DONE */
    snprintf(head, sizeof head, "%sContent-Type: text/event-stream; charset=utf-8\r\n", headers);
    delivery_start(d, 200, head);
    if (d->plan.instead == FAULT_ONLY_DONE) {
      note(d, sizeof done - 1, TRUTH_DONE, 1);
      httpd_write(d->req, done, sizeof done - 1);
    }
    d->end = DELIVERY_END_OK;
    over(d);
  }
  return d->state;
}

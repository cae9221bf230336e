/* background.c: see background.h. */
#include "sim/background.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sim/generation.h"
#include "sim/genstream.h"

/* Somebody who reads the events of a response. */
struct background_reader {
  struct background_reader *prev, *next; /* in host->readers */
  struct simhost *host;
  struct httpd_request *req;
  uint64_t maker; /* the generation that makes it */
};

/* NULL: its id came again, with a newer response. */
static struct response_entry *entry_of(const struct generation *x) {
  struct response_entry *entry = response_store_get(&x->host->responses, x->id);
  return entry && entry->maker == x->number ? entry : NULL;
}

/* ---- readers ---- */

static void reader_delete(struct background_reader *r) {
  if (r->next)
    r->next->prev = r->prev;
  *(r->prev ? &r->prev->next : &r->host->readers) = r->next;
  mem_free(r);
}

static void on_reader_left(struct httpd_request *req, void *user) {
  (void)req;
  reader_delete(user);
}

/* Those of the response get the bytes or, without any, the end. */
static void tell(struct simhost *h, uint64_t maker, const char *data, size_t len) {
  struct background_reader *next;
  for (struct background_reader *r = h->readers; r; r = next) {
    next = r->next;
    if (r->maker != maker)
      continue;
    if (len) {
      httpd_write(r->req, data, len);
      continue;
    }
    struct httpd_request *req = r->req;
    reader_delete(r);
    httpd_end(req);
  }
}

bool background_follow(struct simhost *h, struct httpd_request *req,
                       const struct response_entry *entry, struct apierror *e) {
  char number[24] = "", head[GENERATION_HEAD_MAX];
  if (!entry->streamed) {
    apierror_set(e, 400, "response_id", "Unknown response_id: %.200s", entry->id);
    return false;
  }
  size_t first = 0;
  if (endpoint_param(httpd_query(req), "starting_after", number, sizeof number)) {
    if (!number[0] || strspn(number, "0123456789") != strlen(number)) {
      apierror_set(e, 400, "starting_after", "starting_after should be the number of an event");
      return false;
    }
    first = (size_t)strtoul(number, NULL, 10);
    first += first < SIZE_MAX;
  }
  size_t from = !first ? 0 : first <= entry->n_events ? entry->ends[first - 1] : entry->events.len;
  snprintf(head, sizeof head, "%sContent-Type: text/event-stream; charset=utf-8\r\n", h->header);
  httpd_stream(req, 200, head);
  if (entry->events.len > from)
    httpd_write(req, entry->events.data + from, entry->events.len - from);
  if (!entry->pending) {
    httpd_end(req);
    return true;
  }
  struct background_reader *r = MEM_NEW(struct background_reader);
  *r = (struct background_reader){.host = h, .req = req, .maker = entry->maker, .next = h->readers};
  if (r->next)
    r->next->prev = r;
  h->readers = r;
  httpd_set_user(req, r);
  httpd_on_close(req, on_reader_left);
  return true;
}

/* ---- the response ---- */

/* The response without output and usage, as what it is until it is complete, or when it never will
 * be. */
static void write_as(struct generation *x, const char *status, struct buf *out) {
  x->reply.status = status;
  x->reply.o.form->whole(&x->reply, NULL, out);
  x->reply.status = NULL;
}

static void keep_as(struct generation *x, struct response_entry *entry, const char *status) {
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  write_as(x, status, &b);
  response_entry_say(entry, b.data);
  buf_free(&b);
}

void background_begin(struct generation *x) {
  struct buf b;
  char head[GENERATION_HEAD_MAX];
  buf_init(&b, BUF_MAX_OWN);
  write_as(x, "queued", &b);
  struct response_entry *entry =
      response_store_put(&x->host->responses, x->id, x->number, value_copy(&x->ask.messages),
                         x->ask.kept_items, b.data);
  entry->pending = true;
  entry->streamed = x->gen.stream;
  x->working = true;
  if (!x->gen.stream) {
    genstream_make_head(x, "application/json", head);
    delivery_whole(&x->delivery, 200, head, b.data, b.len);
  }
  buf_free(&b);
}

bool background_keeps(const struct generation *x) {
  return entry_of(x) != NULL;
}

void background_event(struct generation *x, const char *data, size_t len) {
  struct response_entry *entry = entry_of(x);
  if (entry) {
    buf_put(&entry->events, data, len);
    MEM_GROW(entry->ends, entry->n_events, entry->cap_ends);
    entry->ends[entry->n_events++] = entry->events.len;
  }
  tell(x->host, x->number, data, len);
}

void background_end(struct generation *x) {
  struct response_entry *entry = entry_of(x);
  if (!x->working)
    return;
  x->working = false;
  if (entry)
    entry->pending = false;
  tell(x->host, x->number, NULL, 0);
}

void background_fail(struct generation *x) {
  struct response_entry *entry = entry_of(x);
  if (entry)
    keep_as(x, entry, "failed");
  background_end(x);
}

void background_cancel(struct simhost *h, struct response_entry *entry, struct answer *a,
                       struct apierror *e) {
  struct generation *x = h->open;
  while (x && !(x->working && x->number == entry->maker))
    x = x->next;
  if (!x) {
    apierror_set(e, 400, "response_id", "Cannot cancel a synchronous response.");
    e->type = "invalid_request_error";
    return;
  }
  keep_as(x, entry, "cancelled");
  buf_puts(&a->body, entry->reply);
  background_end(x);
  generation_give_up(x);
}

void background_drop_all(struct simhost *h) {
  struct generation *next;
  for (struct generation *x = h->open; x; x = next) {
    next = x->next;
    if (!x->working)
      continue;
    x->working = false;
    generation_give_up(x);
  }
  while (h->readers) {
    struct httpd_request *req = h->readers->req;
    reader_delete(h->readers);
    httpd_reset_connection(req);
  }
}

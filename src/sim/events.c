/* events.c: see events.h. */
#include "sim/events.h"

#include "base/mem.h"

void events_init(struct events *e) {
  *e = (struct events){0};
  buf_init(&e->bytes, BUF_MAX_OWN);
}

void events_free(struct events *e) {
  buf_free(&e->bytes);
  mem_free(e->marks);
  *e = (struct events){0};
}

void events_reset(struct events *e) {
  buf_reset(&e->bytes);
  e->n = 0;
}

void events_say(struct events *e, bool output, bool visible) {
  e->output = output;
  e->visible = output && visible;
}

void events_end(struct events *e, enum truth_kind kind) {
  size_t from = e->n ? e->marks[e->n - 1].end : 0;
  if (e->bytes.len == from)
    return;
  MEM_GROW(e->marks, e->n, e->cap);
  e->marks[e->n++] = (struct event_mark){
      .end = e->bytes.len, .kind = kind, .output = e->output, .visible = e->visible};
  events_say(e, false, false);
}

const char *events_at(const struct events *e, size_t i, size_t *len) {
  size_t from = i ? e->marks[i - 1].end : 0;
  *len = e->marks[i].end - from;
  return e->bytes.data + from;
}

/* events.h: the SSE events of an answer as bytes, with the place where each one ends.
 *
 * A reply (reply.h) writes events here, a generation hands them on one by one, because a fault may
 * fall between any two of them. */
#ifndef SIM_EVENTS_H
#define SIM_EVENTS_H

#include "base/buf.h"
#include "sim/truth.h"

struct event_mark {
  size_t end; /* offset behind the event */
  enum truth_kind kind;
  bool output;  /* it has generated output: text, reasoning, a call's bytes or token ids */
  bool visible; /* some of that is text of the answer itself */
};

struct events {
  struct buf bytes;
  struct event_mark *marks;
  size_t n, cap;
  bool output, visible; /* of the event that is being made */
};

void events_init(struct events *e);
void events_free(struct events *e);
/* Empty again, memory kept. */
void events_reset(struct events *e);
/* What the event that is being made holds; without it, nothing of the kind. */
void events_say(struct events *e, bool output, bool visible);
/* What was written to `bytes` since the last mark is one event. Nothing written: no event. */
void events_end(struct events *e, enum truth_kind kind);
/* The bytes of event i. */
const char *events_at(const struct events *e, size_t i, size_t *len);

#endif

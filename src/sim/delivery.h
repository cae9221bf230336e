/* delivery.h: an answer on its way to the client: writes, their stamps, and the faults that shape
 * them.
 *
 * An honest answer is written event by event as it is made, the clock read right before each write.
 * A fault plan may hold events back (stall, coalesce), cut them in pieces (slow), spoil one
 * (bad_json), or end the answer early (reset, error, truncated, cut). */
#ifndef SIM_DELIVERY_H
#define SIM_DELIVERY_H

#include "io/httpd.h"
#include "sim/apierror.h"
#include "sim/events.h"
#include "sim/face.h"
#include "sim/faults.h"
#include "sim/truth.h"

enum delivery_state {
  DELIVERY_OPEN,    /* takes events */
  DELIVERY_CLOSING, /* takes no more, what is held is still to go out */
  DELIVERY_OVER     /* complete, or ended by its fault, or the client left */
};

enum delivery_end { DELIVERY_END_NONE, DELIVERY_END_OK, DELIVERY_END_CLOSE, DELIVERY_END_RESET };

struct delivery_event {
  uint64_t made_ns; /* when it was handed over */
  uint32_t len;
  uint8_t kind;
  bool output, visible; /* of events.h */
};

struct delivery {
  struct httpd_request *req; /* NULL once over */
  struct loop *loop;
  struct fault_plan plan;
  enum delivery_state state;
  enum delivery_end end;
  /* Called when the answer becomes OVER later than in the call that ended it (never from inside a
   * delivery_ call). May free the delivery. */
  void (*on_over)(struct delivery *d);
  /* How an error in mid-stream looks; NULL: vLLM's way. Set it after delivery_init. */
  void (*write_error)(struct delivery *d, const struct apierror *e, struct events *out);
  enum face_kind face; /* whose errors; vLLM's. Set it after delivery_init */
  bool shaped, streamed;
  int status;                  /* as sent; 0 before */
  uint32_t taken, released;    /* events */
  struct delivery_event *held; /* not released yet */
  size_t n_held, cap_held;
  struct buf held_bytes, pieces; /* pieces: released, going out slowly */
  bool stall_over;               /* from then on events go out as late as the stall was long */
  struct loop_timer stall_timer, piece_timer;
  bool record; /* keep the writes */
  struct truth_write *writes;
  size_t n_writes, cap_writes;
  uint64_t first_visible_ns; /* the write of the first visible text; 0 before it */
};

/* `record`: keep stamps for the truth log. */
void delivery_init(struct delivery *d, struct httpd_request *req, const struct fault_plan *plan,
                   bool record, void (*on_over)(struct delivery *d));
/* Frees what it holds; an answer that is not over is forgotten, the request stays the caller's. */
void delivery_free(struct delivery *d);

/* Sends the head of an event stream. */
void delivery_start(struct delivery *d, int status, const char *headers);
/* One event, bytes and all. Returns the state after it: not DELIVERY_OPEN when the plan ended the
 * answer here. Ignored when closing. */
enum delivery_state delivery_event(struct delivery *d, const void *data, size_t len,
                                   enum truth_kind kind);
/* The same with all that the event's mark says. */
enum delivery_state delivery_marked(struct delivery *d, const void *data, size_t len,
                                    const struct event_mark *mark);
/* Whether its events go out as they are made, one by one, and nobody keeps their stamps. */
bool delivery_is_plain(const struct delivery *d);
/* A comment of an event stream, which is no event; left out while a fault shapes or ends the
 * answer.
 */
void delivery_comment(struct delivery *d, const char *text);
/* No more events. */
enum delivery_state delivery_finish(struct delivery *d);
/* A whole reply instead of a stream. */
enum delivery_state delivery_whole(struct delivery *d, int status, const char *headers,
                                   const void *body, size_t len);
/* The plan's `instead` (not FAULT_KINDS): answers so, whatever was asked. `headers` as for
 * delivery_start, without a content type. */
enum delivery_state delivery_instead(struct delivery *d, const char *headers);
/* The client went away: over, without on_over. */
void delivery_lost(struct delivery *d);

#endif

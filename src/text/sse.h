/* sse.h: an incremental parser for event streams (text/event-stream) as LLM servers really send
 * them.
 *
 * Feed it bytes as they arrive, in any pieces; it calls back once per dispatched event and once per
 * comment. Rules (shared/fixtures/sse/README.md): LF, CRLF and CR end a line, also when CR and LF
 * come in different pieces; a leading UTF-8 BOM is dropped; one space after the colon is dropped;
 * several data lines join with LF; events whose data is empty or blank are not dispatched (an
 * `event: error` or an `error:` line without data is reported through on_event with len 0); a
 * pending event at the end is dispatched by sse_finish. Memory is bounded: a line or event over
 * `max_event` bytes is ERR_LIMIT and the parser stays in error. Never copies what it can hand over
 * from the caller's piece. What it reports does not depend on how the bytes were cut into pieces.
 */
#ifndef TEXT_SSE_H
#define TEXT_SSE_H

#include "base/buf.h"
#include "base/err.h"

struct sse_event {
  const char *data; /* dies when the callback returns */
  size_t len;
  const char *type; /* the event field, "" when none */
  size_t type_len;
  const char *error_field; /* content of an `error:` field line (old llama.cpp), NULL when none */
  size_t error_field_len;
  const char *comment; /* text of the last comment inside this event's lines, NULL when none */
  size_t comment_len;
  bool at_eof; /* dispatched by sse_finish without its blank line */
};

struct sse_handler {
  /* Returning non-zero stops the parser: sse_feed returns that value. */
  int (*on_event)(void *user, const struct sse_event *event);
  void (*on_comment)(void *user, const char *text, size_t len); /* may be NULL */
  void *user;
};

#define SSE_MAX_EVENT_DEFAULT ((size_t)16 << 20)

struct sse {
  struct sse_handler handler;
  size_t max_event;
  uint64_t events, comments; /* counted so far; events are those with data */
  uint64_t strange_lines;    /* neither a field of event streams nor a comment */
  bool seen_bytes;
  /* private: */
  struct buf line;        /* the start of a line whose end is not here yet */
  struct buf data;        /* data lines of the pending event that had to be copied */
  const char *view;       /* its only data line so far, still in the caller's piece; else NULL */
  size_t view_len;        /* of view */
  struct buf type;        /* the pending event's other fields */
  struct buf error_field; /* valid when has_error */
  struct buf comment;     /* valid when has_comment */
  bool has_data, has_error, has_comment;
  bool pending_cr;    /* the last byte was CR: an LF that follows belongs to it */
  unsigned bom_bytes; /* matched so far; 3 = past the start of the stream */
  int stopped;        /* what every later call returns; 0 = going on */
};

/* `max_event` 0 = SSE_MAX_EVENT_DEFAULT. */
void sse_init(struct sse *p, const struct sse_handler *handler, size_t max_event);
void sse_free(struct sse *p);
/* Ready for another stream, memory kept. */
void sse_reset(struct sse *p);
/* 0, ERR_LIMIT, or what the handler returned; the latter two again on every later call. */
NODISCARD int sse_feed(struct sse *p, const char *bytes, size_t len, struct err *err);
/* End of the stream: dispatches what is pending. Returns as sse_feed. */
NODISCARD int sse_finish(struct sse *p, struct err *err);

#endif

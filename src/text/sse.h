/* sse.h: an incremental parser for event streams (text/event-stream) as LLM servers really send
 * them.
 *
 * Feed it bytes as they arrive, in any pieces; it calls back once per dispatched event and once per
 * comment. Rules (shared/fixtures/sse/README.md): LF, CRLF and CR end a line, also when CR and LF
 * come in different pieces; a leading UTF-8 BOM is dropped; one space after the colon is dropped;
 * several data lines join with LF; events without data are not dispatched as data events (an
 * `event: error` with only comments is reported through on_event with len 0); a pending event at
 * the end is dispatched by sse_finish. Memory is bounded: a line or event over `max_event` bytes is
 * ERR_LIMIT and the parser stays in error. Never copies what it can hand over from the caller's
 * piece. */
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
  struct buf line, data, type, error_field, comment;
  size_t max_event;
  uint64_t events, comments; /* counted so far */
  bool seen_bytes, pending_cr, has_data, has_fields, failed;
  unsigned bom_seen;
};

void sse_init(struct sse *p, const struct sse_handler *handler, size_t max_event);
void sse_free(struct sse *p);
/* 0, ERR_LIMIT, or what the handler returned. */
NODISCARD int sse_feed(struct sse *p, const char *bytes, size_t len, struct err *err);
/* End of the stream: dispatches what is pending. */
NODISCARD int sse_finish(struct sse *p, struct err *err);

#endif

/* openai.h: what an OpenAI-style response stream says: chat, completions, Responses.
 *
 * Sits on text/sse.h. One pass over each event's JSON picks out output bytes, tool calls, token
 * ids, usage, finish reasons and errors; every event with output is stamped with the time its bytes
 * were read. Result fields and rules: shared/fixtures/sse/README.md; what counts as a first token:
 * DESIGN.md, "What is measured". No I/O, no clock: stamps are arguments. Memory is bounded by
 * `max_bytes` of assembled output; a stream beyond it ends with ERR_LIMIT and keeps what it has. */
#ifndef TEXT_OPENAI_H
#define TEXT_OPENAI_H

#include "base/buf.h"
#include "base/err.h"
#include "text/sse.h"
#include "text/value.h"

enum openai_api { OPENAI_NONE, OPENAI_CHAT, OPENAI_COMPLETIONS, OPENAI_RESPONSES };

/* "chat", "completions", "responses"; OPENAI_NONE for another word. */
enum openai_api openai_api_from(const char *name);

enum openai_error_kind {
  OPENAI_ERROR_NONE,
  OPENAI_ERROR_IN_BAND,
  OPENAI_ERROR_FIELD,
  OPENAI_ERROR_EVENT_COMMENT,
  OPENAI_ERROR_TRUNCATED, /* the end came inside JSON */
  OPENAI_ERROR_RAW_JSON,  /* no SSE framing at all */
  OPENAI_ERROR_BAD_JSON,  /* a complete event whose data is not JSON */
  OPENAI_ERROR_LIMIT
};

struct openai_tool_call {
  int64_t choice; /* calls are kept apart by choice, then by index, and sorted by both */
  int64_t index;  /* Responses: output_index */
  struct buf id, name, arguments;
};

struct openai_choice {
  int64_t index;
  struct buf text;
  struct buf finish_reason; /* empty = null */
};

/* One event that carried output: when its bytes were read and how many tokens it is known to hold.
 */
struct openai_output {
  uint64_t stamp_ns;
  int32_t tokens; /* from token_ids or continuous usage; −1 unknown; 0 = text that was held back
                     earlier. Usage counts only when it came with every event, and not with n > 1 */
  uint32_t text_len; /* visible + reasoning + tool bytes of this event */
  bool coalesced;    /* not the last output event of its read */
};

#define OPENAI_ABSENT INT64_MIN

struct openai_usage {
  bool present;
  int64_t prompt, completion, total, cached, reasoning; /* OPENAI_ABSENT when not there */
  bool odd; /* something was there that is no count: a fraction, a text, below 0, beyond 2^63 − 1 */
};

struct openai_result {
  enum openai_api api;
  uint64_t sse_events, comments;
  int64_t ttft_event_index, first_visible_event_index; /* −1 = none */
  uint64_t output_events;
  int64_t token_ids_total;       /* OPENAI_ABSENT when the server sent none */
  struct openai_choice *choices; /* those with text or a finish reason, by index */
  size_t n_choices, cap_choices;
  struct buf reasoning;
  struct openai_tool_call *tool_calls;
  size_t n_tool_calls, cap_tool_calls;
  struct openai_usage usage;
  bool usage_odd; /* some usage was odd, or a later count of output tokens was smaller; that is not
                     judged with several choices, where each may have a count of its own */
  struct buf response_id; /* Responses only; empty = null */
  enum openai_error_kind error_kind;
  struct buf error_message, error_type; /* empty error_type = null */
  int64_t error_code;                   /* OPENAI_ABSENT = null */
  bool complete, done_marker, terminal_event, eof_flush, any_bytes;
  /* Stamps of the reads (0 = never). end_ns: of the read that held the end marker, else of the last
   * one with bytes. A whole reply has one stamp, which is all of them. */
  uint64_t first_byte_ns, first_token_ns, first_visible_ns, last_token_ns, end_ns;
  struct openai_output *outputs; /* one per output event, when keep_outputs */
  size_t n_outputs, cap_outputs;
  uint64_t n_coalesced;
};

struct openai_stream {
  struct openai_result result;
  struct sse sse;
  /* private below; see openai.c */
  struct openai_priv *priv;
};

struct openai_options {
  enum openai_api api;
  size_t max_bytes;  /* of assembled text + reasoning + arguments; 0 = 64 MiB */
  size_t max_event;  /* 0 = SSE_MAX_EVENT_DEFAULT */
  bool keep_outputs; /* fill result.outputs (16 bytes and a bit per event) */
};

/* Between calls the struct may be moved in memory. */
void openai_stream_init(struct openai_stream *s, const struct openai_options *options);
void openai_stream_free(struct openai_stream *s);
/* Ready for another stream with the same options, memory kept. */
void openai_stream_reset(struct openai_stream *s);
/* Bytes that one read returned, with that read's stamp. ERR_LIMIT only: everything a server does
 * wrong is recorded in the result instead. After the end marker further bytes are ignored. */
NODISCARD int openai_stream_feed(struct openai_stream *s, const char *bytes, size_t len,
                                 uint64_t stamp_ns, struct err *err);
/* Events of a stream that never were bytes: a dry run's. One piece is one event. */
struct openai_piece {
  uint64_t stamp_ns;
  uint32_t reasoning, visible; /* bytes of text: so much reasoning, then so much of the answer */
};
struct openai_told {
  bool role;        /* an event without output comes first, at the first piece's stamp */
  const char *text; /* of the pieces, one behind the other */
  const struct openai_piece *pieces; /* of choice 0; at least one */
  size_t n_pieces;
  const char *finish;               /* the last piece's event has this reason; NULL: none */
  const struct openai_usage *usage; /* an event behind it, at its stamp; NULL: none */
  bool done;                        /* and the end marker */
  uint64_t bytes;                   /* of all these events */
};
/* Whether a chat or completions stream could be told so much: it is between events, has not ended,
 * and no limit is near. */
NODISCARD bool openai_stream_takes(const struct openai_stream *s, size_t text, size_t events);
/* What feeding these events, each in a read of its own, would do. What openai_stream_takes was
 * asked for, less what was told since, must cover it. */
void openai_stream_tell(struct openai_stream *s, const struct openai_told *told);
/* End of the body. Idempotent. */
NODISCARD int openai_stream_finish(struct openai_stream *s, struct err *err);
/* A whole JSON reply (not streamed) into the same result: text, tool calls, usage, finish reasons;
 * after init or reset, instead of feed. Any output counts as one output event with event index 0;
 * sse_events stays 0. `complete` when the body is JSON without an error. ERR_LIMIT only. */
NODISCARD int openai_parse_reply(struct openai_stream *s, const char *body, size_t len,
                                 uint64_t stamp_ns, struct err *err);

/* The result as the object of fixtures/sse/expected.json (without server, api, bytes, sha256). */
struct value openai_result_value(const struct openai_result *r);

#endif

/* sample.h: what is kept of one request, one session, one recorded value: the row of DESIGN.md.
 *
 * Filled by the request's owner (identity), by net/http.c (stamps, transport, what the stream
 * said), and later by routing (decision). All times are ns since the run's zero; SAMPLE_NEVER = did
 * not happen. Made on a worker, handed to the writer thread through out/recorder.h, never touched
 * by two threads. */
#ifndef OUT_SAMPLE_H
#define OUT_SAMPLE_H

#include "base/buf.h"
#include "base/err.h"

#define SAMPLE_VERSION 1
#define SAMPLE_NEVER UINT64_MAX
#define SAMPLE_ABSENT INT64_MIN /* a count that is not known: null in the row */

/* The closed list of DESIGN.md; the first that holds is the request's class. */
enum sample_error {
  SAMPLE_OK,
  SAMPLE_CANCELLED,
  SAMPLE_INCOMPLETE,
  SAMPLE_RESOLVE,
  SAMPLE_CONNECT,
  SAMPLE_TLS,
  SAMPLE_RESET,
  SAMPLE_TIMEOUT_CONNECT,
  SAMPLE_TIMEOUT_FIRST_BYTE,
  SAMPLE_TIMEOUT_IDLE,
  SAMPLE_TIMEOUT_TOTAL,
  SAMPLE_HTTP_429,
  SAMPLE_HTTP_4XX,
  SAMPLE_HTTP_5XX,
  SAMPLE_NOT_SSE,
  SAMPLE_STREAM_ERROR,
  SAMPLE_EMPTY_STREAM,
  SAMPLE_TRUNCATED,
  SAMPLE_BAD_JSON,
  SAMPLE_NO_VISIBLE_OUTPUT,
  SAMPLE_SCRIPT,
  SAMPLE_ERROR_COUNT
};
/* "ok", "cancelled", … "no_visible_output", "script". */
const char *sample_error_name(enum sample_error error);
/* Failed = every class but ok, cancelled and incomplete. */
bool sample_error_failed(enum sample_error error);

enum sample_stamp {
  STAMP_SCHED,      /* when it was due: the session's arrival, or the end of what it waited for plus
                       think time */
  STAMP_START,      /* handed to the transport */
  STAMP_CONNECTED,  /* connection ready (a reused one: = start) */
  STAMP_SENT,       /* last request byte taken by the kernel */
  STAMP_HEADERS,    /* end of the response's headers read */
  STAMP_FIRST_BYTE, /* first byte of the body read */
  STAMP_FIRST_TOKEN,
  STAMP_LAST_TOKEN,
  STAMP_DONE,
  STAMP_COUNT
};

enum sample_cached_state { CACHED_ABSENT, CACHED_VALUE, CACHED_ZERO, CACHED_INFERRED_ZERO };

#define SAMPLE_SMALL 232

struct sample {
  /* identity; strings are owned unless said otherwise: of sample_keep, or mem_free frees them */
  const char *arm; /* borrowed, lives as long as the run; NULL = null */
  uint32_t trial_block;
  uint64_t session;
  uint32_t turn, step; /* 0 = null */
  uint32_t branch;     /* 0 = the trunk */
  int32_t parent;      /* branch it was forked from, −1 = null */
  char *tags;          /* canonical JSON object, NULL = {} */
  char *request_id;    /* its X-Request-Id; NULL = null */
  bool measured;       /* in the window: its session arrived after warm-up and before the end */
  /* time */
  uint64_t t[STAMP_COUNT];
  uint64_t first_visible; /* first visible text, SAMPLE_NEVER */
  int64_t
      error_ns; /* measurement error of the first byte: callback − kernel stamp; SAMPLE_ABSENT */
  uint64_t coalesced;         /* output events that shared a read with a later one */
  int64_t coalesced_bound_ns; /* largest time since the descriptor was last seen drained, for those;
                                 SAMPLE_ABSENT */
  /* transport */
  int status; /* 0 = none */
  enum sample_error error;
  char *error_detail; /* NULL = null */
  bool reused_connection;
  uint32_t reconnects; /* an idle connection turned out closed; stamps are of the new one */
  uint64_t bytes_sent, bytes_received;
  const char *method; /* borrowed constant */
  char *url;          /* without query and user info */
  bool is_generation; /* a chat, completions or responses call; others are kept out of the latency
                         metrics */
  bool stream_asked;  /* an event stream was asked for, whatever came */
  bool streamed;
  /* what the stream said */
  char *finish_reason;
  int64_t prompt_tokens, output_tokens, reasoning_tokens,
      cached_tokens; /* from usage; SAMPLE_ABSENT */
  int64_t prompt_tokens_local, output_tokens_local;
  int64_t asked_tokens;    /* output tokens the reply was told to have (max_tokens with ignore_eos);
                              SAMPLE_ABSENT when it was free */
  int64_t survived_tokens; /* leading prompt tokens that the conversation's last prompt had too */
  int64_t first_tokens;    /* tokens of the first output event, SAMPLE_ABSENT when unknown */
  enum sample_cached_state cached_state;
  bool usage_odd; /* some count was none, or a running one fell from one event to the next */
  uint64_t output_events;
  int64_t
      window_tokens; /* output tokens whose stamps lie in the window, SAMPLE_ABSENT when unknown */
  uint64_t *gaps_ns; /* output_events − 1 gaps; owned */
  int32_t *gap_tokens; /* tokens of the event that ends the gap, −1 unknown; owned, may be NULL */
  size_t n_gaps;
  uint64_t output_hash; /* XXH3-64 of text, reasoning and tool bytes; 0 with no output */
  char *server;         /* timings the server gave, canonical JSON; NULL */
  /* routing */
  const char *policy; /* borrowed, lives as long as the run; NULL */
  char *chosen, *route_reason;
  char *served; /* the replica it was sent to, or that said it answered; in the row only once it did
                 */
  bool fallback;
  /* cost on our side, ns; SAMPLE_ABSENT when not done */
  int64_t render_ns, tokenize_ns, hash_ns;
  /* sample_keep's: most of the strings above lie here */
  size_t small_used;
  char small[SAMPLE_SMALL];
};

/* "absent", "value", "zero", "inferred_zero". */
const char *sample_cached_name(enum sample_cached_state state);
/* Cached prompt tokens by the state: the value, 0 for both zeros, SAMPLE_ABSENT. */
int64_t sample_cached_tokens(const struct sample *s);

/* All unknown. */
struct sample *sample_new(void);
void sample_free(struct sample *s); /* NULL is allowed */
/* Room for a string of `len` bytes and a NUL that is freed with the sample: in the sample itself
 * while there is some left. A sample is made on one thread and freed on another, where each block
 * of memory costs much more than elsewhere. */
char *sample_room(struct sample *s, size_t len);
/* A copy in such room. */
char *sample_keep(struct sample *s, const char *text, size_t len);
/* Frees a string of the sample's: for one that is replaced. NULL is allowed. */
void sample_drop(const struct sample *s, char *text);

/* Appends the row as one line of JSON without a newline: every field of DESIGN.md, null where
 * unknown; src/out/ROW.md describes them. with_itl fills the array `itl_ns`, which is null
 * otherwise. `tags` and `server` must be JSON already: they are copied as they are. */
void sample_write(struct buf *b, const struct sample *s, const char *run_id, bool with_itl);

/* A session that ended. */
struct session_record {
  const char *arm; /* borrowed */
  uint32_t trial_block;
  uint64_t session, sched_ns, start_ns, end_ns; /* since the run's zero */
  enum sample_error error; /* ok, cancelled, incomplete, script or the class that ended it */
  char detail[240];
  bool measured;
};

/* vu:record and vu:check. */
struct value_record {
  const char *arm; /* borrowed */
  uint64_t session;
  uint64_t time_ns;
  const char *name; /* borrowed: interned by the run */
  double value;     /* a check: 1 or 0 */
  char *tags;       /* owned, canonical JSON or NULL */
  bool is_check, measured;
};

/* One row of values.jsonl, without the line feed (ROW.md). */
void value_record_write(struct buf *b, const struct value_record *v, const char *run_id);

#endif

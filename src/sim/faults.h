/* faults.h: what a simulated replica does wrong on demand.
 *
 * Grammar: KIND [key=value]…, words separated by spaces. Kinds:
 *   refuse                the listening socket is closed: connections are refused
 *   reset [after=K]       RST after K events; K = 0 (the default): at once, nothing answered
 *   status code=N         an error reply at once; the code alone is a kind: "429 retry_after=2s"
 *   stall [after=K] [for=T]  after K events (0: before the headers) nothing more for T; without T
 *                         for ever. Then the rest follows at its pace: every later event is T late
 *   empty                 200, text/event-stream, zero bytes
 *   only_done             200, text/event-stream, the end marker alone
 *   not_sse               200, text/html
 *   error [after=K]       an error event after K events, then the end marker
 *   bad_json [after=K]    event number K (from 0) carries half of its JSON
 *   truncated [after=K]   the body ends after K events without the end marker (default: all of
 *                         them)
 *   cut [after=K]         the same by closing the connection in the middle of the body
 *   slow bytes=N delay=T  the answer in pieces of N bytes, T apart
 *   coalesce events=K     K events are held and written together
 *   no_usage              usage is left out
 *   no_output             no content, only role, finish, usage and end marker
 * Keys of every kind but refuse: p=0..1 (default 1),
 * count=N (at most N requests), path=/… (default: both generation endpoints). Events are SSE
 * events; a whole reply counts as one. Faults of one replica combine; of several that end the
 * answer the first in the list holds. Whether request number n is hit depends on (seed, fault's
 * place in the list, n) alone. */
#ifndef SIM_FAULTS_H
#define SIM_FAULTS_H

#include "base/buf.h"
#include "base/err.h"

enum fault_kind {
  FAULT_REFUSE,
  FAULT_RESET,
  FAULT_STATUS,
  FAULT_STALL,
  FAULT_EMPTY,
  FAULT_ONLY_DONE,
  FAULT_NOT_SSE,
  FAULT_ERROR,
  FAULT_BAD_JSON,
  FAULT_TRUNCATED,
  FAULT_CUT,
  FAULT_SLOW,
  FAULT_COALESCE,
  FAULT_NO_USAGE,
  FAULT_NO_OUTPUT,
  FAULT_KINDS
};

#define FAULT_NEVER UINT32_MAX

struct fault {
  enum fault_kind kind;
  double p;
  uint64_t count;  /* 0 = no limit */
  uint64_t used;   /* requests hit so far */
  uint64_t serial; /* of this list, from 1: faults_end */
  bool over;       /* ended: it keeps its place, since draws depend on places */
  char path[64];   /* "" = the generation endpoints */
  uint32_t after;  /* FAULT_NEVER = not given */
  uint32_t code;
  uint32_t bytes, events;
  uint64_t retry_after_s; /* 0 = no header */
  uint64_t for_ns;        /* 0 = for ever */
  uint64_t delay_ns;
};

struct faults {
  struct fault *items;
  size_t n, cap;
  uint64_t seed, last_serial;
};

/* What happens to one request. Zero-initialised by faults_decide. */
struct fault_plan {
  uint32_t kinds; /* bit per enum fault_kind: what hit; 0 = an honest answer */
  enum fault_kind
      instead; /* STATUS, EMPTY, ONLY_DONE, NOT_SSE, RESET (after 0); FAULT_KINDS = none */
  uint32_t status;
  uint64_t retry_after_s;
  enum fault_kind ending; /* RESET, ERROR, TRUNCATED, CUT; FAULT_KINDS = none */
  uint32_t ending_after;  /* FAULT_NEVER: all events but the end marker */
  uint32_t stall_after;   /* FAULT_NEVER = no stall */
  uint64_t stall_ns;      /* 0 = for ever */
  uint32_t bad_json_at;   /* FAULT_NEVER = none */
  uint32_t piece_bytes;   /* 0 = not slow */
  uint64_t piece_delay_ns;
  uint32_t coalesce; /* 0 or 1 = off */
  bool no_usage, no_output;
};

/* Reads one specification. Unknown words give ERR_INVALID with the nearest known one. */
NODISCARD int faults_parse(const char *spec, struct fault *out, struct err *err);
/* Appends the fault as faults_parse reads it, with only what differs from the defaults. */
void faults_format(const struct fault *f, struct buf *out);
/* "empty", "no_usage" … */
const char *faults_kind_name(enum fault_kind kind);

void faults_init(struct faults *list, uint64_t seed);
void faults_free(struct faults *list);
/* Returns its serial number, which faults_end takes. */
uint64_t faults_add(struct faults *list, const struct fault *f);
/* It hits nothing from now on; false when it is not in the list any more. */
bool faults_end(struct faults *list, uint64_t serial);
void faults_clear(struct faults *list);
/* The first refuse fault that is not over, NULL when there is none. Dies with the next add or
 * clear. */
const struct fault *faults_refuse(const struct faults *list);
/* Decides for request `number` (from 0) on `path`, and counts the hits. */
void faults_decide(struct faults *list, const char *path, uint64_t number, struct fault_plan *out);

#endif

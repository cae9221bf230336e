/* truth.h: the ground-truth log: what the fleet received and sent, and when.
 *
 * JSON lines, one per request at its end; tests compare the client's stamps with it. Fields:
 *   replica, number (of the request on its replica, from 0), id (response id), request_id (the
 *   client's X-Request-Id or null), path, stream, status, fault (names, or null),
 *   received_ns (the request's last byte was read), scheduled_ns (its first step began; null when
 *   never), first_token_ns, last_token_ns (steps' ends), choices (of n and of several prompts;
 *   prompts count once, output tokens of all), prompt_tokens, output_tokens, cached_tokens (as
 * usage has it) and of those offload_tokens, shared_tokens, transfer_tokens (loaded from CPU
 * memory, shared storage, a prefill replica), finish ("stop", "length", "abort" the client went
 * away or the engine to sleep, "refused" a 4xx, "fault"), preemptions, writes: [{ns, bytes, kind,
 *   events?}], one per write to the socket, the clock read right before it; kind: headers role
 *   content finish usage done error
 * body piece. All stamps: CLOCK_MONOTONIC in ns. The file is written in large pieces from the
 * fleet's loop (at 64 KiB and on truth_flush), so a line may appear a moment after its request. */
#ifndef SIM_TRUTH_H
#define SIM_TRUTH_H

#include "base/buf.h"
#include "base/err.h"

enum truth_kind {
  TRUTH_HEADERS,
  TRUTH_ROLE,
  TRUTH_CONTENT,
  TRUTH_FINISH,
  TRUTH_USAGE,
  TRUTH_DONE,
  TRUTH_ERROR,
  TRUTH_BODY,
  TRUTH_PIECE
};

struct truth_write {
  uint64_t ns;
  uint32_t bytes;
  uint16_t events; /* of this write */
  uint8_t kind;    /* enum truth_kind of its first event */
};

struct truth_line {
  const char *replica, *id, *request_id, *path, *fault,
      *finish; /* request_id, fault: NULL = null */
  uint64_t number;
  bool stream;
  int status;
  uint64_t received_ns, scheduled_ns, first_token_ns, last_token_ns; /* 0 = null */
  uint32_t choices, prompt_tokens, output_tokens, cached_tokens, preemptions;
  uint32_t offload_tokens, shared_tokens, transfer_tokens; /* of cached_tokens, where loaded from */
  const struct truth_write *writes;
  size_t n_writes;
};

struct truth;
/* Creates or empties the file. NULL with ERR_IO naming it. */
struct truth *truth_open(const char *path, struct err *err);
void truth_add(struct truth *t, const struct truth_line *line);
/* Writes what is held. A failed write is logged once; the log ends there. */
void truth_flush(struct truth *t);
/* Flushes. ERR_IO when the file is not whole (it was logged then); 0 for NULL. */
int truth_close(struct truth *t);

#endif

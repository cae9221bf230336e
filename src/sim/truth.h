/* truth.h: the ground-truth log: what the fleet received and sent, and when.
 *
 * JSON lines, one per request at its end; `perigee run --verify` joins them to its rows by
 * request_id (out/truthlog.h reads them), tests compare the client's stamps with them. Fields:
 *   replica, number (of the request on its replica, from 0), id (response id), request_id (the
 *   client's X-Request-Id or null), path, stream, status, fault (names, or null),
 *   received_ns (the request's last byte was read), queued_ns (it was put into the engine's queue),
 *   scheduled_ns (its first step began), first_token_ns, last_token_ns (steps' ends; all four null
 *   when never), choices (of n and of several prompts; prompts count once, output tokens of all),
 *   prompts, prompt_tokens, output_tokens, cached_tokens (as usage has it) and of those
 *   offload_tokens, shared_tokens, transfer_tokens (loaded from CPU memory, shared storage, a
 * prefill replica), preemptions, evicted_blocks (blocks of cached content that its own took the
 * place of), block_size, captured_tokens, captured_pool_tokens: when it arrived, the longest
 * leading run of its (first) prompt that was resident on this replica, tiers counted, and in the
 * pool alone; available_tokens, available_pool_tokens: the same on the replica that had most,
 * available_replica (null: none had anything); all in whole blocks, and never all of the prompt
 * (residence.h), chains: [[after, fresh]], the blocks of each choice's prompt and answer: `fresh`
 * new ones behind block number `after` (chainlog.h says how they are numbered), token_ns: [[ns,
 * gap…]], each choice's output: the end of the step of its first token, then the gaps to the next
 * ones, finish ("stop", "length", "abort" the client went away or the engine to sleep, "refused" a
 * 4xx, "fault"), first_visible_ns (the write that held the first text of an answer, of a
 * stream: in raw words of gpt-oss, special tokens shown, the first behind the analysis; null),
 * writes: [{ns, bytes, kind, events?, outputs?}], one per write to the socket, the clock read right
 * before it; kind: headers role content finish usage done error body piece, that of its first
 * event; events: how many, when more than one; outputs: how many of them hold output (text,
 *   reasoning, a call's bytes, token ids), where that is not what the kind says: 1 of content and
 *   finish, else 0. A piece (fault slow) is part of an event: its outputs are not known.
 * turns: of Responses that called the server's own tools (genturns.h), [{queued_ns, scheduled_ns,
 * first_token_ns, last_token_ns, prompt_tokens, output_tokens, cached_tokens}]: the requests that
 * the engine was given one after the other; the line has their sums, chains and token_ns one for
 * each of them.
 * All stamps: CLOCK_MONOTONIC in ns. The file is written in large pieces from the fleet's loop (at
 * 64 KiB and on truth_flush), so a line may appear a moment after its request. */
#ifndef SIM_TRUTH_H
#define SIM_TRUTH_H

#include "base/buf.h"
#include "base/err.h"
#include "sim/chainlog.h"

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
  uint16_t events, outputs; /* of this write */
  uint8_t kind;             /* enum truth_kind of its first event */
};

/* When a choice's tokens were there. */
struct truth_tokens {
  const uint64_t *ns;
  uint32_t n;
};

struct truth_turn {
  uint64_t queued_ns, scheduled_ns, first_token_ns, last_token_ns; /* 0 = null */
  uint32_t prompt_tokens, output_tokens, cached_tokens;
};

struct truth_line {
  const char *replica, *id, *request_id, *path, *fault,
      *finish; /* request_id, fault: NULL = null */
  uint64_t number;
  bool stream;
  int status;
  uint64_t received_ns, queued_ns, scheduled_ns, first_token_ns, last_token_ns; /* 0 = null */
  uint64_t first_visible_ns;                                                    /* the same */
  uint32_t choices, prompts, prompt_tokens, output_tokens, cached_tokens, preemptions;
  uint32_t evicted_blocks, block_size;
  uint32_t captured_tokens, captured_pool_tokens, available_tokens, available_pool_tokens;
  const char *available_replica; /* NULL = null */
  const struct chainlog_told *chains;
  const struct truth_tokens *tokens; /* n_chains of both: the choices, in order */
  size_t n_chains;
  uint32_t offload_tokens, shared_tokens, transfer_tokens; /* of cached_tokens, where loaded from */
  const struct truth_turn *turns;                          /* NULL: there was one */
  size_t n_turns;
  const struct truth_write *writes;
  size_t n_writes;
};

struct truth;
/* Creates or empties the file. NULL with ERR_IO naming it. */
struct truth *truth_open(const char *path, struct err *err);
/* Tells a chain of the next line (names of engine_prefix). */
struct chainlog_told truth_tell(struct truth *t, const uint64_t *names, uint32_t n);
void truth_add(struct truth *t, const struct truth_line *line);
/* Writes what is held. A failed write is logged once; the log ends there. */
void truth_flush(struct truth *t);
/* Flushes. ERR_IO when the file is not whole (it was logged then); 0 for NULL. */
int truth_close(struct truth *t);

#endif

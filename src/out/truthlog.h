/* truthlog.h: the simulated fleet's truth log (sim/truth.h), read line by line in one pass, and the
 * tree of all blocks that were sent and received.
 *
 * Memory: 8 bytes a block that was new when it was told; lines are not kept. */
#ifndef OUT_TRUTHLOG_H
#define OUT_TRUTHLOG_H

#include "out/linefile.h"

/* What its writes say. */
struct truthlog_writes {
  uint64_t *outputs; /* the write of each output event, in order; n of them */
  size_t n, cap;
  uint64_t first_body_ns, last_ns; /* the first write of the body, the last of all; 0 = none */
  bool pieces;                     /* events went out in parts: outputs are not known */
};

/* A line. Strings are slices of it; p NULL = null. Stamps: CLOCK_MONOTONIC, 0 = null. */
struct truthlog_line {
  struct jsonslice request_id, replica, fault;
  uint64_t received_ns, scheduled_ns, first_visible_ns;
  int64_t prompts, prompt_tokens, output_tokens, cached_tokens, offload_tokens, shared_tokens,
      transfer_tokens, block_size, captured_tokens, available_tokens; /* −1 = not there */
  bool stream;
  /* Where its chains end, numbers of blocks; 0 = a chain without one. */
  uint32_t *leaves;
  size_t n_leaves, cap_leaves;
  struct truthlog_writes writes;
};

struct truthlog {
  struct linefile file;
  struct truthlog_line line; /* the last one read; its arrays are used again */
  bool has_chains, has_writes;
  const char *odd; /* static: what a line that was not read says; NULL: no line at all */
  uint64_t fresh;  /* of its chains so far */
  /* By a block's number, from 1; [0] stands before every first block. */
  uint32_t *parent, *depth;
  size_t n_blocks, cap_blocks; /* [0] included */
};

/* ERR_IO names the file. */
NODISCARD int truthlog_open(struct truthlog *t, const char *path, struct err *err);
void truthlog_close(struct truthlog *t);

/* Who asked, and when it came in: only the beginning of the line is looked at. False: it is none.
 */
struct truthlog_head {
  struct jsonslice request_id; /* p NULL = null */
  uint64_t received_ns;
};
bool truthlog_head(struct jsonslice line, struct truthlog_head *out);

/* Reads a line into t->line and its new blocks into the tree. Each line once and in order, or
 * numbers of blocks mean nothing. Its counts stand before its chains and writes, which may not hold
 * more than they say: a wrong number would else take all memory. False: it is none of this version;
 * or t->odd says what is wrong with it. */
bool truthlog_read(struct truthlog *t, struct jsonslice line);

#endif

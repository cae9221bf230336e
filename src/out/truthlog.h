/* truthlog.h: the simulated fleet's truth log (sim/truth.h), read: its lines by number, and the
 * tree of all blocks that were sent and received. */
#ifndef OUT_TRUTHLOG_H
#define OUT_TRUTHLOG_H

#include "out/linefile.h"

/* A line. Strings are slices of it; p NULL = null. Stamps: CLOCK_MONOTONIC, 0 = null. */
struct truthlog_line {
  struct jsonslice request_id, replica, fault;
  uint64_t received_ns, scheduled_ns, first_visible_ns;
  int64_t prompts, prompt_tokens, output_tokens, cached_tokens, offload_tokens, shared_tokens,
      transfer_tokens, block_size, captured_tokens, available_tokens; /* −1 = not there */
  struct jsonslice chains, writes;
  bool stream;
};

/* What its writes say. */
struct truthlog_writes {
  uint64_t *outputs; /* the write of each output event, in order; n of them. Reused */
  size_t n, cap;
  uint64_t first_body_ns, last_ns; /* the first write of the body, the last of all; 0 = none */
  bool pieces;                     /* events went out in parts: outputs are not known */
};

struct truthlog_entry {
  struct truthlog_line line;
  uint32_t first_leaf, n_leaves; /* of truthlog.leaves: where its chains end */
};

struct truthlog {
  struct linefile file;
  struct truthlog_entry *entries;
  size_t n, cap;
  uint32_t *leaves; /* numbers of blocks; 0 = a chain without one */
  size_t n_leaves, cap_leaves;
  /* By a block's number, from 1; [0] stands before every first block. */
  uint32_t *parent, *depth;
  size_t n_blocks, cap_blocks; /* [0] included */
};

/* ERR_IO; ERR_INVALID names the file and the line that is none of a truth log. */
NODISCARD int truthlog_open(struct truthlog *t, const char *path, struct err *err);
void truthlog_close(struct truthlog *t);

/* False when the line is none. */
bool truthlog_read(struct jsonslice line, struct truthlog_line *out);
/* `out` keeps its memory from line to line; free out->outputs at the end. */
bool truthlog_read_writes(const struct truthlog_line *line, struct truthlog_writes *out);

#endif

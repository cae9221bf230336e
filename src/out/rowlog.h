/* rowlog.h: a row of samples.jsonl (ROW.md), read back for the join with the fleet's truth log. */
#ifndef OUT_ROWLOG_H
#define OUT_ROWLOG_H

#include "out/linefile.h"
#include "out/sample.h"

/* Strings and arrays are slices of the line; p NULL = null. Stamps count from the run's zero. */
struct rowlog {
  struct jsonslice request_id, error, chosen, served, itl;
  uint64_t session, t[STAMP_COUNT], first_visible; /* SAMPLE_NEVER = null */
  int64_t turn, step, prompt_tokens, output_tokens, cached_tokens, first_tokens; /* −1 = null */
  int64_t output_events, reconnects;
  bool measured, generation, streamed;
};

/* False when the line is no row. */
bool rowlog_read(struct jsonslice line, struct rowlog *out);

/* Where the null fields of the ledger stand in a row's line: "possible" … "class"; p NULL when they
 * are not there (a row that has them already). */
struct jsonslice rowlog_ledger(struct jsonslice line);

#endif

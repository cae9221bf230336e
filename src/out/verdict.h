/* verdict.h: how a run ended, as an exit status: one pure function.
 *
 * First that holds: 2 wrong usage, the script's own mistake in every session among it · 130
 * interrupted · 1 the run failed · 98 not valid · 99 an expectation was not met · 0. Beyond the
 * plan's own expectations, 99 is also the status of a run in which every request or every session
 * failed or nothing at all was measured, and, without expectations, of one in which more than 5 %
 * of requests or sessions failed. */
#ifndef OUT_VERDICT_H
#define OUT_VERDICT_H

#include "base/base.h"
#include "text/value.h"

enum verdict_status {
  VERDICT_OK = 0,
  VERDICT_FAILED = 1,
  VERDICT_USAGE = 2,
  VERDICT_INVALID = 98,
  VERDICT_NOT_MET = 99,
  VERDICT_INTERRUPTED = 130
};

#define VERDICT_MAX_FAILED 0.05

struct verdict_input {
  const char *script_error; /* why the script is what is wrong; NULL = it is not, or not known */
  bool only_script;         /* sessions failed in errors of the script alone */
  bool interrupted;
  const char *run_error; /* set-up, a full disk, a crashed fleet …; NULL = none */
  bool valid;
  char broken[200]; /* names of the checks that do not hold; "" when not known */
  uint64_t expectations, expectations_met;
  uint64_t requests_ok, requests_failed; /* measured; plain HTTP where there is nothing else */
  uint64_t sessions_ok, sessions_failed;
  char session_class[600], request_class[600]; /* "script: …", of the most that failed; "" */
  uint64_t values;                             /* what vu:record and vu:check gave */
  uint64_t checks, checks_false;               /* of vu:check alone */
};

struct verdict {
  int status;        /* enum verdict_status */
  char reason[1000]; /* one line for a person */
};

void verdict_decide(const struct verdict_input *in, struct verdict *out);
/* --exit-codes=bisect: 1, 2 and 98 become 125 (skip this commit), 99 becomes 1. */
int verdict_bisect(int status);

/* The input from a finished summary (summary_build, expectations in Lua appended by then). */
void verdict_input_from(const struct value *summary, struct verdict_input *in);
/* Sets summary.outcome = {status, reason}. */
void verdict_store(struct value *summary, const struct verdict *verdict);

#endif

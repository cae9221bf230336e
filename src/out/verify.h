/* verify.h: a run's rows against the fleet's own log of the same requests: how far off the stamps
 * are, whether the counts are right, and the token ledger.
 *
 * Rows and lines are joined by request_id; of a request that was sent again on a new connection the
 * last one counts, as in its row. What is compared:
 *   stamps, of measured good replies: the client's stamp − the clock read right before the write
 * that it is of. Both are CLOCK_MONOTONIC of one host, so the transit over loopback is in it, and
 * what kept the fleet between that reading and its write. ttft's error is that of its stamp
 * first_token: its other end, start, is the client's own. e2e's is that of done against the last
 * write; itl's and tpot's are of the differences. counts, of all good replies: the tokens of usage,
 * and output events, against the fleet's. the replica that the row names against the one that has
 * it in its log. One thread, after the run. */
#ifndef OUT_VERIFY_H
#define OUT_VERIFY_H

#include "out/ledger.h"
#include "out/table.h"
#include "out/truthlog.h"
#include "text/value.h"

enum verify_stamp {
  VERIFY_FIRST_BYTE,
  VERIFY_TTFT,
  VERIFY_FIRST_VISIBLE,
  VERIFY_LAST_TOKEN,
  VERIFY_ITL,
  VERIFY_TPOT,
  VERIFY_E2E,
  VERIFY_STAMPS
};

enum verify_count {
  VERIFY_PROMPT_TOKENS,
  VERIFY_OUTPUT_TOKENS,
  VERIFY_CACHED_TOKENS,
  VERIFY_OUTPUT_EVENTS, /* of streams; reported, but no token count */
  VERIFY_COUNTS
};

#define VERIFY_MAX_ERRORS 4000000 /* errors of a stamp that are kept; even */
#define VERIFY_NAMED 5            /* differences that are named */

struct verify_row {
  const char *line; /* in verify.samples */
  uint32_t len;
  uint32_t request_id; /* where in the line its text begins; 0 = null */
  uint32_t id_len;
  uint64_t hash, start, done;    /* of the id; since the run's zero */
  uint64_t received;             /* CLOCK_MONOTONIC, by its line in the log */
  uint32_t entry;                /* that line's number from 1; 0 = none */
  uint32_t first_leaf, n_leaves; /* of verify.leaves: where its chains end */
  bool good, measured, generation, ambiguous;
  struct ledger ledger; /* block_size 0: it has none */
};

/* Sizes of which percentiles are told. */
enum { VERIFY_P50, VERIFY_P90, VERIFY_P95, VERIFY_P99, VERIFY_SIZES };

struct verify_errors {
  uint64_t n;         /* compared */
  double least, most; /* signed, in ns, of all n */
  /* Of every one, or of every second, fourth … (`every`) when there are more than is kept. */
  uint64_t every;
  double *ns; /* signed; NULL once verify_open is through */
  size_t n_kept, cap;
  double median;             /* signed; NAN without any */
  double size[VERIFY_SIZES]; /* of |error|; NAN when there are too few for it */
};

/* Memory: both files are mapped; besides 200 bytes a row, 24 a block that was new, and 8 an error
 * that is kept, at most VERIFY_MAX_ERRORS of each stamp. */
struct verify {
  struct truthlog truth;
  struct linefile samples;
  struct verify_row *rows; /* all of samples.jsonl, in its order */
  size_t n_rows, cap_rows;
  uint32_t *of_line; /* by a line's number from 0: its row from 1; 0 = none */
  size_t n_lines, cap_lines;
  uint32_t *leaves;
  size_t n_leaves, cap_leaves;
  uint64_t generations, joined;         /* rows of generation requests; those with a line */
  struct value rows_alone, lines_alone; /* {reason: n} */
  uint64_t missing;                     /* good replies that the log does not have */
  bool rows_cut, lines_cut;             /* a file ends in the middle of a line, which is left out */
  struct verify_errors errors[VERIFY_STAMPS];
  uint64_t compared[VERIFY_COUNTS], differ[VERIFY_COUNTS];
  uint64_t differing; /* requests with a token count that differs */
  struct value first; /* [{request_id, session, turn, step, what, row, truth}] */
  uint64_t placed, elsewhere, chosen, chosen_elsewhere;
};

/* Joins and compares. `zero_ns`: the run's zero on CLOCK_MONOTONIC. ERR_IO; ERR_INVALID: not a
 * truth log, not rows, no request in common, or two different clocks (another host, or before a
 * reboot). */
NODISCARD int verify_open(struct verify *v, const char *samples, const char *truth,
                          uint64_t zero_ns, struct err *err);
void verify_close(struct verify *v);

/* summary.verify (ROW.md). */
struct value verify_value(const struct verify *v);

/* What the checks measurement_error_p99 and ground_truth judge (checks.h). */
struct checks_truth;
void verify_checks(const struct verify *v, struct checks_truth *out);

static inline struct jsonslice verify_line(const struct verify_row *r) {
  return (struct jsonslice){r->line, r->line + r->len};
}
static inline struct jsonslice verify_request_id(const struct verify_row *r) {
  const char *id = r->request_id ? r->line + r->request_id : NULL;
  return (struct jsonslice){id, id ? id + r->id_len : NULL};
}

/* ---- verify_errors.c: what verify_open compares with ---- */
/* The row against its line in the log, v->truth.line. */
void verify_compare(struct verify *v, const struct verify_row *r, uint64_t zero_ns);
/* "prompt_tokens" … */
const char *verify_count_name(int count);
void verify_add_error(struct verify_errors *e, double ns);
/* The figures of what was added; frees it. */
void verify_finish_errors(struct verify_errors *e);

/* ---- verify_ledger.c ---- */
/* What the row's line in the log, v->truth.line, says of it. */
void verify_begin_ledger(struct verify *v, struct verify_row *r);
/* Ends all ledgers with what was possible. verify_open does it. */
void verify_fill_ledgers(struct verify *v);
/* The figures into the table of the run that wrote the rows. */
void verify_set_table(const struct verify *v, struct table *t);
/* summary.ledger: of measured good replies; null when no row has a ledger. */
struct value verify_ledger_value(const struct verify *v);
/* Writes folder/samples.jsonl anew, with the ledger in its rows. ERR_IO: it is as it was. */
NODISCARD int verify_write_rows(const struct verify *v, const char *folder, struct err *err);

#endif

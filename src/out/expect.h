/* expect.h: expectations: "ttft p95 < 400ms", "precise.ttft p50 < 0.8 * load_only.ttft p50".
 *
 * Grammar (API.md, Expectations):
 *   expectation = term OP bound | term "=" (term | quantity) "within" quantity
 *   term        = [arm "."] metric ["{" tag "=" value | tag "=" a ".." b {"," …} "}"] stat
 *   stat        = mean min max sum count share rate p50 p90 p95 p99 p99.9
 *   OP          = < <= > >=
 *   bound       = quantity | [number "*"] term [("+" | "-") quantity]
 * `%` after + or - means points for ratios and shares, and relative to the other term otherwise;
 * the same for `within`. Everything that can be known before a run is checked by the parser. */
#ifndef OUT_EXPECT_H
#define OUT_EXPECT_H

#include "out/filter.h"
#include "out/metrics.h"

enum expect_op { EXPECT_LT, EXPECT_LE, EXPECT_GT, EXPECT_GE, EXPECT_EQUIVALENT };

struct expect_term {
  struct filter filter;        /* with the arm */
  const struct metric *metric; /* of the list given to expect_parse */
  enum statistic stat;
  double p;           /* of STAT_QUANTILE */
  size_t column, end; /* byte range in the text, for messages */
};

struct expect {
  char *text; /* owned, trimmed */
  struct expect_term left, right;
  bool has_right; /* else `bound` stands alone */
  enum expect_op op;
  double factor;       /* × right */
  double bound;        /* quantity, or what is added to the right term; base units */
  bool bound_relative; /* added as a part of the right term (+ 10 %) */
  double margin;       /* of `within` */
  bool margin_relative;
  enum units_kind kind; /* of both sides */
};

/* ERR_INVALID: the text names the expectation, the column and what would do. `arms` (n_arms names)
 * are the plan's; none: an arm is an error. On failure *out is empty. */
NODISCARD int expect_parse(const char *text, const struct metrics *metrics, const char *const *arms,
                           size_t n_arms, struct expect *out, struct err *err);
void expect_free(struct expect *e);

struct expect_result {
  bool met;
  double
      value; /* left side; for an equivalence claim: left − right or left/right − 1. NAN unknown */
  double bound;     /* what it was held against; NAN unknown */
  uint64_t n;       /* samples on the left */
  char reason[320]; /* why it is not met; for equivalence always the interval; else "" */
};

/* Judges against a finished table. No data, undecided or too few samples is not met. */
void expect_eval(const struct expect *e, const struct table *t, const struct metrics *metrics,
                 struct expect_result *out);

/* "<", "<=", …: the bound as it was understood is written behind it. */
const char *expect_op_text(enum expect_op op);

/* A quantity for a person: "412 ms", "97.3 %", "12.5/s", "812 tokens". out: 48 bytes. `unit` is a
 * word to put after plain numbers, NULL = none. */
void expect_format(double x, enum units_kind kind, const char *unit, char *out, size_t size);

#endif

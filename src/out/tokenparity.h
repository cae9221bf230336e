/* tokenparity.h: are the tokens that a run counts the server's own? Per arm, from two sides: what
 * was compared before the load (a list of cmd/paritycheck.h: ids of one request for each server and
 * renderer), and the counts of every prompt of the run against usage.prompt_tokens. */
#ifndef OUT_TOKENPARITY_H
#define OUT_TOKENPARITY_H

#include "out/table.h"
#include "text/value.h"

/* Prompts of good replies that have both counts. */
struct tokenparity_counts {
  uint64_t compared, differ;
  int64_t largest; /* difference, tokens, without its sign */
  /* Of the first that differs, by session, turn and step: */
  uint64_t session;
  uint32_t turn, step;
  int32_t local, server;
};
/* `arm` TABLE_NO_ARM: those of no arm; TOKENPARITY_ALL: all. */
#define TOKENPARITY_ALL UINT32_MAX
void tokenparity_count(const struct table *t, uint32_t arm, struct tokenparity_counts *out);

/* Whether every entry of the list (NULL is none) for `arm` is "equal", and there is one. An entry
 * without an arm is for every arm; `arm` NULL: every entry. */
bool tokenparity_proven(const struct value *list, const char *arm);

struct tokenparity_judgement {
  double figure;  /* servers and arms whose tokens differ; NAN: nothing is known */
  char note[200]; /* "" = none */
};
/* `missing`: why there is no list; NULL. */
void tokenparity_judge(const struct table *t, const struct value *list, const char *missing,
                       struct tokenparity_judgement *out);

/* summary.parity: {proven, missing, comparisons: the list, counts: [{arm, compared, differ,
 * largest, first: null or {session, turn, step, local, server}}]}. */
struct value tokenparity_value(const struct table *t, const struct value *list,
                               const char *missing);

#endif

/* filter.h: which requests, sessions and values are meant: an arm and tags.
 *
 * `turn step branch trial_block status error replica` are facts of a request; every other name is a
 * tag of the script (vu:tag, tags of vu:record). A range a..b includes both ends. */
#ifndef OUT_FILTER_H
#define OUT_FILTER_H

#include "base/err.h"
#include "out/table.h"

enum filter_tag {
  FILTER_TURN,
  FILTER_STEP,
  FILTER_BRANCH,
  FILTER_BLOCK,
  FILTER_STATUS,
  FILTER_ERROR,
  FILTER_REPLICA,
  FILTER_TAG,
  FILTER_CHECK /* the name that vu:check was given; only where the metric is `checks` */
};

struct filter_cond {
  enum filter_tag kind;
  char *tag, *text; /* owned; text: the value as written */
  bool is_number;   /* lo == hi for a single number */
  double lo, hi;
};

struct filter {
  char *arm; /* owned; NULL = any */
  struct filter_cond *conds;
  size_t n, cap;
};

void filter_free(struct filter *f);
/* The condition that was added last is about a check's name if it is called so. */
void filter_note_check(struct filter *f);
/* Adds `tag = text`; text may be "a..b", "a.." or "..b". ERR_INVALID: a range of something that has
 * no numbers, an empty range, an unknown error class. `tag` = "arm" sets the arm. */
NODISCARD int filter_add(struct filter *f, const char *tag, const char *text, struct err *err);

/* A filter against one table: what does not change from row to row is worked out once. */
struct filter_use {
  const struct filter *filter; /* NULL: everything */
  const struct table *table;
  bool everything;      /* nothing is asked for: no need to match */
  bool any_arm, no_arm; /* no_arm: the arm has no row at all */
  uint16_t arm;
  uint8_t *tags_ok; /* by tag set; NULL when no script tag is asked for */
};
void filter_use_init(struct filter_use *u, const struct filter *f, const struct table *t);
void filter_use_free(struct filter_use *u);
bool filter_match_row(const struct filter_use *u, const struct table_row *row);
/* A session has no turn, step, branch, status, replica and no tags: asked for one, none matches. */
bool filter_match_session(const struct filter_use *u, const struct table_session *s);
/* A value has the tags it was recorded with; `turn` and the like are looked up there. */
bool filter_match_value(const struct filter_use *u, const struct table_value *v);

/* A script tag asked for that no row and no value has; NULL when there is none. *near: a tag that
 * was perhaps meant, or NULL. Both borrowed. */
const char *filter_unknown_tag(const struct filter_use *u, const char **near);

#endif

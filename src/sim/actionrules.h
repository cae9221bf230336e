/* actionrules.h: the grammar of actions: their names, whom each is for, which fields it takes and
 * what those may be.
 *
 * What is checked here needs no fleet: a script's timeline is checked with it before anything
 * starts. Pure. */
#ifndef SIM_ACTIONRULES_H
#define SIM_ACTIONRULES_H

#include "base/err.h"
#include "sim/faults.h"
#include "text/value.h"

/* In the order of the names. */
enum actionrules_id {
  ACTION_ADD,
  ACTION_CLEAR_FAULTS,
  ACTION_DELAY_EVENTS,
  ACTION_DRAIN,
  ACTION_DROP_EVENTS,
  ACTION_FAULT,
  ACTION_KILL,
  ACTION_PRESSURE,
  ACTION_RESET_CACHE,
  ACTION_RESTART,
  ACTION_COUNT
};

enum actionrules_who {
  ACTION_FOR_NONE,  /* takes no replica */
  ACTION_FOR_NAMED, /* one must be named, or "*" */
  ACTION_FOR_ALL    /* all of them when none is */
};

struct actionrules {
  enum actionrules_id id;
  const char *name;
  enum actionrules_who who;
  const char *fields[5]; /* besides action and replica; NULL behind the last */
};

/* The rules of the action that the object `body` names. NULL with ERR_INVALID: it names none, or
 * has a field that this one does not take. */
const struct actionrules *actionrules_find(const struct value *body, struct err *err);
/* The same, and whether its fields are what they should be. ERR_INVALID names the field and what
 * would do. How many blocks and which replicas there are is not known here. */
NODISCARD int actionrules_check(const struct value *body, struct err *err);

/* The field `fault` of an action. ERR_INVALID; one that begins with a replica ("r1:429") is told
 * where that goes. */
NODISCARD int actionrules_fault(const struct value *body, struct fault *out, struct err *err);
/* How many seconds an action that was checked takes at the least: what it lasts, or until the
 * replica is up again. 0: an instant, or as long as a drain takes. */
double actionrules_takes(const struct value *body);

/* The names, NULL-terminated. */
const char *const *actionrules_names(void);

#endif

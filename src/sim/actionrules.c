/* actionrules.c: see actionrules.h. */
#include "sim/actionrules.h"

#include <string.h>

#include "sim/actionfields.h"
#include "sim/actions.h"

static const struct actionrules rules[] = {
    {ACTION_ADD, "add", ACTION_FOR_NONE, {"start"}},
    {ACTION_CLEAR_FAULTS, "clear_faults", ACTION_FOR_ALL, {NULL}},
    {ACTION_DELAY_EVENTS, "delay_events", ACTION_FOR_ALL, {"delay", "lasts"}},
    {ACTION_DRAIN, "drain", ACTION_FOR_NAMED, {"after", "timeout"}},
    {ACTION_DROP_EVENTS, "drop_events", ACTION_FOR_ALL, {"p", "count", "lasts"}},
    {ACTION_FAULT, "fault", ACTION_FOR_ALL, {"fault", "lasts"}},
    {ACTION_KILL, "kill", ACTION_FOR_NAMED, {NULL}},
    {ACTION_PRESSURE, "pressure", ACTION_FOR_ALL, {"share", "blocks", "tokens", "lasts"}},
    {ACTION_RESET_CACHE, "reset_cache", ACTION_FOR_ALL, {"reset_running"}},
    {ACTION_RESTART, "restart", ACTION_FOR_NAMED, {"down"}},
};

const char *const *actionrules_names(void) {
  static const char *const names[] = {
      "add",  "clear_faults", "delay_events", "drain",   "drop_events", "fault",
      "kill", "pressure",     "reset_cache",  "restart", NULL};
  return names;
}

static int check_known(const struct value *body, const struct actionrules *r, struct err *err) {
  const char *known[8] = {"action"};
  size_t n = 1;
  if (r->who != ACTION_FOR_NONE)
    known[n++] = "replica";
  for (size_t i = 0; i < ARRAY_LEN(r->fields) && r->fields[i]; i++)
    known[n++] = r->fields[i];
  return actionfields_known(body, r->name, known, n, err);
}

const struct actionrules *actionrules_find(const struct value *body, struct err *err) {
  const char *name = value_to_string(value_get(body, "action"));
  if (!name) {
    err_set(err, ERR_INVALID, "action: a name such as \"restart\" is required");
    return NULL;
  }
  for (size_t i = 0; i < ARRAY_LEN(rules); i++)
    if (strcmp(rules[i].name, name) == 0)
      return check_known(body, &rules[i], err) ? NULL : &rules[i];
  const char *near = err_nearest(name, actionrules_names(), ARRAY_LEN(rules));
  err_set(err, ERR_INVALID, "no action \"%.60s\"%s%s%s", name, near ? " (did you mean " : "",
          near ? near : "", near ? "?)" : "");
  return NULL;
}

/* ---- what fields may be ---- */

static int check_replica(const struct value *body, const struct actionrules *r, struct err *err) {
  const struct value *v = value_get(body, "replica");
  bool none = !v || v->kind == VALUE_NULL;
  if (none && r->who == ACTION_FOR_NAMED)
    return err_set(err, ERR_INVALID, "replica: say which, as in \"r0\", or \"*\" for all");
  if (!none && r->who != ACTION_FOR_NONE && v->kind != VALUE_STRING)
    return err_set(err, ERR_INVALID, "replica should be a string such as \"r0\", or \"*\"");
  return 0;
}

static int check_times(const struct value *body, struct err *err) {
  static const char *const names[] = {"down", "start", "timeout", "lasts", "delay"};
  double seconds;
  int rc = 0;
  for (size_t i = 0; i < ARRAY_LEN(names) && !rc; i++)
    rc = actionfields_seconds(body, names[i], &seconds, err);
  return rc;
}

int actionrules_fault(const struct value *body, struct fault *out, struct err *err) {
  const char *spec = value_to_string(value_get(body, "fault"));
  if (!spec)
    return err_set(err, ERR_INVALID, "fault: a string such as \"empty p=0.3\" is required");
  size_t len = strcspn(spec, ": ="); /* as --fault takes it */
  if (len && spec[len] == ':')
    return err_set(err, ERR_INVALID,
                   "fault: the replica is a field of its own: fault = \"%.80s\", replica = "
                   "\"%.*s\"",
                   spec + len + 1, (int)(len < 60 ? len : 60), spec);
  return faults_parse(spec, out, err);
}

static int check_own(const struct value *body, enum actionrules_id id, struct err *err) {
  static const char *const words[] = {"down", "keep", NULL};
  double x = -1;
  int64_t n;
  uint32_t blocks;
  int word, rc;
  bool yes;
  struct fault fault;
  switch (id) {
  case ACTION_DELAY_EVENTS:
    rc = actionfields_seconds(body, "delay", &x, err);
    if (!rc && x < 0)
      rc = err_set(err, ERR_INVALID, "delay: a time such as \"500ms\" is required");
    return rc;
  case ACTION_DRAIN:
    return actionfields_word(body, "after", words, &word, err);
  case ACTION_DROP_EVENTS:
    if (value_get(body, "count") && value_get(body, "p"))
      return err_set(err, ERR_INVALID, "p and count: give one of them");
    rc = actionfields_ratio(body, "p", &x, err);
    return rc ? rc : actionfields_count(body, "count", 1, &n, err);
  case ACTION_FAULT:
    return actionrules_fault(body, &fault, err);
  case ACTION_PRESSURE:
    return actionfields_blocks(body, UINT32_MAX, 1, &blocks, err);
  case ACTION_RESET_CACHE:
    return actionfields_bool(body, "reset_running", &yes, err);
  case ACTION_ADD:
  case ACTION_CLEAR_FAULTS:
  case ACTION_KILL:
  case ACTION_RESTART:
  case ACTION_COUNT:
    break;
  }
  return 0;
}

int actionrules_check(const struct value *body, struct err *err) {
  const struct actionrules *r = actionrules_find(body, err);
  if (!r)
    return ERR_INVALID;
  int rc = check_replica(body, r, err);
  if (!rc)
    rc = check_times(body, err);
  return rc ? rc : check_own(body, r->id, err);
}

double actionrules_takes(const struct value *body) {
  const struct actionrules *r = actionrules_find(body, NULL);
  double seconds = r && r->id == ACTION_RESTART ? ACTIONS_DOWN_S : 0;
  static const char *const names[] = {"down", "start", "lasts"};
  for (size_t i = 0; r && i < ARRAY_LEN(names); i++)
    if (actionfields_seconds(body, names[i], &seconds, NULL))
      return 0;
  return seconds;
}

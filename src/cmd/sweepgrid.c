/* sweepgrid.c: reading, checking and applying the axes of a sweep; see sweepgrid.h. */
#include "cmd/sweepgrid.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/units.h"
#include "sim/simconfig.h"
#include "sim/simfleet.h"
#include "text/json.h"

#define MOST_REPLICAS 4096 /* as --sim */

static const char *const kind_names[] = {"param", "load", "route", "replicas", "profile", "fleet"};
static const char *const load_words[] = {"users", "rate", "duration", "sessions", "warmup"};

void sweepgrid_free(struct sweepgrid *g) {
  for (size_t i = 0; i < g->n_axes; i++) {
    struct sweepgrid_axis *a = &g->axes[i];
    for (size_t k = 0; k < a->n_values; k++)
      mem_free(a->values[k]);
    mem_free(a->values);
    mem_free(a->name);
  }
  mem_free(g->axes);
  for (size_t i = 0; i < g->n_made; i++)
    mem_free(g->made[i]);
  mem_free(g->made);
  *g = (struct sweepgrid){0};
}

/* ---- building ---- */

static bool is_fleet_field(const char *name) {
  const char *field;
  for (size_t i = 0; (field = simconfig_field(i)) != NULL; i++)
    if (strcmp(field, name) == 0)
      return true;
  return false;
}

/* Neither parameter nor figure nor setting: what was meant? */
static int unknown_axis(const struct plan_info *plan, const char *name, struct err *err) {
  static const char *const own[] = {"replicas", "profile", "route"};
  size_t n = 0, n_fields = 0;
  while (simconfig_field(n_fields))
    n_fields++;
  const char **known =
      mem_calloc(n_fields + plan->n_params + ARRAY_LEN(own) + ARRAY_LEN(load_words), sizeof *known);
  struct buf params;
  buf_init(&params, BUF_MAX_OWN);
  for (size_t i = 0; i < plan->n_params; i++) {
    known[n++] = plan->params[i].name;
    buf_printf(&params, ", %s", plan->params[i].name);
  }
  for (size_t i = 0; i < ARRAY_LEN(own); i++)
    known[n++] = own[i];
  for (size_t i = 0; i < ARRAY_LEN(load_words); i++)
    known[n++] = load_words[i];
  for (size_t i = 0; i < n_fields; i++)
    known[n++] = simconfig_field(i);
  const char *near = err_nearest(name, known, n);
  if (near)
    err_set(err, ERR_INVALID, "%s: sweep: there is no axis '%s' (did you mean '%s'?)", plan->where,
            name, near);
  else
    err_set(err, ERR_INVALID,
            "%s: sweep: there is no axis '%s': the script declares no such parameter; axes are "
            "replicas, profile, route, the load's users, rate, duration, sessions, warmup, what "
            "`perigee sim --set` takes (kv_blocks, …), and the script's parameters (%s)",
            plan->where, name, params.len ? params.data + 2 : "it has none");
  buf_free(&params);
  mem_free(known);
  return ERR_INVALID;
}

static int add_axis(const struct plan_info *plan, const struct plan_axis *from, struct sweepgrid *g,
                    struct err *err) {
  size_t kind = 0;
  while (strcmp(kind_names[kind], from->kind) != 0)
    kind++;
  if (kind == SWEEPGRID_FLEET && !is_fleet_field(from->name))
    return unknown_axis(plan, from->name, err);
  struct sweepgrid_axis *a = &g->axes[g->n_axes++];
  a->name = mem_strdup(from->name);
  a->kind = (enum sweepgrid_kind)kind;
  a->n_values = from->n_values;
  a->values = mem_calloc(from->n_values, sizeof *a->values);
  for (size_t i = 0; i < from->n_values; i++)
    a->values[i] = mem_strdup(from->values[i]);
  return 0;
}

static bool has_value(const struct sweepgrid_axis *a, const char *value, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(a->values[i], value) == 0)
      return true;
  return false;
}

static int no_such_axis(const struct sweepgrid *g, const char *name, struct err *err) {
  const char **known = mem_calloc(g->n_axes, sizeof *known);
  struct buf list;
  buf_init(&list, BUF_MAX_OWN);
  for (size_t i = 0; i < g->n_axes; i++) {
    known[i] = g->axes[i].name;
    buf_printf(&list, "%s%s", i ? ", " : "", known[i]);
  }
  const char *near = err_nearest(name, known, g->n_axes);
  err_set(err, ERR_INVALID, "--over: the sweep has no axis '%s'%s%s%s; it has %s", name,
          near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "", list.data);
  buf_free(&list);
  mem_free(known);
  return ERR_INVALID;
}

static int no_such_policy(const struct sweepgrid_axis *a, const char *name, struct err *err) {
  struct buf list;
  buf_init(&list, BUF_MAX_OWN);
  for (size_t i = 0; i < a->n_values; i++)
    buf_printf(&list, "%s%s", i ? ", " : "", a->values[i]);
  int rc = err_set(err, ERR_INVALID,
                   "--over: the sweep has no policy '%s'; it has %s (policies are functions: only "
                   "the script can name more)",
                   name, list.data);
  buf_free(&list);
  return rc;
}

/* "NAME=V1,V2": other values for an axis. */
static int replace_values(struct sweepgrid *g, const char *text, struct err *err) {
  size_t len = strcspn(text, "=");
  if (!text[len] || !len || !text[len + 1])
    return err_set(err, ERR_INVALID, "--over: \"%s\" is not AXIS=VALUE,VALUE…", text);
  char *name = mem_strndup(text, len);
  struct sweepgrid_axis *a = NULL;
  for (size_t i = 0; i < g->n_axes; i++)
    if (strcmp(g->axes[i].name, name) == 0)
      a = &g->axes[i];
  int rc = a ? 0 : no_such_axis(g, name, err);
  mem_free(name);
  if (rc)
    return rc;
  char **values = NULL;
  size_t n = 0, cap = 0;
  for (const char *p = text + len + 1; !rc; p++) {
    size_t part = strcspn(p, ",");
    char *value = mem_strndup(p, part);
    struct sweepgrid_axis so_far = {.values = values};
    if (!part)
      rc = err_set(err, ERR_INVALID, "--over: \"%s\" has an empty value", text);
    else if (has_value(&so_far, value, n))
      rc = err_set(err, ERR_INVALID, "--over: \"%s\" has the value %s twice", text, value);
    else if (a->kind == SWEEPGRID_ROUTE && !has_value(a, value, a->n_values))
      rc = no_such_policy(a, value, err);
    MEM_GROW(values, n, cap);
    values[n++] = value;
    p += part;
    if (!*p)
      break;
  }
  char **other = rc ? values : a->values;
  size_t n_other = rc ? n : a->n_values;
  for (size_t i = 0; i < n_other; i++)
    mem_free(other[i]);
  mem_free(other);
  if (!rc) {
    a->values = values;
    a->n_values = n;
  }
  return rc;
}

static int count_points(const struct plan_info *plan, struct sweepgrid *g, struct err *err) {
  uint64_t limit = plan->point_limit ? plan->point_limit : SWEEPGRID_MOST_POINTS;
  double n = 1;
  for (size_t i = 0; i < g->n_axes; i++)
    n *= (double)g->axes[i].n_values;
  if (n > (double)limit)
    return err_set(err, ERR_LIMIT,
                   "%s: sweep: %.0f points are more than %s %llu; fewer values (--over takes some "
                   "of an axis), or limit = %.0f in perigee.sweep allows so many",
                   plan->where, n, plan->point_limit ? "its limit," : "the usual limit,",
                   (unsigned long long)limit, n);
  g->n_points = (uint64_t)n;
  return 0;
}

int sweepgrid_build(const struct plan_info *plan, const struct options_list *over,
                    struct sweepgrid *out, struct err *err) {
  *out = (struct sweepgrid){0};
  out->axes = mem_calloc(plan->n_axes, sizeof *out->axes);
  int rc = 0;
  for (size_t i = 0; i < plan->n_axes && !rc; i++)
    rc = add_axis(plan, &plan->axes[i], out, err);
  for (size_t i = 0; i < over->n && !rc; i++)
    rc = replace_values(out, over->items[i], err);
  if (!rc)
    rc = count_points(plan, out, err);
  if (rc)
    sweepgrid_free(out);
  return rc;
}

/* ---- points ---- */

static size_t value_index(const struct sweepgrid *g, uint64_t point, size_t axis) {
  uint64_t rest = point - 1;
  for (size_t i = g->n_axes - 1; i > axis; i--)
    rest /= g->axes[i].n_values;
  return (size_t)(rest % g->axes[axis].n_values);
}

const char *sweepgrid_value(const struct sweepgrid *g, uint64_t point, size_t axis) {
  return g->axes[axis].values[value_index(g, point, axis)];
}

const char *sweepgrid_fleet_axis(const struct sweepgrid *g) {
  for (size_t i = 0; i < g->n_axes; i++)
    if (g->axes[i].kind >= SWEEPGRID_REPLICAS)
      return g->axes[i].name;
  return NULL;
}

bool sweepgrid_rereads(const struct sweepgrid *g) {
  for (size_t i = 0; i < g->n_axes; i++)
    if (g->axes[i].kind == SWEEPGRID_PARAM || g->axes[i].kind == SWEEPGRID_ROUTE)
      return true;
  return false;
}

static const char *keep(struct sweepgrid *g, const char *name, const char *value) {
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  buf_printf(&b, "%s=%s", name, value);
  MEM_GROW(g->made, g->n_made, g->cap_made);
  return g->made[g->n_made++] = buf_take(&b, NULL);
}

void sweepgrid_apply(struct sweepgrid *g, uint64_t point, struct simopts *sim,
                     struct state_set *sets, size_t *n_sets, const char **route) {
  for (size_t i = 0; i < g->n_axes; i++) {
    const struct sweepgrid_axis *a = &g->axes[i];
    const char *value = sweepgrid_value(g, point, i);
    double number = 0;
    switch (a->kind) {
    case SWEEPGRID_PARAM:
    case SWEEPGRID_LOAD:
      sets[(*n_sets)++] = (struct state_set){.name = mem_strdup(a->name), .value = value};
      break;
    case SWEEPGRID_ROUTE:
      *route = value;
      break;
    case SWEEPGRID_REPLICAS: /* checked */
      if (units_parse(value, strlen(value), UNITS_NONE, &number, NULL, NULL) == 0)
        sim->replicas = (int64_t)number;
      break;
    case SWEEPGRID_PROFILE:
      sim->profile = value;
      break;
    case SWEEPGRID_FLEET:
      MEM_GROW(sim->sets.items, sim->sets.n, sim->sets.cap);
      sim->sets.items[sim->sets.n++] = keep(g, a->name, value);
      break;
    }
  }
}

void sweepgrid_describe(const struct sweepgrid *g, uint64_t point, struct buf *out) {
  for (size_t i = 0; i < g->n_axes; i++)
    buf_printf(out, "%s%s=%s", i ? " " : "", g->axes[i].name, sweepgrid_value(g, point, i));
}

static struct value typed(const char *text) {
  struct value v;
  if (json_parse(text, strlen(text), &v, NULL))
    return value_cstring(text);
  if (v.kind == VALUE_INT || v.kind == VALUE_DOUBLE || v.kind == VALUE_BOOL)
    return v;
  value_free(&v);
  return value_cstring(text);
}

struct value sweepgrid_point_value(const struct sweepgrid *g, uint64_t point) {
  struct value v = value_object();
  for (size_t i = 0; i < g->n_axes; i++)
    value_set(&v, g->axes[i].name, typed(sweepgrid_value(g, point, i)));
  return v;
}

struct value sweepgrid_axes_value(const struct sweepgrid *g) {
  struct value list = value_array();
  for (size_t i = 0; i < g->n_axes; i++) {
    struct value axis = value_object(), values = value_array();
    value_set(&axis, "name", value_cstring(g->axes[i].name));
    value_set(&axis, "kind", value_cstring(kind_names[g->axes[i].kind]));
    for (size_t k = 0; k < g->axes[i].n_values; k++)
      value_push(&values, typed(g->axes[i].values[k]));
    value_set(&axis, "values", values);
    value_push(&list, axis);
  }
  return list;
}

/* ---- checking ---- */

static const struct sweepgrid_axis *axis_of(const struct sweepgrid *g, const char *name) {
  for (size_t i = 0; i < g->n_axes; i++)
    if (strcmp(g->axes[i].name, name) == 0)
      return &g->axes[i];
  return NULL;
}

/* What the command line sets once would not hold where an axis sets it at each point. */
static int check_twice(const struct sweepgrid *g, const struct sweepgrid_given *given,
                       struct err *err) {
  const struct sweepgrid_axis *a;
  static const char form[] = "%s says what the sweep's axis %s varies; --over %s=VALUE narrows the "
                             "axis instead";
  for (size_t i = 0; i < given->n_sets; i++)
    if ((a = axis_of(g, given->sets[i].name)) != NULL &&
        (a->kind == SWEEPGRID_PARAM || a->kind == SWEEPGRID_LOAD))
      return err_set(err, ERR_INVALID, form, "--set", a->name, a->name);
  for (size_t i = 0; i < given->sim->sets.n; i++) {
    char *name = mem_strndup(given->sim->sets.items[i], strcspn(given->sim->sets.items[i], "="));
    a = axis_of(g, name);
    mem_free(name);
    if (a && a->kind == SWEEPGRID_FLEET)
      return err_set(err, ERR_INVALID, form, "--sim-set", a->name, a->name);
  }
  if (given->sim->replicas && axis_of(g, "replicas"))
    return err_set(err, ERR_INVALID, form, "--sim", "replicas", "replicas");
  if (given->sim->profile && axis_of(g, "profile"))
    return err_set(err, ERR_INVALID, form, "--profile", "profile", "profile");
  const struct sweepgrid_axis *b = axis_of(g, "kv_tokens");
  a = axis_of(g, "kv_blocks");
  if (a && b && a->kind == SWEEPGRID_FLEET && b->kind == SWEEPGRID_FLEET)
    return err_set(err, ERR_INVALID,
                   "sweep: kv_blocks and kv_tokens say the same of a replica; leave one axis out");
  return 0;
}

/* A parameter's value from --over, by the type of its default. */
static int check_param(const struct plan_info *plan, const char *name, const char *value,
                       struct err *err) {
  static const char *const words[] = {"true", "false", "yes", "no", "on", "off", "1", "0"};
  const char *type = "nil";
  for (size_t i = 0; i < plan->n_params; i++)
    if (strcmp(plan->params[i].name, name) == 0)
      type = plan->params[i].type;
  double x;
  if (strcmp(type, "number") == 0)
    return units_parse(value, strlen(value), UNITS_ANY, &x, NULL, err);
  for (size_t i = 0; i < ARRAY_LEN(words); i++)
    if (strcmp(type, "boolean") != 0 || strcmp(words[i], value) == 0)
      return 0;
  return err_set(err, ERR_INVALID, "true or false is expected");
}

static int check_value(const struct plan_info *plan, const struct sweepgrid_axis *a,
                       const char *value, struct err *err) {
  double n;
  if (a->kind == SWEEPGRID_PARAM)
    return check_param(plan, a->name, value, err);
  if (a->kind == SWEEPGRID_REPLICAS &&
      (units_parse(value, strlen(value), UNITS_NONE, &n, NULL, NULL) || n < 1 ||
       n > MOST_REPLICAS || n != (double)(int64_t)n))
    return err_set(err, ERR_INVALID, "a whole number of replicas from 1 to %d is expected",
                   MOST_REPLICAS);
  return 0;
}

/* Points that differ in axes of these kinds: all others have their first value. */
static bool is_first_of(const struct sweepgrid *g, uint64_t point, bool (*varies)(int kind)) {
  for (size_t i = 0; i < g->n_axes; i++)
    if (!varies((int)g->axes[i].kind) && value_index(g, point, i) != 0)
      return false;
  return true;
}

static bool of_fleet(int kind) {
  return kind >= SWEEPGRID_REPLICAS;
}

static bool of_load(int kind) {
  return kind == SWEEPGRID_LOAD;
}

/* The settings of a replica hold together or they do not, so that each combination is tried. */
static int check_fleet(struct sweepgrid *scratch, uint64_t point,
                       const struct sweepgrid_given *given, struct err *err) {
  struct simopts sim = *given->sim;
  sim.sets = (struct options_list){0};
  for (size_t i = 0; i < given->sim->sets.n; i++) {
    MEM_GROW(sim.sets.items, sim.sets.n, sim.sets.cap);
    sim.sets.items[sim.sets.n++] = given->sim->sets.items[i];
  }
  struct state_set *sets = mem_calloc(scratch->n_axes, sizeof *sets);
  size_t n = 0;
  const char *route;
  sweepgrid_apply(scratch, point, &sim, sets, &n, &route);
  int rc = simopts_check(&sim, given->default_replicas, err);
  for (size_t i = 0; i < n; i++)
    mem_free((char *)(uintptr_t)sets[i].name);
  mem_free(sets);
  mem_free(sim.sets.items);
  return rc;
}

static int check_load(const struct sweepgrid *g, uint64_t point, const struct plan_info *plan,
                      struct err *err) {
  struct schedule load = schedule_copy(&plan->load);
  int rc = 0;
  for (size_t i = 0; i < g->n_axes && !rc; i++) {
    struct state_set set = {.name = g->axes[i].name, .value = sweepgrid_value(g, point, i)};
    if (g->axes[i].kind == SWEEPGRID_LOAD)
      rc = bind_plan_set_load(&load, &set, err);
  }
  if (!rc)
    rc = schedule_check(&load, err);
  schedule_free(&load);
  return rc;
}

int sweepgrid_check(const struct sweepgrid *g, const struct plan_info *plan,
                    const struct sweepgrid_given *given, struct err *err) {
  int rc = check_twice(g, given, err);
  for (size_t i = 0; i < g->n_axes && !rc; i++)
    for (size_t k = 0; k < g->axes[i].n_values && !rc; k++) {
      rc = check_value(plan, &g->axes[i], g->axes[i].values[k], err);
      if (rc)
        err_prefix(err, "%s: sweep: %s=%s", plan->where, g->axes[i].name, g->axes[i].values[k]);
    }
  struct sweepgrid scratch = *g;
  scratch.made = NULL;
  scratch.n_made = scratch.cap_made = 0;
  for (uint64_t p = 1; p <= g->n_points && !rc; p++) {
    if (sweepgrid_fleet_axis(g) && is_first_of(g, p, of_fleet))
      rc = check_fleet(&scratch, p, given, err);
    if (!rc && is_first_of(g, p, of_load))
      rc = check_load(g, p, plan, err);
    if (rc) {
      struct buf at;
      buf_init(&at, BUF_MAX_OWN);
      sweepgrid_describe(g, p, &at);
      err_prefix(err, "%s: sweep: point %llu (%s)", plan->where, (unsigned long long)p, at.data);
      buf_free(&at);
    }
  }
  for (size_t i = 0; i < scratch.n_made; i++)
    mem_free(scratch.made[i]);
  mem_free(scratch.made);
  return rc;
}

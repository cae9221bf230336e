/* plan.c: reads a script's plan into C, applies --set, and calls expectations that are functions.
 */
#include "bind/plan.h"

#include <lauxlib.h>
#include <lua.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/units.h"
#include "bind/bind.h"
#include "bind/chunk.h"
#include "bind/gen.h"
#include "bind/guard.h"
#include "bind/hold.h"
#include "bind/planfiles.h"
#include "bind/plantimeline.h"
#include "bind/rng.h"
#include "bind/runtime.h"
#include "bind/shared.h"
#include "io/loop.h"
#include "run/fleet.h"
#include "run/worker.h"

/* Texts are made for the run's tokenizer: exact where it is known, else four bytes a token. */
static int open_state(lua_State *L, const char *script_dir) {
  bind_open(L, script_dir);
  bind_keep_stdout(L);
  const struct state *s = state_of(L);
  const struct fleet *f = s ? s->options.fleet : NULL;
  const struct worker *w = s ? s->options.worker : NULL;
  if (w && w->encoder && w->tokens->kind != TOKENS_BYTES)
    bind_gen_set_encoder(L, w->encoder);
  else if (f && f->tokenizer && strcmp(f->tokenizer, "bytes") == 0)
    bind_gen_set_tokens(L, 1, true);
  else if (f)
    bind_gen_set_tokens(L, 4, false);
  return 0;
}

const struct state_binding *bind_state_binding(void) {
  static const struct state_binding binding = {.open = open_state,
                                               .to_shared = bind_to_shared,
                                               .push_error = bind_push_error_text,
                                               .load_file = bind_load_file};
  return &binding;
}

static void free_words(struct plan_word *words, size_t n) {
  for (size_t i = 0; i < n; i++) {
    mem_free(words[i].name);
    mem_free(words[i].text);
    mem_free(words[i].doc);
    mem_free(words[i].value);
  }
  mem_free(words);
}

void plan_info_free(struct plan_info *p) {
  mem_free(p->name);
  mem_free(p->description);
  mem_free(p->where);
  schedule_free(&p->load);
  for (size_t i = 0; i < p->n_expect; i++) {
    mem_free(p->expect[i].text);
    mem_free(p->expect[i].name);
  }
  mem_free(p->expect);
  free_words(p->metrics, p->n_metrics);
  free_words(p->params, p->n_params);
  free_words(p->slo, p->n_slo);
  for (size_t i = 0; i < p->n_files; i++)
    mem_free(p->files[i]);
  mem_free(p->files);
  for (size_t i = 0; i < p->n_targets; i++)
    mem_free(p->targets[i]);
  mem_free(p->targets);
  for (size_t i = 0; i < p->n_axes; i++) {
    for (size_t k = 0; k < p->axes[i].n_values; k++)
      mem_free(p->axes[i].values[k]);
    mem_free(p->axes[i].values);
    mem_free(p->axes[i].name);
    mem_free(p->axes[i].kind);
  }
  mem_free(p->axes);
  bind_plan_timeline_free(p);
  *p = (struct plan_info){.drain_s = -1};
}

/* ---- reading ---- */

struct reading {
  const struct plan_source *source;
  struct plan_info *info;
};

static MAY_RAISE char *copy_field(lua_State *L, int index, const char *field) {
  char *copy = NULL;
  if (lua_getfield(L, index, field) != LUA_TNIL)
    copy = mem_strdup(luaL_tolstring(L, -1, NULL));
  lua_settop(L, index);
  return copy;
}

static MAY_RAISE double number_field(lua_State *L, int index, const char *field, double absent) {
  if (lua_getfield(L, index, field) != LUA_TNIL)
    absent = bind_check_quantity(L, -1);
  lua_settop(L, index);
  return absent;
}

/* A figure of the load: one number, or a list of points {time, value}; the field is on top. */
static MAY_RAISE void read_curve(lua_State *L, struct schedule *load) {
  int at = lua_gettop(L);
  if (!lua_istable(L, at)) {
    schedule_set_value(load, bind_check_quantity(L, at));
    return;
  }
  size_t n = (size_t)lua_rawlen(L, at);
  mem_free(load->points);
  load->points = mem_calloc(n ? n : 1, sizeof *load->points);
  load->n_points = n;
  for (size_t i = 0; i < n; i++) {
    lua_rawgeti(L, at, (lua_Integer)i + 1);
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    load->points[i].at_s = bind_check_quantity(L, -2);
    load->points[i].value = bind_check_quantity(L, -1);
    lua_settop(L, at);
  }
}

static MAY_RAISE void read_load(lua_State *L, int plan, struct schedule *load) {
  lua_getfield(L, plan, "load");
  int at = lua_gettop(L);
  load->open = lua_getfield(L, at, "rate") != LUA_TNIL;
  if (!load->open) {
    lua_pop(L, 1);
    lua_getfield(L, at, "users");
  }
  read_curve(L, load);
  lua_settop(L, at);
  lua_getfield(L, at, "arrival");
  load->constant = lua_isstring(L, -1) && strcmp(lua_tostring(L, -1), "constant") == 0;
  lua_settop(L, at);
  load->warmup_s = number_field(L, at, "warmup", 0);
  load->duration_s = number_field(L, at, "duration", 0);
  double sessions = number_field(L, at, "sessions", 0);
  if (sessions < 0 || sessions >= (double)SCHEDULE_WARMUP_BASE || sessions != floor(sessions))
    luaL_error(L, "load: sessions must be a whole number from 1 on, got %f", sessions);
  load->sessions = (uint64_t)sessions;
  lua_settop(L, plan);
}

static MAY_RAISE void read_expect(lua_State *L, int plan, struct plan_info *p) {
  if (lua_getfield(L, plan, "expect") == LUA_TTABLE) {
    size_t n = (size_t)lua_rawlen(L, -1);
    p->expect = mem_calloc(n ? n : 1, sizeof *p->expect);
    p->n_expect = n;
    for (size_t i = 0; i < n; i++) {
      int type = lua_rawgeti(L, plan + 1, (lua_Integer)i + 1);
      if (type == LUA_TSTRING)
        p->expect[i].text = mem_strdup(lua_tostring(L, -1));
      else if (type == LUA_TTABLE && lua_rawgeti(L, -1, 1) == LUA_TSTRING)
        p->expect[i].name = mem_strdup(lua_tostring(L, -1));
      lua_settop(L, plan + 1);
    }
  }
  lua_settop(L, plan);
}

/* A table of name = text of the plan, by name. */
static MAY_RAISE void read_words(lua_State *L, int plan, const char *field,
                                 struct plan_word **words, size_t *n) {
  if (lua_getfield(L, plan, field) == LUA_TTABLE) {
    bind_push_sorted_keys(L, plan + 1);
    *n = (size_t)lua_rawlen(L, -1);
    *words = mem_calloc(*n ? *n : 1, sizeof **words);
    for (size_t i = 0; i < *n; i++) {
      lua_rawgeti(L, plan + 2, (lua_Integer)i + 1);
      (*words)[i].name = mem_strdup(lua_tostring(L, -1));
      lua_rawget(L, plan + 1);
      (*words)[i].text = mem_strdup(lua_tostring(L, -1));
      lua_pop(L, 1);
    }
  }
  lua_settop(L, plan);
}

static MAY_RAISE void read_targets(lua_State *L, int plan, struct plan_info *p) {
  int type = lua_getfield(L, plan, "target");
  size_t n = type == LUA_TTABLE ? (size_t)lua_rawlen(L, -1) : type == LUA_TSTRING ? 1 : 0;
  p->targets = mem_calloc(n ? n : 1, sizeof *p->targets);
  p->n_targets = n;
  for (size_t i = 0; i < n; i++) {
    if (type == LUA_TTABLE)
      lua_rawgeti(L, plan + 1, (lua_Integer)i + 1);
    else
      lua_pushvalue(L, plan + 1);
    p->targets[i] = mem_strdup(lua_tostring(L, -1));
    lua_pop(L, 1);
  }
  lua_settop(L, plan);
}

static MAY_RAISE void read_params(lua_State *L, int plan, struct plan_info *p) {
  bind_push_declared(L);
  size_t n = (size_t)lua_rawlen(L, -1);
  p->params = mem_calloc(n ? n : 1, sizeof *p->params);
  p->n_params = n;
  for (size_t i = 0; i < n; i++) {
    struct plan_word *w = &p->params[i];
    lua_rawgeti(L, plan + 1, (lua_Integer)i + 1);
    w->name = copy_field(L, plan + 2, "name");
    w->text = copy_field(L, plan + 2, "default");
    w->doc = copy_field(L, plan + 2, "doc");
    w->value = copy_field(L, plan + 2, "value");
    w->type = lua_typename(L, lua_getfield(L, plan + 2, "default"));
    lua_settop(L, plan + 1);
  }
  lua_settop(L, plan);
}

/* Checked by perigee.sweep, which made them. */
static MAY_RAISE void read_axes(lua_State *L, struct plan_info *p) {
  int top = lua_gettop(L);
  state_push_sweep(L);
  if (lua_isnil(L, -1)) {
    lua_settop(L, top);
    return;
  }
  lua_getfield(L, top + 1, "axes");
  size_t n = (size_t)lua_rawlen(L, top + 2);
  p->axes = mem_calloc(n, sizeof *p->axes);
  p->n_axes = n;
  p->point_limit = (uint64_t)number_field(L, top + 1, "limit", 0);
  lua_getfield(L, top + 1, "axes");
  for (size_t i = 0; i < n; i++) {
    struct plan_axis *a = &p->axes[i];
    lua_rawgeti(L, top + 2, (lua_Integer)i + 1);
    a->name = copy_field(L, top + 3, "name");
    a->kind = copy_field(L, top + 3, "kind");
    lua_getfield(L, top + 3, "values");
    a->n_values = (size_t)lua_rawlen(L, top + 4);
    a->values = mem_calloc(a->n_values, sizeof *a->values);
    for (size_t k = 0; k < a->n_values; k++) {
      lua_rawgeti(L, top + 4, (lua_Integer)k + 1);
      a->values[k] = mem_strdup(lua_tostring(L, -1));
      lua_pop(L, 1);
    }
    lua_settop(L, top + 2);
  }
  lua_settop(L, top);
}

/* "scenarios/chat.lua" -> "chat" */
static char *name_of(const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  size_t len = strlen(name);
  if (len > 4 && strcmp(name + len - 4, ".lua") == 0)
    len -= 4;
  return mem_strndup(name, len);
}

/* A script may alter what perigee.plan returned, so what is run is checked again. */
static MAY_RAISE void check_again(lua_State *L) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "perigee");
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "plan");
  state_push_plan(L);
  lua_call(L, 1, 0);
  lua_pop(L, 1);
}

static MAY_RAISE int read_plan(lua_State *L) {
  struct reading *r = lua_touserdata(L, 1);
  struct plan_info *p = r->info;
  check_again(L);
  state_push_plan(L);
  int plan = lua_gettop(L);
  luaL_checkstack(L, 20, "plan");
  read_load(L, plan, &p->load);
  p->name = copy_field(L, plan, "name");
  if (!p->name)
    p->name = name_of(r->source->script);
  p->description = copy_field(L, plan, "description");
  if (lua_getfield(L, plan, "drain") != LUA_TNIL)
    p->drain_s = bind_check_seconds(L, -1, "plan: drain");
  lua_settop(L, plan);
  p->has_route = lua_getfield(L, plan, "route") != LUA_TNIL;
  lua_settop(L, plan);
  read_expect(L, plan, p);
  read_words(L, plan, "metrics", &p->metrics, &p->n_metrics);
  read_words(L, plan, "slo", &p->slo, &p->n_slo);
  read_targets(L, plan, p);
  read_params(L, plan, p);
  read_axes(L, p);
  bind_plan_files(r->source, p);
  bind_push_place(L);
  p->where = mem_strdup(lua_isstring(L, -1) ? lua_tostring(L, -1) : r->source->script);
  return 0;
}

/* ---- --set ---- */

static bool is_param(const struct plan_info *p, const char *name) {
  for (size_t i = 0; i < p->n_params; i++)
    if (strcmp(p->params[i].name, name) == 0)
      return true;
  return false;
}

static int unknown_set(const struct plan_info *p, const struct state_set *set, struct err *err) {
  static const char *const load_words[] = {"users", "rate", "duration", "sessions", "warmup"};
  size_t n = 0;
  const char **known = mem_calloc(p->n_params + ARRAY_LEN(load_words), sizeof *known);
  struct buf list;
  buf_init(&list, BUF_MAX_OWN);
  for (size_t i = 0; i < p->n_params; i++) {
    known[n++] = p->params[i].name;
    buf_printf(&list, "%s%s", i ? ", " : "", p->params[i].name);
  }
  for (size_t i = 0; i < ARRAY_LEN(load_words); i++)
    known[n++] = load_words[i];
  const char *near = err_nearest(set->name, known, n);
  if (near)
    err_set(err, ERR_INVALID, "--set %s=%s: the script has no parameter '%s' (did you mean '%s'?)",
            set->name, set->value, set->name, near);
  else
    err_set(err, ERR_INVALID,
            "--set %s=%s: the script has no parameter '%s'; it has %s, and the load's users, rate, "
            "duration, sessions, warmup",
            set->name, set->value, set->name, list.len ? list.data : "none");
  mem_free(known);
  buf_free(&list);
  return ERR_INVALID;
}

/* users or rate: the one figure of a steady load. */
static int set_figure(struct schedule *load, bool open, double value, struct err *err) {
  if (load->open != open)
    return err_set(err, ERR_INVALID, "the load is %s; it has %s instead",
                   load->open ? "open (sessions arrive at a rate)" : "closed (a number of users)",
                   load->open ? "rate" : "users");
  if (load->n_points > 1)
    return err_set(err, ERR_INVALID,
                   "the load is a ramp, which has many values; make it a "
                   "parameter of the script (perigee.param)");
  if (!open && value != floor(value))
    return err_set(err, ERR_INVALID, "a whole number is expected");
  load->points[0].value = value;
  return 0;
}

int bind_plan_set_load(struct schedule *load, const struct state_set *set, struct err *err) {
  static const struct {
    const char *name;
    enum units_kind kind;
  } words[] = {{"users", UNITS_NONE},
               {"rate", UNITS_RATE},
               {"duration", UNITS_TIME},
               {"sessions", UNITS_NONE},
               {"warmup", UNITS_TIME}};
  size_t w = 0;
  while (w < ARRAY_LEN(words) && strcmp(words[w].name, set->name) != 0)
    w++;
  if (w == ARRAY_LEN(words))
    return err_set(err, ERR_NOT_FOUND, "a load has no %s", set->name);
  double value;
  int rc = units_parse(set->value, strlen(set->value), words[w].kind, &value, NULL, err);
  if (!rc && w <= 1)
    rc = set_figure(load, w == 1, value, err);
  else if (!rc && w == 3 &&
           (value < 1 || value != floor(value) || value >= (double)SCHEDULE_WARMUP_BASE))
    rc = err_set(err, ERR_INVALID, "a whole number from 1 to 4294967295 is expected");
  else if (!rc && w == 2 && value <= 0)
    rc = err_set(err, ERR_INVALID, "a time above 0 s is expected");
  else if (!rc && w == 2)
    load->duration_s = value;
  else if (!rc && w == 3)
    load->sessions = (uint64_t)value;
  else if (!rc)
    load->warmup_s = value;
  return rc;
}

static int apply_set(struct plan_info *p, const struct state_set *set, struct err *err) {
  int rc = bind_plan_set_load(&p->load, set, err);
  if (rc == ERR_NOT_FOUND)
    return unknown_set(p, set, err);
  return rc ? err_prefix(err, "--set %s=%s", set->name, set->value) : 0;
}

/* ---- the whole ---- */

static int open_plan(const struct plan_source *source, struct loop *loop, struct state **out,
                     struct err *err) {
  const struct state_options options = {
      .script = source->script,
      .binding = bind_state_binding(),
      .loop = loop,
      .store = source->store,
      .sets = source->sets,
      .n_sets = source->n_sets,
      .route = source->route,
      .runaway_ns = source->runaway_ns,
      .print = source->print,
      .print_user = source->print_user,
  };
  return state_new(&options, out, err);
}

int bind_plan_load(const struct plan_source *source, struct plan_info *out, struct err *err) {
  *out = (struct plan_info){.drain_s = -1};
  struct state *s = NULL;
  struct reading reading = {.source = source, .info = out};
  struct loop *loop = loop_new(err);
  if (!loop)
    return err->code;
  int rc = open_plan(source, loop, &s, err);
  if (!rc) {
    out->has_setup = s->has_setup;
    out->has_teardown = s->has_teardown;
    rc = state_call(s, read_plan, &reading, err);
    if (rc && strncmp(err->text, source->script, strlen(source->script)) != 0)
      err_prefix(err, "%s", source->script);
  }
  for (size_t i = 0; i < source->n_sets && !rc; i++)
    if (!is_param(out, source->sets[i].name))
      rc = apply_set(out, &source->sets[i], err);
  if (!rc) {
    rc = schedule_check(&out->load, err);
    if (!rc)
      rc = bind_plan_timeline(s, out, err);
    if (rc)
      err_prefix(err, "%s", out->where);
  }
  state_delete(s);
  loop_delete(loop);
  if (rc)
    plan_info_free(out);
  return rc;
}

struct judging {
  size_t index;
  const struct value *results;
  bool met;
  struct buf *text;
};

#define JUDGE_TEXT_MAX 4000 /* bytes of what an expectation says about itself */

static MAY_RAISE int judge(lua_State *L) {
  struct judging *j = lua_touserdata(L, 1);
  state_push_plan(L);
  lua_getfield(L, -1, "expect");
  if (lua_rawgeti(L, -1, (lua_Integer)j->index + 1) == LUA_TTABLE)
    lua_rawgeti(L, -1, 2); /* { name, function } */
  if (!lua_isfunction(L, -1))
    return luaL_error(L, "expectation %d is no function", (int)j->index + 1);
  bind_push_value(L, j->results, false);
  lua_call(L, 1, 2);
  j->met = lua_toboolean(L, -2);
  if (lua_type(L, -1) == LUA_TSTRING) {
    size_t len;
    const char *text = lua_tolstring(L, -1, &len);
    bool cut = len > JUDGE_TEXT_MAX;
    if (cut)
      for (len = JUDGE_TEXT_MAX; len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80;)
        len--; /* not within a character */
    buf_put(j->text, text, len);
    if (cut)
      buf_puts(j->text, "…");
  }
  return 0;
}

int bind_plan_judge(const struct plan_source *source, size_t index, const struct value *results,
                    bool *met, struct buf *text, struct err *err) {
  struct judging j = {.index = index, .results = results, .text = text};
  struct state *s = NULL;
  *met = false;
  struct loop *loop = loop_new(err);
  if (!loop)
    return err->code;
  int rc = open_plan(source, loop, &s, err);
  if (!rc)
    rc = state_call(s, judge, &j, err);
  *met = rc == 0 && j.met;
  state_delete(s);
  loop_delete(loop);
  return rc;
}

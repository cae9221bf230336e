/* vu_methods.c: the virtual user's methods that need no file of their own. */
#include <lauxlib.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "bind/bind.h"
#include "bind/hold.h"
#include "bind/vu_bind.h"
#include "out/metrics.h"
#include "run/worker.h"
#include "text/json.h"

#define MAX_WORDS 64

/* As luaL_testudata, without a look-up by name: every method does this. */
static const struct vu_handle *test_handle(lua_State *L, int index) {
  const struct state *s = state_of(L);
  const struct vu_handle *h = lua_touserdata(L, index);
  if (!s || !h || !lua_getmetatable(L, index))
    return NULL;
  bool is = lua_topointer(L, -1) == s->vu_type;
  lua_pop(L, 1);
  return is ? h : NULL;
}

struct vu *bind_check_vu(lua_State *L, int index) {
  const struct vu_handle *h = test_handle(L, index);
  if (!h && index == 1)
    vu_refuse_self(L);
  if (!h)
    bind_raise(L, "a virtual user (vu) is expected, got %s", luaL_typename(L, index));
  if (!h->vu)
    bind_raise(L, "this virtual user has ended; a vu may not be kept beyond its session");
  return h->vu;
}

void vu_raise_failure(lua_State *L, enum sample_error error, const char *detail) {
  vu_push_failure(L, error, detail);
  lua_error(L);
  __builtin_unreachable();
}

/* ---- waiting and time ---- */

static int nothing(lua_State *L, struct vu *vu) {
  (void)L;
  (void)vu;
  return 0;
}

/* sleep(seconds): until what comes next is due: counted from the end of what was waited for, so
 * that our own work in between does not shift the schedule. */
int vu_method_sleep(lua_State *L) {
  struct vu *vu = bind_check_vu(L, 1);
  double seconds = bind_check_seconds(L, 2, "vu:sleep: the time");
  vu_check_wait(L, vu, "vu:sleep");
  uint64_t ns = (uint64_t)(seconds * 1e9 + 0.5);
  vu->due_ns += ns;
  bool shortly = ns < NS_PER_US && vu->due_ns <= loop_now(vu->state->options.loop);
  return vu_wait_until(L, vu, vu->due_ns, shortly, nothing);
}

/* now(): seconds since the run's zero */
int vu_method_now(lua_State *L) {
  const struct state *s = bind_check_vu(L, 1)->state;
  uint64_t now = loop_refresh(s->options.loop);
  lua_pushnumber(L, (double)worker_since_zero(s->options.worker, now) / 1e9);
  return 1;
}

/* ---- what is kept ---- */

static MAY_RAISE void check_session(lua_State *L, const struct vu *vu, const char *what) {
  if (vu->root->kind != VU_SESSION)
    bind_raise(L,
               "%s: setup, teardown and the timeline belong to no session; record in session(vu)",
               what);
}

/* Raises unless the plan declares the metric. */
static MAY_RAISE void check_metric(lua_State *L, const char *name) {
  state_push_plan(L);
  if (lua_getfield(L, -1, "metrics") == LUA_TTABLE && lua_getfield(L, -1, name) != LUA_TNIL) {
    lua_pop(L, 3);
    return;
  }
  const char *known[MAX_WORDS];
  size_t n = 0;
  lua_settop(L, 4);
  state_push_plan(L);
  if (lua_getfield(L, -1, "metrics") == LUA_TTABLE) {
    bind_push_sorted_keys(L, -1);
    for (; n < MAX_WORDS && lua_rawgeti(L, 7, (lua_Integer)n + 1) == LUA_TSTRING; n++) {
      known[n] = lua_tostring(L, -1); /* the plan keeps it alive */
      lua_pop(L, 1);
    }
  }
  const char *near = err_nearest(name, known, n);
  bind_raise(
      L, "vu:record: unknown metric '%s'%s%s%s; declare it in the plan: metrics = { %s = \"s\" }",
      name, near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "", name);
}

/* A name or a tag's value becomes a column, a group or a line of the report. */
static MAY_RAISE void check_length(lua_State *L, const char *what, const char *text, size_t len) {
  if (len > METRICS_NAME_MAX)
    bind_raise(L, "%s: '%s…' has %d bytes, at most %d are kept: it is a name, not a text", what,
               lua_pushlstring(L, text, 40), (int)len, METRICS_NAME_MAX);
}

/* Pushes a held object: the table of tags at `index` over those of the user. */
static MAY_RAISE struct value *merge_tags(lua_State *L, const struct vu *vu, int index,
                                          const char *what) {
  struct value *merged = bind_hold_value(L), *own = bind_hold_value(L);
  bind_to_value(L, index, own);
  if (own->kind != VALUE_OBJECT)
    bind_raise(L, "%s: tags must be a table of names, as in { phase = \"plan\" }", what);
  *merged = value_copy(&vu->tags);
  for (size_t i = 0; i < own->u.object.n; i++) {
    struct value_pair *p = &own->u.object.pairs[i];
    if (p->value.kind == VALUE_ARRAY || p->value.kind == VALUE_OBJECT)
      bind_raise(L, "%s: tag '%s' must be a string, number or boolean, got a table", what, p->key);
    check_length(L, what, p->key, p->key_len);
    if (p->value.kind == VALUE_STRING)
      check_length(L, what, p->value.u.string.data, p->value.u.string.len);
    value_set_len(merged, p->key, p->key_len, p->value);
    p->value = value_null();
  }
  lua_pop(L, 1);
  return merged;
}

static char *json_of(const struct value *v) {
  if (value_count(v) == 0)
    return NULL;
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  json_write(&b, v);
  return buf_take(&b, NULL);
}

char *vu_tags_json(lua_State *L, struct vu *vu, int index, const char *what) {
  if (!lua_isnoneornil(L, index)) {
    char *json = json_of(merge_tags(L, vu, index, what));
    lua_pop(L, 1); /* collected later: what it holds is small */
    return json;
  }
  if (!vu->tags_json)
    vu->tags_json = json_of(&vu->tags);
  return vu->tags_json ? mem_strdup(vu->tags_json) : NULL;
}

static MAY_RAISE void keep_value(lua_State *L, struct vu *vu, const char *name, double value,
                                 bool is_check, int tags) {
  const struct state *s = vu->state;
  struct worker *w = s->options.worker;
  struct value_record r = {
      .arm = s->options.arm,
      .session = vu->session,
      .name = store_word(s->options.store, name),
      .value = value,
      .is_check = is_check,
      .measured = vu->measured,
      .tags = vu_tags_json(L, vu, tags, "vu:record"),
  };
  uint64_t now = loop_refresh(s->options.loop);
  if (!w) {
    mem_free(r.tags);
    return;
  }
  r.time_ns = worker_since_zero(w, now);
  recorder_value(w->recorder, &r);
}

/* record(metric, value, tags?) */
int vu_method_record(lua_State *L) {
  struct vu *vu = bind_check_vu(L, 1);
  lua_settop(L, 4);
  if (lua_type(L, 2) != LUA_TSTRING)
    bind_raise(L, "vu:record: the metric's name must be a string, got %s", luaL_typename(L, 2));
  if (lua_type(L, 3) != LUA_TNUMBER || !isfinite(lua_tonumber(L, 3)))
    bind_raise(L, "vu:record: the value of '%s' must be a finite number, got %s",
               lua_tostring(L, 2), bind_shown(L, 3));
  check_session(L, vu, "vu:record");
  check_metric(L, lua_tostring(L, 2));
  keep_value(L, vu, lua_tostring(L, 2), lua_tonumber(L, 3), false, 4);
  return 0;
}

/* check(name, ok) -> ok */
int vu_method_check(lua_State *L) {
  struct vu *vu = bind_check_vu(L, 1);
  lua_settop(L, 3);
  if (lua_type(L, 2) != LUA_TSTRING)
    bind_raise(L, "vu:check: the check's name must be a string, got %s", luaL_typename(L, 2));
  check_session(L, vu, "vu:check");
  check_length(L, "vu:check", lua_tostring(L, 2), lua_rawlen(L, 2));
  bool ok = lua_toboolean(L, 3);
  keep_value(L, vu, lua_tostring(L, 2), ok ? 1 : 0, true, 4);
  lua_pushboolean(L, ok);
  return 1;
}

/* tag(key, value): of this user's further rows; nil removes it. */
int vu_method_tag(lua_State *L) {
  struct vu *vu = bind_check_vu(L, 1);
  lua_settop(L, 3);
  if (lua_type(L, 2) != LUA_TSTRING)
    bind_raise(L, "vu:tag: the tag's name must be a string, got %s", luaL_typename(L, 2));
  size_t len;
  const char *key = lua_tolstring(L, 2, &len);
  if (strcmp(key, "turn") == 0 || strcmp(key, "step") == 0)
    bind_raise(L, "vu:tag: '%s' is kept by conversations; choose another name", key);
  int type = lua_type(L, 3);
  if (type != LUA_TNIL && type != LUA_TSTRING && type != LUA_TNUMBER && type != LUA_TBOOLEAN)
    bind_raise(L, "vu:tag: '%s' must be a string, number, boolean or nil, got %s", key,
               luaL_typename(L, 3));
  check_length(L, "vu:tag", key, len);
  if (type == LUA_TSTRING)
    check_length(L, "vu:tag", lua_tostring(L, 3), lua_rawlen(L, 3));
  struct value *v = bind_hold_value(L);
  bind_to_value(L, 3, v);
  mem_free(vu->tags_json);
  vu->tags_json = NULL;
  if (type != LUA_TNIL) {
    value_set_len(&vu->tags, key, len, *v);
    *v = value_null();
    return 0;
  }
  struct value rest = value_object();
  for (size_t i = 0; i < vu->tags.u.object.n; i++) {
    struct value_pair *p = &vu->tags.u.object.pairs[i];
    if (p->key_len == len && memcmp(p->key, key, len) == 0)
      continue;
    value_set_len(&rest, p->key, p->key_len, p->value);
    p->value = value_null();
  }
  value_free(&vu->tags);
  vu->tags = rest;
  return 0;
}

/* log(...): a line in the run's log */
int vu_method_log(lua_State *L) {
  const struct vu *vu = bind_check_vu(L, 1);
  const struct state_options *o = &vu->state->options;
  int n = lua_gettop(L);
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  char name[32];
  schedule_session_name(vu->session, name);
  if (vu->root->kind == VU_TIMELINE)
    snprintf(name, sizeof name, "timeline[%u]", vu->root->id);
  lua_pushstring(L, vu->root->kind == VU_SETUP      ? "setup"
                    : vu->root->kind == VU_TEARDOWN ? "teardown"
                                                    : name);
  luaL_addvalue(&b);
  for (int i = 2; i <= n; i++) {
    luaL_addchar(&b, ' ');
    luaL_tolstring(L, i, NULL);
    luaL_addvalue(&b);
  }
  luaL_pushresult(&b);
  size_t len;
  const char *line = lua_tolstring(L, -1, &len);
  if (o->print)
    o->print(o->print_user, line, len);
  else
    log_warn("script %s", line);
  return 0;
}

/* fail(class, detail): ends the session as failed under a class of ours, unless it is caught. */
int vu_method_fail(lua_State *L) {
  bind_check_vu(L, 1);
  const char *class = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  enum sample_error error = vu_error_from(class);
  if (error == SAMPLE_ERROR_COUNT || !sample_error_failed(error)) {
    const char *known[SAMPLE_ERROR_COUNT];
    size_t n = 0;
    for (int e = 0; e < SAMPLE_ERROR_COUNT; e++)
      if (sample_error_failed((enum sample_error)e))
        known[n++] = sample_error_name((enum sample_error)e);
    const char *near = err_nearest(class, known, n);
    bind_raise(L, "vu:fail: '%s' is no class of failures%s%s%s", class,
               near ? " (did you mean '" : ", as script or timeout_total are", near ? near : "",
               near ? "'?)" : "");
  }
  size_t len;
  const char *detail = luaL_tolstring(L, 3, &len);
  vu_raise_failure(L, error, lua_isnoneornil(L, 3) ? "" : detail);
}

/* branch() -> a new branch number of the session */
int vu_method_branch(lua_State *L) {
  lua_pushinteger(L, vu_new_branch(bind_check_vu(L, 1)));
  return 1;
}

/* vu.c: makes, resumes, cancels and ends virtual users: the only lua_resume. */
#include "run/vu.h"

#include <lauxlib.h>
#include <lua.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "run/worker.h"

#define SETUP_STREAM (UINT64_C(1) << 63) /* generator streams beside the sessions' own */
#define TEARDOWN_STREAM (SETUP_STREAM + 1)
#define TIMELINE_STREAM (SETUP_STREAM + 2) /* and one more for each round of each entry */

static const char stop_key; /* its address is the error value of a user that must stop */

static void vu_run(struct loop_task *task);
static void end_children(struct vu *vu);

static struct loop *loop_of(const struct vu *vu) {
  return vu->state->options.loop;
}

void vu_push_failure(lua_State *L, enum sample_error error, const char *detail) {
  luaL_checkstack(L, 4, "failure");
  lua_createtable(L, 0, 2);
  lua_pushstring(L, sample_error_name(error));
  lua_setfield(L, -2, "class");
  lua_pushstring(L, detail);
  lua_setfield(L, -2, "detail");
  luaL_setmetatable(L, VU_FAILURE_TYPE);
}

/* ---- the body of a coroutine ---- */

/* The message handler: says what the error value means while the frames are still there. The value
 * itself goes on to whoever joins. */
static MAY_RAISE int explain(lua_State *L) {
  struct vu *vu;
  if (!state_vu_of(L, &vu) || vu->stop.error != SAMPLE_OK)
    return 1; /* why it must stop is known */
  lua_settop(L, 1);
  if (lua_istable(L, 1) && lua_getmetatable(L, 1)) {
    luaL_getmetatable(L, VU_FAILURE_TYPE);
    bool failure = lua_rawequal(L, -1, -2);
    lua_settop(L, 1);
    if (failure) {
      lua_pushliteral(L, "class");
      lua_rawget(L, 1);
      lua_pushliteral(L, "detail");
      lua_rawget(L, 1);
      const char *class = lua_tostring(L, 2);
      enum sample_error error = class ? vu_error_from(class) : SAMPLE_SCRIPT;
      bool known = error != SAMPLE_OK && error != SAMPLE_ERROR_COUNT;
      vu_outcome_set(&vu->outcome, known ? error : SAMPLE_SCRIPT, lua_tostring(L, 3));
      lua_settop(L, 1);
      return 1;
    }
  }
  state_push_error(L, 1);
  state_add_frames(L, L, 1, false);
  vu_outcome_set(&vu->outcome, SAMPLE_SCRIPT, lua_tostring(L, -1));
  lua_settop(L, 1);
  return 1;
}

/* Results, or the error value, behind the handler. */
static int end_body(lua_State *L, int status) {
  struct vu *vu;
  bool own = state_vu_of(L, &vu);
  assert(own);
  (void)own;
  vu->threw = status != LUA_OK && status != LUA_YIELD;
  if (status == LUA_ERRMEM && vu->stop.error == SAMPLE_OK) {
    char no_memory[400];
    state_memory_error(vu->state, no_memory, sizeof no_memory);
    vu_outcome_set(&vu->outcome, SAMPLE_SCRIPT, no_memory);
  } else if (vu->threw && vu->stop.error == SAMPLE_OK && vu->outcome.error == SAMPLE_OK) {
    vu_outcome_set(&vu->outcome, SAMPLE_SCRIPT, /* no memory even for the handler */
                   lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1)
                                                  : "error in error handling");
  }
  return lua_gettop(L) - 1;
}

static int after_body(lua_State *L, int status, lua_KContext context) {
  (void)context;
  return end_body(L, status);
}

/* (function, arguments…). Protected in here and not by lua_resume, because that would leave hooks
 * off, and so a runaway __close unstoppable, while an error unwinds. */
static int body(lua_State *L) {
  lua_pushcfunction(L, explain);
  lua_insert(L, 1);
  return end_body(L, lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 1, 0, after_body));
}

/* ---- making ---- */

static void timer_fired(struct loop_timer *timer) {
  vu_wake(CONTAINER_OF(timer, struct vu, timer));
}

/* The Lua side of a user: pushes its userdata (pinned). User values: 1 the coroutine, 2 its task, 3
 * its generator, 4 its request. */
static MAY_RAISE struct vu_handle *push_handle(lua_State *L, lua_State **co) {
  luaL_checkstack(L, 8, "virtual user");
  struct vu_handle *h = lua_newuserdatauv(L, sizeof *h, VU_USER_VALUES);
  h->vu = NULL;
  luaL_setmetatable(L, VU_TYPE);
  *co = lua_newthread(L);
  lua_setiuservalue(L, -2, 1);
  state_push_users(L);
  lua_pushvalue(L, -2);
  lua_rawsetp(L, -2, h);
  lua_pop(L, 1);
  return h;
}

static void unpin(lua_State *L, const struct vu_handle *h) {
  state_push_users(L);
  lua_pushnil(L);
  lua_rawsetp(L, -2, h); /* an existing key: no allocation */
  lua_pop(L, 1);
}

/* The C side, once nothing can raise any more. */
static struct vu *attach(struct state *s, struct vu_handle *h, lua_State *co, int n_args) {
  struct vu *vu = MEM_NEW(struct vu);
  vu->tag = STATE_TAG_VU;
  vu->state = s;
  vu->task.run = vu_run;
  loop_timer_init(&vu->timer, timer_fired);
  vu->root = vu;
  vu->co = co;
  vu->handle = h;
  vu->n_args = n_args;
  vu->draws = &vu->rng;
  vu->parent_branch = -1;
  vu->tags = value_object();
  h->vu = vu;
  state_mark(s, co, vu);
  s->users++;
  return vu;
}

struct making {
  struct state *state;
  const struct vu_start *start;
  struct vu *made;
};

static int after_timed(lua_State *L, int status, lua_KContext context) {
  (void)L;
  (void)status;
  (void)context;
  return 0;
}

/* (vu): an entry of the timeline, whose function gets the fleet first. */
static MAY_RAISE int run_timed(lua_State *L) {
  lua_settop(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_getfield(L, 1, "fleet");
  lua_pushvalue(L, 1);
  lua_callk(L, 2, 0, 0, after_timed);
  return after_timed(L, LUA_OK, 0);
}

/* The function of entry `number` of the plan's timeline, from 1; the plan is on top. */
static MAY_RAISE void push_timed(lua_State *L, uint32_t number) {
  lua_getfield(L, -1, "timeline");
  lua_rawgeti(L, -1, (lua_Integer)number);
  lua_getfield(L, -1, "run");
  lua_pushcclosure(L, run_timed, 1);
}

static MAY_RAISE int make_root(lua_State *L) {
  static const char *const fields[] = {
      [VU_SESSION] = "session", [VU_SETUP] = "setup", [VU_TEARDOWN] = "teardown"};
  struct making *m = lua_touserdata(L, 1);
  state_push_plan(L);
  if (m->start->kind == VU_TIMELINE)
    push_timed(L, m->start->id);
  else
    lua_getfield(L, -1, fields[m->start->kind]);
  lua_State *co;
  struct vu_handle *h = push_handle(L, &co); /* plan, function, handle */
  if (!lua_checkstack(co, LUA_MINSTACK))
    return luaL_error(L, "not enough memory");
  lua_pushcfunction(co, body);
  lua_xmove(L, co, 2);
  m->made = attach(m->state, h, co, 2);
  return 0;
}

static uint64_t stream_of(const struct vu_start *start) {
  switch (start->kind) {
  case VU_SETUP:
    return SETUP_STREAM;
  case VU_TEARDOWN:
    return TEARDOWN_STREAM;
  case VU_TIMELINE:
    return TIMELINE_STREAM + ((uint64_t)start->id << 32 | start->round);
  case VU_SESSION:
  case VU_CHILD:
    break;
  }
  return start->session;
}

int vu_new(struct state *s, const struct vu_start *start, struct vu **out, struct err *err) {
  struct making m = {.state = s, .start = start};
  int rc = state_call(s, make_root, &m, err);
  *out = m.made;
  if (rc)
    return rc;
  struct vu *vu = m.made;
  vu->kind = start->kind;
  vu->session = start->session;
  vu->id = start->id;
  vu->measured = start->measured;
  vu->sched_ns = vu->due_ns = start->sched_ns;
  vu->ended = start->ended;
  vu->owner = start->owner;
  rng_init(&vu->rng, start->seed, stream_of(start));
  loop_ready(loop_of(vu), &vu->task);
  return 0;
}

/* ---- children ---- */

struct vu_task *vu_spawn(lua_State *L, struct vu *parent, int n_args) {
  struct state *s = parent->state;
  if (parent->depth >= VU_MAX_DEPTH) {
    state_push_where(L);
    lua_pushfstring(L, "children of children may go %d levels deep, no further", VU_MAX_DEPTH);
    lua_concat(L, 2);
    lua_error(L);
  }
  struct vu_task *t = lua_newuserdatauv(L, sizeof *t, 1);
  *t = (struct vu_task){.spawner = parent};
  luaL_setmetatable(L, VU_TASK_TYPE);
  lua_insert(L, -(n_args + 2)); /* task, function, arguments */
  lua_State *co;
  struct vu_handle *h = push_handle(L, &co);
  lua_getiuservalue(L, -1, 1);
  lua_setiuservalue(L, -(n_args + 4), 1); /* the task keeps the coroutine and its results */
  lua_pushvalue(L, -(n_args + 3));
  lua_setiuservalue(L, -2, 2); /* a live child keeps its task */
  lua_insert(L, -(n_args + 1));
  if (!lua_checkstack(co, n_args + LUA_MINSTACK)) {
    unpin(L, h);
    luaL_error(L, "not enough memory");
  }
  lua_pushcfunction(co, body);
  lua_xmove(L, co, n_args + 2);
  struct vu *vu = attach(s, h, co, n_args + 2);
  vu->kind = VU_CHILD;
  vu->root = parent->root;
  vu->parent = parent;
  vu->depth = parent->depth + 1;
  vu->next = parent->children;
  if (vu->next)
    vu->next->prev = vu;
  parent->children = vu;
  vu->as_task = t;
  t->child = vu;
  t->co = co;
  vu->session = parent->session;
  vu->id = parent->id;
  vu->measured = parent->measured;
  vu->branch = t->branch = vu_new_branch(parent);
  vu->parent_branch = (int32_t)parent->branch;
  vu->sched_ns = vu->due_ns = parent->due_ns;
  rng_split(parent->draws, &vu->rng);
  value_free(&vu->tags);
  vu->tags = value_copy(&parent->tags);
  loop_ready(loop_of(vu), &vu->task);
  return t;
}

/* ---- waiting ---- */

static MAY_RAISE int raise_stop(lua_State *L) {
  lua_pushlightuserdata(L, (void *)&stop_key);
  return lua_error(L);
}

/* Raises at the script's own line, not at that of a module of ours which called. */
static MAY_RAISE void refuse(lua_State *L, const char *what, const char *why) {
  state_push_where(L);
  lua_pushstring(L, what);
  lua_pushstring(L, why);
  lua_concat(L, 3);
  lua_error(L);
}

void vu_check_wait(lua_State *L, const struct vu *vu, const char *what) {
  struct vu *own;
  const struct state *s = vu->state;
  if (vu->stop.error != SAMPLE_OK && s->running == vu)
    raise_stop(L);
  if (!s->running)
    refuse(L, what,
           " cannot wait here: no virtual user is running (a module's top level, or a __gc); "
           "wait in the session");
  if (!state_vu_of(L, &own))
    refuse(L, what,
           " cannot wait inside a coroutine of your own; use vu:spawn for things that happen "
           "side by side");
  if (own != vu)
    refuse(L, what,
           " belongs to another virtual user than the one that runs; use the vu that was "
           "handed to this function");
  if (!lua_isyieldable(L))
    refuse(L, what,
           " cannot wait inside a function that Lua itself calls (a sort or gsub callback, a "
           "__gc)");
}

static int after_wait(lua_State *L, int status, lua_KContext context) {
  (void)status;
  (void)context;
  struct vu *vu;
  bool own = state_vu_of(L, &vu);
  assert(own);
  (void)own;
  if (vu->stop.error != SAMPLE_OK)
    return raise_stop(L);
  return vu->resumed(L, vu);
}

static int wait_now(lua_State *L, struct vu *vu, void (*cancel)(struct vu *vu),
                    int (*resumed)(lua_State *L, struct vu *vu)) {
  assert(vu->phase == VU_RUNNING);
  if (vu->state->options.watch)
    state_note_wait(vu->state, L);
  vu->cancel = cancel;
  vu->resumed = resumed;
  vu->phase = VU_WAITING;
  return lua_yieldk(L, 0, 0, after_wait);
}

int vu_wait(lua_State *L, struct vu *vu, void (*cancel)(struct vu *vu),
            int (*resumed)(lua_State *L, struct vu *vu)) {
  vu->waits_really = true;
  vu->root->real_waits++;
  vu->root->idle_turns = 0;
  return wait_now(L, vu, cancel, resumed);
}

#define IDLE_TURNS 1000 /* fewer are no loop, however long they took */

/* What of the operation is begun already are children, who end with the user. */
static MAY_RAISE void check_idle(lua_State *L, struct vu *vu) {
  struct vu *root = vu->root;
  uint64_t now = loop_is_virtual(loop_of(vu)) ? loop_clock(loop_of(vu)) : loop_now(loop_of(vu));
  if (root->real_waits || root->idle_turns == 0) {
    root->idle_turns = root->real_waits ? 0 : 1;
    root->idle_since_ns = now;
    return;
  }
  if (root->idle_turns < IDLE_TURNS) {
    root->idle_turns++;
    return;
  }
  if (now - root->idle_since_ns < vu->state->options.runaway_ns)
    return;
  uint64_t idle_ms = (now - root->idle_since_ns) / NS_PER_MS;
  lua_pushfstring(L,
                  "waited for nothing for %f s (vu:sleep(0) again and again, or tasks that end at "
                  "once), so it was stopped: sleep longer, or join what is waited for",
                  (double)idle_ms / 1e3);
  state_add_frames(L, L, 1, true);
  vu_stop(vu, SAMPLE_SCRIPT, lua_tostring(L, -1));
  raise_stop(L);
}

int vu_wait_shortly(lua_State *L, struct vu *vu, void (*cancel)(struct vu *vu),
                    int (*resumed)(lua_State *L, struct vu *vu)) {
  check_idle(L, vu);
  return wait_now(L, vu, cancel, resumed);
}

void vu_wake(struct vu *vu) {
  assert(vu->phase == VU_WAITING);
  if (vu->waits_really) {
    vu->waits_really = false;
    vu->root->real_waits--;
  }
  vu->phase = VU_READY;
  vu->cancel = NULL;
  loop_ready(loop_of(vu), &vu->task);
}

static void cancel_timer(struct vu *vu) {
  loop_timer_clear(loop_of(vu), &vu->timer);
}

int vu_wait_until(lua_State *L, struct vu *vu, uint64_t due_ns, bool shortly,
                  int (*resumed)(lua_State *L, struct vu *vu)) {
  if (shortly)
    check_idle(L, vu);
  loop_timer_set(loop_of(vu), &vu->timer, due_ns);
  return shortly ? wait_now(L, vu, cancel_timer, resumed) : vu_wait(L, vu, cancel_timer, resumed);
}

/* ---- ending ---- */

static void release_picks(struct vu *vu) {
  for (size_t i = 0; i < vu->n_picks; i++)
    worker_pick_done(vu->state->options.worker, vu->picks[i]);
  vu->n_picks = 0;
}

static void free_vu(struct vu *vu) {
  struct state *s = vu->state;
  assert(vu->timer.slot == 0 && !vu->task.queued && !vu->children);
  state_mark(s, vu->co, NULL);
  vu->handle->vu = NULL;
  unpin(s->L, vu->handle);
  release_picks(vu);
  vu_free_orphans(vu);
  vu_outcome_free(&vu->outcome);
  vu_outcome_free(&vu->stop);
  value_free(&vu->tags);
  mem_free(vu->tags_json);
  mem_free(vu->odd_branches);
  mem_free(vu->picks);
  shared_free(&vu->result);
  s->users--;
  mem_free(vu);
}

static void finish(struct vu *vu) {
  struct vu *parent = vu->parent;
  if (!parent) {
    vu->ended(vu);
    free_vu(vu);
    return;
  }
  vu_leave_parent(vu);
  free_vu(vu);
  if (parent->phase == VU_WAITING && !parent->cancel && parent->awaited == 0)
    vu_wake(parent);
  else if (parent->phase == VU_JOINING)
    end_children(parent);
}

/* The user's function has returned or failed: it ends when its last child has. */
static void end_children(struct vu *vu) {
  vu->phase = VU_JOINING;
  if (vu->children)
    return;
  if (vu->stop.error != SAMPLE_OK)
    vu_outcome_copy(&vu->outcome, &vu->stop);
  else if (vu->outcome.error == SAMPLE_OK && vu->orphans)
    vu_outcome_copy(&vu->outcome, &vu->orphans->outcome);
  finish(vu);
}

static MAY_RAISE int take_result(lua_State *L) {
  struct vu *vu = lua_touserdata(L, 1);
  if (!lua_checkstack(vu->co, 2))
    return luaL_error(L, "not enough memory");
  lua_pushvalue(vu->co, -vu->n_args);
  lua_xmove(vu->co, L, 1);
  vu->state->options.binding->to_shared(L, 2, &vu->result);
  return 0;
}

/* The coroutine is done; on it are results or the error value. */
static void returned(struct vu *vu, int n_values) {
  struct err err;
  vu->n_args = n_values;
  if (vu->as_task)
    vu->as_task->n_values = n_values;
  else if (!vu->threw && vu->kind == VU_SETUP && n_values > 0 &&
           state_call(vu->state, take_result, vu, &err))
    vu_outcome_set(&vu->outcome, SAMPLE_SCRIPT, err.text);
}

/* The body protects itself, so this is a coroutine without memory even for that, or one that
 * yielded around perigee's own yield. */
static void broken(struct vu *vu, int status) {
  const char *text = "coroutine.yield in a session: only vu methods wait";
  if (status != LUA_YIELD)
    text = lua_type(vu->co, -1) == LUA_TSTRING ? lua_tostring(vu->co, -1) : "not enough memory";
  vu_stop(vu, SAMPLE_SCRIPT, text);
  state_enter(vu->state, vu);
  lua_resetthread(vu->co);
  state_leave(vu->state);
  if (vu->as_task)
    vu->as_task->n_values = 0;
}

/* ---- resuming ---- */

static void begin(struct vu *vu) {
  vu->begun = true;
  vu->start_ns = loop_refresh(loop_of(vu));
  if (!vu->parent)
    worker_session_began(vu);
}

static void vu_run(struct loop_task *task) {
  struct vu *vu = CONTAINER_OF(task, struct vu, task);
  struct state *s = vu->state;
  assert(vu->phase == VU_READY);
  if (!vu->begun) {
    if (vu->stop.error != SAMPLE_OK) { /* cancelled before its first line */
      end_children(vu);
      return;
    }
    begin(vu);
  }
  vu->phase = VU_RUNNING;
  int n_values = 0, n_args = vu->n_args;
  vu->n_args = 0;
  state_enter(s, vu);
  int status = lua_resume(vu->co, s->L, n_args, &n_values);
  state_leave(s);
  if (status == LUA_YIELD && vu->phase == VU_WAITING) {
    state_settle(s);
    return;
  }
  if (status == LUA_OK)
    returned(vu, n_values);
  else
    broken(vu, status);
  state_settle(s);
  if (vu->threw || vu->stop.error != SAMPLE_OK) {
    for (struct vu *child = vu->children; child; child = child->next)
      vu_cancel(child, SAMPLE_CANCELLED, "the virtual user that spawned it ended");
  }
  end_children(vu);
}

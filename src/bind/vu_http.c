/* vu_http.c: vu:http and vu:try_http: options in, a request on its way, the reply as a table.
 *
 * The request lives in a userdata of its user's, which is used again for the next one; what it
 * borrows (path, body) is on the waiting coroutine's stack. Whatever ends the user's coroutine ends
 * the request. */
#include <lauxlib.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "bind/bind.h"
#include "bind/hold.h"
#include "bind/vu_bind.h"
#include "bind/vu_options.h"
#include "out/metrics.h"
#include "run/worker.h"
#include "text/json_scan.h"

#define OP_TYPE "perigee.vu.http"
#define NO_REPLICA SIZE_MAX
#define MAX_HEADERS 32 /* with more, or in other tables than plain ones, it takes longer */

/* What a request may take; reading may be slow under load, silence on an open stream may not. */
#define CONNECT_NS (10 * NS_PER_S)
#define FIRST_BYTE_NS (300 * NS_PER_S)
#define IDLE_NS (120 * NS_PER_S)

/* The stack while a request is made and waited for. */
static_assert(N_OPTIONS < 64, "a bit for each");
enum { AT_VU = 1, AT_OPTIONS = 2, AT_OP = 3, AT_SLOTS = 4, AT_TOP = AT_SLOTS + N_OPTIONS };
#define SLOT(option) (AT_SLOTS + (int)(option))

#define OP_VALUE 4       /* the user value that holds it */
#define SPARE_BYTES 1024 /* larger buffers are not kept for the user's next request */

struct http_op {
  struct http_request request;
  struct vu *vu; /* NULL: nothing is in it */
  struct buf headers;
  struct blob *json;            /* the body, when it is made of a table */
  size_t replica;               /* NO_REPLICA = none */
  bool running, counted, tries; /* counted: in flight at the router; tries: failures are values */
  bool has_type;                /* the headers hold a content-type */
  size_t id_at, id_len;         /* X-Request-Id's value in the headers; 0, 0 = none */
  uint64_t given;               /* options: a bit for each */
};

static void end_op(struct http_op *op) {
  if (op->counted)
    worker_pick_done(op->vu->state->options.worker, op->replica);
  op->counted = op->running = false;
}

static void stop_op(struct http_op *op, enum sample_error error) {
  if (op->running) {
    http_request_cancel(&op->request, error);
    end_op(op);
  }
  sample_free(op->request.sample); /* never started */
  op->request.sample = NULL;
  blob_unref(op->json);
  op->json = NULL;
  op->vu = NULL;
}

static void keep_small(struct buf *b) {
  if (b->cap > SPARE_BYTES)
    buf_free(b);
}

/* Nothing is borrowed any more, and not much memory kept. */
static void clear_op(struct http_op *op) {
  stop_op(op, SAMPLE_CANCELLED);
  keep_small(&op->headers);
  keep_small(&op->request.response_headers);
  keep_small(&op->request.body);
  http_request_end_stream(&op->request);
}

static int op_gc(lua_State *L) {
  struct http_op *op = luaL_checkudata(L, 1, OP_TYPE);
  stop_op(op, SAMPLE_CANCELLED);
  http_request_free(&op->request);
  buf_free(&op->headers);
  return 0;
}

static MAY_RAISE struct http_op *new_op(lua_State *L) {
  static const luaL_Reg meta[] = {{"__gc", op_gc}, {"__close", op_gc}, {NULL, NULL}};
  bind_new_type(L, OP_TYPE, meta, NULL);
  struct http_op *op = lua_newuserdatauv(L, sizeof *op, 0);
  http_request_init(&op->request);
  buf_init(&op->headers, BUF_MAX_OWN);
  op->vu = NULL;
  op->json = NULL;
  op->running = op->counted = false;
  bind_set_type(L, OP_TYPE);
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, AT_VU, OP_VALUE);
  return op;
}

/* What an error left in it goes now. */
static MAY_RAISE struct http_op *push_op(lua_State *L, struct vu *vu) {
  struct http_op *op;
  if (lua_getiuservalue(L, AT_VU, OP_VALUE) == LUA_TUSERDATA) {
    op = lua_touserdata(L, -1);
    stop_op(op, SAMPLE_CANCELLED);
    http_request_reset(&op->request);
    buf_reset(&op->headers);
  } else {
    lua_pop(L, 1);
    op = new_op(L);
  }
  op->request.user = op;
  op->replica = NO_REPLICA;
  op->has_type = false;
  op->id_at = op->id_len = 0;
  op->vu = vu;
  return op;
}

/* ---- options ---- */

/* Moves the options into their slots; raises for a name that is none. */
static MAY_RAISE void spread_options(lua_State *L, struct http_op *op, const char *what) {
  if (lua_type(L, AT_OPTIONS) != LUA_TTABLE)
    bind_raise(L, "%s: options must be a table, got %s", what, luaL_typename(L, AT_OPTIONS));
  luaL_checkstack(L, N_OPTIONS + 16, "request");
  lua_settop(L, AT_TOP - 1);
  op->given = 0;
  lua_pushnil(L);
  while (lua_next(L, AT_OPTIONS)) {
    unsigned o = N_OPTIONS;
    if (lua_type(L, AT_TOP) == LUA_TSTRING)
      o = vu_option_of(lua_tostring(L, AT_TOP));
    if (o == N_OPTIONS) {
      bind_check_options(L, AT_OPTIONS, what, vu_option_names,
                         N_OPTIONS); /* names it, and raises */
      assert(0 && "an option that vu_option_of does not find");
    }
    op->given |= (uint64_t)1 << o;
    lua_replace(L, SLOT(o));
  }
}

static inline bool given(const struct http_op *op, enum option o) {
  return op->given >> o & 1;
}

/* An option of type string; NULL when it is not given. Pinned by its slot. */
static MAY_RAISE const char *string_option(lua_State *L, const struct http_op *op, enum option o,
                                           const char *what) {
  if (!given(op, o))
    return NULL;
  if (lua_type(L, SLOT(o)) != LUA_TSTRING)
    bind_raise(L, "%s: %s must be a string, got %s", what, vu_option_names[o],
               luaL_typename(L, SLOT(o)));
  size_t len;
  const char *s = lua_tolstring(L, SLOT(o), &len);
  if (strlen(s) != len)
    bind_raise(L, "%s: %s holds a NUL byte", what, vu_option_names[o]);
  return s;
}

/* A whole number from `least` on; `absent` when it is not given. */
static MAY_RAISE int64_t count_option(lua_State *L, const struct http_op *op, enum option o,
                                      int64_t least, int64_t absent, const char *what) {
  if (!given(op, o))
    return absent;
  int whole;
  lua_Integer n = lua_tointegerx(L, SLOT(o), &whole);
  bool small = o == O_TURN || o == O_STEP || o == O_BRANCH || o == O_PARENT;
  lua_Integer most = small ? INT32_MAX : (lua_Integer)1 << 53;
  if (!whole || lua_type(L, SLOT(o)) != LUA_TNUMBER || n < least || n > most)
    bind_raise(L, "%s: %s must be a whole number from %lld on, got %s", what, vu_option_names[o],
               (long long)least, luaL_tolstring(L, SLOT(o), NULL));
  return n;
}

static MAY_RAISE bool flag_option(lua_State *L, const struct http_op *op, enum option o,
                                  const char *what) {
  if (given(op, o) && lua_type(L, SLOT(o)) != LUA_TBOOLEAN)
    bind_raise(L, "%s: %s must be true or false, got %s", what, vu_option_names[o],
               luaL_typename(L, SLOT(o)));
  return lua_toboolean(L, SLOT(o));
}

static MAY_RAISE uint64_t timeout_field(lua_State *L, const char *field, const char *what,
                                        uint64_t absent) {
  uint64_t ns = absent;
  if (lua_getfield(L, SLOT(O_TIMEOUT), field) != LUA_TNIL) {
    const char *name = lua_pushfstring(L, "%s: timeout.%s", what, field);
    ns = (uint64_t)(bind_check_seconds(L, -2, name) * 1e9 + 0.5);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return ns;
}

/* timeout: seconds in all, or one for each phase; 0 = none */
static MAY_RAISE void read_timeouts(lua_State *L, struct http_op *op, const char *what) {
  static const char *const known[] = {"connect", "first_byte", "idle", "total"};
  struct http_timeouts *t = &op->request.timeouts;
  *t = (struct http_timeouts){
      .connect_ns = CONNECT_NS, .first_byte_ns = FIRST_BYTE_NS, .idle_ns = IDLE_NS};
  if (!given(op, O_TIMEOUT))
    return;
  if (!lua_istable(L, SLOT(O_TIMEOUT))) {
    const char *name = lua_pushfstring(L, "%s: timeout", what);
    t->total_ns = (uint64_t)(bind_check_seconds(L, SLOT(O_TIMEOUT), name) * 1e9 + 0.5);
    lua_pop(L, 1);
    return;
  }
  bind_check_options(L, SLOT(O_TIMEOUT), what, known, ARRAY_LEN(known));
  t->connect_ns = timeout_field(L, "connect", what, t->connect_ns);
  t->first_byte_ns = timeout_field(L, "first_byte", what, t->first_byte_ns);
  t->idle_ns = timeout_field(L, "idle", what, t->idle_ns);
  t->total_ns = timeout_field(L, "total", what, 0);
}

/* stream or api: which kind of generation the reply is */
static MAY_RAISE void read_api(lua_State *L, struct http_op *op, const char *what) {
  struct http_request *r = &op->request;
  if (given(op, O_STREAM) && given(op, O_API))
    bind_raise(L, "%s: stream expects an event stream and api a whole reply: give one of them",
               what);
  enum option o = given(op, O_STREAM) ? O_STREAM : O_API;
  const char *word = string_option(L, op, o, what);
  r->harmony = flag_option(L, op, O_HARMONY, what);
  if (!word)
    return;
  r->api = openai_api_from(word);
  r->expect_stream = o == O_STREAM;
  if (r->api == OPENAI_NONE) {
    static const char *const known[] = {"chat", "completions", "responses"};
    const char *near = err_nearest(word, known, ARRAY_LEN(known));
    bind_raise(L, "%s: %s = '%s' is none of chat, completions, responses%s%s%s", what,
               vu_option_names[o], word, near ? " (did you mean '" : "", near ? near : "",
               near ? "'?)" : "");
  }
}

/* ---- where it goes ---- */

/* http://host:port/path?query -> target of its origin, and the path on the stack */
static MAY_RAISE void read_url(lua_State *L, struct http_op *op, const char *url,
                               const char *what) {
  struct worker *w = op->vu->state->options.worker;
  if (given(op, O_PATH) || given(op, O_REPLICA))
    bind_raise(L, "%s: url is whole: path and replica belong to requests to the fleet", what);
  const char *host = strstr(url, "://");
  const char *path = host ? host + 3 + strcspn(host + 3, "/?#") : "";
  if (*path == '/' || !*path)
    op->request.path = *path ? path : "/";
  else
    op->request.path = lua_pushfstring(L, "/%s", path); /* stays above the slots */
  const char *origin = lua_pushlstring(L, url, host ? (size_t)(path - url) : strlen(url));
  const struct http_target_options options = {.url = origin};
  struct err err;
  const char *dot = host ? memmem(origin, strlen(origin), ".simulated", 10) : NULL;
  if (loop_is_virtual(w->loop) && !(dot && !dot[10]))
    bind_raise(L,
               "%s: %s cannot be reached in a dry run, which has no sockets: url can be that of a "
               "replica of vu.fleet; `perigee run` sends this request",
               what, origin);
  if (http_client_target(w->client, &options, &op->request.target, &err))
    bind_raise(L, "%s: %s", what, err.text);
  lua_pop(L, 1);
}

/* The first of the fleet, whatever is said of it, when nothing is in rotation. */
static size_t first_in_rotation(const struct worker *w) {
  size_t replica = router_stand_in(w->run->router, 0);
  return replica != ROUTER_NONE ? replica : 0;
}

static MAY_RAISE void read_target(lua_State *L, struct http_op *op, const char *what) {
  struct vu *vu = op->vu;
  struct worker *w = vu->state->options.worker;
  const struct fleet *f = vu->state->options.fleet;
  const char *url = string_option(L, op, O_URL, what);
  if (url) {
    read_url(L, op, url, what);
    return;
  }
  const char *path = string_option(L, op, O_PATH, what);
  if (!path || *path != '/')
    bind_raise(L, "%s: %s", what,
               path ? "path must begin with /" : "give path (of the fleet) or url");
  op->request.path = path;
  if (given(op, O_REPLICA))
    op->replica = vu_check_replica(L, vu, SLOT(O_REPLICA), what);
  else if (!f || (!f->gateway && f->n_replicas == 0))
    bind_raise(L, "%s: there is no fleet to send to: give url, or run with --replica id=url", what);
  else if (!f->gateway)
    op->replica = first_in_rotation(w);
  op->request.target = w->targets[op->replica != NO_REPLICA ? op->replica : f->n_replicas];
}

/* ---- headers ---- */

/* Whether the first `upto` bytes of the lines hold a header of this name. */
static bool has_header(const struct buf *b, size_t upto, const char *name, size_t len) {
  for (size_t at = 0; at < upto;) {
    const char *p = b->data + at;
    if (strncasecmp(p, name, len) == 0 && p[len] == ':')
      return true;
    at += (size_t)(strstr(p, "\r\n") - p) + 2;
  }
  return false;
}

/* Whether there is no NUL and no line break in it; in a name no colon either. */
static bool is_clean(const char *s, size_t len, bool name) {
  if (name && memchr(s, ':', len))
    return false;
  const char *end = s + len;
  while ((s = json_plain_run(s, end)) < end) { /* something rare: is it one of these? */
    if (*s == '\0' || *s == '\r' || *s == '\n')
      return false;
    s++;
  }
  return true;
}

static bool is_content_type(const char *name, size_t len) {
  return len == 12 && strncasecmp(name, "content-type", 12) == 0;
}

static bool is_request_id(const char *name, size_t len) {
  return len == 12 && strncasecmp(name, "x-request-id", 12) == 0;
}

/* The line that was just added is one. */
static void note_id(struct http_op *op, size_t value_len) {
  op->id_at = op->headers.len - 2 - value_len;
  op->id_len = value_len;
}

/* Every generation request has an id, the script's own or one that no other has: servers' logs go
 * by it. */
static void add_id(struct http_op *op) {
  char id[REQUESTID_MAX];
  if (op->request.api == OPENAI_NONE || op->id_len)
    return;
  size_t len = worker_request_id(op->vu->state->options.worker, id);
  buf_puts(&op->headers, "X-Request-Id: ");
  buf_put(&op->headers, id, len);
  buf_puts(&op->headers, "\r\n");
  note_id(op, len);
}

static MAY_RAISE void add_header(lua_State *L, struct http_op *op, int key, int value,
                                 const char *what) {
  if (lua_type(L, key) != LUA_TSTRING || !lua_isstring(L, value))
    bind_raise(L, "%s: headers are pairs name = \"value\"", what);
  size_t name_len, len;
  const char *name = lua_tolstring(L, key, &name_len), *text = lua_tolstring(L, value, &len);
  if (!is_clean(name, name_len, true) || !is_clean(text, len, false))
    bind_raise(L, "%s: header '%s' holds a line break, colon or NUL where it may not", what, name);
  struct buf *b = &op->headers;
  op->has_type = op->has_type || is_content_type(name, name_len);
  buf_put(b, name, name_len);
  buf_put(b, ": ", 2);
  buf_put(b, text, len);
  buf_put(b, "\r\n", 2);
  if (is_request_id(name, name_len))
    note_id(op, len);
}

static MAY_RAISE void add_script_headers(lua_State *L, struct http_op *op, const char *what) {
  struct bind_entry entries[MAX_HEADERS];
  if (!lua_istable(L, SLOT(O_HEADERS)))
    bind_raise(L, "%s: headers must be a table of names and values, got %s", what,
               luaL_typename(L, SLOT(O_HEADERS)));
  int top = lua_gettop(L);
  int quick = bind_sorted_entries(L, SLOT(O_HEADERS), entries, MAX_HEADERS);
  for (int i = 0; i < quick; i++)
    add_header(L, op, entries[i].at - 1, entries[i].at, what);
  lua_settop(L, top);
  if (quick >= 0)
    return;
  bind_push_sorted_keys(L, SLOT(O_HEADERS));
  lua_Integer n = (lua_Integer)lua_rawlen(L, top + 1);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, top + 1, i);
    lua_pushvalue(L, -1);
    lua_gettable(L, SLOT(O_HEADERS));
    add_header(L, op, top + 2, top + 3, what);
    lua_pop(L, 2);
  }
  lua_pop(L, 1);
}

/* The script's headers go first; those of the fleet that it did not set follow, unless the request
 * goes elsewhere: keys go to the fleet alone. */
static MAY_RAISE void read_headers(lua_State *L, struct http_op *op, const char *what) {
  struct buf *b = &op->headers;
  if (given(op, O_HEADERS))
    add_script_headers(L, op, what);
  const struct fleet *f = op->vu->state->options.fleet;
  const char *p = f && f->headers && !given(op, O_URL) ? f->headers : "";
  size_t own = b->len;
  for (const char *end; (end = strstr(p, "\r\n")); p = end + 2)
    if (!has_header(b, own, p, strcspn(p, ":"))) {
      op->has_type = op->has_type || is_content_type(p, strcspn(p, ":"));
      buf_put(b, p, (size_t)(end + 2 - p));
      if (is_request_id(p, strcspn(p, ":")))
        note_id(op, (size_t)(end - p) - 13 - strspn(p + 13, " "));
    }
  add_id(op);
  if (!op->has_type && (given(op, O_BODY) || given(op, O_JSON)))
    buf_puts(b, "Content-Type: application/json\r\n");
  op->request.headers = b->len ? b->data : NULL;
}

/* A body userdata takes the slot of what it was made of. */
static MAY_RAISE void read_body(lua_State *L, struct http_op *op, const char *what) {
  struct http_request *r = &op->request;
  if (given(op, O_BODY) && given(op, O_JSON))
    bind_raise(L, "%s: body and json are two ways to say the same: give one of them", what);
  enum option o = given(op, O_JSON) ? O_JSON : O_BODY;
  const char *method = string_option(L, op, O_METHOD, what);
  r->method = method ? method : given(op, o) ? "POST" : "GET";
  if (!given(op, o))
    return;
  if (o == O_JSON && !lua_istable(L, SLOT(O_JSON)))
    bind_raise(L, "%s: json must be a table, got %s", what, luaL_typename(L, SLOT(O_JSON)));
  if (o == O_JSON) {
    struct buf *b = bind_scratch_buf(L);
    bind_write_json(L, SLOT(O_JSON), b);
    op->json = blob_new(b->data, b->len);
    r->parts = &op->json;
    r->n_parts = 1;
    return;
  }
  struct bind_body *body = bind_check_body(L, SLOT(o));
  lua_replace(L, SLOT(o));
  r->parts = body->parts;
  r->n_parts = body->n;
}

/* ---- the row's identity ---- */

static char *copy_option(lua_State *L, const struct http_op *op, enum option o, const char *what) {
  const char *text = string_option(L, op, o, what);
  return text ? sample_keep(op->request.sample, text, strlen(text)) : NULL;
}

static MAY_RAISE void fill_sample(lua_State *L, struct http_op *op, const char *what) {
  struct vu *vu = op->vu;
  const struct state_options *o = &vu->state->options;
  struct sample *s = op->request.sample = sample_new();
  s->arm = o->arm;
  s->session = vu->session;
  s->measured = vu->measured;
  s->turn = (uint32_t)count_option(L, op, O_TURN, 1, 0, what);
  s->step = (uint32_t)count_option(L, op, O_STEP, 1, 0, what);
  s->branch = (uint32_t)count_option(L, op, O_BRANCH, 0, vu->branch, what);
  s->parent =
      (int32_t)count_option(L, op, O_PARENT, 0, given(op, O_BRANCH) ? -1 : vu->parent_branch, what);
  if (op->id_len)
    s->request_id = sample_keep(s, op->headers.data + op->id_at, op->id_len);
  s->tags = vu_tags_json(L, vu, SLOT(O_TAGS), what);
  s->prompt_tokens_local = count_option(L, op, O_PROMPT_TOKENS, 0, SAMPLE_ABSENT, what);
  s->asked_tokens = count_option(L, op, O_ASKED_TOKENS, 1, SAMPLE_ABSENT, what);
  s->survived_tokens = count_option(L, op, O_SURVIVED_TOKENS, 0, SAMPLE_ABSENT, what);
  if (!loop_is_virtual(o->loop)) { /* there the client's own work takes no time */
    s->render_ns = count_option(L, op, O_RENDER_NS, 0, SAMPLE_ABSENT, what);
    s->tokenize_ns = count_option(L, op, O_TOKENIZE_NS, 0, SAMPLE_ABSENT, what);
    s->hash_ns = count_option(L, op, O_HASH_NS, 0, SAMPLE_ABSENT, what);
  }
  const char *policy = string_option(L, op, O_POLICY, what);
  if (policy && strlen(policy) > METRICS_NAME_MAX)
    bind_raise(L, "%s: the policy's name has %d bytes, at most %d are kept", what,
               (int)strlen(policy), METRICS_NAME_MAX);
  s->policy = policy ? store_word(o->store, policy) : NULL;
  s->chosen = copy_option(L, op, O_CHOSEN, what);
  s->route_reason = copy_option(L, op, O_ROUTE_REASON, what);
  s->fallback = flag_option(L, op, O_FALLBACK, what);
  if (op->replica != NO_REPLICA && !op->request.refused) {
    const char *id = o->fleet->replicas[op->replica].id;
    s->served = sample_keep(s, id, strlen(id));
  }
}

static MAY_RAISE uint64_t due_time(lua_State *L, const struct http_op *op, const char *what) {
  const struct vu *vu = op->vu;
  if (!given(op, O_SCHED))
    return vu->due_ns;
  double s = lua_tonumber(L, SLOT(O_SCHED));
  if (lua_type(L, SLOT(O_SCHED)) != LUA_TNUMBER || !isfinite(s) || s < 0)
    bind_raise(L, "%s: sched must be a time on vu:now()'s clock, got %s", what,
               bind_shown(L, SLOT(O_SCHED)));
  uint64_t now = loop_refresh(vu->state->options.loop),
           zero = vu->state->options.worker->run->zero_ns;
  double now_s = (double)(now - zero) / 1e9;
  if (s > now_s)
    bind_raise(L, "%s: sched = %g lies %g s in the future: vu:sleep until then", what, s,
               s - now_s);
  return zero + (uint64_t)(s * 1e9);
}

/* ---- its life ---- */

static void op_done(struct http_request *r) {
  struct http_op *op = r->user;
  struct vu *vu = op->vu;
  end_op(op);
  uint64_t done = r->stamp_ns[STAMP_DONE];
  vu->due_ns = done != SAMPLE_NEVER ? done : loop_now(vu->state->options.loop);
  vu_wake(vu);
}

static void op_cancel(struct vu *vu) {
  struct http_op *op = vu->op;
  http_request_cancel(&op->request,
                      vu->stop.error == SAMPLE_INCOMPLETE ? SAMPLE_INCOMPLETE : SAMPLE_CANCELLED);
  end_op(op);
}

static int op_resumed(lua_State *L, struct vu *vu) {
  struct http_op *op = lua_touserdata(L, AT_OP);
  struct http_request *r = &op->request;
  const struct fleet *f = vu->state->options.fleet;
  if (r->error == SAMPLE_OK) {
    vu_push_result(L, r, op->replica != NO_REPLICA ? f->replicas[op->replica].id : NULL);
    clear_op(op);
    return 1;
  }
  vu->root->request_failed = true;
  if (!op->tries) {
    vu_push_failure(L, r->error, r->detail);
    vu_push_response(L, r);
    lua_setfield(L, -2, "response");
    clear_op(op);
    return lua_error(L);
  }
  lua_pushnil(L);
  lua_pushstring(L, sample_error_name(r->error));
  lua_pushstring(L, r->detail);
  vu_push_response(L, r);
  clear_op(op);
  return 4;
}

static MAY_RAISE int request(lua_State *L, bool tries) {
  const char *what = tries ? "vu:try_http" : "vu:http";
  struct vu *vu = bind_check_vu(L, AT_VU);
  vu_check_wait(L, vu, what);
  lua_settop(L, AT_OPTIONS);
  struct http_op *op = push_op(L, vu);
  struct http_request *r = &op->request;
  op->tries = tries;
  spread_options(L, op, what);
  if (given(op, O_CALLER)) /* what the author called, for messages: conv:send */
    what = string_option(L, op, O_CALLER, what);
  read_target(L, op, what);
  read_api(L, op, what);
  read_body(L, op, what);
  read_headers(L, op, what);
  read_timeouts(L, op, what);
  r->max_body = (size_t)count_option(L, op, O_MAX_BODY, 1, 0, what);
  r->follow_redirects = flag_option(L, op, O_REDIRECTS, what);
  r->accept_compressed = flag_option(L, op, O_COMPRESSED, what);
  r->sched_ns = due_time(L, op, what);
  r->refused = string_option(L, op, O_REFUSED, what); /* by who chose the replica: not sent */
  if (vu->root->kind == VU_SESSION)
    fill_sample(L, op, what);
  r->done = op_done;
  struct err err;
  if (http_request_start(vu->state->options.worker->client, r, &err))
    bind_raise(L, "%s: %s", what, err.text);
  op->running = true;
  if (op->replica != NO_REPLICA && !r->refused) {
    if (!vu_take_pick(vu, op->replica))
      router_take(vu->state->options.worker->run->router, op->replica);
    op->counted = true;
  }
  vu->op = op;
  return vu_wait(L, vu, op_cancel, op_resumed);
}

/* http{…} -> result; a failure ends the session unless it is caught */
int vu_method_http(lua_State *L) {
  return request(L, false);
}

/* try_http{…} -> result, or nil, class, detail, response */
int vu_method_try_http(lua_State *L) {
  return request(L, true);
}

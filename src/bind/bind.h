/* bind.h: what the binding files share: checked arguments, values, blobs, bodies, the virtual user.
 *
 * Functions marked MAY_RAISE leave by longjmp on misuse, with a message that names the argument. No
 * C resource may be live across them unless it is a userdata with __gc (STYLE.md 8). */
#ifndef BIND_BIND_H
#define BIND_BIND_H

#include <lauxlib.h>
#include <lua.h>

#include "base/blob.h"
#include "base/buf.h"
#include "text/value.h"

struct vu;

/* Opens Lua with perigee's environment: embedded modules, package.path, sorted pairs, guarded
 * math.random and os.time. Defined in bind/open.c. `script_dir` may be NULL. */
int bind_open(lua_State *L, const char *script_dir);

/* ---- Lua <-> struct value. Tables made by perigee.json keep kind and key order; plain
 * tables: 1..n without gaps is an array, everything else an object with sorted keys; an empty plain
 * table is an object unless made by json.array. ---- */
MAY_RAISE void bind_to_value(lua_State *L, int index, struct value *out);
/* nil for null unless `keep_null` (then perigee.json.null). Objects and arrays come as json tables
 * (below), so encoding them again gives the same bytes. With keep_null false a null in an array
 * still is json.null (a list has no holes); in an object its key is left out. */
MAY_RAISE void bind_push_value(lua_State *L, const struct value *v, bool keep_null);
/* bind_to_value raises, with the path of the culprit (".messages[2].content"), for functions,
 * NaN and infinities, keys that are neither strings nor whole numbers, and depth over 200. Text
 * handles become strings. *out is null when it raises. */

/* Appends the canonical JSON of the value at `index`: the bytes of json_write for what
 * bind_to_value makes of it, and raises as that does. Plain tables go straight into the buffer
 * (bind/luawrite.c); the
 * buffer must be a held or scratch one. */
MAY_RAISE void bind_write_json(lua_State *L, int index, struct buf *b);

/* ---- json tables: what perigee.json makes and bind_push_value pushes (bind/luavalue.c). An array
 * is a table with the metatable of BIND_JSON_ARRAY; null in it is lightuserdata NULL, which is
 * perigee.json.null. An object is a table with a metatable of BIND_JSON_OBJECT: it holds its values
 * like any table, and the order of its keys under the key lightuserdata(bind_json_order()), a list
 * of key names; or the metatable does, for all objects of one shape, until one of them changes. New
 * keys are appended to it by __newindex, a key set to nil leaves it when it is read, pairs() walks
 * it in that order. ---- */
#define BIND_JSON_OBJECT "perigee.json.object"
#define BIND_JSON_ARRAY "perigee.json.array"
/* Push a new empty one; fill with lua_setfield / lua_settable / bind_object_set, or lua_rawseti. */
MAY_RAISE void bind_push_object(lua_State *L);
MAY_RAISE void bind_push_array(lua_State *L);
/* The same with room; an object's hidden list counts as one key. */
MAY_RAISE void bind_push_object_for(lua_State *L, size_t keys);
MAY_RAISE void bind_push_array_for(lua_State *L, size_t items);
/* Pushes what bind_push_value makes of a JSON text's value (a lone null: perigee.json.null), or
 * pushes nothing and returns false: json_parse then knows whether and where the text is wrong
 * (bind/luaread.c). The text must stay where it is meanwhile. */
MAY_RAISE bool bind_read_json(lua_State *L, const char *text, size_t len, bool keep_null);
/* Strings that come again and again (replies' headers, their names): a state makes few of the same
 * bytes twice. `kept` is the place on the stack of what bind_known_open pushed. */
struct bind_known {
  void *memory;
  int kept;
};
MAY_RAISE void bind_known_open(lua_State *L, struct bind_known *known);
MAY_RAISE void bind_push_known(lua_State *L, const struct bind_known *known, const char *s,
                               size_t len);
/* Replies' headers mostly are the ones before, byte for byte: pushes a table of them, or nothing
 * and returns false; then the table, once it is on top, is for the next time. */
MAY_RAISE bool bind_push_known_head(lua_State *L, const struct bind_known *known, const char *bytes,
                                    size_t len);
MAY_RAISE void bind_note_head(lua_State *L, const struct bind_known *known, const char *bytes,
                              size_t len);
/* object[key] = the value on top (popped); appends the key when it is new. */
MAY_RAISE void bind_object_set(lua_State *L, int index, const char *key, size_t key_len);
const void *bind_json_order(void);
/* Makes the table on top an object, without an order so far. */
MAY_RAISE void bind_make_object(lua_State *L);
/* Pushes a new metatable of objects whose keys are, in that order, those of the list on top, which
 * has no repeats and stays as it is: an object makes a copy before it changes it. */
MAY_RAISE void bind_push_object_type(lua_State *L);
/* Pushes the metatable of arrays. */
MAY_RAISE void bind_push_array_type(lua_State *L);
bool bind_is_object(lua_State *L, int index);
bool bind_is_array(lua_State *L, int index);
/* Pushes a list of the keys of any table in canonical order: an object's own order; else whole
 * numbers ascending, other numbers ascending, strings by bytes, false, true, and then keys of other
 * types in the table's own order (the count of those is returned). Hidden keys are left out. */
MAY_RAISE size_t bind_push_sorted_keys(lua_State *L, int index);
/* The quick form of that for plain tables of at most `max` string keys: the entries sorted by key,
 * keys and values above the stack's old top (no key is looked up again). −1: another kind of table;
 * the stack then holds anything above its old top, as it does behind the entries. */
struct bind_entry {
  const char *key; /* lives as long as the table holds it */
  size_t len;
  uint64_t head; /* its first bytes, for comparing */
  int at;        /* the value's place on the stack */
};
MAY_RAISE int bind_sorted_entries(lua_State *L, int index, struct bind_entry *entries, int max);
/* Replaces the key on top by the next one of the table in that order (nil: the first); pops it and
 * returns false at the end. Costs a walk of the whole table. */
MAY_RAISE bool bind_next_key(lua_State *L, int index);

/* ---- text handles (bind/text.c): userdata over a blob, possibly made at first use ---- */
/* A string or a text handle at `index`; returns a new reference held by a userdata pushed on the
 * stack (so that a later raise frees it). */
MAY_RAISE struct blob *bind_check_text(lua_State *L, int index);
/* Pushes a handle that owns a reference of its own. */
MAY_RAISE void bind_push_text(lua_State *L, struct blob *text);

/* ---- bodies (bind/body.c): a list of blobs to send, userdata ---- */
struct bind_body {
  struct blob **parts;
  size_t n, cap;
};
/* A body userdata, a string, a text handle, or a table (canonical JSON): pushes a body userdata and
 * returns it. */
MAY_RAISE struct bind_body *bind_check_body(lua_State *L, int index);
MAY_RAISE struct bind_body *bind_new_body(lua_State *L);
void bind_body_add(struct bind_body *b, struct blob *part); /* takes its own reference */

/* ---- the virtual user (bind/vu_*.c): what chat.lua and route.lua may count on beyond API.md ----
 *
 * Options of vu:http{…} and vu:try_http{…}:
 * - method, url | path, headers {name = value}, body (string, text, body userdata) | json (a value)
 * - replica: index or id; without: the gateway when the fleet has one, else the first replica
 * - timeout: seconds, or {connect, first_byte, idle, total}
 * - sched: seconds on vu:now()'s clock; default: the end of what this user waited for, and sleeps
 * - stream = "chat" | "completions" | "responses": an event stream of that kind is expected
 * - api = the same words: a whole JSON reply of that kind is expected (not streamed)
 * - max_body (bytes), redirects (true: follow), compressed (true: accept)
 * - identity in the row: turn, step, branch, parent (default: the user's own branch and its
 *   parent's), tags {k = v} (over vu:tag's), policy, chosen (replica id), route_reason, fallback,
 *   prompt_tokens (our count: prompt_tokens_local), survived_tokens, render_ns, tokenize_ns,
 *   hash_ns
 *
 * Result:
 * - always: status, headers (lower-case names), served (replica id or nil), e2e (seconds)
 * - a plain reply: body
 * - stream or api: text, reasoning, tool_calls {{id, name, arguments}, …}, finish_reason, usage
 *   {prompt_tokens, completion_tokens, total_tokens, cached_tokens, reasoning_tokens},
 *   output_tokens, ttft (seconds), response_id
 *
 * Routing:
 * - vu:pick_next(counter) -> index: round robin, exact over all workers
 * - vu:pick_least() -> index, counted in flight at once; vu:pick(index) counts one in flight
 * - vu:inflight(index) -> n
 * - vu:in_rotation(index) -> boolean; vu:stand_in(index) -> it, or the next in rotation behind it
 * - pick_next, pick_least and stand_in give nil when no replica is in rotation
 * - The next vu:http to that replica takes the counted pick over and ends it when it is over; a
 * pick that no request took over ends with the virtual user. A request to a replica that was not
 * picked counts itself, so authors need none of this.
 *
 * More fields: vu:branch() -> a new branch number of the session (for a fork on the same vu);
 * vu.branch_id (0 = the trunk), vu.parent_branch (nil on the trunk); vu.route: the plan's `route`
 * as given (nil when absent); vu.fleet: {replicas = {{id, url, spare}, …}, gateway, model, tenant,
 * simulated}, read-only.
 *
 * Expected failures are tables with the fields class and detail and the metatable BIND_FAILURE;
 * vu:fail(class, detail) raises one. A pcall catches them and the session goes on; that a session
 * was cancelled or stopped, no pcall catches. */
#define BIND_FAILURE "perigee.failure"
/* The virtual user of an argument; raises when it is not one, or has ended. */
MAY_RAISE struct vu *bind_check_vu(lua_State *L, int index);

/* ---- quantities: a number in base units or a string with a unit. Raise at the author's line,
 * like bind_check_options: `what` names the option ("timeout.total") ---- */
MAY_RAISE double bind_check_seconds(lua_State *L, int index, const char *what);

/* Raises "unknown option 'x' (did you mean 'y'?)" for any key of the table at `index` that is not
 * in `known`. */
MAY_RAISE void bind_check_options(lua_State *L, int index, const char *where,
                                  const char *const *known, size_t n);

/* One open function per module: luaopen_perigee_json (bind/json.c) … they are listed in
 * bind/open.c. */

/* ---- in messages ---- */

/* Pushes the value at `index` as a message says it: the string "four", 4, nil, or its type; returns
 * the pushed text. Long strings are cut. */
MAY_RAISE const char *bind_shown(lua_State *L, int index);
/* Pushes an error value as text: a table without a tostring of its own as canonical JSON, cut at
 * 200 bytes, behind the author's line. For message handlers. */
MAY_RAISE void bind_push_error_text(lua_State *L, int index);

#endif

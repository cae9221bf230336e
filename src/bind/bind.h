/* bind.h: what the binding files share: checked arguments, values, blobs, bodies, the virtual user.
 *
 * Functions marked MAY_RAISE leave by longjmp on misuse, with a message that names the argument. No
 * C resource may be live across them unless it is a userdata with __gc (STYLE.md 8). */
#ifndef BIND_BIND_H
#define BIND_BIND_H

#include <lauxlib.h>
#include <lua.h>

#include "base/blob.h"
#include "text/value.h"

struct vu;

/* Opens Lua with perigee's environment: embedded modules, package.path, sorted pairs, guarded
 * math.random and os.time. Defined in bind/open.c. `script_dir` may be NULL. */
int bind_open(lua_State *L, const char *script_dir);

/* ---- Lua <-> struct value. Tables made by perigee.json keep kind and key order; plain
 * tables: 1..n without gaps is an array, everything else an object with sorted keys; an empty plain
 * table is an object unless made by json.array. ---- */
MAY_RAISE void bind_to_value(lua_State *L, int index, struct value *out);
/* nil for null unless `keep_null` (then perigee.json.null). */
MAY_RAISE void bind_push_value(lua_State *L, const struct value *v, bool keep_null);

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

/* ---- the virtual user of an argument; raises when it is not one ---- */
MAY_RAISE struct vu *bind_check_vu(lua_State *L, int index);

/* ---- quantities: a number in base units or a string with a unit ---- */
MAY_RAISE double bind_check_seconds(lua_State *L, int index, const char *what);

/* Raises "unknown option 'x' (did you mean 'y'?)" for any key of the table at `index` that is not
 * in `known`. */
MAY_RAISE void bind_check_options(lua_State *L, int index, const char *where,
                                  const char *const *known, size_t n);

/* One open function per module: luaopen_perigee_json (bind/json.c) … they are listed in
 * bind/open.c. */

#endif

/* vu_bind.h: what the files that make up the virtual user in Lua share. */
#ifndef BIND_VU_BIND_H
#define BIND_VU_BIND_H

#include <lua.h>

#include "run/vu.h"

/* Makes the types of users, tasks and failures. Once per state. */
MAY_RAISE void bind_vu_open(lua_State *L);

/* Methods, by file: vu_methods.c, vu_http.c, vu_tasks.c, route.c. */
MAY_RAISE int vu_method_branch(lua_State *L), vu_method_check(lua_State *L),
    vu_method_fail(lua_State *L), vu_method_log(lua_State *L), vu_method_now(lua_State *L),
    vu_method_record(lua_State *L), vu_method_sleep(lua_State *L), vu_method_tag(lua_State *L);
MAY_RAISE int vu_method_http(lua_State *L), vu_method_try_http(lua_State *L);
MAY_RAISE int vu_method_all(lua_State *L), vu_method_spawn(lua_State *L);
MAY_RAISE int vu_task_join(lua_State *L), vu_task_gc(lua_State *L);
MAY_RAISE int vu_method_pick_next(lua_State *L), vu_method_pick_least(lua_State *L);
MAY_RAISE int vu_method_pick(lua_State *L), vu_method_inflight(lua_State *L);
MAY_RAISE int vu_method_in_rotation(lua_State *L), vu_method_stand_in(lua_State *L);

/* Raises how to call the method that runs: on a user, with a colon. */
MAY_RAISE NORETURN void vu_refuse_self(lua_State *L);
/* Raises an expected failure: {class, detail}. */
MAY_RAISE NORETURN void vu_raise_failure(lua_State *L, enum sample_error error, const char *detail);
/* The tags of a row as canonical JSON: the user's, and over them the table at `index` unless it is
 * nil; NULL when there are none. The caller frees. `what` names the method in errors. */
MAY_RAISE char *vu_tags_json(lua_State *L, struct vu *vu, int index, const char *what);
/* The 0-based number of the replica at `index`, an index from 1 or an id; raises with the nearest
 * id. */
MAY_RAISE size_t vu_check_replica(lua_State *L, const struct vu *vu, int index, const char *what);
/* place(x, index) -> index, id: the replica when x is a live virtual user and it is one of the
 * fleet and in rotation; else nothing, and the long way says what is wrong. */
MAY_RAISE int vu_place(lua_State *L);
/* Takes a counted pick of this replica over from the user; false when there is none. */
bool vu_take_pick(struct vu *vu, size_t replica);

/* ---- vu_fleet.c: what can be done to the fleet ---- */
/* Pushes a table of the methods; adds them to the table on top. */
MAY_RAISE void vu_push_fleet_methods(lua_State *L);
MAY_RAISE void vu_add_fleet_methods(lua_State *L);

/* ---- vu_result.c: pushes what a reply said, as vu:http returns it ---- */
struct http_request;
MAY_RAISE void vu_push_result(lua_State *L, const struct http_request *r, const char *replica_id);
/* Of a failure: { status =, retry_after =, headers = }, as far as a reply came. */
MAY_RAISE void vu_push_response(lua_State *L, const struct http_request *r);

#endif

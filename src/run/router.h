/* router.h: the state a routing policy needs, one object per arm, shared by all workers behind one
 * mutex: round robin is exact and least-in-flight is global for any number of workers. Policies
 * themselves are Lua (lua/perigee/route.lua); this is what they stand on. */
#ifndef RUN_ROUTER_H
#define RUN_ROUTER_H

#include "base/base.h"

struct router;
struct router *router_new(size_t n_replicas);
void router_delete(struct router *r);
size_t router_replicas(const struct router *r);
/* 0-based index; the counter is named so that several policies (or models) can each have their own
 * turn. */
size_t router_next(struct router *r, const char *counter);
/* The replica with the fewest requests in flight; ties go to the one that was picked longest ago.
 * The pick is counted in flight at once, under the same lock. */
size_t router_take_least(struct router *r);
/* Counts one in flight on `index`, and its end. Every take is matched by one router_done. */
void router_take(struct router *r, size_t index);
void router_done(struct router *r, size_t index);
uint64_t router_inflight(const struct router *r, size_t index);
uint64_t router_picked(const struct router *r, size_t index); /* in all */

#endif

/* router.h: the state a routing policy needs, one object per arm, shared by all workers behind one
 * mutex: round robin is exact and least-in-flight is global for any number of workers. Policies
 * themselves are Lua (lua/perigee/route.lua); this is what they stand on.
 *
 * Rotation: a replica that is out of it gets no new requests. Who takes one out or puts one in (a
 * run's timeline) calls router_set_in_rotation, from any thread: out of it before a replica is told
 * to drain or end, into it once it is up. Whether one is in is read without a lock. The fleet has
 * its final size from the start: replicas that may be added later, the spares, are its last ones
 * and begin out of rotation. */
#ifndef RUN_ROUTER_H
#define RUN_ROUTER_H

#include "base/base.h"

#define ROUTER_NONE SIZE_MAX /* nothing is in rotation */

struct router;
/* The last n_spares of the n_replicas begin out of rotation. */
struct router *router_new(size_t n_replicas, size_t n_spares);
void router_delete(struct router *r);
size_t router_replicas(const struct router *r);

/* ---- rotation ---- */

/* True when that was a change. Requests under way are not touched, and one that was just given this
 * replica may still be on its way to it. */
bool router_set_in_rotation(struct router *r, size_t index, bool in);
bool router_in_rotation(const struct router *r, size_t index);
size_t router_n_in_rotation(const struct router *r);
/* `index` while it is in rotation, else the next one in it, in the fleet's order and round its end;
 * ROUTER_NONE. */
size_t router_stand_in(const struct router *r, size_t index);
/* The part, 0 to 1, of all picks so far that were made while it was in rotation, whichever replica
 * they went to; -1: it never was. */
double router_rotation_share(const struct router *r, size_t index);

/* ---- picks ---- */

/* 0-based index of one in rotation, or ROUTER_NONE; the counter is named so that several policies
 * (or models) can each have their own turn. Those out of rotation lose their turns. */
size_t router_next(struct router *r, const char *counter);
/* The replica in rotation with the fewest requests in flight; ties go to the one that was picked
 * longest ago. The pick is counted in flight at once, under the same lock. ROUTER_NONE: nothing is
 * counted. */
size_t router_take_least(struct router *r);
/* Counts one in flight on `index`, in rotation or not, and its end. Every take is matched by one
 * router_done. */
void router_take(struct router *r, size_t index);
void router_done(struct router *r, size_t index);
uint64_t router_inflight(const struct router *r, size_t index);
uint64_t router_picked(const struct router *r, size_t index); /* in all */

#endif

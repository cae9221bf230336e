/* watch.h: what a worker's thread lets others see while nobody can ask it: while it is inside Lua.
 *
 * A script may call a C function that never returns (a pathological string.find, io.read, a library
 * of its own) or loop where hooks are off (__gc). The thread cannot be stopped then, but it can be
 * given up: it says when it goes in and marks its way out, and whoever claims it in between may
 * read everything that only changes outside of Lua. A claimed thread that does come out stops for
 * good right there. The owner enters and leaves; any other thread looks and claims. Nothing here
 * takes a lock. */
#ifndef RUN_WATCH_H
#define RUN_WATCH_H

#include "base/base.h"

enum watch_what {
  WATCH_LOADING, /* the script, or a module of it */
  WATCH_RUNNING, /* setup, a session, teardown */
  WATCH_CALLING, /* something short of our own inside Lua */
  WATCH_COLLECTING,
  WATCH_CLOSING,  /* the state ends: its __gc methods run */
  WATCH_RESOLVING /* not Lua: names are looked up before the run */
};

/* A line of a script, written by the owner at any time. */
#define WATCH_WORDS 8
struct watch_place {
  uint64_t chunk[WATCH_WORDS]; /* atomic: up to 63 bytes of its name */
  uint32_t line;               /* atomic; 0 = not known */
  uint32_t waited; /* atomic: the line is where it last waited, else where it was seen */
};

struct watch {
  uint64_t word;                   /* atomic: entry number and enum watch_state */
  uint64_t session;                /* atomic: WATCH_NO_SESSION, or its number */
  uint32_t what;                   /* atomic: enum watch_what */
  uint32_t kind;                   /* atomic: the caller's, for WATCH_RUNNING */
  uint32_t blocked;                /* atomic: it waits for another worker, by design */
  const struct watch_place *place; /* atomic; lives as long as the entry */
  unsigned depth;                  /* the owner's */
};

#define WATCH_NO_SESSION UINT64_MAX

/* ---- the owner; a NULL watch does nothing ---- */

/* Entries nest; the outermost counts. `place` may be NULL. */
void watch_enter(struct watch *w, enum watch_what what, uint32_t kind, uint64_t session,
                 const struct watch_place *place);
/* Does not return when the thread was claimed meanwhile. */
void watch_leave(struct watch *w);
/* It waits for another worker (shared data that is being built there). */
void watch_block(struct watch *w, bool blocked);
void watch_set_place(struct watch_place *p, const char *chunk, int line, bool waited);

/* ---- others ---- */

/* Whether it is inside; *entry tells one stay from the next. */
bool watch_inside(const struct watch *w, uint64_t *entry);
/* Gives the thread up if it still is in that stay: true at most once. From then on everything it
 * wrote before it entered may be read. */
bool watch_claim(struct watch *w, uint64_t entry);
/* "s.lua:12", or "" when not known; whether that is where it last waited. Any time; exact once
 * claimed. */
bool watch_read_place(const struct watch_place *p, char *out, size_t size);

#endif

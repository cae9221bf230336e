/* luamemory.h: short strings that a Lua state has met and will meet again: keys and values of
 * replies, headers. Pushing one that is known makes no new string.
 *
 * A state has one memory, made at first use. The strings themselves lie in a list, `kept`, which
 * the caller has on the stack (or as an upvalue) while it works; what is behind the list's first
 * MEMORY_KEPT places is luaread.c's. A slot is given away when others need it, never while it was
 * used since the last time round. */
#ifndef BIND_LUAMEMORY_H
#define BIND_LUAMEMORY_H

#include <lua.h>

#include "base/base.h"

#define MEMORY_SHORT_MAX 40 /* Lua interns strings up to here: equal ones have the same address */
#define MEMORY_SLOTS 128    /* of each kind */

enum memory_kind { MEMORY_KEYS, MEMORY_STRINGS, MEMORY_KINDS };

#define MEMORY_KEPT (MEMORY_KINDS * MEMORY_SLOTS)

#define MEMORY_WAYS 4 /* slots of a set, of which the string's hash chooses one */

struct memory_set {
  uint32_t hash[MEMORY_WAYS];
  uint8_t len[MEMORY_WAYS];       /* 0: nothing here */
  bool used[MEMORY_WAYS];         /* since it was last passed over for a newcomer */
  const char *bytes[MEMORY_WAYS]; /* the Lua string's own */
  unsigned hand;                  /* where room was found last */
};

/* Zeroed memory is an empty one. */
struct memory_strings {
  struct memory_set sets[MEMORY_KEPT / MEMORY_WAYS];
};

/* The bytes of the string in a slot of a kind. */
static inline const char *memory_bytes(const struct memory_strings *m, enum memory_kind kind,
                                       size_t slot) {
  slot += (size_t)kind * MEMORY_SLOTS;
  return m->sets[slot / MEMORY_WAYS].bytes[slot % MEMORY_WAYS];
}

/* Pushes the string of 1 to MEMORY_SHORT_MAX bytes; returns its slot among those of its kind. A
 * slot's string is at place kind · MEMORY_SLOTS + slot + 1 of `kept`. *made: the slot was given
 * away for it. Raises without memory. */
MAY_RAISE size_t memory_push(lua_State *L, struct memory_strings *m, int kept,
                             enum memory_kind kind, const char *s, size_t len, bool *made);

#endif

/* luamemory.h: what a Lua state has met and will meet again: short strings (keys and values of
 * replies, headers), heads of replies, shapes of objects. Pushing what is known makes no string.
 *
 * A state has one memory, made at first use. The strings themselves lie in a list, `kept`, which
 * the caller has on the stack while it works. A string's slot is given away when others need it,
 * never while it was used since the last time round. */
#ifndef BIND_LUAMEMORY_H
#define BIND_LUAMEMORY_H

#include <lua.h>

#include "base/base.h"

#define MEMORY_SHORT_MAX 40 /* Lua interns strings up to here: equal ones have the same address */
#define MEMORY_SLOTS 128    /* of each kind */

/* What came as JSON strings, as they are in the text: no quote and no backslash is in them; and
 * what came in headers. */
enum memory_kind { MEMORY_KEYS, MEMORY_STRINGS, MEMORY_HEADERS, MEMORY_KINDS };

#define MEMORY_HEAD_FIELDS 16
#define MEMORY_HEAD_BYTES 400
#define MEMORY_HEADS 32 /* each replica has its own */
#define MEMORY_STRING_PLACES (MEMORY_KINDS * MEMORY_SLOTS)
#define MEMORY_KEPT (MEMORY_STRING_PLACES + 2 * MEMORY_HEAD_FIELDS * MEMORY_HEADS)

#define MEMORY_WAYS 4 /* slots of a set, of which the string's hash chooses one */

struct memory_set {
  uint32_t hash[MEMORY_WAYS];
  uint8_t len[MEMORY_WAYS];       /* 0: nothing here */
  bool used[MEMORY_WAYS];         /* since it was last passed over for a newcomer */
  const char *bytes[MEMORY_WAYS]; /* the Lua string's own */
  unsigned hand;                  /* where room was found last */
};

/* Headers that came as these same bytes twice: what they are in Lua is in the list. */
struct memory_head {
  char bytes[MEMORY_HEAD_BYTES];
  uint16_t len; /* 0: nothing here */
  uint8_t n;    /* fields */
  bool known;   /* else they came once */
};

/* Zeroed memory is an empty one. */
struct memory_strings {
  struct memory_set sets[MEMORY_STRING_PLACES / MEMORY_WAYS];
  struct memory_head heads[MEMORY_HEADS];
  uint64_t head_keys[MEMORY_HEADS]; /* of their bytes */
  uint32_t head_hand;               /* where the next one goes */
};

#define MEMORY_SHAPES 32 /* fewer than 256 */
#define MEMORY_SHAPE_KEYS 12

/* Keys of objects, in their order: luaread.c. */
struct memory_shape {
  const char *keys[MEMORY_SHAPE_KEYS];
  size_t lens[MEMORY_SHAPE_KEYS];
  int n;
  uint8_t guess[MEMORY_SHAPE_KEYS]; /* by field: 1 + the slot of the string it was last; 0: none */
  bool known;                       /* it has an order and a type; else it was seen once */
  bool used;                        /* since it was last passed over for a newcomer */
  uint32_t serial;                  /* another one whenever its place is given away */
};

struct memory {
  struct memory_strings strings;
  uint8_t begins[MEMORY_SLOTS]; /* by first key: 1 + the shape to expect; 0 for none */
  struct memory_shape shapes[MEMORY_SHAPES];
  uint32_t serial;
  uint32_t hand; /* where the last room was found */
};

/* Places in the list `kept`: strings, heads, then shapes' lists of keys and metatables. */
enum {
  MEMORY_ORDERS = 1 + MEMORY_KEPT,
  MEMORY_TYPES = MEMORY_ORDERS + MEMORY_SHAPES,
  MEMORY_ARRAY = MEMORY_TYPES + MEMORY_SHAPES, /* the metatable of arrays */
  MEMORY_ALL = MEMORY_ARRAY
};

/* The state's memory; pushes `kept` and says where. */
MAY_RAISE struct memory *memory_open(lua_State *L, int *kept);

/* The bytes of the string in a slot of a kind; *len: 0 for none. */
static inline const char *memory_bytes(const struct memory_strings *m, enum memory_kind kind,
                                       size_t slot, size_t *len) {
  slot += (size_t)kind * MEMORY_SLOTS;
  const struct memory_set *set = &m->sets[slot / MEMORY_WAYS];
  *len = set->len[slot % MEMORY_WAYS];
  return set->bytes[slot % MEMORY_WAYS];
}

/* Pushes the string of 1 to MEMORY_SHORT_MAX bytes; returns its slot among those of its kind. A
 * slot's string is at place kind · MEMORY_SLOTS + slot + 1 of `kept`. *made: the slot was given
 * away for it. Raises without memory. */
MAY_RAISE size_t memory_push(lua_State *L, struct memory_strings *m, int kept,
                             enum memory_kind kind, const char *s, size_t len, bool *made);

/* Pushes a table of the headers that these bytes were made into before; false: not known. */
MAY_RAISE bool memory_push_head(lua_State *L, const struct memory_strings *m, int kept,
                                const char *bytes, size_t len);
/* They were made into the table on top: strings by strings. */
MAY_RAISE void memory_note_head(lua_State *L, struct memory_strings *m, int kept, const char *bytes,
                                size_t len);

#endif

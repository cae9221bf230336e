/* smallmem.h: memory for the small blocks that a Lua state is made of.
 *
 * Lua allocates and frees some hundred blocks of 16 to 256 bytes per request, and always says how
 * long a block is. So blocks of one length class come from a list: a few instructions instead of
 * malloc's hundreds, and no lock that another thread could hold. Pages are given back when the
 * state ends. One thread's. Under AddressSanitizer every block is malloc's, so that mistakes are
 * found. */
#ifndef RUN_SMALLMEM_H
#define RUN_SMALLMEM_H

#include "base/base.h"

#define SMALLMEM_STEP ((size_t)16)
#define SMALLMEM_CLASSES 128u /* blocks up to 2 KiB: a request's userdata is one */

#if defined(__SANITIZE_ADDRESS__)
#define SMALLMEM_NONE 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SMALLMEM_NONE 1
#endif
#endif
#ifndef SMALLMEM_NONE
#define SMALLMEM_NONE 0 /* 1: every block is malloc's */
#endif

struct smallmem_free {
  struct smallmem_free *next;
};
struct smallmem_page;

struct smallmem {
  struct smallmem_free *free[SMALLMEM_CLASSES];
  struct smallmem_page *pages;
  char *fresh; /* of the newest page, not given out yet */
  size_t fresh_bytes;
};

/* Zeroed memory is an empty one. */

static inline bool smallmem_is_small(size_t size) {
  return !SMALLMEM_NONE && size <= SMALLMEM_STEP * SMALLMEM_CLASSES;
}

static inline size_t smallmem_class(size_t size) {
  return (size - 1) / SMALLMEM_STEP;
}

/* The usual cases of the calls below, for a caller in a hurry. NULL: none is there, ask for it. */
static inline void *smallmem_take(struct smallmem *m, size_t size) {
  struct smallmem_free *block = smallmem_is_small(size) ? m->free[smallmem_class(size)] : NULL;
  if (block) {
    m->free[smallmem_class(size)] = block->next;
    __builtin_prefetch(block->next, 1); /* it was freed a while ago: memory may be far away */
  }
  return block;
}

/* False: it is not a small one. */
static inline bool smallmem_put(struct smallmem *m, void *p, size_t size) {
  if (!smallmem_is_small(size))
    return false;
  struct smallmem_free *block = p;
  block->next = m->free[smallmem_class(size)];
  m->free[smallmem_class(size)] = block;
  return true;
}

/* As realloc, but the caller knows the old length (0 with p NULL). `size` > 0. Aligned for
 * everything. */
void *smallmem_resize(struct smallmem *m, void *p, size_t old_size, size_t size);
void smallmem_release(struct smallmem *m, void *p, size_t size); /* p may be NULL */
/* Gives the pages back; larger blocks must have been released. */
void smallmem_free(struct smallmem *m);

#endif

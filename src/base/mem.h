/* mem.h: memory that is always there.
 *
 * Running out of memory aborts with a message: no caller can do better, and error paths that never
 * run are never right. Sizes that overflow abort too. Only Lua's allocator can be made to fail. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include "base/base.h"

/* Never NULL, also for size 0. Not cleared. */
void *mem_alloc(size_t size) __attribute__((malloc, returns_nonnull));
/* n × size bytes, cleared; aborts when the product overflows. */
void *mem_calloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
/* Like realloc for n × size bytes; `p` may be NULL. */
void *mem_resize(void *p, size_t n, size_t size) __attribute__((returns_nonnull));
/* Copies; the caller frees with mem_free. */
char *mem_strdup(const char *s) __attribute__((malloc, returns_nonnull));
char *mem_strndup(const char *s, size_t len) __attribute__((malloc, returns_nonnull));
void *mem_dup(const void *p, size_t len) __attribute__((malloc, returns_nonnull));
/* Like realloc, but NULL, and p left as it is, when there is no memory: for Lua's allocator, which
 * has its own way to say so. `size` is not 0. */
void *mem_try_resize(void *p, size_t size);
/* `p` may be NULL. */
void mem_free(void *p);

/* Makes room for at least one more element in a growing array: doubles *cap when n == *cap. */
#define MEM_GROW(array, n, cap)                                                                    \
  do {                                                                                             \
    if ((n) == (cap)) {                                                                            \
      (cap) = (cap) ? (cap)*2 : 8;                                                                 \
      (array) = mem_resize((array), (cap), sizeof *(array));                                       \
    }                                                                                              \
  } while (0)

#define MEM_NEW(type) ((type *)mem_calloc(1, sizeof(type)))

#endif

/* mem.h: memory that is always there, as far as callers are concerned.
 *
 * No caller can do anything about a small allocation that fails, and error paths that never run are
 * never right. So these do not fail: a reserve is given up first, which a run takes as the order to
 * end, and behind that the process ends with a message. What may become very large (rows, buffers,
 * Lua's heap) asks with the mem_try calls and has an error for it. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include "base/base.h"

/* Never NULL, also for size 0. Not cleared. */
void *mem_alloc(size_t size) __attribute__((malloc, returns_nonnull));
/* n × size bytes, cleared; aborts when the product overflows: a mistake of ours. */
void *mem_calloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
/* `bytes` cleared bytes of which only the pages that are written take memory: for large arrays that
 * are mostly never touched. Freed by mem_pages_free with the same size. */
void *mem_pages(size_t bytes) __attribute__((malloc, returns_nonnull));
void mem_pages_free(void *p, size_t bytes); /* NULL is allowed */
/* Like realloc for n × size bytes; `p` may be NULL. */
void *mem_resize(void *p, size_t n, size_t size) __attribute__((returns_nonnull));
/* Copies; the caller frees with mem_free. */
char *mem_strdup(const char *s) __attribute__((malloc, returns_nonnull));
char *mem_strndup(const char *s, size_t len) __attribute__((malloc, returns_nonnull));
void *mem_dup(const void *p, size_t len) __attribute__((malloc, returns_nonnull));
/* Like realloc, but NULL, and p left as it is, when there is no memory: for Lua's allocator, which
 * has its own way to say so. `size` is not 0. */
void *mem_try_resize(void *p, size_t size);
/* Makes room for at least one more element behind the n of an array that may become very large.
 * NULL, with the array and *cap as they are, when there is no memory for it: then memory is low. */
void *mem_try_grow(void *p, size_t n, size_t *cap, size_t size);

/* ---- when memory runs out: one reserve per process, any thread ---- */

/* Keeps address space aside. The first allocation that fails gets it, and from then on memory is
 * low: the run, which looks now and then, should end in order. When that is not enough either, the
 * process ends at once with this exit status and a message. */
void mem_keep_reserve(size_t bytes, int status);
/* Gives it back (or it is gone already); memory is as low as before. */
void mem_free_reserve(void);
bool mem_is_low(void);
void mem_note_low(void);
/* Whether so much would be there now; if not, memory is low. Others (the C library, libcurl, Lua)
 * have no reserve, so it is looked for before they miss it. */
bool mem_probe(size_t bytes);
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

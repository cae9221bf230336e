/* mem.c: malloc and friends that abort instead of failing. */
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static NORETURN void out_of_memory(size_t n, size_t size) {
  fprintf(stderr, "perigee: out of memory (asked for %zu x %zu bytes)\n", n, size);
  abort();
}

void *mem_alloc(size_t size) {
  void *p = malloc(size ? size : 1);
  if (!p)
    out_of_memory(1, size);
  return p;
}

void *mem_calloc(size_t n, size_t size) {
  void *p = calloc(n ? n : 1, size ? size : 1);
  if (!p)
    out_of_memory(n, size);
  return p;
}

void *mem_resize(void *p, size_t n, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(n, size, &bytes))
    out_of_memory(n, size);
  p = realloc(p, bytes ? bytes : 1);
  if (!p)
    out_of_memory(n, size);
  return p;
}

void *mem_try_resize(void *p, size_t size) {
  return realloc(p, size);
}

void *mem_dup(const void *p, size_t len) {
  void *copy = mem_alloc(len);
  if (len)
    memcpy(copy, p, len);
  return copy;
}

char *mem_strndup(const char *s, size_t len) {
  char *copy = mem_alloc(len + 1);
  if (len)
    memcpy(copy, s, len);
  copy[len] = '\0';
  return copy;
}

char *mem_strdup(const char *s) {
  return mem_strndup(s, strlen(s));
}

void mem_free(void *p) {
  free(p);
}

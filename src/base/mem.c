/* mem.c: malloc and friends that end the process instead of failing, and what they do before that.
 *
 * The reserve and the two words beside it are the process's: memory is. They are atomic. */
#include "base/mem.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GENTLE_BYTES ((size_t)64 << 20) /* larger arrays grow by a quarter */
#define TRIES 3

static void *reserve; /* address space, never touched */
static size_t reserve_bytes;
static int low, exit_status = 1;

/* Allocates nothing. */
static NORETURN void out_of_memory(size_t n, size_t size) {
  char text[200];
  int len = snprintf(text, sizeof text,
                     "perigee: out of memory (asked for %zu x %zu bytes): ended at once; the rows "
                     "of a run so far are in its samples.jsonl\n",
                     n, size);
  ssize_t done = write(STDERR_FILENO, text, (size_t)len);
  (void)done; /* nobody else to tell */
  _exit(__atomic_load_n(&exit_status, __ATOMIC_RELAXED));
}

/* A size that cannot be: a mistake of ours. */
static NORETURN void overflow(size_t n, size_t size) {
  fprintf(stderr, "perigee: %zu x %zu bytes asked for\n", n, size);
  abort();
}

void mem_keep_reserve(size_t bytes, int status) {
  __atomic_store_n(&exit_status, status, __ATOMIC_RELAXED);
  __atomic_store_n(&low, 0, __ATOMIC_RELAXED);
  void *p =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    mem_note_low();
    return;
  }
  reserve_bytes = bytes;
  __atomic_store_n(&reserve, p, __ATOMIC_RELEASE);
}

void mem_free_reserve(void) {
  void *p = __atomic_exchange_n(&reserve, NULL, __ATOMIC_ACQ_REL);
  if (p)
    munmap(p, reserve_bytes);
}

void mem_note_low(void) {
  __atomic_store_n(&low, 1, __ATOMIC_RELAXED);
}

bool mem_is_low(void) {
  return __atomic_load_n(&low, __ATOMIC_RELAXED) != 0;
}

bool mem_probe(size_t bytes) {
  void *p =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p != MAP_FAILED)
    munmap(p, bytes);
  else
    mem_note_low();
  return p != MAP_FAILED;
}

/* What is not there at once may be once the reserve is given up, by this thread or another. */
static void *try_again(void *p, size_t n, size_t size) {
  for (int i = 0; i < TRIES; i++) {
    mem_note_low();
    mem_free_reserve();
    void *q = realloc(p, n * size);
    if (q)
      return q;
    sched_yield();
  }
  out_of_memory(n, size);
}

void *mem_alloc(size_t size) {
  void *p = malloc(size ? size : 1);
  if (!p)
    p = try_again(NULL, 1, size ? size : 1);
  return p;
}

void *mem_calloc(size_t n, size_t size) {
  void *p = calloc(n ? n : 1, size ? size : 1);
  if (p)
    return p;
  size_t bytes;
  if (__builtin_mul_overflow(n, size, &bytes))
    overflow(n, size);
  bytes = bytes ? bytes : 1;
  return memset(try_again(NULL, 1, bytes), 0, bytes);
}

/* calloc may be given memory that was used before, and then clears, which is writing, all of it. */
void *mem_pages(size_t bytes) {
  bytes = bytes ? bytes : 1;
  for (;;) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p != MAP_FAILED)
      return p;
    free(try_again(NULL, 1, bytes)); /* gives up the reserve, or ends the process */
  }
}

void mem_pages_free(void *p, size_t bytes) {
  if (p)
    munmap(p, bytes ? bytes : 1);
}

void *mem_resize(void *p, size_t n, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(n, size, &bytes))
    overflow(n, size);
  bytes = bytes ? bytes : 1;
  void *q = realloc(p, bytes);
  if (!q)
    q = try_again(p, 1, bytes);
  return q;
}

void *mem_try_resize(void *p, size_t size) {
  return realloc(p, size);
}

void *mem_try_grow(void *p, size_t n, size_t *cap, size_t size) {
  if (n < *cap)
    return p;
  size_t more = *cap ? *cap : 8;
  if (more > GENTLE_BYTES / size)
    more /= 4;
  for (; more > 0; more = more > n / 64 + 1 ? more / 8 : 0) {
    void *q = realloc(p, (n + more) * size);
    if (q) {
      *cap = n + more;
      return q;
    }
  }
  mem_note_low();
  return NULL;
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

/* watch.c: the way into Lua and out of it, seen from outside. */
#include "run/watch.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The low bits of the word; above them the number of the stay. */
enum watch_state { WATCH_OUT, WATCH_IN, WATCH_LOST };
#define STATE_BITS 2
#define STATE_MASK ((UINT64_C(1) << STATE_BITS) - 1)

void watch_enter(struct watch *w, enum watch_what what, uint32_t kind, uint64_t session,
                 const struct watch_place *place) {
  if (!w || w->depth++ > 0)
    return;
  __atomic_store_n(&w->session, session, __ATOMIC_RELAXED);
  __atomic_store_n(&w->what, (uint32_t)what, __ATOMIC_RELAXED);
  __atomic_store_n(&w->kind, kind, __ATOMIC_RELAXED);
  __atomic_store_n(&w->place, place, __ATOMIC_RELAXED);
  uint64_t stay = (__atomic_load_n(&w->word, __ATOMIC_RELAXED) >> STATE_BITS) + 1;
  __atomic_store_n(&w->word, stay << STATE_BITS | WATCH_IN, __ATOMIC_RELEASE);
}

/* Whoever claimed this thread reads and hands over what is its own: it must touch nothing more. */
static NORETURN void stop_here(void) {
  for (;;)
    pause();
}

void watch_leave(struct watch *w) {
  if (!w || --w->depth > 0)
    return;
  uint64_t in = __atomic_load_n(&w->word, __ATOMIC_RELAXED);
  uint64_t out = (in & ~STATE_MASK) | WATCH_OUT;
  if ((in & STATE_MASK) != WATCH_IN ||
      !__atomic_compare_exchange_n(&w->word, &in, out, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
    stop_here();
}

void watch_block(struct watch *w, bool blocked) {
  if (w)
    __atomic_store_n(&w->blocked, blocked, __ATOMIC_RELAXED);
}

void watch_set_place(struct watch_place *p, const char *chunk, int line, bool waited) {
  uint64_t words[WATCH_WORDS] = {0};
  memcpy(words, chunk, strnlen(chunk, sizeof words - 1));
  for (size_t i = 0; i < WATCH_WORDS; i++)
    __atomic_store_n(&p->chunk[i], words[i], __ATOMIC_RELAXED);
  __atomic_store_n(&p->waited, waited, __ATOMIC_RELAXED);
  __atomic_store_n(&p->line, line > 0 ? (uint32_t)line : 0, __ATOMIC_RELAXED);
}

bool watch_inside(const struct watch *w, uint64_t *entry) {
  *entry = __atomic_load_n(&w->word, __ATOMIC_ACQUIRE);
  return (*entry & STATE_MASK) == WATCH_IN;
}

bool watch_claim(struct watch *w, uint64_t entry) {
  if ((entry & STATE_MASK) != WATCH_IN)
    return false;
  uint64_t lost = (entry & ~STATE_MASK) | WATCH_LOST;
  return __atomic_compare_exchange_n(&w->word, &entry, lost, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED);
}

bool watch_read_place(const struct watch_place *p, char *out, size_t size) {
  uint64_t words[WATCH_WORDS];
  *out = '\0';
  uint32_t line = p ? __atomic_load_n(&p->line, __ATOMIC_RELAXED) : 0;
  if (!line)
    return false;
  for (size_t i = 0; i < WATCH_WORDS; i++)
    words[i] = __atomic_load_n(&p->chunk[i], __ATOMIC_RELAXED);
  char chunk[sizeof words];
  memcpy(chunk, words, sizeof words);
  chunk[sizeof chunk - 1] = '\0';
  snprintf(out, size, "%s:%u", chunk, line);
  return __atomic_load_n(&p->waited, __ATOMIC_RELAXED);
}

/* coord.c: the local version: names in a list, waiting ranks hanging on them. */
#include "run/coord.h"

#include <string.h>

#include "base/mem.h"

struct name {
  struct name *next;
  char *text;
  uint32_t arrived; /* at the barrier */
  bool claimed, published;
  struct shared value;
  struct coord_wait *at_barrier, *watching;
};

struct coord {
  struct loop *loop;
  uint32_t ranks, joined;
  struct name *names;
  struct coord_wait *joining, *aborted; /* lists */
  struct coord_wait *due;               /* on the loop's ready list */
  char *abort_text;                     /* NULL: it goes on */
};

/* ---- callbacks, later ---- */

static void push(struct coord_wait **list, struct coord_wait *wait) {
  wait->next = *list;
  *list = wait;
}

static void drop(struct coord_wait **list, const struct coord_wait *wait) {
  while (*list && *list != wait)
    list = &(*list)->next;
  if (*list)
    *list = wait->next;
}

static void run_wait(struct loop_task *task) {
  struct coord_wait *wait = CONTAINER_OF(task, struct coord_wait, task);
  drop(&wait->coord->due, wait);
  wait->done(wait);
}

static void finish(struct coord *c, struct coord_wait *wait) {
  push(&c->due, wait);
  loop_ready(c->loop, &wait->task);
}

static void finish_all(struct coord *c, struct coord_wait **list) {
  while (*list) {
    struct coord_wait *wait = *list;
    *list = wait->next;
    finish(c, wait);
  }
}

static void begin(struct coord *c, struct coord_wait *wait) {
  assert(wait->done && !wait->task.queued);
  wait->coord = c;
  wait->task.run = run_wait;
}

/* ---- names ---- */

static struct name *name_of(struct coord *c, const char *text) {
  for (struct name *n = c->names; n; n = n->next)
    if (strcmp(n->text, text) == 0)
      return n;
  struct name *n = MEM_NEW(struct name);
  n->text = mem_strdup(text);
  n->next = c->names;
  return c->names = n;
}

/* ---- the six calls ---- */

void coord_join(struct coord *c, struct coord_wait *wait, struct coord_wait *aborted) {
  assert(c->joined < c->ranks);
  begin(c, wait);
  begin(c, aborted);
  wait->rank = c->joined++;
  wait->ranks = c->ranks;
  if (c->abort_text) { /* too late */
    aborted->text = c->abort_text;
    finish(c, aborted);
    return;
  }
  push(&c->aborted, aborted);
  push(&c->joining, wait);
  if (c->joined == c->ranks)
    finish_all(c, &c->joining);
}

void coord_barrier(struct coord *c, const char *name, struct coord_wait *wait) {
  if (c->abort_text)
    return;
  struct name *n = name_of(c, name);
  assert(n->arrived < c->ranks);
  begin(c, wait);
  push(&n->at_barrier, wait);
  if (++n->arrived == c->ranks)
    finish_all(c, &n->at_barrier);
}

void coord_once(struct coord *c, const char *name, struct coord_wait *wait) {
  if (c->abort_text)
    return;
  struct name *n = name_of(c, name);
  begin(c, wait);
  wait->mine = !n->claimed;
  n->claimed = true;
  finish(c, wait);
}

void coord_publish(struct coord *c, const char *name, struct shared *value) {
  struct name *n = name_of(c, name);
  assert(!n->published);
  shared_seal(value);
  n->value = *value;
  *value = (struct shared){.kind = SHARED_NULL};
  n->published = true;
  for (struct coord_wait *wait = n->watching; wait; wait = wait->next)
    wait->value = &n->value;
  finish_all(c, &n->watching);
}

void coord_watch(struct coord *c, const char *name, struct coord_wait *wait) {
  if (c->abort_text)
    return;
  struct name *n = name_of(c, name);
  begin(c, wait);
  wait->value = n->published ? &n->value : NULL;
  push(&n->watching, wait);
  if (n->published)
    finish_all(c, &n->watching);
}

void coord_abort(struct coord *c, const char *text) {
  if (c->abort_text)
    return;
  c->abort_text = mem_strdup(text);
  while (c->due) {
    loop_unready(c->loop, &c->due->task);
    drop(&c->due, c->due);
  }
  c->joining = NULL;
  for (struct name *n = c->names; n; n = n->next)
    n->at_barrier = n->watching = NULL;
  for (struct coord_wait *wait = c->aborted; wait; wait = wait->next)
    wait->text = c->abort_text;
  finish_all(c, &c->aborted);
}

/* ---- life ---- */

struct coord *coord_local_new(struct loop *loop, uint32_t ranks) {
  assert(ranks > 0);
  struct coord *c = MEM_NEW(struct coord);
  c->loop = loop;
  c->ranks = ranks;
  return c;
}

void coord_delete(struct coord *c) {
  if (!c)
    return;
  for (struct coord_wait *wait = c->due; wait; wait = wait->next)
    loop_unready(c->loop, &wait->task);
  while (c->names) {
    struct name *n = c->names;
    c->names = n->next;
    shared_free(&n->value);
    mem_free(n->text);
    mem_free(n);
  }
  mem_free(c->abort_text);
  mem_free(c);
}

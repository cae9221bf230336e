/* vufamily.c: what goes through a family of virtual users without touching Lua: numbers of
 * branches, how one ended, who is cancelled with whom, failures that nobody has joined. */
#include <string.h>

#include "base/mem.h"
#include "run/vu.h"

/* ---- outcomes ---- */

const char *vu_outcome_detail(const struct vu_outcome *o) {
  return o->detail ? o->detail : "";
}

void vu_outcome_free(struct vu_outcome *o) {
  mem_free(o->detail);
  *o = (struct vu_outcome){.error = SAMPLE_OK};
}

void vu_outcome_set(struct vu_outcome *o, enum sample_error error, const char *detail) {
  vu_outcome_free(o);
  o->error = error;
  if (!detail || !*detail)
    return;
  size_t len = strlen(detail);
  if (len > VU_DETAIL_MAX) {
    len = VU_DETAIL_MAX;
    while (len > 0 && ((unsigned char)detail[len] & 0xC0) == 0x80)
      len--; /* not inside a UTF-8 sequence */
  }
  o->detail = mem_strndup(detail, len);
}

void vu_outcome_copy(struct vu_outcome *to, const struct vu_outcome *from) {
  vu_outcome_set(to, from->error, from->detail);
}

enum sample_error vu_error_from(const char *name) {
  int e = SAMPLE_OK;
  while (e < SAMPLE_ERROR_COUNT && strcmp(sample_error_name((enum sample_error)e), name) != 0)
    e++;
  return (enum sample_error)e;
}

/* ---- branches ---- */

#define OWN_BRANCHES 999         /* of one user, whose numbers show the path */
#define ODD_BRANCHES 1000000000u /* from here on they do not; up to INT32_MAX */

static uint32_t *find_odd(const struct vu *root, uint32_t branch) {
  size_t mask = root->cap_odd_branches - 1, i = (size_t)branch * UINT32_C(0x9E3779B1) & mask;
  while (root->odd_branches[i] && root->odd_branches[i] != branch)
    i = (i + 1) & mask;
  return &root->odd_branches[i];
}

static void make_room_for_odd(struct vu *root) {
  size_t cap = root->cap_odd_branches;
  if (2 * (root->n_odd_branches + 1) <= cap)
    return;
  uint32_t *old = root->odd_branches;
  root->cap_odd_branches = cap ? 2 * cap : 16;
  root->odd_branches = mem_calloc(root->cap_odd_branches, sizeof *root->odd_branches);
  for (size_t i = 0; i < cap; i++)
    if (old[i])
      *find_odd(root, old[i]) = old[i];
  mem_free(old);
}

/* The path's hash. That two in a session are alike is very rare; then the later one moves on. */
static uint32_t odd_branch(struct vu *root, uint32_t parent, uint32_t nth) {
  uint64_t h = ((uint64_t)parent << 32 | nth) * UINT64_C(0x9E3779B97F4A7C15);
  h = (h ^ h >> 32) * UINT64_C(0xD6E8FEB86659FD93);
  uint32_t room = INT32_MAX - ODD_BRANCHES, branch = (uint32_t)((h >> 32) % room);
  make_room_for_odd(root);
  while (*find_odd(root, ODD_BRANCHES + branch))
    branch = (branch + 1) % room;
  root->n_odd_branches++;
  return *find_odd(root, ODD_BRANCHES + branch) = ODD_BRANCHES + branch;
}

uint32_t vu_new_branch(struct vu *vu) {
  uint32_t nth = ++vu->branches, parent = vu->branch;
  if (nth <= OWN_BRANCHES && parent < ODD_BRANCHES / (OWN_BRANCHES + 1))
    return parent * (OWN_BRANCHES + 1) + nth;
  return odd_branch(vu->root, parent, nth);
}

/* ---- cancelling ---- */

void vu_await(struct vu *parent, struct vu *child, bool fail_fast) {
  assert(child->parent == parent);
  if (!child->is_awaited) {
    child->is_awaited = true;
    parent->awaited++;
  }
  parent->fail_fast = fail_fast;
}

void vu_stop(struct vu *vu, enum sample_error error, const char *detail) {
  if (vu->stop.error == SAMPLE_OK)
    vu_outcome_set(&vu->stop, error, detail);
}

void vu_cancel(struct vu *vu, enum sample_error error, const char *detail) {
  vu_stop(vu, error, detail);
  for (struct vu *child = vu->children; child; child = child->next)
    vu_cancel(child, error, detail);
  if (vu->phase == VU_WAITING && vu->cancel) {
    vu->cancel(vu);
    vu_wake(vu);
  }
}

/* ---- failures ---- */

static void free_orphan(struct vu *parent, struct vu_orphan *o) {
  if (o->task)
    o->task->orphan = NULL;
  *(o->prev ? &o->prev->next : &parent->orphans) = o->next;
  *(o->next ? &o->next->prev : &parent->last_orphan) = o->prev;
  vu_outcome_free(&o->outcome);
  mem_free(o);
}

static void add_orphan(struct vu *parent, const struct vu *child) {
  struct vu_orphan *o = MEM_NEW(struct vu_orphan);
  o->task = child->as_task;
  o->task->orphan = o;
  o->prev = parent->last_orphan;
  *(o->prev ? &o->prev->next : &parent->orphans) = o;
  parent->last_orphan = o;
  vu_outcome_copy(&o->outcome, &child->outcome);
}

void vu_free_orphans(struct vu *vu) {
  while (vu->orphans)
    free_orphan(vu, vu->orphans);
}

void vu_claim(struct vu *parent, struct vu_task *task) {
  if (task->orphan)
    free_orphan(parent, task->orphan);
}

void vu_task_free(struct vu_task *task) {
  if (task->orphan)
    task->orphan->task = NULL;
  vu_outcome_free(&task->outcome);
}

void vu_leave_parent(struct vu *vu) {
  struct vu *parent = vu->parent;
  vu->as_task->child = NULL;
  vu_outcome_copy(&vu->as_task->outcome, &vu->outcome);
  vu->as_task->due_ns = vu->due_ns;
  if (vu->next)
    vu->next->prev = vu->prev;
  if (vu->prev)
    vu->prev->next = vu->next;
  else
    parent->children = vu->next;
  bool failed = sample_error_failed(vu->outcome.error);
  if (failed)
    add_orphan(parent, vu);
  if (vu->is_awaited) {
    parent->awaited--;
    if (failed && parent->fail_fast) {
      for (struct vu *other = parent->children; other; other = other->next)
        if (other->is_awaited)
          vu_cancel(other, SAMPLE_CANCELLED, "another branch failed");
    }
  }
}

/* store.c: trees of shared data, and one builder per name. */
#include "run/store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/tokens.h"

/* ---- trees ---- */

void shared_free(struct shared *s) {
  switch (s->kind) {
  case SHARED_STRING:
  case SHARED_TEXT:
    blob_unref(s->u.blob);
    break;
  case SHARED_ARRAY:
    for (size_t i = 0; i < s->u.array.n; i++)
      shared_free(&s->u.array.items[i]);
    mem_free(s->u.array.items);
    break;
  case SHARED_OBJECT:
    for (size_t i = 0; i < s->u.object.n; i++) {
      mem_free(s->u.object.pairs[i].key);
      shared_free(&s->u.object.pairs[i].value);
    }
    mem_free(s->u.object.pairs);
    mem_free(s->u.object.sorted);
    break;
  case SHARED_NULL:
  case SHARED_BOOL:
  case SHARED_INT:
  case SHARED_NUMBER:
    break;
  }
  *s = (struct shared){.kind = SHARED_NULL};
}

struct shared *shared_push(struct shared *array) {
  assert(array->kind == SHARED_ARRAY);
  MEM_GROW(array->u.array.items, array->u.array.n, array->u.array.cap);
  struct shared *item = &array->u.array.items[array->u.array.n++];
  *item = (struct shared){.kind = SHARED_NULL};
  return item;
}

struct shared *shared_add(struct shared *object, const char *key, size_t key_len) {
  assert(object->kind == SHARED_OBJECT && !object->u.object.sorted);
  MEM_GROW(object->u.object.pairs, object->u.object.n, object->u.object.cap);
  struct shared_pair *pair = &object->u.object.pairs[object->u.object.n++];
  *pair = (struct shared_pair){.key = mem_strndup(key, key_len), .key_len = key_len};
  return &pair->value;
}

struct shared shared_copy(const struct shared *from) {
  struct shared to = {.kind = from->kind};
  switch (from->kind) {
  case SHARED_STRING:
  case SHARED_TEXT:
    to.u.blob = blob_ref(from->u.blob);
    break;
  case SHARED_ARRAY:
    for (size_t i = 0; i < from->u.array.n; i++)
      *shared_push(&to) = shared_copy(&from->u.array.items[i]);
    break;
  case SHARED_OBJECT:
    for (size_t i = 0; i < from->u.object.n; i++) {
      const struct shared_pair *p = &from->u.object.pairs[i];
      *shared_add(&to, p->key, p->key_len) = shared_copy(&p->value);
    }
    if (from->u.object.sorted)
      to.u.object.sorted =
          mem_dup(from->u.object.sorted,
                  (from->u.object.n ? from->u.object.n : 1) * sizeof *from->u.object.sorted);
    break;
  default:
    to = *from;
  }
  return to;
}

void shared_set_string(struct shared *s, const char *text) {
  *s = (struct shared){.kind = SHARED_STRING, .u.blob = blob_new(text, strlen(text))};
}

static int compare_keys(const char *a, size_t a_len, const char *b, size_t b_len) {
  int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
  return order != 0 ? order : a_len < b_len ? -1 : a_len > b_len;
}

static int compare_pairs(const void *left, const void *right, void *pairs) {
  const struct shared_pair *a = (const struct shared_pair *)pairs + *(const uint32_t *)left;
  const struct shared_pair *b = (const struct shared_pair *)pairs + *(const uint32_t *)right;
  return compare_keys(a->key, a->key_len, b->key, b->key_len);
}

void shared_seal(struct shared *s) {
  if (s->kind == SHARED_ARRAY) {
    for (size_t i = 0; i < s->u.array.n; i++)
      shared_seal(&s->u.array.items[i]);
  } else if (s->kind == SHARED_OBJECT && !s->u.object.sorted) {
    size_t n = s->u.object.n;
    s->u.object.sorted = mem_calloc(n ? n : 1, sizeof *s->u.object.sorted);
    for (size_t i = 0; i < n; i++) {
      s->u.object.sorted[i] = (uint32_t)i;
      shared_seal(&s->u.object.pairs[i].value);
    }
    if (n > 1)
      qsort_r(s->u.object.sorted, n, sizeof *s->u.object.sorted, compare_pairs, s->u.object.pairs);
  }
}

const struct shared *shared_get(const struct shared *object, const char *key, size_t key_len) {
  assert(object->kind == SHARED_OBJECT && object->u.object.sorted);
  size_t low = 0, high = object->u.object.n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const struct shared_pair *p = &object->u.object.pairs[object->u.object.sorted[middle]];
    int order = compare_keys(key, key_len, p->key, p->key_len);
    if (order == 0)
      return &p->value;
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return NULL;
}

/* ---- the store ---- */

enum entry_state { ENTRY_BUILDING, ENTRY_READY, ENTRY_FAILED };

struct entry {
  struct entry *next;
  char *name;
  enum entry_state state;
  const void *builder;
  struct shared tree;
  char *message;
};

/* An owner that is blocked until an entry is built. */
struct waiter {
  struct waiter *next;
  const void *owner;
  const struct entry *entry;
};

struct word {
  struct word *next;
  char text[];
};

struct source {
  char *path;
  struct blob *bytes;
};

struct store {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  struct entry *entries;
  struct waiter *waiters;
  struct word *words;
  struct source *sources; /* in the order they were read */
  size_t n_sources, sources_cap;
  struct tokens_shared *tokenizers;
};

struct store *store_new(void) {
  struct store *s = MEM_NEW(struct store);
  s->tokenizers = tokens_shared_new();
  int rc = pthread_mutex_init(&s->mutex, NULL);
  rc |= pthread_cond_init(&s->changed, NULL);
  assert(rc == 0);
  (void)rc;
  return s;
}

void store_delete(struct store *s) {
  if (!s)
    return;
  assert(!s->waiters);
  tokens_shared_delete(s->tokenizers);
  while (s->entries) {
    struct entry *e = s->entries;
    s->entries = e->next;
    shared_free(&e->tree);
    mem_free(e->name);
    mem_free(e->message);
    mem_free(e);
  }
  while (s->words) {
    struct word *w = s->words;
    s->words = w->next;
    mem_free(w);
  }
  for (size_t i = 0; i < s->n_sources; i++) {
    mem_free(s->sources[i].path);
    blob_unref(s->sources[i].bytes);
  }
  mem_free(s->sources);
  pthread_cond_destroy(&s->changed);
  pthread_mutex_destroy(&s->mutex);
  mem_free(s);
}

struct tokens_shared *store_tokenizers(struct store *s) {
  return s->tokenizers;
}

static struct entry *find(struct store *s, const char *name) {
  for (struct entry *e = s->entries; e; e = e->next)
    if (strcmp(e->name, name) == 0)
      return e;
  return NULL;
}

/* Whether waiting for `e` would, over owners that wait for each other, wait for `owner` itself. */
static bool needs_itself(const struct store *s, const struct entry *e, const void *owner) {
  for (;;) {
    if (e->builder == owner)
      return true;
    const struct waiter *w = s->waiters;
    while (w && w->owner != e->builder)
      w = w->next;
    if (!w || w->entry->state != ENTRY_BUILDING)
      return false;
    e = w->entry;
  }
}

static void wait_for(struct store *s, const struct entry *e, const void *owner) {
  struct waiter *w = MEM_NEW(struct waiter);
  *w = (struct waiter){.next = s->waiters, .owner = owner, .entry = e};
  s->waiters = w;
  while (e->state == ENTRY_BUILDING)
    pthread_cond_wait(&s->changed, &s->mutex);
  struct waiter **at = &s->waiters;
  while (*at != w)
    at = &(*at)->next;
  *at = w->next;
  mem_free(w);
}

int store_enter(struct store *s, const char *name, const void *owner, enum store_answer *answer,
                const struct shared **out, struct err *err) {
  int rc = 0;
  *out = NULL;
  pthread_mutex_lock(&s->mutex);
  struct entry *e = find(s, name);
  if (!e) {
    e = MEM_NEW(struct entry);
    *e = (struct entry){.next = s->entries, .name = mem_strdup(name), .builder = owner};
    s->entries = e;
    *answer = STORE_BUILD;
    goto out;
  }
  *answer = STORE_READY;
  if (e->state == ENTRY_BUILDING && needs_itself(s, e, owner)) {
    rc = err_set(err, ERR_INVALID, "shared '%s' needs itself to be made", name);
    goto out;
  }
  wait_for(s, e, owner);
  if (e->state == ENTRY_FAILED)
    rc = err_set(err, ERR_INVALID, "%s", e->message);
  else
    *out = &e->tree;
out:
  pthread_mutex_unlock(&s->mutex);
  return rc;
}

static struct entry *end_building(struct store *s, const char *name, enum entry_state state) {
  struct entry *e = find(s, name);
  assert(e && e->state == ENTRY_BUILDING);
  e->state = state;
  e->builder = NULL;
  pthread_cond_broadcast(&s->changed);
  return e;
}

const struct shared *store_put(struct store *s, const char *name, struct shared *tree) {
  shared_seal(tree);
  pthread_mutex_lock(&s->mutex);
  struct entry *e = end_building(s, name, ENTRY_READY);
  e->tree = *tree;
  *tree = (struct shared){.kind = SHARED_NULL};
  pthread_mutex_unlock(&s->mutex);
  return &e->tree;
}

void store_fail(struct store *s, const char *name, const char *message) {
  pthread_mutex_lock(&s->mutex);
  end_building(s, name, ENTRY_FAILED)->message = mem_strdup(message);
  pthread_mutex_unlock(&s->mutex);
}

const char *store_word(struct store *s, const char *word) {
  pthread_mutex_lock(&s->mutex);
  struct word *w = s->words;
  while (w && strcmp(w->text, word) != 0)
    w = w->next;
  if (!w) {
    size_t size = strlen(word) + 1;
    w = mem_alloc(sizeof *w + size);
    memcpy(w->text, word, size);
    w->next = s->words;
    s->words = w;
  }
  pthread_mutex_unlock(&s->mutex);
  return w->text;
}

/* With the mutex held. */
static const struct blob *find_source(const struct store *s, const char *path) {
  for (size_t i = 0; i < s->n_sources; i++)
    if (strcmp(s->sources[i].path, path) == 0)
      return s->sources[i].bytes;
  return NULL;
}

const struct blob *store_source(struct store *s, const char *path) {
  pthread_mutex_lock(&s->mutex);
  const struct blob *found = find_source(s, path);
  pthread_mutex_unlock(&s->mutex);
  return found;
}

const struct blob *store_keep_source(struct store *s, const char *path, const void *data,
                                     size_t len) {
  pthread_mutex_lock(&s->mutex);
  const struct blob *kept = find_source(s, path);
  if (!kept) {
    MEM_GROW(s->sources, s->n_sources, s->sources_cap);
    struct source *source = &s->sources[s->n_sources++];
    *source = (struct source){.path = mem_strdup(path), .bytes = blob_new(data, len)};
    kept = source->bytes;
  }
  pthread_mutex_unlock(&s->mutex);
  return kept;
}

const char *store_source_path(struct store *s, size_t i) {
  pthread_mutex_lock(&s->mutex);
  const char *path = i < s->n_sources ? s->sources[i].path : NULL;
  pthread_mutex_unlock(&s->mutex);
  return path;
}

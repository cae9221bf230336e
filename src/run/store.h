/* store.h: plain data that every Lua state may read: perigee.shared(name, fn) and what setup
 * returned.
 *
 * A `struct shared` is an immutable tree: made once, read by all workers without locks, freed when
 * the run ends. Strings and text handles are blobs, so a corpus is in memory once however many
 * states look at it. The store keeps named trees and lets exactly one state build each. */
#ifndef RUN_STORE_H
#define RUN_STORE_H

#include "base/blob.h"
#include "base/err.h"

enum shared_kind {
  SHARED_NULL,
  SHARED_BOOL,
  SHARED_INT,
  SHARED_NUMBER,
  SHARED_STRING, /* blob */
  SHARED_TEXT,   /* blob; a text handle in Lua */
  SHARED_ARRAY,
  SHARED_OBJECT
};

struct shared_pair;

struct shared {
  enum shared_kind kind;
  union {
    bool boolean;
    int64_t integer;
    double number;
    struct blob *blob; /* one reference of its own */
    struct {
      struct shared *items;
      size_t n, cap;
    } array;
    struct {
      struct shared_pair *pairs; /* in the order they were added */
      uint32_t *sorted;          /* pair numbers by key bytes; made by shared_seal */
      size_t n, cap;
    } object;
  } u;
};

struct shared_pair {
  char *key; /* key_len bytes and a NUL */
  size_t key_len;
  struct shared value;
};

/* Frees what it holds and makes it null. */
void shared_free(struct shared *s);
/* Room for one more, null until filled; the pointer dies with the next call. */
struct shared *shared_push(struct shared *array);
struct shared *shared_add(struct shared *object, const char *key, size_t key_len);
/* Makes the tree ready for lookups; nothing may be added afterwards. */
void shared_seal(struct shared *s);
/* NULL when there is no such key. The object is sealed. */
const struct shared *shared_get(const struct shared *object, const char *key, size_t key_len);
/* A tree of its own; blobs are shared. Sealed when `from` is. */
struct shared shared_copy(const struct shared *from);
/* Sets a string leaf. */
void shared_set_string(struct shared *s, const char *text);

struct tokens_shared;
struct store;
struct store *store_new(void);
void store_delete(struct store *s); /* no state may look into it any more; NULL is allowed */

enum store_answer { STORE_READY, STORE_BUILD };
/* Asks for `name` on behalf of `owner` (a state). STORE_READY: *out is the tree, valid as long as
 * the store. STORE_BUILD: nobody has it; the caller builds and ends with store_put or store_fail,
 * always. While another owner builds, this blocks the thread. ERR_INVALID: its builder failed (the
 * same text for everyone), or it needs itself, through however many owners. */
NODISCARD int store_enter(struct store *s, const char *name, const void *owner,
                          enum store_answer *answer, const struct shared **out, struct err *err);
/* Takes the tree over (sealed here) and returns where it lives. */
const struct shared *store_put(struct store *s, const char *name, struct shared *tree);
void store_fail(struct store *s, const char *name, const char *message);

/* One copy of a word that lives as long as the store: what rows borrow. Any thread. */
const char *store_word(struct store *s, const char *word);

/* The run's tokenizers (text/tokens.h), as long as the store. */
struct tokens_shared *store_tokenizers(struct store *s);

/* ---- source files: read once, so that every state of a run compiles the same bytes, and what the
 * run's folder keeps is what ran, whatever became of the file meanwhile. Any thread. ---- */

/* The bytes of the file at `path` as it was read first; borrowed, as long as the store. NULL: not
 * read yet. */
const struct blob *store_source(struct store *s, const char *path);
/* Keeps what was read, unless somebody was faster; returns what is kept. */
const struct blob *store_keep_source(struct store *s, const char *path, const void *data,
                                     size_t len);
/* The path of source `i` in the order they were read, borrowed; NULL behind the last one. */
const char *store_source_path(struct store *s, size_t i);

#endif

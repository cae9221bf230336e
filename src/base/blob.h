/* blob.h: shared immutable bytes.
 *
 * A message's text, a rendered JSON fragment, a corpus: made once, then referred to by every
 * conversation, fork and request that needs it, from any thread (the count is atomic, the bytes
 * never change). This is how a prompt of 100,000 tokens is sent on every turn without being copied.
 */
#ifndef BASE_BLOB_H
#define BASE_BLOB_H

#include "base/base.h"

struct buf;

/* How many bytes the blobs of one owner take, whoever holds them by now. Atomic; any thread. */
struct blob_count;

struct blob {
  uint32_t refs; /* atomic; only blob.c touches it */
  struct blob_count *count;
  size_t len;
  size_t unused; /* keeps data 16-byte aligned */
  char data[];   /* len bytes and a NUL */
};

/* A new blob with one reference, holding a copy of the bytes. */
struct blob *blob_new(const void *data, size_t len);
/* A new blob with the buffer's content; the buffer is left empty with its memory kept. */
struct blob *blob_from_buf(struct buf *b);
/* Adds a reference and returns the same blob. */
struct blob *blob_ref(struct blob *b);
/* Drops one; the last one frees. NULL is allowed. Any thread. */
void blob_unref(struct blob *b);

/* One reference for the owner; each blob counted in it holds another. */
struct blob_count *blob_count_new(void);
void blob_count_unref(struct blob_count *c); /* NULL is allowed */
size_t blob_count_bytes(const struct blob_count *c);
/* Counts the blob's bytes until it is freed. Before others see it; NULL, or one that is counted
 * already, changes nothing. */
void blob_count_in(struct blob *b, struct blob_count *c);

#endif

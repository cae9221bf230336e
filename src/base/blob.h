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

struct blob {
  uint32_t refs;   /* atomic; only blob.c touches it */
  uint32_t unused; /* keeps data 16-byte aligned */
  size_t len;
  char data[]; /* len bytes and a NUL */
};

/* A new blob with one reference, holding a copy of the bytes. */
struct blob *blob_new(const void *data, size_t len);
/* A new blob with the buffer's content; the buffer is left empty with its memory kept. */
struct blob *blob_from_buf(struct buf *b);
/* Adds a reference and returns the same blob. */
struct blob *blob_ref(struct blob *b);
/* Drops one; the last one frees. NULL is allowed. Any thread. */
void blob_unref(struct blob *b);

#endif

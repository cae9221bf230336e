/* blob.c: reference-counted immutable bytes. */
#include "base/blob.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

struct blob *blob_new(const void *data, size_t len) {
  struct blob *b = mem_alloc(sizeof *b + len + 1);
  b->refs = 1;
  b->unused = 0;
  b->len = len;
  if (len)
    memcpy(b->data, data, len);
  b->data[len] = '\0';
  return b;
}

struct blob *blob_from_buf(struct buf *b) {
  struct blob *blob = blob_new(b->data, b->len);
  buf_reset(b);
  return blob;
}

struct blob *blob_ref(struct blob *b) {
  uint32_t before = __atomic_fetch_add(&b->refs, 1, __ATOMIC_RELAXED);
  assert(before > 0);
  (void)before;
  return b;
}

void blob_unref(struct blob *b) {
  if (b && __atomic_sub_fetch(&b->refs, 1, __ATOMIC_ACQ_REL) == 0)
    mem_free(b);
}

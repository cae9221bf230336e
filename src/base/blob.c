/* blob.c: reference-counted immutable bytes. */
#include "base/blob.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

struct blob_count {
  size_t refs, bytes; /* atomic */
};

struct blob *blob_new(const void *data, size_t len) {
  struct blob *b = mem_alloc(sizeof *b + len + 1);
  b->refs = 1;
  b->count = NULL;
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
  if (!b || __atomic_sub_fetch(&b->refs, 1, __ATOMIC_ACQ_REL) > 0)
    return;
  if (b->count) {
    __atomic_sub_fetch(&b->count->bytes, b->len, __ATOMIC_RELAXED);
    blob_count_unref(b->count);
  }
  mem_free(b);
}

struct blob_count *blob_count_new(void) {
  struct blob_count *c = MEM_NEW(struct blob_count);
  c->refs = 1;
  return c;
}

void blob_count_unref(struct blob_count *c) {
  if (c && __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL) == 0)
    mem_free(c);
}

size_t blob_count_bytes(const struct blob_count *c) {
  return __atomic_load_n(&c->bytes, __ATOMIC_RELAXED);
}

void blob_count_in(struct blob *b, struct blob_count *c) {
  if (!c || b->count)
    return;
  b->count = c;
  __atomic_fetch_add(&c->refs, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add(&c->bytes, b->len, __ATOMIC_RELAXED);
}

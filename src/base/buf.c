/* buf.c: growing byte buffers; see buf.h for the two families of calls. */
#include "base/buf.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/err.h"

void buf_init(struct buf *b, size_t max) {
  *b = (struct buf){.max = max};
}

void buf_free(struct buf *b) {
  mem_free(b->data);
  *b = (struct buf){.max = b->max};
}

void buf_reset(struct buf *b) {
  b->len = 0;
  if (b->data)
    b->data[0] = '\0';
}

/* `must`: for callers that cannot fail; else a lack of memory is a limit like any other. */
static int make_room(struct buf *b, size_t len, bool must) {
  if (len > b->max || b->len > b->max - len)
    return ERR_LIMIT;
  size_t need = b->len + len + 1;
  if (b->data && need <= b->cap)
    return 0;
  size_t cap = b->cap ? b->cap : 64;
  while (cap < need)
    cap *= 2;
  char *data = must ? mem_resize(b->data, cap, 1) : mem_try_resize(b->data, cap);
  if (!data)
    return ERR_LIMIT;
  b->data = data;
  b->cap = cap;
  return 0;
}

int buf_reserve(struct buf *b, size_t len) {
  return make_room(b, len, false);
}

char *buf_room(struct buf *b, size_t len) {
  int rc = make_room(b, len, true);
  assert(rc == 0);
  (void)rc;
  return b->data + b->len;
}

static void append(struct buf *b, const void *data, size_t len) {
  if (len)
    memcpy(b->data + b->len, data, len);
  b->len += len;
  b->data[b->len] = '\0';
}

int buf_add(struct buf *b, const void *data, size_t len) {
  int rc = make_room(b, len, false);
  if (!rc)
    append(b, data, len);
  return rc;
}

int buf_add_byte(struct buf *b, char c) {
  return buf_add(b, &c, 1);
}

void buf_put_more(struct buf *b, const void *data, size_t len) {
  int rc = make_room(b, len, true);
  assert(rc == 0);
  (void)rc;
  append(b, data, len);
}

void buf_put_uint(struct buf *b, uint64_t n) {
  char digits[20];
  size_t i = sizeof digits;
  do
    digits[--i] = (char)('0' + n % 10);
  while (n /= 10);
  buf_put(b, digits + i, sizeof digits - i);
}

void buf_put_int(struct buf *b, int64_t n) {
  if (n < 0)
    buf_putc(b, '-');
  buf_put_uint(b, n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
}

void buf_printf(struct buf *b, const char *fmt, ...) {
  char small[256];
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(small, sizeof small, fmt, args);
  va_end(args);
  assert(n >= 0);
  if ((size_t)n < sizeof small) {
    buf_put(b, small, (size_t)n);
    return;
  }
  int rc = make_room(b, (size_t)n, true);
  assert(rc == 0);
  (void)rc;
  va_start(args, fmt);
  vsnprintf(b->data + b->len, (size_t)n + 1, fmt, args);
  va_end(args);
  b->len += (size_t)n;
}

void buf_drop(struct buf *b, size_t len) {
  assert(len <= b->len);
  if (!len)
    return;
  memmove(b->data, b->data + len, b->len - len + 1);
  b->len -= len;
}

char *buf_take(struct buf *b, size_t *len) {
  if (!b->data)
    buf_put(b, "", 0);
  char *data = b->data;
  if (len)
    *len = b->len;
  *b = (struct buf){.max = b->max};
  return data;
}

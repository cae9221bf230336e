/* buf.h: a growing run of bytes with a stated maximum.
 *
 * `data[len]` is always a NUL once something was added, so text can be handed to C functions; it is
 * not part of `len`. An add that would pass `max` changes nothing and returns ERR_LIMIT; buffers
 * for bytes of our own making use BUF_MAX_OWN and the `_own` calls, which assert instead. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <string.h>

#include "base/base.h"

#define BUF_MAX_OWN (SIZE_MAX / 4)

struct buf {
  char *data; /* NULL until the first add */
  size_t len, cap, max;
};

void buf_init(struct buf *b, size_t max);
void buf_free(struct buf *b);
/* Forgets the content, keeps the memory. */
void buf_reset(struct buf *b);

NODISCARD int buf_add(struct buf *b, const void *data, size_t len);
NODISCARD int buf_add_byte(struct buf *b, char c);
/* Room for `len` more bytes behind data + b->len; the caller then adds to b->len itself. */
NODISCARD int buf_reserve(struct buf *b, size_t len);

/* The same where it cannot fail, as with buf_put: where the caller writes. */
char *buf_room(struct buf *b, size_t len);

/* For buffers whose content we make ourselves: reaching max is a programming error. Inline as far
 * as no memory is needed: rows and bodies are made of many small pieces. */
void buf_put_more(struct buf *b, const void *data, size_t len); /* buf_put's other half */
static inline void buf_put(struct buf *b, const void *data, size_t len) {
  if (!b->data || len >= b->cap - b->len || len > b->max - b->len) {
    buf_put_more(b, data, len);
    return;
  }
  if (len)
    memcpy(b->data + b->len, data, len);
  b->len += len;
  b->data[b->len] = '\0';
}
static inline void buf_puts(struct buf *b, const char *s) {
  buf_put(b, s, strlen(s));
}
static inline void buf_putc(struct buf *b, char c) {
  buf_put(b, &c, 1);
}
/* In decimal. */
void buf_put_int(struct buf *b, int64_t n);
void buf_put_uint(struct buf *b, uint64_t n);
void buf_printf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Drops the first `len` bytes. */
void buf_drop(struct buf *b, size_t len);
/* Hands the memory over (free with mem_free; NUL-terminated, never NULL) and leaves b empty. */
char *buf_take(struct buf *b, size_t *len);

#endif

/* blockhash_tuple.c: the bytes that vLLM hashes for a block.
 *
 * The pickler's frames: one is opened by the first byte behind the protocol mark or a closed frame,
 * and closed at the beginning of the next object once it holds 64 KiB; a text of 64 KiB or more
 * stands outside of frames. */
#define OPENSSL_SUPPRESS_DEPRECATED /* SHA256_Init: no allocation and no provider look-up per      \
                                       block */
#define XXH_INLINE_ALL
#include "kv/blockhash_tuple.h"

#include <openssl/sha.h>
#include <xxhash.h>

/* What one token can take, in either encoding. */
#define TOKEN_BYTES 8

enum tuple_hash tuple_hash_from(struct blockhash_text name) {
  static const char *const names[] = {"sha256", "sha256_cbor", "xxhash", "xxhash_cbor"};
  for (int i = 0; i < (int)ARRAY_LEN(names); i++)
    if (blockhash_text_is(name, names[i]))
      return (enum tuple_hash)i;
  assert(0 && "an algorithm that the options let through");
  return TUPLE_SHA256;
}

void tuple_digest(enum tuple_hash h, const struct buf *b, uint8_t *out) {
  if (tuple_width(h) == 32) {
    SHA256_CTX ctx;
    SHA256_Init(&ctx);
    SHA256_Update(&ctx, b->data, b->len);
    SHA256_Final(out, &ctx);
    return;
  }
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(b->data, b->len));
  memcpy(out, canonical.digest, sizeof canonical.digest);
}

/* Room for len bytes; the caller writes them and sets b->len. */
static uint8_t *room(struct buf *b, size_t len) {
  int rc = buf_reserve(b, len);
  assert(rc == 0);
  return (uint8_t *)b->data + b->len;
}

static size_t put_be(uint8_t *p, uint64_t x, size_t n) {
  for (size_t i = 0; i < n; i++)
    p[i] = (uint8_t)(x >> 8 * (n - 1 - i));
  return n;
}

static size_t put_le(uint8_t *p, uint64_t x, size_t n) {
  memcpy(p, &x, n);
  return n;
}

/* ---- CBOR ---- */

static inline size_t cbor_head(uint8_t *p, unsigned major, uint64_t n) {
  uint8_t m = (uint8_t)(major << 5);
  if (n < 24) {
    p[0] = (uint8_t)(m | n);
    return 1;
  }
  if (n <= UINT8_MAX) {
    p[0] = m | 24;
    p[1] = (uint8_t)n;
    return 2;
  }
  if (n <= UINT16_MAX) {
    p[0] = m | 25;
    return 1 + put_be(p + 1, n, 2);
  }
  if (n <= UINT32_MAX) {
    p[0] = m | 26;
    return 1 + put_be(p + 1, n, 4);
  }
  p[0] = m | 27;
  return 1 + put_be(p + 1, n, 8);
}

void tuple_cbor_head(struct buf *b, unsigned major, uint64_t n) {
  uint8_t head[9];
  buf_put(b, head, cbor_head(head, major, n));
}

static void cbor_int(struct buf *b, int64_t i) {
  tuple_cbor_head(b, i < 0, i < 0 ? (uint64_t)(-1 - i) : (uint64_t)i);
}

void tuple_cbor_text(struct buf *b, struct blockhash_text text) {
  tuple_cbor_head(b, 3, text.len);
  buf_put(b, text.data, text.len);
}

void tuple_cbor_tokens(struct buf *b, const int64_t *tokens, size_t n) {
  tuple_cbor_head(b, 4, n);
  uint8_t *p = room(b, n * TOKEN_BYTES), *start = p;
  for (size_t i = 0; i < n; i++)
    p += tokens[i] < 0 ? cbor_head(p, 1, (uint64_t)(-1 - tokens[i]))
                       : cbor_head(p, 0, (uint64_t)tokens[i]);
  b->len += (size_t)(p - start);
}

void tuple_encode_cbor(struct buf *b, const struct tuple *t) {
  buf_reset(b);
  tuple_cbor_head(b, 4, 3);
  if (t->parent) {
    tuple_cbor_head(b, 2, t->parent_len);
    buf_put(b, t->parent, t->parent_len);
  } else {
    tuple_cbor_head(b, 0, t->parent_number);
  }
  tuple_cbor_tokens(b, t->tokens, t->n_tokens);
  if (!t->n_extra) {
    buf_putc(b, (char)0xf6);
    return;
  }
  tuple_cbor_head(b, 4, t->n_extra);
  for (size_t i = 0; i < t->n_extra; i++) {
    const struct tuple_extra *e = &t->extra[i];
    if (e->kind == EXTRA_BYTES) {
      tuple_cbor_head(b, 2, e->text.len);
      buf_put(b, e->text.data, e->text.len);
      continue;
    }
    if (e->kind == EXTRA_PAIR)
      tuple_cbor_head(b, 4, 2);
    tuple_cbor_text(b, e->text);
    if (e->kind == EXTRA_PAIR)
      cbor_int(b, e->offset);
  }
}

/* ---- pickle ---- */

#define FRAME_HEAD 9
#define FRAME_TARGET ((size_t)64 << 10)
#define FRAME_LEAST 4 /* a shorter one is written without its head */
#define NO_FRAME SIZE_MAX

enum {
  PROTO = 0x80,
  FRAME = 0x95,
  MEMOIZE = 0x94,
  STOP = '.',
  MARK = '(',
  TUPLE = 't',
  TUPLE1 = 0x85,
  NONE = 'N',
  BININT = 'J',
  BININT1 = 'K',
  BININT2 = 'M',
  LONG1 = 0x8a,
  SHORT_BINBYTES = 'C',
  SHORT_BINUNICODE = 0x8c,
  BINUNICODE = 'X'
};

struct pickler {
  struct buf *b;
  size_t frame; /* where the open one begins, or NO_FRAME */
};

static void open_frame(struct pickler *p) {
  if (p->frame != NO_FRAME)
    return;
  p->frame = p->b->len;
  room(p->b, FRAME_HEAD);
  p->b->len += FRAME_HEAD; /* filled in when the frame is closed */
}

static void close_frame(struct pickler *p) {
  if (p->frame == NO_FRAME)
    return;
  struct buf *b = p->b;
  uint8_t *head = (uint8_t *)b->data + p->frame;
  size_t len = b->len - p->frame - FRAME_HEAD;
  if (len >= FRAME_LEAST) {
    head[0] = FRAME;
    put_le(head + 1, len, 8);
  } else {
    memmove(head, head + FRAME_HEAD, len);
    b->len -= FRAME_HEAD;
  }
  p->frame = NO_FRAME;
}

static void put_ops(struct pickler *p, const void *ops, size_t n) {
  open_frame(p);
  buf_put(p->b, ops, n);
}

static void put_op(struct pickler *p, uint8_t op) {
  put_ops(p, &op, 1);
}

/* Before every object. */
static inline void begin_object(struct pickler *p) {
  if (p->frame != NO_FRAME && p->b->len - p->frame - FRAME_HEAD >= FRAME_TARGET)
    close_frame(p);
}

static inline size_t pickle_int(uint8_t *p, int64_t i) {
  if (i >= 0 && i <= UINT8_MAX) {
    p[0] = BININT1;
    p[1] = (uint8_t)i;
    return 2;
  }
  if (i >= 0 && i <= UINT16_MAX) {
    p[0] = BININT2;
    return 1 + put_le(p + 1, (uint64_t)i, 2);
  }
  if (i <= INT32_MAX) {
    p[0] = BININT;
    return 1 + put_le(p + 1, (uint64_t)i, 4);
  }
  p[0] = LONG1; /* up to 2^32 - 1: five bytes keep the sign */
  p[1] = 5;
  return 2 + put_le(p + 2, (uint64_t)i, 5);
}

static void put_int(struct pickler *p, int64_t i) {
  uint8_t ops[TOKEN_BYTES];
  begin_object(p);
  put_ops(p, ops, pickle_int(ops, i));
}

/* 32 bytes or fewer: a digest. */
static void put_bytes(struct pickler *p, const void *data, size_t len) {
  begin_object(p);
  uint8_t head[2] = {SHORT_BINBYTES, (uint8_t)len};
  put_ops(p, head, sizeof head);
  put_ops(p, data, len);
  put_op(p, MEMOIZE);
}

static void put_text(struct pickler *p, struct blockhash_text text) {
  uint8_t head[5] = {SHORT_BINUNICODE, (uint8_t)text.len};
  size_t n = 2;
  begin_object(p);
  if (text.len > UINT8_MAX) {
    head[0] = BINUNICODE;
    n = 1 + put_le(head + 1, text.len, 4);
  }
  if (text.len >= FRAME_TARGET) {
    close_frame(p);
    buf_put(p->b, head, n);
    buf_put(p->b, text.data, text.len);
  } else {
    put_ops(p, head, n);
    put_ops(p, text.data, text.len);
  }
  put_op(p, MEMOIZE);
}

static void begin_tuple(struct pickler *p, size_t n) {
  begin_object(p);
  if (n > 3)
    put_op(p, MARK);
}

static void end_tuple(struct pickler *p, size_t n) {
  put_op(p, n > 3 ? TUPLE : (uint8_t)(TUPLE1 + n - 1));
  put_op(p, MEMOIZE);
}

/* The hot part: as put_int for each, in one go while the frame has room for all of them. */
static void put_tokens(struct pickler *p, const int64_t *tokens, size_t n) {
  begin_tuple(p, n);
  open_frame(p);
  if (p->b->len - p->frame + n * TOKEN_BYTES < FRAME_TARGET) {
    uint8_t *at = room(p->b, n * TOKEN_BYTES), *start = at;
    for (size_t i = 0; i < n; i++)
      at += pickle_int(at, tokens[i]);
    p->b->len += (size_t)(at - start);
  } else {
    for (size_t i = 0; i < n; i++)
      put_int(p, tokens[i]);
  }
  end_tuple(p, n);
}

static void put_extra(struct pickler *p, const struct tuple_extra *extra, size_t n) {
  begin_tuple(p, n);
  for (size_t i = 0; i < n; i++) {
    const struct tuple_extra *e = &extra[i];
    if (e->kind == EXTRA_BYTES) {
      put_bytes(p, e->text.data, e->text.len);
    } else if (e->kind == EXTRA_TEXT) {
      put_text(p, e->text);
    } else {
      begin_tuple(p, 2);
      put_text(p, e->text);
      put_int(p, e->offset);
      end_tuple(p, 2);
    }
  }
  end_tuple(p, n);
}

static struct pickler begin_pickle(struct buf *b) {
  static const uint8_t head[2] = {PROTO, 5};
  buf_reset(b);
  buf_put(b, head, sizeof head);
  return (struct pickler){b, NO_FRAME};
}

static void end_pickle(struct pickler *p) {
  put_op(p, STOP);
  close_frame(p);
}

void tuple_encode_pickle(struct buf *b, const struct tuple *t) {
  struct pickler p = begin_pickle(b);
  begin_tuple(&p, 3);
  if (t->parent)
    put_bytes(&p, t->parent, t->parent_len);
  else
    put_int(&p, (int64_t)t->parent_number);
  put_tokens(&p, t->tokens, t->n_tokens);
  if (t->n_extra) {
    put_extra(&p, t->extra, t->n_extra);
  } else {
    begin_object(&p);
    put_op(&p, NONE);
  }
  end_tuple(&p, 3);
  end_pickle(&p);
}

void tuple_encode_text(struct buf *b, enum tuple_hash h, struct blockhash_text text) {
  if (!tuple_is_pickled(h)) {
    buf_reset(b);
    tuple_cbor_text(b, text);
    return;
  }
  struct pickler p = begin_pickle(b);
  put_text(&p, text);
  end_pickle(&p);
}

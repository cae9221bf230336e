/* jinja_string.c: runs of bytes, ropes, code points and the buffers strings are built in.
 *
 * `a + b` of long strings makes a rope: two pointers instead of a copy. It is joined when its bytes
 * are asked for, and then into a block with room behind, so that a text which grows by a piece per
 * message is joined in linear time. */
#include "text/jinja.h"

#include "base/mem.h"
#include "text/pychar.h"

#include <string.h>

#define ROPE_FROM 128 /* shorter results are copied at once */

struct buf *jbuf_open(struct jst *st) {
  if (st->bufs_in_use == st->n_bufs) {
    st->bufs = mem_resize(st->bufs, st->n_bufs + 1, sizeof *st->bufs);
    st->bufs[st->n_bufs] = mem_alloc(sizeof **st->bufs);
    buf_init(st->bufs[st->n_bufs++], BUF_MAX_OWN);
  }
  return st->bufs[st->bufs_in_use++];
}

void jbuf_drop(struct jst *st, struct buf *b) {
  buf_reset(b);
  assert(st->bufs_in_use && st->bufs[st->bufs_in_use - 1] == b);
  st->bufs_in_use--;
}

struct jv jbuf_close(struct jst *st, struct buf *b) {
  struct jv s = jcopy(st, b->len ? b->data : "", b->len);
  jbuf_drop(st, b);
  return s;
}

void jput(struct jst *st, struct buf *b, const char *s, size_t len) {
  if (len > st->memory_left || b->len > st->memory_left - len || b->len + len > JSTR_MAX)
    jlimit(st, "a string becomes too long");
  buf_put(b, s, len);
}

void jputc(struct jst *st, struct buf *b, char c) {
  jput(st, b, &c, 1);
}

void jputs(struct jst *st, struct buf *b, const char *s) {
  jput(st, b, s, strlen(s));
}

void jput_char(struct jst *st, struct buf *b, uint32_t c) {
  char bytes[4];
  jput(st, b, bytes, pychar_write(bytes, c));
}

void jput_repeat(struct jst *st, struct buf *b, uint32_t c, size_t n) {
  char bytes[4];
  size_t size = pychar_write(bytes, c);
  if (n > JSTR_MAX)
    jlimit(st, "a string becomes too long");
  for (size_t i = 0; i < n; i++)
    jput(st, b, bytes, size);
}

void jput_str(struct jst *st, struct buf *b, struct jv s) {
  jput(st, b, jbytes(st, s), s.len);
}

/* ---- ropes */

/* Copies the bytes of a tree of ropes, left to right, without recursion: a rope may be as deep as a
 * conversation is long. */
static void rope_copy(struct jst *st, const struct jrope *top, char *to) {
  struct {
    const struct jrope *rope;
    uint32_t next;
  } near[32], *stack = near;
  size_t n = 1, cap = sizeof near / sizeof *near;
  near[0].rope = top;
  near[0].next = 0;
  while (n) {
    const struct jrope *r = stack[n - 1].rope;
    if (r->flat) {
      memcpy(to, r->flat, r->len);
      to += r->len;
      n--;
      continue;
    }
    if (stack[n - 1].next == r->n) {
      n--;
      continue;
    }
    struct jv part = r->parts[stack[n - 1].next++];
    if (!(part.flags & JF_ROPE)) {
      memcpy(to, part.u.s, part.len);
      to += part.len;
      continue;
    }
    if (n == cap) {
      void *more = jalloc(st, cap * 2 * sizeof *stack);
      memcpy(more, stack, cap * sizeof *stack);
      stack = more;
      cap *= 2;
    }
    stack[n].rope = part.u.rope;
    stack[n++].next = 0;
  }
}

/* Whether `r` begins with a joined rope whose block has room for the rest. */
static bool rope_extend(struct jst *st, struct jrope *r) {
  struct jv first = r->parts[0];
  if (!(first.flags & JF_ROPE) || !first.u.rope->flat || !first.u.rope->grow)
    return false;
  struct jgrow *g = first.u.rope->grow;
  if (g->len != first.len || r->len > g->cap)
    return false;
  for (uint32_t i = 1; i < r->n; i++) {
    struct jv part = r->parts[i];
    if (part.flags & JF_ROPE)
      rope_copy(st, part.u.rope, g->data + g->len);
    else
      memcpy(g->data + g->len, part.u.s, part.len);
    g->len += part.len;
  }
  r->flat = g->data;
  r->grow = g;
  return true;
}

const char *jbytes(struct jst *st, struct jv s) {
  if (!(s.flags & JF_ROPE))
    return s.u.s;
  struct jrope *r = s.u.rope;
  if (r->flat)
    return r->flat;
  if (!rope_extend(st, r)) {
    struct jgrow *g = jalloc(st, sizeof *g);
    g->cap = r->len + r->len / 2 + 64;
    g->data = jalloc(st, g->cap);
    rope_copy(st, r, g->data);
    g->len = r->len;
    r->grow = g;
    r->flat = g->data;
  }
  r->n = 0;
  return r->flat;
}

struct jv jconcat_all(struct jst *st, size_t n, const struct jv *parts) {
  size_t len = 0;
  uint8_t flags = JF_ASCII;
  for (size_t i = 0; i < n; i++) {
    len += parts[i].len;
    flags = (flags & parts[i].flags & JF_ASCII) | ((flags | parts[i].flags) & JF_WIDE);
  }
  if (len > JSTR_MAX)
    jlimit(st, "a string of %zu bytes is too long", len);
  if (len < ROPE_FROM) {
    char *s = jalloc(st, len + 1), *to = s;
    for (size_t i = 0; i < n; i++) {
      memcpy(to, jbytes(st, parts[i]), parts[i].len);
      to += parts[i].len;
    }
    *to = '\0';
    return (struct jv){.type = J_STR, .flags = flags, .len = (uint32_t)len, .u.s = s};
  }
  struct jrope *r = jalloc(st, sizeof *r + n * sizeof r->parts[0]);
  *r = (struct jrope){.n = (uint32_t)n, .len = (uint32_t)len, .chars = -1};
  memcpy(r->parts, parts, n * sizeof r->parts[0]);
  return (struct jv){.type = J_STR, .flags = flags | JF_ROPE, .len = (uint32_t)len, .u.rope = r};
}

struct jv jconcat(struct jst *st, struct jv a, struct jv b) {
  if (!b.len)
    return jplain(a);
  if (!a.len)
    return jplain(b);
  return jconcat_all(st, 2, (struct jv[]){a, b});
}

struct jv jsub(struct jst *st, struct jv s, size_t at, size_t len) {
  struct jv part = jstr(jbytes(st, s) + at, len);
  part.flags = s.flags & JF_ASCII;
  return part;
}

/* ---- code points */

static size_t count(const char *s, size_t len) {
  size_t n = 0, i = 0;
  for (; i + 8 <= len; i += 8) {
    uint64_t w;
    memcpy(&w, s + i, 8);
    uint64_t tail = (w >> 7) & ~(w >> 6) & UINT64_C(0x0101010101010101);
    n += 8 - (size_t)__builtin_popcountll(tail);
  }
  for (; i < len; i++)
    n += ((unsigned char)s[i] & 0xc0) != 0x80;
  return n;
}

bool jascii(struct jst *st, struct jv *s) {
  if (!(s->flags & (JF_ASCII | JF_WIDE))) {
    const char *p = jbytes(st, *s);
    size_t i = 0;
    uint64_t bits = 0;
    for (; i + 8 <= s->len && !(bits & UINT64_C(0x8080808080808080)); i += 8)
      memcpy(&bits, p + i, 8);
    bool wide = bits & UINT64_C(0x8080808080808080);
    for (; i < s->len && !wide; i++)
      wide = (unsigned char)p[i] >= 0x80;
    s->flags |= wide ? JF_WIDE : JF_ASCII;
  }
  return s->flags & JF_ASCII;
}

size_t jchars(struct jst *st, struct jv s) {
  if (s.flags & JF_ASCII)
    return s.len;
  if (!(s.flags & JF_ROPE))
    return count(s.u.s, s.len);
  if (s.u.rope->chars < 0)
    s.u.rope->chars = (int64_t)count(jbytes(st, s), s.len);
  return (size_t)s.u.rope->chars;
}

size_t joffset(struct jst *st, struct jv s, size_t chars) {
  if (jascii(st, &s))
    return chars < s.len ? chars : s.len;
  const char *p = jbytes(st, s);
  size_t i = 0;
  while (chars && i < s.len) {
    i++;
    while (i < s.len && ((unsigned char)p[i] & 0xc0) == 0x80)
      i++;
    chars--;
  }
  return i;
}

bool jstr_eq(struct jst *st, struct jv a, struct jv b) {
  return a.len == b.len && (!a.len || !memcmp(jbytes(st, a), jbytes(st, b), a.len));
}

/* UTF-8 sorts as code points do. */
int jstr_cmp(struct jst *st, struct jv a, struct jv b) {
  size_t n = a.len < b.len ? a.len : b.len;
  int order = n ? memcmp(jbytes(st, a), jbytes(st, b), n) : 0;
  return order ? order : a.len < b.len ? -1 : a.len > b.len;
}

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

/* Room for len bytes more, within the bounds of strings, memory and steps: asked for before
 * anything is made. A buffer stays for the whole rendering, so what it grows by is gone. */
static void make_room(struct jst *st, struct buf *b, size_t len) {
  if (len > JSTR_MAX || b->len + len > JSTR_MAX || (len > st->memory_left && len > b->cap - b->len))
    jlimit(st, "a string becomes too long");
  jwork_copy(st, len);
  size_t cap = b->cap;
  if (b->data && b->len + len < cap)
    return;
  size_t need = b->len + len + 1, more = cap ? cap : 64;
  while (more < need)
    more *= 2;
  if (more - cap > st->memory_left)
    jlimit(st, "a string becomes too long");
  st->memory_left -= more - cap;
  buf_room(b, len);
}

void jput(struct jst *st, struct buf *b, const char *s, size_t len) {
  make_room(st, b, len);
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

void jput_times(struct jst *st, struct buf *b, const char *s, size_t len, size_t n) {
  if (!len || !n)
    return;
  if (n > JSTR_MAX / len)
    jlimit(st, "a string becomes too long");
  size_t all = len * n, done = len;
  make_room(st, b, all);
  char *to = buf_room(b, all);
  memcpy(to, s, len);
  for (size_t more; done < all; done += more) { /* twice as much each time */
    more = done < all - done ? done : all - done;
    memcpy(to + done, to, more);
  }
  to[all] = '\0';
  b->len += all;
}

void jput_repeat(struct jst *st, struct buf *b, uint32_t c, size_t n) {
  char bytes[4];
  jput_times(st, b, bytes, pychar_write(bytes, c), n);
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
      jwork_copy(st, r->len);
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
      jwork_copy(st, part.len);
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
    jwork_copy(st, part.len);
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
  *r = (struct jrope){.len = (uint32_t)len};
  for (size_t i = 0; i < n; i++) /* without the empty ones each part is worth its bytes */
    if (parts[i].len)
      r->parts[r->n++] = parts[i];
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

/* What is known of a long str that is one run of bytes, in one of a few places: its characters are
 * counted once. */
static struct jindex *index_of(struct jst *st, const char *p, uint32_t len) {
  uint64_t mixed = (uint64_t)(uintptr_t)p * UINT64_C(0x9e3779b97f4a7c15) ^ len;
  struct jindex *x = &st->indexes[(mixed >> 40) % JINDEX_SLOTS];
  if (x->s == p && x->len == len)
    return x;
  jspend(st, len / 64);
  *x = (struct jindex){.s = p, .len = len, .chars = (uint32_t)count(p, len)};
  return x;
}

#define INDEX_FROM 256 /* shorter ones are looked through each time */

bool jascii(struct jst *st, struct jv *s) {
  if (!(s->flags & (JF_ASCII | JF_WIDE))) {
    const char *p = jbytes(st, *s);
    bool wide = false;
    if (s->len >= INDEX_FROM)
      wide = index_of(st, p, s->len)->chars != s->len;
    else
      for (size_t i = 0; i < s->len && !wide; i++)
        wide = (unsigned char)p[i] >= 0x80;
    s->flags |= wide ? JF_WIDE : JF_ASCII;
  }
  return s->flags & JF_ASCII;
}

size_t jchars(struct jst *st, struct jv s) {
  if (s.flags & JF_ASCII)
    return s.len;
  const char *p = jbytes(st, s);
  return s.len < INDEX_FROM ? count(p, s.len) : index_of(st, p, s.len)->chars;
}

static void fill_index(struct jst *st, struct jindex *x) {
  jspend(st, x->len / 4);
  x->at = jalloc(st, (x->chars / JINDEX_EVERY + 1) * sizeof *x->at);
  size_t n = 0;
  for (uint32_t i = 0; i < x->len; i++)
    if (((unsigned char)x->s[i] & 0xc0) != 0x80 && n++ % JINDEX_EVERY == 0)
      x->at[n / JINDEX_EVERY] = i;
}

size_t joffset(struct jst *st, struct jv s, size_t chars) {
  if (jascii(st, &s))
    return chars < s.len ? chars : s.len;
  const char *p = jbytes(st, s);
  size_t i = 0;
  if (s.len >= INDEX_FROM) {
    struct jindex *x = index_of(st, p, s.len);
    if (chars >= x->chars)
      return s.len;
    if (!x->at && ++x->uses > 4)
      fill_index(st, x);
    i = x->at ? x->at[chars / JINDEX_EVERY] : 0;
    chars = x->at ? chars % JINDEX_EVERY : chars;
    jspend(st, chars / 4);
  }
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

/* jinja_out.c: where the rendered text goes.
 *
 * The root writes into the caller's buffer. What a macro, a set block or a filter block writes is
 * kept as pieces: long strings by reference, short ones gathered, so that a message passes through
 * a macro without being copied there. */
#include "text/jinja_trace.h"

#include <string.h>

#define KEEP_FROM 256 /* shorter pieces are gathered */
#define TAIL_BYTES 2048

static void piece(struct jst *st, struct jout *o, struct jv s) {
  if (o->n == o->cap) {
    size_t cap = o->cap ? o->cap * 2 : 8;
    struct jv *more = jalloc(st, cap * sizeof *more);
    if (o->n)
      memcpy(more, o->pieces, o->n * sizeof *more);
    o->pieces = more;
    o->cap = cap;
  }
  o->pieces[o->n++] = s;
}

static void flush(struct jst *st, struct jout *o) {
  if (!o->tail_len)
    return;
  piece(st, o, jstr(o->tail, o->tail_len));
  o->tail += o->tail_len;
  o->tail_cap -= o->tail_len;
  o->tail_len = 0;
}

/* What is the same as before at its place is not copied. */
void jsync_write(struct jst *st, struct jout *o, const char *s, size_t len) {
  struct jsync *y = o->sync;
  if (len > y->most - y->at)
    jlimit(st, "the text is longer than %zu bytes", y->most);
  if (!y->parted) {
    size_t most = y->old_len - y->at < len ? y->old_len - y->at : len, same = most;
    if (most && memcmp(y->old + y->at, s, most) != 0)
      for (same = 0; y->old[y->at + same] == s[same];)
        same++;
    y->at += same;
    s += same;
    len -= same;
    y->parted = len > 0;
  }
  buf_put(o->direct, s, len);
  y->at += len;
}

static void write_direct(struct jst *st, struct jout *o, const char *s, size_t len) {
  jwork_copy(st, len);
  if (o->sync)
    jsync_write(st, o, s, len);
  else if (buf_add(o->direct, s, len) < 0)
    jlimit(st, "the text is longer than %zu bytes", o->direct->max);
}

/* Every part of a rope in order; its own bytes are not joined for it. */
static void write_rope(struct jst *st, struct jout *o, const struct jrope *r) {
  if (r->flat) {
    write_direct(st, o, r->flat, r->len);
    return;
  }
  jenter(st);
  for (uint32_t i = 0; i < r->n; i++) {
    struct jv part = r->parts[i];
    if (part.flags & JF_ROPE && st->depth < JDEPTH_MAX / 2)
      write_rope(st, o, part.u.rope);
    else
      write_direct(st, o, jbytes(st, part), part.len);
  }
  jleave(st);
}

void jout_put(struct jst *st, struct jv s) {
  struct jout *o = st->out;
  if (!s.len)
    return;
  if (o->direct) {
    if (s.flags & JF_ROPE)
      write_rope(st, o, s.u.rope);
    else
      write_direct(st, o, s.u.s, s.len);
    return;
  }
  if (s.len < KEEP_FROM) {
    jout_bytes(st, jbytes(st, s), s.len);
    return;
  }
  o->len += s.len;
  if (o->len > JSTR_MAX)
    jlimit(st, "a string becomes too long");
  flush(st, o);
  piece(st, o, jplain(s));
}

void jout_bytes(struct jst *st, const char *s, size_t len) {
  struct jout *o = st->out;
  if (!len)
    return;
  if (o->direct) {
    write_direct(st, o, s, len);
    return;
  }
  if (len >= KEEP_FROM) { /* text of the template: constant while it is rendered */
    jout_put(st, jstr(s, len));
    return;
  }
  o->len += len;
  if (o->tail_cap - o->tail_len < len) {
    flush(st, o);
    uint32_t cap = o->n ? TAIL_BYTES : KEEP_FROM;
    o->tail = jalloc(st, cap);
    o->tail_cap = cap;
  }
  memcpy(o->tail + o->tail_len, s, len);
  o->tail_len += (uint32_t)len;
}

void jout_begin(struct jst *st, struct jout *o, struct jout **before) {
  *o = (struct jout){0};
  *before = st->out;
  st->out = o;
}

struct jv jout_end(struct jst *st, struct jout *o, struct jout *before) {
  flush(st, o);
  st->out = before;
  if (!o->n)
    return jstr("", 0);
  if (o->n == 1)
    return o->pieces[0];
  struct jrope *r = jalloc(st, sizeof *r + o->n * sizeof r->parts[0]);
  *r = (struct jrope){.n = (uint32_t)o->n, .len = (uint32_t)o->len};
  memcpy(r->parts, o->pieces, o->n * sizeof r->parts[0]);
  return (struct jv){.type = J_STR, .flags = JF_ROPE, .len = (uint32_t)o->len, .u.rope = r};
}

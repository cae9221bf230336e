/* normsteps.c: normalizers; see tokensteps.h. */
#include "text/tokensteps.h"

#include "base/mem.h"
#include "text/unicode.h"
#include "text/utf8.h"

void normsteps_free(struct normsteps *n) {
  for (size_t i = 0; i < n->n; i++) {
    pattern_free(&n->steps[i].pattern);
    mem_free(n->steps[i].content);
  }
  mem_free(n->steps);
  *n = (struct normsteps){0};
}

/* One text on its way through the steps; `where` says which buffer holds it. */
struct norm_text {
  const char *text;
  size_t len;
  struct buf *bufs;
  int where; /* -1: it is the caller's */
  bool *first;
};

/* The other buffer, empty; used(…) afterwards makes it the text. */
static struct buf *other(struct norm_text *t) {
  struct buf *b = &t->bufs[t->where == 0];
  buf_reset(b);
  return b;
}

static void used(struct norm_text *t) {
  t->where = t->where == 0;
  t->text = t->bufs[t->where].data ? t->bufs[t->where].data : "";
  t->len = t->bufs[t->where].len;
}

static int too_long(struct err *err, const struct buf *b) {
  return err_set(err, ERR_LIMIT, "a normalized text has more than %zu bytes", b->max);
}

static int run_form(struct norm_text *t, bool nfc, struct err *err) {
  const char *p = t->text, *end = p + t->len;
  size_t same = nfc ? unicode_nfc_span(p, t->len) : 0;
  if (same == t->len)
    return 0;
  struct buf *b = other(t);
  if (t->len > b->max / 18) /* no canonical form is longer than nine times, a safe half of that */
    return too_long(err, b);
  while (p < end) { /* stretch by stretch: what NFC may change is short in most texts */
    buf_put(b, p, same);
    p += same;
    size_t n = nfc ? unicode_nfc_stretch(p, (size_t)(end - p)) : (size_t)(end - p);
    unicode_normalize(p, n, nfc, b);
    p += n;
    same = nfc ? unicode_nfc_span(p, (size_t)(end - p)) : 0;
  }
  used(t);
  return 0;
}

static int run_lower(struct norm_text *t, struct err *err) {
  struct buf *b = other(t);
  const char *p = t->text, *end = p + t->len;
  if (buf_reserve(b,
                  t->len * 2)) /* U+0130 grows from two bytes to three, U+023A from two to three */
    return too_long(err, b);
  while (p < end) {
    char bytes[4];
    uint32_t more, cp = unicode_lower(utf8_take(&p), &more);
    buf_put(b, bytes, utf8_encode(cp, bytes));
    if (more)
      buf_put(b, bytes, utf8_encode(more, bytes));
  }
  used(t);
  return 0;
}

static int run_replace(struct norm_text *t, const struct normstep *step, struct err *err) {
  struct pattern_search search;
  size_t start, end, done = 0;
  pattern_begin(&search, &step->pattern, t->text, t->len);
  int rc = pattern_next(&search, &start, &end, err);
  if (rc > 0) {
    struct buf *b = other(t);
    const char *behind = t->text;
    if (start == 0 && end > 0)
      (void)utf8_take(&behind);
    if (start == 0 && (behind < t->text + end || !step->content_len))
      *t->first = false;
    do {
      if (buf_add(b, t->text + done, start - done) || buf_add(b, step->content, step->content_len))
        rc = too_long(err, b);
      else {
        done = end;
        rc = pattern_next(&search, &start, &end, err);
      }
    } while (rc > 0);
    if (!rc && buf_add(b, t->text + done, t->len - done))
      rc = too_long(err, b);
    if (!rc) {
      pattern_end(&search);
      used(t);
      return 0;
    }
  }
  pattern_end(&search);
  return rc < 0 ? err_prefix(err, "normalizer's Replace") : rc;
}

static int run_prepend(struct norm_text *t, const struct normstep *step, struct err *err) {
  if (!t->len)
    return 0;
  struct buf *b = other(t);
  if (buf_reserve(b, t->len + step->content_len))
    return too_long(err, b);
  buf_put(b, step->content, step->content_len);
  buf_put(b, t->text, t->len);
  used(t);
  return 0;
}

static void run_strip(struct norm_text *t, const struct normstep *step) {
  const char *p = t->text, *end = p + t->len;
  while (step->left && p < end) {
    const char *q = p;
    if (!(unicode_class_fast(utf8_take(&q)) & UNICODE_SPACE))
      break;
    p = q;
    *t->first = false;
  }
  while (step->right && end > p) {
    const char *q = end;
    do
      q--;
    while (q > p && ((unsigned char)*q & 0xc0) == 0x80);
    const char *c = q;
    if (!(unicode_class_fast(utf8_take(&c)) & UNICODE_SPACE))
      break;
    end = q;
  }
  t->text = p;
  t->len = (size_t)(end - p);
}

int normsteps_run(const struct normsteps *n, const char *text, size_t len, struct buf bufs[2],
                  const char **out, size_t *out_len, bool *first, struct err *err) {
  struct norm_text t = {text, len, bufs, -1, first};
  int rc = 0;
  for (size_t i = 0; i < n->n && !rc; i++) {
    const struct normstep *step = &n->steps[i];
    switch (step->kind) {
    case NORM_NFC:
    case NORM_NFD:
      rc = run_form(&t, step->kind == NORM_NFC, err);
      break;
    case NORM_LOWER:
      rc = run_lower(&t, err);
      break;
    case NORM_REPLACE:
      rc = run_replace(&t, step, err);
      break;
    case NORM_PREPEND:
      rc = run_prepend(&t, step, err);
      break;
    case NORM_STRIP:
      run_strip(&t, step);
      break;
    }
  }
  *out = t.text;
  *out_len = t.len;
  return rc;
}

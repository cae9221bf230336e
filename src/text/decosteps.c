/* decosteps.c: decoders; see tokensteps.h. Each step reads one list of pieces and writes another.
 */
#include "text/tokensteps.h"

#include "base/mem.h"
#include "text/utf8.h"

void decosteps_free(struct decosteps *d) {
  for (size_t i = 0; i < d->n; i++) {
    pattern_free(&d->steps[i].pattern);
    mem_free(d->steps[i].content);
  }
  mem_free(d->steps);
  *d = (struct decosteps){0};
}

void decopieces_init(struct decopieces *d, size_t max) {
  *d = (struct decopieces){0};
  buf_init(&d->text, max);
}

void decopieces_free(struct decopieces *d) {
  buf_free(&d->text);
  mem_free(d->ends);
  d->ends = NULL;
  d->n = d->cap = 0;
}

static void end_piece(struct decopieces *d) {
  MEM_GROW(d->ends, d->n, d->cap);
  d->ends[d->n++] = d->text.len;
}

int decopieces_add(struct decopieces *d, const char *text, size_t len) {
  int rc = buf_add(&d->text, text, len);
  if (!rc)
    end_piece(d);
  return rc;
}

static int replace(const struct decostep *step, const char *text, size_t len,
                   struct decopieces *out, struct err *err) {
  struct pattern_search search;
  size_t start, end, done = 0;
  int rc, full = 0;
  pattern_begin(&search, &step->pattern, text, len);
  while ((rc = pattern_next(&search, &start, &end, err)) > 0 && !full) {
    full = buf_add(&out->text, text + done, start - done);
    if (!full)
      full = buf_add(&out->text, step->content, step->content_len);
    done = end;
  }
  pattern_end(&search);
  if (rc < 0)
    return err_prefix(err, "decoder's Replace");
  return full ? full : decopieces_add(out, text + done, len - done);
}

/* The byte that a text like <0x0A> names; -1 for others. */
static int named_byte(const char *text, size_t len) {
  if (len != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
    return -1;
  int byte = 0;
  for (int i = 3; i < 5; i++) {
    char c = text[i];
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')))
      return -1;
    byte = byte * 16 + (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return byte;
}

static int strip(const struct decostep *step, const char *text, size_t len,
                 struct decopieces *out) {
  const char *p = text, *end = text + len;
  size_t n = step->content_len;
  for (size_t i = 0; i < step->start && (size_t)(end - p) >= n && !memcmp(p, step->content, n); i++)
    p += n;
  for (size_t i = 0; i < step->stop && (size_t)(end - p) >= n && !memcmp(end - n, step->content, n);
       i++)
    end -= n;
  return decopieces_add(out, p, (size_t)(end - p));
}

static int meta(const struct decostep *step, const char *text, size_t len, bool first,
                struct decopieces *out) {
  size_t n = step->content_len;
  int rc = 0;
  for (const char *p = text, *end = text + len; p < end && !rc;) {
    if ((size_t)(end - p) >= n && !memcmp(p, step->content, n)) {
      p += n;
      rc = first && step->drop_first ? 0 : buf_add_byte(&out->text, ' ');
    } else {
      rc = buf_add_byte(&out->text, *p++);
    }
  }
  return rc ? rc : decopieces_add(out, "", 0);
}

static int run(const struct decostep *step, const struct decopieces *in, struct decopieces *out,
               struct err *err) {
  size_t start = 0;
  int rc = 0;
  bool bytes = false; /* a run of byte tokens is under way: it becomes one piece */
  for (size_t i = 0; i < in->n && !rc; start = in->ends[i++]) {
    const char *text = in->text.data + start;
    size_t len = in->ends[i] - start;
    int byte;
    switch (step->kind) {
    case DECO_REPLACE:
      rc = replace(step, text, len, out, err);
      break;
    case DECO_FALLBACK:
      byte = named_byte(text, len);
      if (bytes && byte < 0)
        end_piece(out);
      bytes = byte >= 0;
      rc = bytes ? buf_add_byte(&out->text, (char)byte) : decopieces_add(out, text, len);
      break;
    case DECO_FUSE:
      rc = buf_add(&out->text, text, len);
      break;
    case DECO_STRIP:
      rc = strip(step, text, len, out);
      break;
    case DECO_META:
      rc = meta(step, text, len, i == 0, out);
      break;
    }
  }
  if (!rc && (bytes || (step->kind == DECO_FUSE && in->n)))
    end_piece(out);
  return rc;
}

int decosteps_run(const struct decosteps *d, struct decopieces *pieces, struct err *err) {
  struct decopieces next;
  decopieces_init(&next, pieces->text.max);
  int rc = 0;
  for (size_t i = 0; i < d->n && !rc; i++) {
    buf_reset(&next.text);
    next.n = 0;
    rc = run(&d->steps[i], pieces, &next, err);
    struct decopieces old = *pieces;
    *pieces = next;
    next = old;
  }
  decopieces_free(&next);
  return rc == ERR_LIMIT
             ? err_set(err, rc, "the decoded text has more than %zu bytes", pieces->text.max)
             : rc;
}

/* jsonfields.c: see jsonfields.h. */
#include "text/jsonfields.h"

#include "text/json_scan.h"

const char *jsonfields_digits(const char *p, const char *end, uint64_t *n) {
  const char *from = p;
  uint64_t v = 0;
  for (; p < end && *p >= '0' && *p <= '9'; p++) {
    uint64_t digit = (uint64_t)(*p - '0');
    if (p - from >= 19 && v > (UINT64_MAX - digit) / 10)
      return NULL;
    v = v * 10 + digit;
  }
  *n = v;
  return p > from ? p : NULL;
}

/* A scalar has ended: nothing of it follows. */
static bool ends(const char *p, const char *end) {
  return p == end || *p == ',' || *p == '}' || *p == ']' || json_skip_space(p, end) != p;
}

static const char *read_stamp(const char *p, const char *end, uint64_t *out) {
  uint64_t n;
  const char *q = jsonfields_digits(p, end, &n);
  if (!q || !ends(q, end))
    return jsonwalk_skip(p, end);
  *out = n;
  return q;
}

static const char *read_int(const char *p, const char *end, int64_t *out) {
  bool minus = p < end && *p == '-';
  uint64_t n = UINT64_MAX;
  const char *q = read_stamp(p + minus, end, &n);
  if (q && n <= INT64_MAX)
    *out = minus ? -(int64_t)n : (int64_t)n;
  return q;
}

static const char *take(const struct jsonfield *f, const char *p, const char *end, char *out) {
  if (f->kind == JSONFIELD_READ)
    return f->read(p, end, out);
  if (f->kind == JSONFIELD_INT)
    return read_int(p, end, (int64_t *)(void *)(out + f->offset));
  if (f->kind == JSONFIELD_STAMP)
    return read_stamp(p, end, (uint64_t *)(void *)(out + f->offset));
  const char *q = jsonwalk_skip(p, end);
  if (!q)
    return NULL;
  if (f->kind == JSONFIELD_TRUE)
    *(bool *)(void *)(out + f->offset) = q - p == 4 && memcmp(p, "true", 4) == 0;
  else if (f->kind == JSONFIELD_RAW)
    *(struct jsonslice *)(void *)(out + f->offset) = (struct jsonslice){p, q};
  else if (*p == '"')
    *(struct jsonslice *)(void *)(out + f->offset) = (struct jsonslice){p + 1, q - 1};
  return q;
}

static bool same8(const char *a, const char *b) {
  uint64_t x, y;
  memcpy(&x, a, 8);
  memcpy(&y, b, 8);
  return x == y;
}

/* memcmp as a call costs more than what keys have to compare. */
static bool same(const char *a, const char *b, size_t len) {
  if (len >= 8) {
    for (size_t i = 0; i + 8 < len; i += 8)
      if (!same8(a + i, b + i))
        return false;
    return same8(a + len - 8, b + len - 8);
  }
  while (len && a[len - 1] == b[len - 1])
    len--;
  return !len;
}

/* A bit for a key, so that most others are known to be none of the fields. */
static uint64_t bit_of(const char *key, size_t len) {
  return UINT64_C(1) << ((len * 7 + (unsigned char)key[0]) & 63);
}

/* The fields' names, as the reader looks for them. */
struct names {
  const struct jsonfield *fields;
  size_t n, next; /* the one that is expected */
  uint64_t bits;
};

/* Reads the key whose quote is at p: its field or NULL. Behind it; NULL when it is no string. */
static const char *read_key(struct names *x, const char *p, const char *end,
                            const struct jsonfield **out) {
  const struct jsonfield *f = &x->fields[x->next];
  *out = NULL;
  if (x->next < x->n && end - p > f->len + 1 && p[f->len + 1] == '"' &&
      same(p + 1, f->key, f->len)) {
    *out = f;
    x->next++;
    return p + f->len + 2;
  }
  const char *q = p < end && *p == '"' ? jsonwalk_skip(p, end) : NULL;
  size_t len = q ? (size_t)(q - p) - 2 : 0;
  if (!q || !len)
    return q;
  if (!x->bits)
    for (size_t i = 0; i < x->n; i++)
      x->bits |= bit_of(x->fields[i].key, x->fields[i].len);
  if (!(x->bits & bit_of(p + 1, len)))
    return q;
  for (size_t i = 0; i < x->n && !*out; i++)
    if (x->fields[i].len == len && same(p + 1, x->fields[i].key, len)) {
      *out = &x->fields[i];
      x->next = i + 1;
    }
  return q;
}

/* From the opening bracket to what stands behind it; NULL when there is none. */
static const char *open_at(const char *p, const char *end, char bracket) {
  p = json_skip_space(p, end);
  return p < end && *p == bracket ? json_skip_space(p + 1, end) : NULL;
}

/* Behind a value: at the next one, or *closed and behind the bracket; NULL when neither follows. */
static const char *go_on(const char *p, const char *end, char bracket, bool *closed) {
  p = json_skip_space(p, end);
  *closed = p < end && *p == bracket;
  if (*closed)
    return p + 1;
  return p < end && *p == ',' ? json_skip_space(p + 1, end) : NULL;
}

/* `wanted`: bits of the fields after which it is enough; 0 = all of the object. */
static const char *read_object(const struct jsonfield *fields, size_t n, const char *p,
                               const char *end, char *out, uint64_t wanted) {
  struct names names = {.fields = fields, .n = n};
  bool all = wanted == 0, closed = false;
  p = open_at(p, end, '{');
  if (p && p < end && *p == '}')
    return p + 1;
  while (p && !closed && (all || wanted)) {
    const struct jsonfield *f;
    p = p < end && *p == '"' ? read_key(&names, p, end, &f) : NULL;
    p = p ? json_skip_space(p, end) : NULL;
    if (!p || p == end || *p != ':')
      return NULL;
    p = json_skip_space(p + 1, end);
    if (p == end)
      return NULL;
    p = f ? take(f, p, end, out) : jsonwalk_skip(p, end);
    if (f)
      wanted &= ~(UINT64_C(1) << (f - fields));
    p = p ? go_on(p, end, '}', &closed) : NULL;
  }
  return p;
}

const char *jsonfields_read(const struct jsonfield *fields, size_t n, const char *p,
                            const char *end, void *out) {
  return read_object(fields, n, p, end, out, 0);
}

bool jsonfields_head(const struct jsonfield *fields, size_t n, const char *p, const char *end,
                     void *out) {
  assert(n > 0 && n <= 64);
  return read_object(fields, n, p, end, out, UINT64_MAX >> (64 - n)) != NULL;
}

const char *jsonfields_array(const char *p, const char *end,
                             const char *(*item)(const char *p, const char *end, void *out),
                             void *out) {
  bool closed = false;
  p = open_at(p, end, '[');
  if (p && p < end && *p == ']')
    return p + 1;
  while (p && !closed) {
    p = p < end ? item(p, end, out) : NULL;
    p = p ? go_on(p, end, ']', &closed) : NULL;
  }
  return p;
}

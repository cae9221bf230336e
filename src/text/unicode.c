/* unicode.c: look-ups in the tables of unicode_tables.inc, and normalization; see unicode.h.
 *
 * Normalization follows Unicode Standard Annex 15: decompose, put marks in order of their combining
 * class, compose with the last starter. Hangul is computed, not looked up. */
#include "text/unicode.h"

#include "base/mem.h"
#include "text/utf8.h"

#include <stdlib.h>

#include "text/unicode_tables.inc"

enum { /* Hangul: the Unicode Standard, 3.12 */
       S_BASE = 0xac00,
       L_BASE = 0x1100,
       V_BASE = 0x1161,
       T_BASE = 0x11a7,
       L_COUNT = 19,
       V_COUNT = 21,
       T_COUNT = 28,
       S_COUNT = L_COUNT * V_COUNT * T_COUNT
};

uint8_t unicode_class(uint32_t cp) {
  return cp <= 0x10ffff ? unicode_class_fast(cp) : 0;
}

const uint32_t *unicode_ranges(const char *name, size_t len, size_t *n) {
  static const struct {
    const char *name;
    const uint32_t *ranges;
    size_t n;
  } all[] = {
#define ROW(x) {#x, ranges_##x, ARRAY_LEN(ranges_##x) / 2}
      ROW(s), ROW(L), ROW(N), ROW(Lu),  ROW(Lt), ROW(Lm), ROW(Lo),    ROW(Ll),
      ROW(M), ROW(P), ROW(S), ROW(Han), ROW(d),  ROW(w),  ROW(punct),
#undef ROW
  };
  for (size_t i = 0; i < ARRAY_LEN(all); i++)
    if (strlen(all[i].name) == len && memcmp(all[i].name, name, len) == 0) {
      *n = all[i].n;
      return all[i].ranges;
    }
  return NULL;
}

/* Of `n` rows of `width` numbers sorted by their first, the last one whose first is <= key. */
static const uint32_t *row_at_most(const uint32_t *rows, size_t n, size_t width, uint32_t key) {
  size_t lo = 0, hi = n;
  while (lo < hi) {
    size_t mid = (lo + hi) / 2;
    if (rows[mid * width] <= key)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo ? rows + (lo - 1) * width : NULL;
}

bool unicode_in_ranges(const uint32_t *ranges, size_t n, uint32_t cp) {
  const uint32_t *row = row_at_most(ranges, n, 2, cp);
  return row && cp <= row[1];
}

uint8_t unicode_ccc(uint32_t cp) {
  return ccc_data[(size_t)ccc_index[cp >> 7] * 128 + (cp & 127)];
}

bool unicode_nfc_suspect(uint32_t cp) {
  return quick_data[(size_t)quick_index[cp >> 7] * 128 + (cp & 127)] != 0;
}

unsigned unicode_decompose(uint32_t cp, uint32_t out[4]) {
  uint32_t s = cp - S_BASE;
  if (s < S_COUNT) {
    out[0] = L_BASE + s / (V_COUNT * T_COUNT);
    out[1] = V_BASE + s % (V_COUNT * T_COUNT) / T_COUNT;
    out[2] = T_BASE + s % T_COUNT;
    return s % T_COUNT ? 3 : 2;
  }
  const uint32_t *row =
      cp < 0xc0 ? NULL : row_at_most(decomposed_cp, ARRAY_LEN(decomposed_cp), 1, cp);
  if (!row || *row != cp) {
    out[0] = cp;
    return 1;
  }
  unsigned place = decomposed_place[row - decomposed_cp], n = place & 7;
  memcpy(out, decomposed_data + (place >> 3), n * sizeof *out);
  return n;
}

uint32_t unicode_compose(uint32_t first, uint32_t second) {
  if (first - L_BASE < L_COUNT && second - V_BASE < V_COUNT)
    return S_BASE + ((first - L_BASE) * V_COUNT + (second - V_BASE)) * T_COUNT;
  if (first - S_BASE < S_COUNT && (first - S_BASE) % T_COUNT == 0 && second > T_BASE &&
      second < T_BASE + T_COUNT)
    return first + (second - T_BASE);
  size_t lo = 0, hi = ARRAY_LEN(composed) / 3;
  while (lo < hi) {
    size_t mid = (lo + hi) / 2;
    const uint32_t *row = composed + mid * 3;
    if (row[0] == first && row[1] == second)
      return row[2];
    if (row[0] < first || (row[0] == first && row[1] < second))
      lo = mid + 1;
    else
      hi = mid;
  }
  return 0;
}

uint32_t unicode_lower(uint32_t cp, uint32_t *more) {
  *more = cp == 0x130 ? 0x307 : 0;
  const uint32_t *row = row_at_most(lowered, ARRAY_LEN(lowered) / 2, 2, cp);
  return row && row[0] == cp ? row[1] : cp;
}

size_t unicode_nfc_span(const char *s, size_t len) {
  const char *p = s, *end = s + len, *safe = s;
  while (p < end) {
    if (end - p >= 8) { /* below U+0300 nothing changes: lead bytes up to 0xcb */
      uint64_t x;
      memcpy(&x, p, 8);
      if (!(x & UINT64_C(0x8080808080808080))) {
        p += 8;
        safe = p - 1;
        continue;
      }
    }
    uint32_t cp;
    unsigned n = utf8_decode(p, end, &cp);
    if (!n) {
      p++;
      continue;
    }
    if (cp >= 0x300 && unicode_nfc_suspect(cp))
      return (size_t)(safe - s); /* the character before may compose with it */
    safe = p;
    p += n;
  }
  return len;
}

size_t unicode_nfc_stretch(const char *s, size_t len) {
  const char *p = s, *end = s + len, *q;
  if (p < end)
    (void)utf8_take(&p);
  for (q = p; p < end && unicode_nfc_suspect(utf8_take(&q)); p = q)
    ;
  return (size_t)(p - s);
}

/* Characters on their way through normalization; few are the rule. */
struct run {
  uint32_t *cp;
  size_t n, cap;
  uint32_t few[64];
};

static void run_add(struct run *r, uint32_t cp) {
  if (r->n == r->cap) {
    r->cap *= 2;
    uint32_t *old = r->cp == r->few ? NULL : r->cp;
    r->cp = mem_resize(old, r->cap, sizeof *r->cp);
    if (!old)
      memcpy(r->cp, r->few, sizeof r->few);
  }
  r->cp[r->n++] = cp;
}

/* Sorts marks [from, to) by combining class, stably: by counting, so that no text is quadratic. */
static void order_marks(struct run *r, size_t from, size_t to) {
  bool sorted = true;
  for (size_t i = from + 1; i < to && sorted; i++)
    sorted = unicode_ccc(r->cp[i - 1]) <= unicode_ccc(r->cp[i]);
  if (sorted)
    return;
  size_t place[256] = {0}, sum = 0;
  for (size_t i = from; i < to; i++)
    place[unicode_ccc(r->cp[i])]++;
  for (size_t c = 0; c < 256; c++) {
    size_t n = place[c];
    place[c] = sum;
    sum += n;
  }
  uint32_t *copy = mem_dup(r->cp + from, (to - from) * sizeof *r->cp);
  for (size_t i = 0; i < to - from; i++)
    r->cp[from + place[unicode_ccc(copy[i])]++] = copy[i];
  mem_free(copy);
}

static void put_in_order(struct run *r) {
  for (size_t i = 0; i < r->n;) {
    if (!unicode_ccc(r->cp[i])) {
      i++;
      continue;
    }
    size_t from = i;
    while (i < r->n && unicode_ccc(r->cp[i]))
      i++;
    order_marks(r, from, i);
  }
}

static void compose_run(struct run *r) {
  size_t out = 0, starter = SIZE_MAX;
  uint8_t last = 0; /* class of what stands between the starter and the next character */
  for (size_t i = 0; i < r->n; i++) {
    uint32_t cp = r->cp[i];
    uint8_t ccc = unicode_ccc(cp);
    bool blocked = out != starter + 1 && last >= ccc;
    uint32_t joined = starter == SIZE_MAX || blocked ? 0 : unicode_compose(r->cp[starter], cp);
    if (joined) {
      r->cp[starter] = joined;
      continue;
    }
    if (!ccc)
      starter = out;
    last = ccc;
    r->cp[out++] = cp;
  }
  r->n = out;
}

void unicode_normalize(const char *s, size_t len, bool compose, struct buf *out) {
  struct run r = {.cap = 64};
  r.cp = r.few;
  const char *p = s, *end = s + len;
  while (p < end) {
    uint32_t parts[4];
    unsigned k = unicode_decompose(utf8_take(&p), parts);
    for (unsigned i = 0; i < k; i++)
      run_add(&r, parts[i]);
  }
  put_in_order(&r);
  if (compose)
    compose_run(&r);
  for (size_t i = 0; i < r.n; i++) {
    char bytes[4];
    buf_put(out, bytes, utf8_encode(r.cp[i], bytes));
  }
  if (r.cp != r.few)
    mem_free(r.cp);
}

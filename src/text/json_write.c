/* json_write.c: the canonical writer of json.h.
 *
 * Doubles are printed as Python's repr prints them: the shortest digits that read back as the same
 * double, nearest to it among those, then Python's choice of plain or exponent form. Nothing here
 * depends on the locale: digits are taken out of printf's text, whatever its decimal point. */
#include "text/json.h"

#include "text/json_scan.h"
#include "text/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Significant digits and the decimal exponent of the first: d = 0.d1d2d3… × 10^(exponent + 1). */
struct digits {
  char text[24];
  int n, exponent;
};

/* d rounded to `precision` significant digits. */
static void round_digits(double d, int precision, struct digits *out) {
  char text[48];
  snprintf(text, sizeof text, "%.*e", precision - 1, d);
  out->n = 0;
  const char *p = text;
  for (; *p != 'e'; p++)
    if (*p >= '0' && *p <= '9')
      out->text[out->n++] = *p;
  out->exponent = (int)strtol(p + 1, NULL, 10);
}

static double digits_value(const struct digits *d) {
  char text[48];
  snprintf(text, sizeof text, "%.*se%d", d->n, d->text, d->exponent - (d->n - 1));
  return strtod(text, NULL);
}

/* One more in the last place. */
static void digits_up(struct digits *d) {
  int i = d->n - 1;
  while (i >= 0 && d->text[i] == '9')
    d->text[i--] = '0';
  if (i >= 0) {
    d->text[i]++;
    return;
  }
  d->text[0] = '1'; /* 999… became 1000… */
  d->exponent++;
}

/* Every decimal of 15 digits survives the way to a normal double and back, so a shorter answer is
 * the 15-digit one with zeros at its end; subnormals hold less and are tried from one digit up.
 * Just above a power of two the rounding interval is lopsided, and the 16-digit answer may be the
 * upper neighbour of the correctly rounded one. */
static void shortest_digits(double d, struct digits *out) {
  *out = (struct digits){.n = 0};
  for (int precision = d < 0x1p-1022 ? 1 : 15; precision <= 17; precision++) {
    round_digits(d, precision, out);
    if (precision == 17 || digits_value(out) == d)
      break;
    if (precision == 16) {
      digits_up(out);
      if (digits_value(out) == d)
        break;
    }
  }
  while (out->n > 1 && out->text[out->n - 1] == '0')
    out->n--;
}

/* The usual case, without printf: at most 15 digits, some of them (up to 6) behind the point. Two
 * decimals of 15 digits never are the same double, so when one reads back as d (and the division
 * rounds as reading does, both of its sides being exact) no shorter or nearer one exists. */
static bool write_short_fraction(struct buf *b, double d) {
  if (d < 1e-4 || d >= 1e9)
    return false;
  double scale = 1;
  for (int places = 1; places <= 6; places++) {
    scale *= 10;
    double whole = d * scale;
    if (whole >= 1e15 || whole != (double)(int64_t)whole || whole / scale != d)
      continue;
    int64_t unit = (int64_t)scale, n = (int64_t)whole / unit, fraction = (int64_t)whole % unit;
    while (fraction % 10 == 0) { /* the product was rounded up to this one */
      fraction /= 10;
      unit /= 10;
    }
    buf_put_int(b, n);
    buf_putc(b, '.');
    while ((unit /= 10) > fraction)
      buf_putc(b, '0');
    buf_put_int(b, fraction);
    return true;
  }
  return false;
}

void json_write_double(struct buf *b, double d) {
  if (!isfinite(d)) {
    buf_puts(b, "null");
    return;
  }
  if (signbit(d)) {
    buf_putc(b, '-');
    d = -d;
  }
  if (d < 1e15 && d == (double)(int64_t)d) {
    buf_put_int(b, (int64_t)d);
    buf_puts(b, ".0");
    return;
  }
  if (write_short_fraction(b, d))
    return;
  struct digits s;
  shortest_digits(d, &s);
  if (s.exponent < -4 || s.exponent >= 16) {
    buf_putc(b, s.text[0]);
    if (s.n > 1) {
      buf_putc(b, '.');
      buf_put(b, s.text + 1, (size_t)s.n - 1);
    }
    buf_printf(b, "e%c%02d", s.exponent < 0 ? '-' : '+', abs(s.exponent));
  } else if (s.exponent < 0) {
    buf_puts(b, "0.");
    for (int i = s.exponent + 1; i < 0; i++)
      buf_putc(b, '0');
    buf_put(b, s.text, (size_t)s.n);
  } else {
    for (int i = 0; i <= s.exponent; i++)
      buf_putc(b, i < s.n ? s.text[i] : '0');
    buf_putc(b, '.');
    if (s.n > s.exponent + 1)
      buf_put(b, s.text + s.exponent + 1, (size_t)(s.n - s.exponent - 1));
    else
      buf_putc(b, '0');
  }
}

static void write_escape(struct buf *b, unsigned char c) {
  static const char short_form[] = "btn?fr"; /* 8, 9, 10, (11), 12, 13 */
  if (c == '"' || c == '\\')
    buf_put(b, (char[]){'\\', (char)c}, 2);
  else if (c >= 8 && c <= 13 && c != 11)
    buf_put(b, (char[]){'\\', short_form[c - 8]}, 2);
  else
    buf_printf(b, "\\u%04x", c);
}

/* Copies, and says whether all of it is printable ASCII that needs no escape: else what was copied
 * is of no use. */
static inline bool copy_plain(char *to, const char *s, size_t len) {
#ifdef __SSE2__
  __m128i x;
  if (len >= 16) {
    for (size_t i = 0;; i += 16) {
      if (i + 16 > len)
        i = len - 16; /* the last 16 overlap those before */
      x = _mm_loadu_si128((const __m128i *)(const void *)(s + i));
      if (json_stops(x) | (unsigned)_mm_movemask_epi8(x))
        return false;
      _mm_storeu_si128((__m128i *)(void *)(to + i), x);
      if (i + 16 == len)
        return true;
    }
  }
  __m128i head, tail;
  if (len >= 8) {
    head = _mm_loadl_epi64((const __m128i *)(const void *)s);
    tail = _mm_loadl_epi64((const __m128i *)(const void *)(s + len - 8));
    _mm_storel_epi64((__m128i *)(void *)to, head);
    _mm_storel_epi64((__m128i *)(void *)(to + len - 8), tail);
    x = _mm_unpacklo_epi64(head, tail);
    return !(json_stops(x) | (unsigned)_mm_movemask_epi8(x));
  }
  if (len >= 4) {
    int32_t first, last;
    memcpy(&first, s, 4);
    memcpy(&last, s + len - 4, 4);
    memcpy(to, &first, 4);
    memcpy(to + len - 4, &last, 4);
    x = _mm_unpacklo_epi32(_mm_cvtsi32_si128(first), _mm_cvtsi32_si128(last));
    return ((json_stops(x) | (unsigned)_mm_movemask_epi8(x)) & 0xff) == 0;
  }
#endif
  bool plain = true;
  for (size_t i = 0; i < len; i++) {
    unsigned char c = (unsigned char)(to[i] = s[i]);
    plain = plain && c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
  }
  return plain;
}

/* Most strings are plain: quotes and all in one go. */
void json_write_string(struct buf *b, const char *s, size_t len) {
  if (b->data && len + 2 < b->cap - b->len && len + 2 <= b->max - b->len) {
    char *to = b->data + b->len;
    if (copy_plain(to + 1, s, len)) {
      to[0] = to[len + 1] = '"';
      to[len + 2] = '\0';
      b->len += len + 2;
      return;
    }
  }
  const char *run = len ? s : "", *end = run + len, *p = json_plain_run(run, end);
  buf_putc(b, '"');
  for (; p < end; p = json_plain_run(p, end)) {
    uint32_t cp;
    unsigned n = utf8_decode(p, end, &cp);
    if (n > 1) {
      p += n;
      continue;
    }
    buf_put(b, run, (size_t)(p - run));
    if (n) {
      write_escape(b, (unsigned char)*p++);
    } else {
      buf_puts(b, "\xef\xbf\xbd");
      p += utf8_bad_len(p, end);
    }
    run = p;
  }
  buf_put(b, run, (size_t)(p - run));
  buf_putc(b, '"');
}

/* indent < 0: on one line. */
static void newline(struct buf *b, int indent) {
  if (indent < 0)
    return;
  buf_putc(b, '\n');
  for (int i = 0; i < indent; i++)
    buf_puts(b, "  ");
}

static void write_value(struct buf *b, const struct value *v, int indent);

static void write_array(struct buf *b, const struct value *v, int indent) {
  int inner = indent < 0 ? -1 : indent + 1;
  buf_putc(b, '[');
  for (size_t i = 0; i < v->u.array.n; i++) {
    if (i)
      buf_putc(b, ',');
    newline(b, inner);
    write_value(b, &v->u.array.items[i], inner);
  }
  if (v->u.array.n)
    newline(b, indent);
  buf_putc(b, ']');
}

static void write_object(struct buf *b, const struct value *v, int indent) {
  int inner = indent < 0 ? -1 : indent + 1;
  buf_putc(b, '{');
  for (size_t i = 0; i < v->u.object.n; i++) {
    const struct value_pair *pair = &v->u.object.pairs[i];
    if (i)
      buf_putc(b, ',');
    newline(b, inner);
    json_write_string(b, pair->key, pair->key_len);
    buf_puts(b, indent < 0 ? ":" : ": ");
    write_value(b, &pair->value, inner);
  }
  if (v->u.object.n)
    newline(b, indent);
  buf_putc(b, '}');
}

static void write_value(struct buf *b, const struct value *v, int indent) {
  switch (v->kind) {
  case VALUE_NULL:
    buf_puts(b, "null");
    break;
  case VALUE_BOOL:
    buf_puts(b, v->u.boolean ? "true" : "false");
    break;
  case VALUE_INT:
    buf_put_int(b, v->u.integer);
    break;
  case VALUE_DOUBLE:
    if (v->u.digits)
      buf_puts(b, v->u.digits);
    else
      json_write_double(b, v->u.number);
    break;
  case VALUE_STRING:
    json_write_string(b, v->u.string.data, v->u.string.len);
    break;
  case VALUE_ARRAY:
    write_array(b, v, indent);
    break;
  case VALUE_OBJECT:
    write_object(b, v, indent);
    break;
  }
}

void json_write(struct buf *b, const struct value *v) {
  write_value(b, v, -1);
}

void json_write_pretty(struct buf *b, const struct value *v) {
  write_value(b, v, 0);
}

/* jinja_tojson.c: the tojson filter, which under transformers is Python's json.dumps.
 *
 * Not text/json_write.c: that writes our canonical form, this one writes what Python's options ask
 * for, of values JSON does not know (tuples, keys that are numbers). */
#include "text/jinja.h"

#include "text/pychar.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct dumper {
  struct jst *st;
  struct buf *b;
  bool ascii, sort, pretty, html;
  struct jv indent, item_sep, key_sep;
};

static void put_escaped(struct dumper *d, uint32_t c) {
  char text[16];
  static const char plain[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
  const char *at = c && c < 0x80 ? strchr(plain, (int)c) : NULL;
  if (at) {
    jputc(d->st, d->b, '\\');
    jputc(d->st, d->b, letters[at - plain]);
  } else if (c < 0x10000) {
    snprintf(text, sizeof text, "\\u%04x", c);
    jputs(d->st, d->b, text);
  } else {
    snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
             0xdc00 + ((c - 0x10000) & 0x3ff));
    jputs(d->st, d->b, text);
  }
}

static void put_string(struct dumper *d, struct jv s) {
  const char *p = jbytes(d->st, s), *end = p + s.len;
  jspend(d->st, s.len / 16);
  jputc(d->st, d->b, '"');
  while (p < end) {
    const char *run = p;
    while (run < end) {
      unsigned char c = (unsigned char)*run;
      if (c < 0x20 || c == '"' || c == '\\' || (d->ascii && c >= 0x7f) ||
          (d->html && (c == '<' || c == '>' || c == '&' || c == '\'')))
        break;
      run++;
    }
    jput(d->st, d->b, p, (size_t)(run - p));
    p = run;
    if (p == end)
      break;
    size_t size;
    put_escaped(d, pychar_read(p, (size_t)(end - p), &size));
    p += size;
  }
  jputc(d->st, d->b, '"');
}

static void put_float(struct dumper *d, double f) {
  if (isnan(f))
    jputs(d->st, d->b, "NaN");
  else if (isinf(f))
    jputs(d->st, d->b, f < 0 ? "-Infinity" : "Infinity");
  else
    jrepr_float(d->b, f);
}

static void newline(struct dumper *d, size_t level) {
  if (!d->pretty)
    return;
  jputc(d->st, d->b, '\n');
  for (size_t i = 0; i < level; i++)
    jput_str(d->st, d->b, d->indent);
}

static void put_value(struct dumper *d, struct jv v, size_t level);

static void put_list(struct dumper *d, struct jv v, size_t level) {
  size_t n = jseq_len(v);
  if (!n) {
    jputs(d->st, d->b, "[]");
    return;
  }
  jputc(d->st, d->b, '[');
  for (size_t i = 0; i < n; i++) {
    if (i)
      jput_str(d->st, d->b, d->item_sep);
    newline(d, level + 1);
    put_value(d, jseq_at(d->st, v, i), level + 1);
  }
  newline(d, level);
  jputc(d->st, d->b, ']');
}

/* A key as text: numbers, booleans and None become what they would be as values. */
static struct jv key_text(struct dumper *d, struct jv key) {
  if (key.type == J_STR)
    return key;
  if (key.type == J_NONE)
    return jcstr("null");
  if (key.type == J_BOOL)
    return jcstr(key.u.b ? "true" : "false");
  if (jis_int(key))
    return jrepr(d->st, key);
  if (key.type != J_FLOAT)
    jraise(d->st, "TypeError", "keys must be str, int, float, bool or None, not %s",
           jtype_name(key));
  struct dumper one = *d;
  one.b = jbuf_open(d->st);
  put_float(&one, key.u.f);
  return jbuf_close(d->st, one.b);
}

/* Positions of d's pairs in the order they are written. */
static size_t *pair_order(struct dumper *d, struct jv v) {
  size_t n = jdict_len(v), *order = jalloc(d->st, n * sizeof *order);
  for (size_t i = 0; i < n; i++) {
    size_t k = i;
    if (d->sort) {
      struct jv key, other;
      jdict_at(d->st, v, i, &key, NULL);
      size_t low = 0;
      while (low < k) { /* binary insertion; keys differ, so equal ones need no order */
        size_t mid = (low + k) / 2;
        jdict_at(d->st, v, order[mid], &other, NULL);
        jstep(d->st);
        if (jcompare(d->st, CMP_LT, key, other))
          k = mid;
        else
          low = mid + 1;
      }
      memmove(order + k + 1, order + k, (i - k) * sizeof *order);
    }
    order[k] = i;
  }
  return order;
}

static void put_dict(struct dumper *d, struct jv v, size_t level) {
  size_t n = jdict_len(v);
  if (!n) {
    jputs(d->st, d->b, "{}");
    return;
  }
  const size_t *order = d->sort ? pair_order(d, v) : NULL;
  jputc(d->st, d->b, '{');
  for (size_t i = 0; i < n; i++) {
    struct jv key, value;
    jdict_at(d->st, v, order ? order[i] : i, &key, &value);
    if (i)
      jput_str(d->st, d->b, d->item_sep);
    newline(d, level + 1);
    put_string(d, key_text(d, key));
    jput_str(d->st, d->b, d->key_sep);
    put_value(d, value, level + 1);
  }
  newline(d, level);
  jputc(d->st, d->b, '}');
}

static void put_value(struct dumper *d, struct jv v, size_t level) {
  jenter(d->st);
  jstep(d->st);
  switch (v.type) {
  case J_NONE:
    jputs(d->st, d->b, "null");
    break;
  case J_BOOL:
    jputs(d->st, d->b, v.u.b ? "true" : "false");
    break;
  case J_INT:
    buf_put_int(d->b, v.u.i);
    break;
  case J_BIG:
    jput_str(d->st, d->b, jrepr(d->st, v));
    break;
  case J_FLOAT:
    put_float(d, v.u.f);
    break;
  case J_STR:
    put_string(d, v);
    break;
  case J_LIST:
  case J_JLIST:
  case J_TUPLE:
    put_list(d, v, level);
    break;
  case J_DICT:
  case J_JDICT:
    put_dict(d, v, level);
    break;
  default:
    jraise(d->st, "TypeError", "Object of type %s is not JSON serializable", jtype_name(v));
  }
  jleave(d->st);
}

static void read_indent(struct dumper *d, struct jv v) {
  if (v.type == J_MISSING || v.type == J_NONE)
    return;
  d->pretty = true;
  if (v.type == J_STR) {
    d->indent = v;
    return;
  }
  if (v.type == J_UNDEF)
    jundef_fail(d->st, v);
  if (!jis_int(v))
    jraise(d->st, "TypeError", "can't multiply sequence by non-int of type '%s'", jtype_name(v));
  int64_t n = jto_index(d->st, v);
  struct buf *b = jbuf_open(d->st);
  jput_repeat(d->st, b, ' ', n > 0 ? (size_t)n : 0);
  d->indent = jbuf_close(d->st, b);
}

struct jv jtojson(struct jst *st, struct jv v, const struct jargs *args) {
  struct jv a[4];
  struct dumper d = {.st = st, .indent = jstr("", 0)};
  jbind(st, "tojson", "?ensure_ascii,indent,separators,sort_keys", args, a);
  d.ascii = jtruth(st, a[0]) || (st->tojson & TEMPLATE_TOJSON_ASCII);
  d.html = st->tojson & TEMPLATE_TOJSON_HTML;
  read_indent(&d, a[1]);
  bool compact = !d.pretty && (st->tojson & TEMPLATE_TOJSON_COMPACT);
  d.item_sep = jcstr(d.pretty || compact ? "," : ", ");
  d.key_sep = jcstr(compact ? ":" : ": ");
  if (a[2].type != J_MISSING && a[2].type != J_NONE) {
    struct jlist *two = jcollect(st, a[2]);
    if (two->n != 2)
      jraise(st, "ValueError",
             two->n < 2 ? "not enough values to unpack (expected 2, got %zu)"
                        : "too many values to unpack (expected 2)",
             two->n);
    d.item_sep = jneed_str(st, two->items[0], "make_encoder() argument 6");
    d.key_sep = jneed_str(st, two->items[1], "make_encoder() argument 5");
  }
  d.sort = jtruth(st, a[3]) || (st->tojson & TEMPLATE_TOJSON_SORTED);
  d.b = jbuf_open(st);
  put_value(&d, v, 0);
  return jbuf_close(st, d.b);
}

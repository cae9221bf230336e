/* fuzz_jsonfields.c: any bytes into the reader of chosen fields. What json_parse takes for an
 * object is read to its end, with the same numbers and strings; what is refused here, it refuses
 * too. */
#include "text/json.h"
#include "text/jsonfields.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct record {
  int64_t n;
  uint64_t stamp;
  bool yes;
  struct jsonslice word, raw;
  size_t items;
};

static void require(bool ok) {
  if (!ok)
    abort();
}

static const char *count_item(const char *p, const char *end, void *out) {
  ((struct record *)out)->items++;
  return jsonwalk_skip(p, end);
}

static const char *read_list(const char *p, const char *end, void *out) {
  ((struct record *)out)->items = 0;
  return *p == '[' ? jsonfields_array(p, end, count_item, out) : jsonwalk_skip(p, end);
}

/* Keys are compared by their bytes: one written with an escape is none of the fields here. */
static void check_same(const struct value *v, const struct record *r) {
  const struct value *n = value_get(v, "n"), *list = value_get(v, "list");
  if (n && n->kind == VALUE_INT && n->u.integer != 0)
    require(r->n == n->u.integer);
  if (list && list->kind == VALUE_ARRAY)
    require(r->items == value_count(list));
  const struct value *yes = value_get(v, "yes");
  if (yes)
    require(r->yes == (yes->kind == VALUE_BOOL && yes->u.boolean));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct jsonfield fields[] = {
      JSONFIELD("n", JSONFIELD_INT, struct record, n),
      JSONFIELD("stamp", JSONFIELD_STAMP, struct record, stamp),
      JSONFIELD("yes", JSONFIELD_TRUE, struct record, yes),
      JSONFIELD("word", JSONFIELD_STRING, struct record, word),
      JSONFIELD("raw", JSONFIELD_RAW, struct record, raw),
      JSONFIELD_BY("list", read_list),
  };
  const char *text = (const char *)data, *end = text + size;
  struct record r = {.n = INT64_MIN};
  struct value v;
  struct err err;
  const char *p = jsonfields_read(fields, ARRAY_LEN(fields), text, end, &r);
  require(!p || (p > text && p <= end));
  require(!r.word.p || (r.word.p > text && r.word.end < end && r.word.p <= r.word.end));
  if (json_parse(text, size, &v, &err) == 0) {
    require((p != NULL) == (v.kind == VALUE_OBJECT));
    if (p && !memchr(text, '\\', size))
      check_same(&v, &r);
    value_free(&v);
  }
  return 0;
}

/* value.c: the ordered value tree; see value.h.
 *
 * Objects of more than eight keys carry an open-addressed index of pair numbers. Keys are never
 * removed, so a slot is either free (0) or holds pair number + 1, and the table is rebuilt only
 * when the pair array doubles: it always has twice as many slots as there can be pairs. */
#include "text/value.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define INDEX_FROM 8
#define TWO_63 9223372036854775808.0

static uint64_t hash_key(const char *key, size_t len) {
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < len; i++)
    h = (h ^ (unsigned char)key[i]) * UINT64_C(0x100000001b3);
  h ^= h >> 32; /* FNV's low bits are the weak ones, and the slot is taken from them */
  return h * UINT64_C(0x9e3779b97f4a7c15) >> 16;
}

static size_t index_slots(const struct value *object) {
  return object->u.object.cap * 2;
}

static void index_insert(struct value *object, size_t pair) {
  size_t mask = index_slots(object) - 1;
  const struct value_pair *p = &object->u.object.pairs[pair];
  size_t slot = (size_t)hash_key(p->key, p->key_len) & mask;
  while (object->u.object.index[slot])
    slot = (slot + 1) & mask;
  object->u.object.index[slot] = (uint32_t)pair + 1;
}

/* Room for one more pair, the index following the array. */
static void object_grow(struct value *object) {
  size_t n = object->u.object.n, cap = object->u.object.cap;
  if (n < cap)
    return;
  assert(cap < UINT32_MAX / 2);
  cap = cap ? cap * 2 : INDEX_FROM;
  object->u.object.pairs = mem_resize(object->u.object.pairs, cap, sizeof *object->u.object.pairs);
  object->u.object.cap = cap;
  if (cap <= INDEX_FROM)
    return;
  mem_free(object->u.object.index);
  object->u.object.index = mem_calloc(index_slots(object), sizeof *object->u.object.index);
  for (size_t i = 0; i < n; i++)
    index_insert(object, i);
}

void value_free(struct value *v) {
  switch (v->kind) {
  case VALUE_DOUBLE:
    mem_free(v->u.digits);
    break;
  case VALUE_STRING:
    mem_free(v->u.string.data);
    break;
  case VALUE_ARRAY:
    for (size_t i = 0; i < v->u.array.n; i++)
      value_free(&v->u.array.items[i]);
    mem_free(v->u.array.items);
    break;
  case VALUE_OBJECT:
    for (size_t i = 0; i < v->u.object.n; i++) {
      mem_free(v->u.object.pairs[i].key);
      value_free(&v->u.object.pairs[i].value);
    }
    mem_free(v->u.object.pairs);
    mem_free(v->u.object.index);
    break;
  default:
    break;
  }
  *v = value_null();
}

struct value value_copy(const struct value *v) {
  struct value copy;
  switch (v->kind) {
  case VALUE_DOUBLE:
    return v->u.digits ? value_big(v->u.digits, strlen(v->u.digits)) : *v;
  case VALUE_STRING:
    return value_string(v->u.string.data, v->u.string.len);
  case VALUE_ARRAY:
    copy = value_array();
    for (size_t i = 0; i < v->u.array.n; i++)
      value_push(&copy, value_copy(&v->u.array.items[i]));
    return copy;
  case VALUE_OBJECT:
    copy = value_object();
    for (size_t i = 0; i < v->u.object.n; i++) {
      const struct value_pair *p = &v->u.object.pairs[i];
      value_set_len(&copy, p->key, p->key_len, value_copy(&p->value));
    }
    return copy;
  default:
    return *v;
  }
}

static bool object_equal(const struct value *a, const struct value *b) {
  if (a->u.object.n != b->u.object.n)
    return false;
  for (size_t i = 0; i < a->u.object.n; i++) {
    const struct value_pair *p = &a->u.object.pairs[i];
    const struct value *other = value_get_len(b, p->key, p->key_len);
    if (!other || !value_equal(&p->value, other))
      return false;
  }
  return true;
}

bool value_equal(const struct value *a, const struct value *b) {
  if (a->kind != b->kind)
    return false;
  switch (a->kind) {
  case VALUE_NULL:
    return true;
  case VALUE_BOOL:
    return a->u.boolean == b->u.boolean;
  case VALUE_INT:
    return a->u.integer == b->u.integer;
  case VALUE_DOUBLE:
    if (a->u.digits && b->u.digits)
      return strcmp(a->u.digits, b->u.digits) == 0;
    return a->u.number == b->u.number;
  case VALUE_STRING:
    return a->u.string.len == b->u.string.len &&
           memcmp(a->u.string.data, b->u.string.data, a->u.string.len) == 0;
  case VALUE_ARRAY:
    if (a->u.array.n != b->u.array.n)
      return false;
    for (size_t i = 0; i < a->u.array.n; i++)
      if (!value_equal(&a->u.array.items[i], &b->u.array.items[i]))
        return false;
    return true;
  case VALUE_OBJECT:
    return object_equal(a, b);
  }
  return false;
}

struct value value_null(void) {
  return (struct value){.kind = VALUE_NULL};
}

struct value value_bool(bool b) {
  return (struct value){.kind = VALUE_BOOL, .u.boolean = b};
}

struct value value_int(int64_t i) {
  return (struct value){.kind = VALUE_INT, .u.integer = i};
}

struct value value_double(double d) {
  return (struct value){.kind = VALUE_DOUBLE, .u.number = d};
}

struct value value_big(const char *digits, size_t len) {
  struct value v = {.kind = VALUE_DOUBLE};
  v.u.digits = mem_strndup(digits, len);
  v.u.number = strtod(v.u.digits, NULL); /* digits alone: no locale's point is in it */
  return v;
}

struct value value_string(const char *s, size_t len) {
  struct value v = {.kind = VALUE_STRING};
  v.u.string.data = mem_strndup(s, len);
  v.u.string.len = len;
  return v;
}

struct value value_cstring(const char *s) {
  return s ? value_string(s, strlen(s)) : value_null();
}

struct value value_array(void) {
  return (struct value){.kind = VALUE_ARRAY};
}

struct value value_object(void) {
  return (struct value){.kind = VALUE_OBJECT};
}

struct value *value_push(struct value *array, struct value item) {
  assert(array->kind == VALUE_ARRAY);
  MEM_GROW(array->u.array.items, array->u.array.n, array->u.array.cap);
  struct value *place = &array->u.array.items[array->u.array.n++];
  *place = item;
  return place;
}

struct value *value_set(struct value *object, const char *key, struct value item) {
  return value_set_len(object, key, strlen(key), item);
}

struct value *value_set_len(struct value *object, const char *key, size_t key_len,
                            struct value item) {
  assert(object->kind == VALUE_OBJECT);
  struct value *place = value_get_len(object, key, key_len);
  if (place) {
    value_free(place);
    *place = item;
    return place;
  }
  object_grow(object);
  size_t n = object->u.object.n++;
  struct value_pair *pair = &object->u.object.pairs[n];
  *pair = (struct value_pair){.key = mem_strndup(key, key_len), .key_len = key_len, .value = item};
  if (object->u.object.index)
    index_insert(object, n);
  return &pair->value;
}

struct value *value_get(const struct value *v, const char *key) {
  return value_get_len(v, key, strlen(key));
}

struct value *value_get_len(const struct value *v, const char *key, size_t key_len) {
  if (!v || v->kind != VALUE_OBJECT)
    return NULL;
  struct value_pair *pairs = v->u.object.pairs;
  if (!v->u.object.index) {
    for (size_t i = 0; i < v->u.object.n; i++)
      if (pairs[i].key_len == key_len && memcmp(pairs[i].key, key, key_len) == 0)
        return &pairs[i].value;
    return NULL;
  }
  size_t mask = index_slots(v) - 1;
  size_t slot = (size_t)hash_key(key, key_len) & mask;
  for (uint32_t at; (at = v->u.object.index[slot]) != 0; slot = (slot + 1) & mask) {
    struct value_pair *p = &pairs[at - 1];
    if (p->key_len == key_len && memcmp(p->key, key, key_len) == 0)
      return &p->value;
  }
  return NULL;
}

struct value *value_at(const struct value *v, size_t i) {
  if (!v || v->kind != VALUE_ARRAY || i >= v->u.array.n)
    return NULL;
  return &v->u.array.items[i];
}

size_t value_count(const struct value *v) {
  if (!v)
    return 0;
  if (v->kind == VALUE_ARRAY)
    return v->u.array.n;
  return v->kind == VALUE_OBJECT ? v->u.object.n : 0;
}

bool value_to_int(const struct value *v, int64_t *out) {
  if (!v)
    return false;
  if (v->kind == VALUE_INT) {
    *out = v->u.integer;
    return true;
  }
  if (v->kind != VALUE_DOUBLE)
    return false;
  double d = v->u.number;
  if (!(d >= -TWO_63 && d < TWO_63) || (double)(int64_t)d != d)
    return false;
  *out = (int64_t)d;
  return true;
}

bool value_to_double(const struct value *v, double *out) {
  if (!v || (v->kind != VALUE_INT && v->kind != VALUE_DOUBLE))
    return false;
  *out = v->kind == VALUE_INT ? (double)v->u.integer : v->u.number;
  return true;
}

const char *value_to_string(const struct value *v) {
  return v && v->kind == VALUE_STRING ? v->u.string.data : NULL;
}

/* engine_compare.h: compares what the engine did with a golden trace's `expect`, field by field.
 *
 * Everything must be equal, keys that one side lacks included; only `used` has a tolerance. The
 * first difference is described with its path. test_engine_replay.c proves that the comparison
 * itself notices every change. */
#ifndef TESTS_UNIT_ENGINE_COMPARE_H
#define TESTS_UNIT_ENGINE_COMPARE_H

#include "check.h"
#include "text/json.h"

#define COMPARE_USED_TOLERANCE 1e-12

struct compare {
  char path[256];
  char what[512]; /* "" while no difference was found */
};

static inline bool compare_fail(struct compare *c, const struct value *got,
                                const struct value *want) {
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  if (got)
    json_write(&b, got);
  else
    buf_puts(&b, "nothing");
  buf_puts(&b, ", expected ");
  size_t split = b.len;
  if (want)
    json_write(&b, want);
  else
    buf_puts(&b, "nothing");
  snprintf(c->what, sizeof c->what, "%.160s: %.*s%.120s", c->path, (int)(split > 150 ? 150 : split),
           b.data, b.data + split);
  buf_free(&b);
  return false;
}

static inline bool compare_values(struct compare *c, const struct value *got,
                                  const struct value *want);

static inline bool compare_child(struct compare *c, const struct value *got,
                                 const struct value *want, const char *key, size_t index) {
  size_t len = strlen(c->path);
  if (key)
    snprintf(c->path + len, sizeof c->path - len, ".%s", key);
  else
    snprintf(c->path + len, sizeof c->path - len, "[%zu]", index);
  bool same = got && want ? compare_values(c, got, want) : compare_fail(c, got, want);
  c->path[len] = '\0';
  return same;
}

static inline bool compare_values(struct compare *c, const struct value *got,
                                  const struct value *want) {
  size_t len = strlen(c->path);
  bool used = len >= 5 && strcmp(c->path + len - 5, ".used") == 0;
  if (got->kind != want->kind)
    return compare_fail(c, got, want);
  if (got->kind == VALUE_OBJECT) {
    for (size_t i = 0; i < want->u.object.n; i++) {
      const char *key = want->u.object.pairs[i].key;
      if (!compare_child(c, value_get(got, key), &want->u.object.pairs[i].value, key, 0))
        return false;
    }
    for (size_t i = 0; i < got->u.object.n; i++) {
      const char *key = got->u.object.pairs[i].key;
      if (!value_get(want, key))
        return compare_child(c, &got->u.object.pairs[i].value, NULL, key, 0);
    }
    return true;
  }
  if (got->kind == VALUE_ARRAY) {
    size_t n = got->u.array.n > want->u.array.n ? got->u.array.n : want->u.array.n;
    for (size_t i = 0; i < n; i++)
      if (!compare_child(c, value_at(got, i), value_at(want, i), NULL, i))
        return false;
    return true;
  }
  if (used) {
    double off = got->u.number - want->u.number;
    return off <= COMPARE_USED_TOLERANCE && -off <= COMPARE_USED_TOLERANCE
               ? true
               : compare_fail(c, got, want);
  }
  return value_equal(got, want) ? true : compare_fail(c, got, want);
}

/* True when equal; c->what says what is not. */
static inline bool compare_expect(struct compare *c, const struct value *got,
                                  const struct value *want) {
  strcpy(c->path, "expect");
  c->what[0] = '\0';
  return compare_values(c, got, want);
}

#endif

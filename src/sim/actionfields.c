/* actionfields.c: see actionfields.h. */
#include "sim/actionfields.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"

#define MOST_TIME_S 86400.0

/* NULL for one that is absent or null. */
static const struct value *field(const struct value *body, const char *name) {
  const struct value *v = value_get(body, name);
  return v && v->kind != VALUE_NULL ? v : NULL;
}

/* A number, or text with a unit; false when it is neither. */
static bool quantity(const struct value *v, enum units_kind kind, double *out) {
  if (v->kind == VALUE_STRING)
    return units_parse(v->u.string.data, v->u.string.len, kind, out, NULL, NULL) == 0;
  return value_to_double(v, out);
}

int actionfields_seconds(const struct value *body, const char *name, double *out, struct err *err) {
  const struct value *v = field(body, name);
  double x = 0;
  if (!v)
    return 0;
  if (!quantity(v, UNITS_TIME, &x) || !(x >= 0 && x <= MOST_TIME_S))
    return err_set(err, ERR_INVALID, "%s should be a time from 0 to 24h, as in \"500ms\" or 2",
                   name);
  *out = x;
  return 0;
}

int actionfields_ratio(const struct value *body, const char *name, double *out, struct err *err) {
  const struct value *v = field(body, name);
  double x = 0;
  if (!v)
    return 0;
  if (!quantity(v, UNITS_RATIO, &x) || !(x >= 0 && x <= 1))
    return err_set(err, ERR_INVALID, "%s should be a share from 0 to 1, as in \"30%%\" or 0.3",
                   name);
  *out = x;
  return 0;
}

int actionfields_count(const struct value *body, const char *name, int64_t least, int64_t *out,
                       struct err *err) {
  const struct value *v = field(body, name);
  int64_t x = 0;
  if (!v)
    return 0;
  if (!value_to_int(v, &x) || x < least)
    return err_set(err, ERR_INVALID, "%s should be a whole number from %lld on", name,
                   (long long)least);
  *out = x;
  return 0;
}

int actionfields_bool(const struct value *body, const char *name, bool *out, struct err *err) {
  const struct value *v = field(body, name);
  if (!v)
    return 0;
  if (v->kind != VALUE_BOOL)
    return err_set(err, ERR_INVALID, "%s should be true or false", name);
  *out = v->u.boolean;
  return 0;
}

int actionfields_word(const struct value *body, const char *name, const char *const *words,
                      int *out, struct err *err) {
  const struct value *v = field(body, name);
  const char *word = value_to_string(v);
  char list[160] = "";
  if (!v)
    return 0;
  for (int i = 0; words[i]; i++) {
    if (word && strcmp(word, words[i]) == 0) {
      *out = i;
      return 0;
    }
    size_t n = strlen(list);
    snprintf(list + n, sizeof list - n, "%s\"%s\"", i ? " or " : "", words[i]);
  }
  return err_set(err, ERR_INVALID, "%s should be %s", name, list);
}

int actionfields_blocks(const struct value *body, uint32_t all, uint32_t block_size, uint32_t *out,
                        struct err *err) {
  static const char *const names[] = {"share", "blocks", "tokens"};
  size_t given = 0;
  for (size_t i = 0; i < 3; i++)
    given += field(body, names[i]) != NULL;
  if (given != 1)
    return err_set(err, ERR_INVALID,
                   "say how much in one way: share = \"50%%\" of the blocks, or blocks, or tokens");
  double share = 0;
  int64_t blocks = 0, tokens = 0;
  int rc = actionfields_ratio(body, "share", &share, err);
  if (!rc)
    rc = actionfields_count(body, "blocks", 1, &blocks, err);
  if (!rc)
    rc = actionfields_count(body, "tokens", 1, &tokens, err);
  if (rc)
    return rc;
  if (field(body, "share"))
    blocks = (int64_t)floor(share * all);
  else if (tokens)
    blocks = (tokens - 1) / block_size + 1;
  if (blocks < 1)
    return err_set(err, ERR_INVALID, "share: that is not even one of the %u blocks", all);
  *out = blocks < all ? (uint32_t)blocks : all;
  return 0;
}

int actionfields_known(const struct value *body, const char *action, const char *const *known,
                       size_t n, struct err *err) {
  for (size_t i = 0; i < value_count(body); i++) {
    const char *key = body->u.object.pairs[i].key;
    bool is = false;
    for (size_t k = 0; k < n && !is; k++)
      is = strcmp(key, known[k]) == 0;
    if (is)
      continue;
    const char *near = err_nearest(key, known, n);
    if (near)
      return err_set(err, ERR_INVALID, "%s has no field %.60s (did you mean %s?)", action, key,
                     near);
    char list[160] = "";
    for (size_t k = 1; k < n; k++) /* `action` is said already */
      snprintf(list + strlen(list), sizeof list - strlen(list), " %s", known[k]);
    return err_set(err, ERR_INVALID, "%s has no field %.60s; it takes%s", action, key,
                   list[0] ? list : " none");
  }
  return 0;
}

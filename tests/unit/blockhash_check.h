/* blockhash_check.h: a scheme's hashes of a few tokens or a text, for the unit tests of schemes. */
#ifndef TESTS_UNIT_BLOCKHASH_CHECK_H
#define TESTS_UNIT_BLOCKHASH_CHECK_H

#include "check.h"

#include "kv/blockhash_chain.h"
#include "text/json.h"

static inline int blockhash_open_json(const char *scheme, const char *options,
                                      struct blockhash_chain **c, struct err *err) {
  struct value v;
  check_ok(json_parse(options, strlen(options), &v, err), err);
  int rc = blockhash_chain_open(scheme, &v, c, err);
  value_free(&v);
  return rc;
}

/* Opening must fail with a text that contains `part`. */
static inline void blockhash_refused(const char *scheme, const char *options, const char *part) {
  struct blockhash_chain *c;
  struct err err;
  if (!blockhash_open_json(scheme, options, &c, &err))
    fail_msg("%s %s was accepted", scheme, options);
  check_has(err.text, part);
}

/* A field of the chain over what JSON text `input` says (a list of ids, or a string), values
 * separated by spaces. */
static inline void blockhash_check(const char *scheme, const char *options, const char *input,
                                   const char *field, const char *want) {
  struct blockhash_chain *c;
  struct value v;
  struct err err;
  char got[4096] = "", one[BLOCKHASH_MAX_TEXT];
  int f;
  bool list;
  check_ok(blockhash_open_json(scheme, options, &c, &err), &err);
  check_ok(json_parse(input, strlen(input), &v, &err), &err);
  if (v.kind == VALUE_STRING)
    check_ok(blockhash_chain_add_text(c, v.u.string.data, v.u.string.len, &err), &err);
  for (size_t i = 0; v.kind == VALUE_ARRAY && i < value_count(&v); i++) {
    int64_t id;
    assert_true(value_to_int(value_at(&v, i), &id));
    check_ok(blockhash_chain_add_signed(c, &id, 1, &err), &err);
  }
  check_ok(blockhash_chain_field(c, field, &f, &list, &err), &err);
  for (size_t i = 0; i < (list ? blockhash_chain_count(c) : 1); i++) {
    blockhash_chain_text(c, f, i, one);
    size_t len = strlen(got);
    snprintf(got + len, sizeof got - len, "%s%s", i ? " " : "", one);
  }
  if (strcmp(got, want) != 0)
    fail_msg("%s %s of %s: %s is %s, expected %s", scheme, options, input, field, got, want);
  value_free(&v);
  blockhash_chain_delete(c);
}

/* The tokens of the worked examples of shared/facts/block-hashing.md. */
#define BLOCKHASH_T "[1,300,70000,4294967295]"
#define BLOCKHASH_TT "[1,300,70000,4294967295,1,300,70000,4294967295]"

#endif

/* tokenizer_cases.h: the small tokenizers of tests/data/tokenizer, put together from their base
 * vocabularies and their other components. */
#ifndef TESTS_UNIT_TOKENIZER_CASES_H
#define TESTS_UNIT_TOKENIZER_CASES_H

#include "check.h"

#include "base/buf.h"
#include "base/mem.h"
#include "text/json.h"
#include "text/tokens.h"

struct cases {
  struct value all, bases;
};

static inline void cases_open(struct cases *c) {
  struct err err;
  size_t len;
  char *text = check_read_file("tests/data/tokenizer/cases.json", &len);
  check_ok(json_parse(text, len, &c->all, &err), &err);
  free(text);
  text = check_read_file("tests/data/tokenizer/bases.json", &len);
  check_ok(json_parse(text, len, &c->bases, &err), &err);
  free(text);
}

static inline void cases_close(struct cases *c) {
  value_free(&c->all);
  value_free(&c->bases);
}

/* Case i, NULL behind the last. */
static inline const struct value *cases_at(const struct cases *c, size_t i) {
  return value_at(value_get(&c->all, "cases"), i);
}

/* A case by its name. */
static inline const struct value *cases_named(const struct cases *c, const char *name) {
  for (size_t i = 0; cases_at(c, i); i++)
    if (strcmp(value_to_string(value_get(cases_at(c, i), "name")), name) == 0)
      return cases_at(c, i);
  fail_msg("no case %s", name);
  return NULL;
}

/* The whole tokenizer.json of a case, as a value: vocabulary and merges put in. */
static inline struct value cases_file(const struct cases *c, const struct value *one) {
  struct value file = value_copy(value_get(one, "file"));
  const struct value *base = value_get(&c->bases, value_to_string(value_get(one, "base")));
  struct value *model = value_get(&file, "model");
  value_set(model, "vocab", value_copy(value_get(base, "vocab")));
  value_set(model, "merges", value_copy(value_get(base, "merges")));
  return file;
}

/* Loads a file's value; frees it. */
static inline int cases_load(const char *name, struct value file, const struct tokens **out,
                             struct err *err) {
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  json_write(&text, &file);
  int rc = tokens_load_text(name, text.data, text.len, NULL, out, err);
  buf_free(&text);
  value_free(&file);
  return rc;
}

static inline const struct tokens *cases_tokens(const struct cases *c, const struct value *one) {
  const struct tokens *t;
  struct err err;
  check_ok(cases_load(value_to_string(value_get(one, "name")), cases_file(c, one), &t, &err), &err);
  return t;
}

#endif

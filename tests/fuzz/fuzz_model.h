/* fuzz_model.h: a small model for fuzzers: a tokenizer of tests/data/tokenizer with chat tokens. */
#ifndef TESTS_FUZZ_MODEL_H
#define TESTS_FUZZ_MODEL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/json.h"
#include "text/tokens.h"

static inline void require(bool ok) {
  if (!ok)
    abort();
}

static inline struct value fuzz_model_json(const char *path) {
  FILE *f = fopen(path, "rb");
  struct value v;
  struct err err;
  require(f != NULL);
  char *text = mem_alloc(1 << 20);
  size_t len = fread(text, 1, 1 << 20, f);
  fclose(f);
  require(json_parse(text, len, &v, &err) == 0);
  mem_free(text);
  return v;
}

/* The case of that name; one without added tokens gets <|s|>, <|im|> and <|end|> as last ids. */
static inline const struct tokens *fuzz_model_tokens(const char *name) {
  static const char *const added[] = {"<|s|>", "<|im|>", "<|end|>"};
  static const char *const flags[] = {"single_word", "lstrip", "rstrip", "normalized", "special"};
  struct value cases = fuzz_model_json("tests/data/tokenizer/cases.json");
  struct value bases = fuzz_model_json("tests/data/tokenizer/bases.json");
  const struct value *list = value_get(&cases, "cases");
  const struct tokens *tokens = NULL;
  for (size_t i = 0; i < value_count(list); i++) {
    struct value *one = value_at(list, i), *file = value_get(one, "file");
    struct value *base = value_get(&bases, value_to_string(value_get(one, "base")));
    if (strcmp(name, value_to_string(value_get(one, "name"))) != 0)
      continue;
    const struct value *has = value_get(file, "added_tokens");
    int64_t first = (int64_t)value_count(value_get(base, "vocab"));
    bool bare = !value_count(has);
    struct value *own = bare ? value_set(file, "added_tokens", value_array()) : NULL;
    for (int k = 0; bare && k < 3; k++) {
      struct value *t = value_push(own, value_object());
      value_set(t, "id", value_int(first + k));
      value_set(t, "content", value_cstring(added[k]));
      for (size_t j = 0; j < ARRAY_LEN(flags); j++)
        value_set(t, flags[j], value_bool(j == 4));
    }
    struct buf text;
    struct err err;
    buf_init(&text, BUF_MAX_OWN);
    value_set(value_get(file, "model"), "vocab", value_copy(value_get(base, "vocab")));
    value_set(value_get(file, "model"), "merges", value_copy(value_get(base, "merges")));
    json_write(&text, file);
    require(tokens_load_text(name, text.data, text.len, NULL, &tokens, &err) == 0);
    buf_free(&text);
  }
  value_free(&cases);
  value_free(&bases);
  require(tokens != NULL);
  return tokens;
}

#endif

/* tokenize_rows.h: the golden rows of tests/data/tokenize, and where the vocabularies they were
 * made with are: third-party data, so in the fixtures folder or the cache that .ci/vocab fills. */
#ifndef TESTS_UNIT_TOKENIZE_ROWS_H
#define TESTS_UNIT_TOKENIZE_ROWS_H

#include "check.h"

#include "base/buf.h"
#include "text/json.h"
#include "text/tokens.h"

#include <unistd.h>

struct rows_model {
  const char *rows;   /* tests/data/tokenize/NAME.jsonl */
  const char *file;   /* below the cache, or below the fixtures when it begins with vocabularies/ */
  const char *family; /* of a rank file */
};

static const struct rows_model rows_models[] = {
    {"llama3_1", "tokenizers/llama3_1/tokenizer.json", NULL},
    {"qwen3", "tokenizers/qwen3/tokenizer.json", NULL},
    {"gptoss", "tokenizers/gptoss/tokenizer.json", NULL},
    {"gpt4o", "tokenizers/gpt4o/tokenizer.json", NULL},
    {"deepseek_v3", "tokenizers/deepseek_v3/tokenizer.json", NULL},
    {"gemma3", "tokenizers/gemma3/tokenizer.json", NULL},
    {"mistral_v01_from_lenml_llama2", "tokenizers/llama2/tokenizer.json", NULL},
    {"llama2_mirror", "vocabularies/llama2.json", NULL},
    {"mistral01_mirror", "vocabularies/mistral01.json", NULL},
    {"mistral03_mirror", "vocabularies/mistral03.json", NULL},
    {"gpt2_mirror", "vocabularies/gpt2.json", NULL},
    {"tiktoken_cl100k_base", "tokenizers/ranks/cl100k_base.tiktoken", "cl100k_base"},
    {"tiktoken_o200k_base", "tokenizers/ranks/o200k_base.tiktoken", "o200k_base"},
    {"tiktoken_o200k_harmony", "tokenizers/ranks/o200k_base.tiktoken", "o200k_harmony"},
    {"tiktoken_llama4_mirror", "vocabularies/llama4.tiktoken", "llama4"},
    {"tiktoken_kimi_k2_mirror", "vocabularies/kimi_k2.tiktoken", "kimi_k2"},
};

/* The model's vocabulary file into path; false when it is not on this machine. */
static inline bool rows_find(const struct rows_model *m, char *path, size_t size) {
  const char *fixtures = getenv("PERIGEE_FIXTURES"), *cache = getenv("PERIGEE_CACHE"),
             *home = getenv("HOME");
  if (strncmp(m->file, "vocabularies/", 13) == 0)
    snprintf(path, size, "%s/%s", fixtures ? fixtures : "../shared/fixtures", m->file);
  else if (cache)
    snprintf(path, size, "%s/%s", cache, m->file);
  else
    snprintf(path, size, "%s/.cache/perigee/%s", home ? home : "", m->file);
  return access(path, R_OK) == 0;
}

static inline void rows_repeat(struct buf *out, const struct value *piece, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    buf_put(out, piece->u.string.data, piece->u.string.len);
}

/* The text of a row into out: given, or made by its recipe. */
static inline void rows_text(const struct value *row, struct buf *out) {
  const struct value *text = value_get(row, "text"), *recipe = value_get(row, "recipe");
  const struct value *pieces = value_get(recipe, "pieces"), *cycle = value_get(recipe, "cycle");
  int64_t n = 0;
  buf_reset(out);
  buf_put(out, "", 0);
  if (text)
    rows_repeat(out, text, 1);
  for (size_t i = 0; i < value_count(pieces); i++) {
    assert_true(value_to_int(value_at(value_at(pieces, i), 1), &n));
    rows_repeat(out, value_at(value_at(pieces, i), 0), n);
  }
  if (cycle) {
    assert_true(value_to_int(value_get(recipe, "bytes"), &n));
    for (size_t i = 0; out->len < (size_t)n; i++)
      rows_repeat(out, value_at(cycle, i % value_count(cycle)), 1);
  }
  assert_true(text || pieces || cycle);
}

static inline struct tokens_options rows_options(const struct value *row) {
  const struct value *add = value_get(row, "add_special"), *allow = value_get(row, "allow_special");
  return (struct tokens_options){.add_special = add && add->u.boolean,
                                 .special = !allow || allow->u.boolean};
}

/* Whether ids[from..) begin with the list. */
static inline bool rows_same(const struct value *list, const struct tokens_list *ids, size_t from) {
  if (value_count(list) > ids->n - from)
    return false;
  for (size_t i = 0; i < value_count(list); i++) {
    int64_t id;
    if (!value_to_int(value_at(list, i), &id) || id != ids->ids[from + i])
      return false;
  }
  return true;
}

static inline uint64_t rows_fnv(const struct tokens_list *ids) {
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < ids->n; i++)
    for (unsigned byte = 0; byte < 32; byte += 8)
      h = (h ^ (ids->ids[i] >> byte & 0xff)) * UINT64_C(0x100000001b3);
  return h;
}

/* Whether the ids are those of the row, which gives them all or their number, hash and ends. */
static inline bool rows_equal(const struct value *row, const struct tokens_list *ids) {
  const struct value *all = value_get(row, "ids"), *tail = value_get(row, "ids_tail");
  int64_t n = 0;
  char hash[20];
  if (all)
    return value_count(all) == ids->n && rows_same(all, ids, 0);
  snprintf(hash, sizeof hash, "%016llx", (unsigned long long)rows_fnv(ids));
  return value_to_int(value_get(row, "n_ids"), &n) && (size_t)n == ids->n &&
         strcmp(hash, value_to_string(value_get(row, "ids_fnv1a64"))) == 0 &&
         rows_same(value_get(row, "ids_head"), ids, 0) &&
         rows_same(tail, ids, ids->n - value_count(tail));
}

#endif

/* Text of exactly n tokens: for small tokenizers of every kind, and a model's own where it is. */
#include "check.h"
#include "tokenize_rows.h"
#include "tokenizer_cases.h"

#include "bind/gentokens.h"

static size_t count(struct tokens_encoder *e, const struct buf *b, size_t from) {
  const struct tokens_options options = {.special = true};
  struct err err;
  size_t n;
  check_ok(tokens_encoder_count(e, b->data + from, b->len - from, &options, &n, &err), &err);
  return n;
}

/* A model's text takes minutes below a sanitizer, and the small tokenizers go the same ways. */
#define THOROUGH (!CHECK_SANITIZED)

/* Texts of 1..most tokens, each drawn anew, behind something that is there already. */
static void check_sizes(const struct tokens *t, size_t most, size_t step) {
  struct tokens_encoder *e = tokens_encoder_new(t);
  struct gen_costs costs = {0}, none;
  struct buf b, again;
  struct err err;
  buf_init(&b, BUF_MAX_OWN);
  buf_init(&again, BUF_MAX_OWN);
  for (size_t n = 1; n <= most; n += step) {
    struct rng rng, same;
    rng_init(&rng, 7, n);
    same = rng;
    buf_reset(&b);
    buf_reset(&again);
    buf_puts(&b, "there already");
    check_ok(text_write_tokens(&b, n, &rng, e, &costs, &err), &err);
    size_t got = count(e, &b, 13);
    if (got != n)
      fail_msg("%s: %zu tokens for %zu: %s", t->name, got, n, b.data);
    assert_true(b.data[b.len - 1] != ' ');
    assert_int_equal(strlen(b.data), b.len);
    memset(&none, 0, sizeof none); /* what is known of costs changes nothing */
    check_ok(text_write_tokens(&again, n, &same, e, &none, &err), &err);
    assert_string_equal(again.data, b.data + 13);
  }
  buf_free(&b);
  buf_free(&again);
  tokens_encoder_delete(e);
}

static void test_small_tokenizers(void **state) {
  (void)state;
  static const char *const names[] = {"llama",       "gemma",       "byte_regex", "byte_prefix",
                                      "split_qwen2", "split_o200k", "meta_first", "digits"};
  struct cases c;
  size_t found = 0;
  cases_open(&c);
  for (size_t i = 0; cases_at(&c, i); i++) {
    const char *name = value_to_string(value_get(cases_at(&c, i), "name"));
    for (size_t k = 0; k < ARRAY_LEN(names); k++)
      if (strcmp(name, names[k]) == 0) {
        const struct tokens *t = cases_tokens(&c, cases_at(&c, i));
        check_sizes(t, 60, 1);
        tokens_close(t);
        found++;
        break;
      }
  }
  assert_int_equal(found, ARRAY_LEN(names));
  cases_close(&c);
}

static void test_models(void **state) {
  (void)state;
  bool any = false;
  for (size_t i = 0; i < ARRAY_LEN(rows_models); i++) {
    char path[4096];
    const struct rows_model *m = &rows_models[i];
    struct tokens_load_options options = {.family = m->family};
    const struct tokens *t;
    struct err err;
    bool wanted = strcmp(m->rows, "qwen3") == 0 || strcmp(m->rows, "gemma3") == 0 ||
                  strcmp(m->rows, "tiktoken_o200k_harmony") == 0 ||
                  strstr(m->rows, "from_lenml") != NULL;
    if (!wanted || !rows_find(m, path, sizeof path))
      continue;
    any = true;
    check_ok(tokens_load(path, &options, &t, &err), &err);
    check_sizes(t, 150, THOROUGH ? 11 : 49);
    if (THOROUGH)
      check_sizes(t, 10001, 10000);
    tokens_close(t);
  }
  if (!any)
    skip();
}

/* A tokenizer that makes nothing of a letter has no text of one token. */
static void test_no_such_text(void **state) {
  (void)state;
  static const char file[] =
      "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"\\u00e9\":0},\"merges\":[]}}";
  const struct tokens *t;
  struct err err;
  struct gen_costs costs = {0};
  struct rng rng;
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  rng_init(&rng, 1, 1);
  check_ok(tokens_load_text("tiny", file, sizeof file - 1, NULL, &t, &err), &err);
  struct tokens_encoder *e = tokens_encoder_new(t);
  assert_int_equal(text_write_tokens(&b, 3, &rng, e, &costs, &err), ERR_UNSUPPORTED);
  assert_string_equal(err.text, "no text of exactly 3 tokens was found for tiny");
  assert_int_equal(b.len, 0);
  tokens_encoder_delete(e);
  tokens_close(t);
  buf_free(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_small_tokenizers),
      cmocka_unit_test(test_models),
      cmocka_unit_test(test_no_such_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The `ic-xxh3` chain against the golden vectors, whole and in every split. */
#include "check.h"

#include "base/mem.h"
#include "kv/blockhash.h"
#include "text/json.h"

struct vector {
  const char *name;
  struct blockhash_options options;
  uint32_t *tokens;
  size_t n_tokens;
  const struct value *hashes, *contents;
};

static uint64_t from_hex(const struct value *v) {
  char *end;
  uint64_t x = strtoull(value_to_string(v), &end, 16);
  assert_int_equal(strlen(value_to_string(v)), 16);
  assert_int_equal(*end, '\0');
  return x;
}

static struct vector read_vector(const struct value *v) {
  struct vector r = {.name = value_to_string(value_get(v, "name"))};
  int64_t block_size, seed;
  assert_true(value_to_int(value_get(v, "block_size"), &block_size));
  assert_true(value_to_int(value_get(value_get(v, "params"), "seed"), &seed));
  const struct value *parent = value_get(value_get(v, "params"), "parent_prefix");
  r.options = (struct blockhash_options){.block_size = (uint32_t)block_size,
                                         .seed = (uint64_t)seed,
                                         .has_parent = parent != NULL,
                                         .parent = parent ? from_hex(parent) : 0};
  const struct value *tokens = value_get(v, "tokens");
  r.n_tokens = value_count(tokens);
  r.tokens = mem_calloc(r.n_tokens, sizeof *r.tokens);
  for (size_t i = 0; i < r.n_tokens; i++) {
    int64_t id;
    assert_true(value_to_int(value_at(tokens, i), &id));
    r.tokens[i] = (uint32_t)id;
  }
  r.hashes = value_get(v, "block_hashes");
  r.contents = value_get(v, "content_hashes");
  return r;
}

static void check_chain(const struct vector *v, const struct blockhash *h) {
  if (h->n != value_count(v->hashes) || h->n != v->n_tokens / v->options.block_size)
    fail_msg("%s: %zu hashes, expected %zu", v->name, h->n, value_count(v->hashes));
  for (size_t i = 0; i < h->n; i++)
    if (h->hashes[i] != from_hex(value_at(v->hashes, i)))
      fail_msg("%s: hash %zu is %016llx, expected %s", v->name, i, (unsigned long long)h->hashes[i],
               value_to_string(value_at(v->hashes, i)));
  assert_int_equal(h->n_tail, v->n_tokens % v->options.block_size);
}

static void check_vector(const struct vector *v) {
  struct blockhash h;
  for (size_t split = 0; split <= v->n_tokens; split++) {
    blockhash_init(&h, v->options);
    blockhash_extend(&h, v->tokens, split);
    blockhash_extend(&h, v->tokens + split, v->n_tokens - split);
    check_chain(v, &h);
    blockhash_free(&h);
  }
  blockhash_init(&h, v->options); /* one by one, with empty pieces between */
  for (size_t i = 0; i < v->n_tokens; i++) {
    blockhash_extend(&h, v->tokens + i, 1);
    blockhash_extend(&h, NULL, 0);
  }
  check_chain(v, &h);
  blockhash_free(&h);
  for (size_t i = 0; i < value_count(v->contents); i++)
    assert_int_equal(blockhash_content(v->options.seed, v->tokens + i * v->options.block_size,
                                       v->options.block_size),
                     from_hex(value_at(v->contents, i)));
}

static void golden_vectors(void **state) {
  (void)state;
  size_t len;
  char *text = check_read_file("tests/data/blockhash/vectors.json", &len);
  struct value all;
  struct err err;
  check_ok(json_parse(text, len, &all, &err), &err);
  int n = 0;
  for (size_t i = 0; i < value_count(&all); i++) {
    const char *scheme = value_to_string(value_get(value_at(&all, i), "scheme"));
    if (strcmp(scheme, "ic-xxh3") != 0)
      continue;
    struct vector v = read_vector(value_at(&all, i));
    check_vector(&v);
    mem_free(v.tokens);
    n++;
  }
  assert_int_equal(n, 23);
  value_free(&all);
  free(text);
}

static void published_value(void **state) {
  (void)state;
  uint32_t tokens[32];
  for (uint32_t i = 0; i < 32; i++)
    tokens[i] = i + 1;
  struct blockhash h;
  blockhash_init(&h, BLOCKHASH_DEFAULTS);
  blockhash_extend(&h, tokens, 15);
  assert_int_equal(h.n, 0);
  blockhash_extend(&h, tokens + 15, 17);
  assert_int_equal(h.n, 2);
  assert_true(h.hashes[0] == UINT64_C(16863443419780771464));
  assert_true(h.hashes[1] ==
              blockhash_link(1337, h.hashes[0], blockhash_content(1337, tokens + 16, 16)));
  blockhash_free(&h);
}

/* Another seed, another chain: the seed goes into both steps. */
static void the_seed_counts(void **state) {
  (void)state;
  static const uint32_t tokens[16] = {1, 2, 3};
  assert_true(blockhash_content(1337, tokens, 16) != blockhash_content(0, tokens, 16));
  assert_true(blockhash_link(1337, 1, 2) != blockhash_link(0, 1, 2));
  assert_true(blockhash_link(1337, 1, 2) != blockhash_link(1337, 2, 1));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(golden_vectors),
      cmocka_unit_test(published_value),
      cmocka_unit_test(the_seed_counts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

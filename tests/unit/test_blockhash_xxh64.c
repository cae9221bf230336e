/* What the XXH64 schemes need to open; the vectors are in test_blockhash_chain.c. */
#include "blockhash_check.h"

static void what_is_missing(void **state) {
  (void)state;
  blockhash_refused("epp-approx-tokens", "{}", "epp-approx-tokens: model is missing");
  blockhash_refused("epp-approx-chars", "{\"model\":\"m\"}",
                    "epp-approx-chars: variant is missing");
  blockhash_refused("aibrix-xxh64", "{}",
                    "aibrix-xxh64: seed is missing: AIBRIX_PREFIX_CACHE_HASH_SEED");
  blockhash_refused("pstack-xxh64", "{}", "pstack-xxh64: variant is missing: python");
}

static void old_pickers(void **state) {
  (void)state;
  blockhash_refused("epp-approx-chars",
                    "{\"model\":\"m\",\"variant\":\"gie-v0.5\",\"block_size\":7}",
                    "block_size of 8 or more");
  blockhash_refused("epp-approx-chars",
                    "{\"model\":\"m\",\"variant\":\"gie-v1.0\",\"cache_salt\":\"s\"}",
                    "gie-v1.0 knows no cache_salt");
}

/* 131072 tokens at most unless told otherwise. */
static void the_cap_of_tokens(void **state) {
  (void)state;
  struct blockhash_chain *c;
  struct err err;
  check_ok(
      blockhash_open_json("epp-approx-tokens", "{\"model\":\"m\",\"block_size\":65536}", &c, &err),
      &err);
  uint32_t *ids = calloc(140000, sizeof *ids);
  check_ok(blockhash_chain_add(c, ids, 140000, &err), &err);
  assert_int_equal(blockhash_chain_count(c), 2);
  free(ids);
  blockhash_chain_delete(c);
}

/* Python counts characters, Go bytes. */
static void pieces_of_text(void **state) {
  (void)state;
  struct blockhash_chain *c;
  struct err err;
  check_ok(
      blockhash_open_json("pstack-xxh64", "{\"variant\":\"python\",\"block_size\":2}", &c, &err),
      &err);
  check_ok(blockhash_chain_add_text(c,
                                    "\xc3\xa9\xe2\x82\xac"
                                    "a",
                                    6, &err),
           &err);
  assert_int_equal(blockhash_chain_count(c), 2);
  assert_int_equal(blockhash_chain_add_text(c, "ab\xe2\x82", 4, &err), ERR_INVALID);
  check_has(err.text, "not UTF-8 at byte 3");
  assert_int_equal(blockhash_chain_count(c), 2);
  blockhash_chain_delete(c);
  check_ok(blockhash_open_json("pstack-xxh64", "{\"variant\":\"go\",\"block_size\":2}", &c, &err),
           &err);
  check_ok(blockhash_chain_add_text(c,
                                    "\xc3\xa9\xe2\x82\xac"
                                    "a",
                                    6, &err),
           &err);
  assert_int_equal(blockhash_chain_count(c), 3);
  blockhash_chain_delete(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_missing),
      cmocka_unit_test(old_pickers),
      cmocka_unit_test(the_cap_of_tokens),
      cmocka_unit_test(pieces_of_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* CPython's hash() of strings and numbers, checked with values that CPython 3.11 printed, and
 * Ranvier's prefix; the vectors are in test_blockhash_chain.c. */
#include "blockhash_check.h"

/* hash("…") under PYTHONHASHSEED shows through a chain of no blocks only as what the first block is
 * made from: the same number given outright gives the same hash. */
static void check_seed(const char *string, const char *seed, const char *number) {
  struct blockhash_chain *a, *b;
  struct err err;
  char options[200], x[BLOCKHASH_MAX_TEXT], y[BLOCKHASH_MAX_TEXT];
  uint32_t ids[] = {1, 2, 3, 4};
  snprintf(options, sizeof options,
           "{\"pythonhashseed\":\"%s\",\"none_hash_string\":\"%s\",\"block_size\":4}", seed,
           string);
  check_ok(blockhash_open_json("lmcache-builtin", options, &a, &err), &err);
  snprintf(options, sizeof options, "{\"none_hash\":\"%s\",\"block_size\":4}", number);
  check_ok(blockhash_open_json("lmcache-builtin", options, &b, &err), &err);
  check_ok(blockhash_chain_add(a, ids, 4, &err), &err);
  check_ok(blockhash_chain_add(b, ids, 4, &err), &err);
  blockhash_chain_text(a, 0, 0, x);
  blockhash_chain_text(b, 0, 0, y);
  if (strcmp(x, y) != 0)
    fail_msg("hash(\"%s\") with %s: %s, expected %s", string, seed, x, y);
  blockhash_chain_delete(a);
  blockhash_chain_delete(b);
}

static void strings(void **state) {
  (void)state;
  check_seed("123", "123", "-6197052367682486848");
  check_seed("é1", "123", "-3330469584732872513");  /* one byte a character */
  check_seed("模1", "123", "-2976545622198982563"); /* two */
  check_seed("😀", "123", "-8059949960423113297");   /* four */
  check_seed("aaaaaaaaaaaaaaaaa", "123", "-2546161014219395011");
  check_seed("0", "0", "5313149338359954478");
  check_seed("", "0", "0");
}

static void where_it_starts(void **state) {
  (void)state;
  blockhash_refused("lmcache-builtin", "{}", "pythonhashseed is missing");
  blockhash_refused("lmcache-builtin", "{\"pythonhashseed\":\"random\"}",
                    "pythonhashseed is \"random\"; it must be a whole number from 0 to 4294967295");
  blockhash_refused("lmcache-builtin", "{\"pythonhashseed\":\"4294967296\"}", "it must be a whole");
  blockhash_refused("lmcache-builtin", "{\"none_hash\":\"9223372036854775808\"}",
                    "must be a whole number in decimal");
  blockhash_refused("lmcache-builtin", "{\"none_hash\":\"-\"}", "must be a whole number");
  struct blockhash_chain *c;
  struct err err;
  check_ok(
      blockhash_open_json("lmcache-builtin", "{\"none_hash\":\"-9223372036854775808\"}", &c, &err),
      &err);
  blockhash_chain_delete(c);
}

static void ranvier(void **state) {
  (void)state;
  blockhash_refused("ranvier-fnv1a", "{\"prefix_token_length\":0}", "from 1 to 1048576");
  blockhash_check("ranvier-fnv1a", "{}", "[]", "block_hashes", "cbf29ce484222325");
  /* of three tokens two count */
  blockhash_check("ranvier-fnv1a", "{\"block_size\":2}", "[97,98,99]", "block_hashes",
                  "a71bed7b7ba66346");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(strings),
      cmocka_unit_test(where_it_starts),
      cmocka_unit_test(ranvier),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

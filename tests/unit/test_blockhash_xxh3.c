/* Worked examples of the XXH3 schemes; the vectors are in test_blockhash_chain.c. */
#include "blockhash_check.h"

static void ic(void **state) {
  (void)state;
  blockhash_check("ic-xxh3", "{\"block_size\":4}", BLOCKHASH_T, "content_hashes",
                  "a4a0e2a009d7c9f6");
  blockhash_check("ic-xxh3", "{\"block_size\":4}", BLOCKHASH_TT, "block_hashes",
                  "a4a0e2a009d7c9f6 6b15f4b4332db57f");
}

static void dynamo_is_the_same_under_other_names(void **state) {
  (void)state;
  blockhash_check("dynamo", "{\"block_size\":4}", BLOCKHASH_TT, "sequence_hashes",
                  "a4a0e2a009d7c9f6 6b15f4b4332db57f");
  blockhash_check("dynamo", "{\"block_size\":4,\"lora_name\":\"lora\"}", BLOCKHASH_T, "seed",
                  "344712311158898430");
  blockhash_check("dynamo", "{\"block_size\":4,\"lora_name\":\"lora\"}", BLOCKHASH_T,
                  "block_hashes", "28868690905a77b2");
  blockhash_check("dynamo", "{\"lora_name\":\"\",\"cache_namespace\":\"\"}", "[]", "seed", "1337");
}

static void prefix_bounds(void **state) {
  (void)state;
  blockhash_refused("smg-prefix-hash", "{\"prefix_token_count\":0}",
                    "prefix_token_count is 0; it must be from 1 to 1048576");
  blockhash_check("smg-prefix-hash", "{}", "[]", "block_hashes", "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ic),
      cmocka_unit_test(dynamo_is_the_same_under_other_names),
      cmocka_unit_test(prefix_bounds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

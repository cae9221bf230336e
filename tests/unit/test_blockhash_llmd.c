/* Worked examples of llm-d's index; the vectors are in test_blockhash_chain.c. */
#include "blockhash_check.h"

static void fnv(void **state) {
  (void)state;
  blockhash_check("llmd-cbor-fnv", "{\"model\":\"m\"}", "[]", "init_hash", "9ddb2db69f3f452c");
  blockhash_check("llmd-cbor-fnv", "{\"model\":\"m\",\"block_size\":4}", BLOCKHASH_T,
                  "block_hashes", "447bb197244fe136");
  blockhash_check("llmd-cbor-fnv",
                  "{\"model\":\"m\",\"block_size\":4,\"mm\":[{\"identifier\":\"ab\",\"offset\":3,"
                  "\"length\":1}]}",
                  BLOCKHASH_T, "block_hashes", "6438bc4f417dde27");
}

static void a_parent_replaces_the_model(void **state) {
  (void)state;
  blockhash_refused("llmd-cbor-fnv", "{}", "llmd-cbor-fnv: model is missing");
  blockhash_refused("llmd-xxh64", "{\"hash_seed\":\"1\"}", "llmd-xxh64: model is missing");
  blockhash_check("llmd-xxh64", "{\"parent\":\"00000000deadbeef\"}", "[]", "init_hash",
                  "00000000deadbeef");
  blockhash_check("llmd-cbor-fnv-nomodel", "{}", "[]", "init_hash", "cbf29ce484222325");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fnv),
      cmocka_unit_test(a_parent_replaces_the_model),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

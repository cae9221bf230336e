/* Worked examples of the SHA-256 and BLAKE3 schemes; the vectors are in test_blockhash_chain.c. */
#include "blockhash_check.h"

static void sglang(void **state) {
  (void)state;
  static const char digest[] = "a7d9b5c3d3bee10a61122b02d8b97315214844ef4b0e76dd550f43ec47ea5711";
  blockhash_check("sglang", "{\"block_size\":4}", BLOCKHASH_T, "block_hashes", digest);
  blockhash_check("sglang", "{\"block_size\":4}", BLOCKHASH_T, "event_i64", "-6351845946753621750");
  /* an absent and an empty salt are one thing for events */
  blockhash_check("sglang", "{\"block_size\":4,\"cache_salt\":\"\"}", BLOCKHASH_T, "block_hashes",
                  digest);
  /* a partial page is dropped unless asked for; pairs need a token more */
  blockhash_check("sglang", "{\"block_size\":8}", BLOCKHASH_T, "block_hashes", "");
  blockhash_check("sglang", "{\"block_size\":4,\"bigram\":true}", BLOCKHASH_T, "block_hashes", "");
  blockhash_check("sglang", "{\"block_size\":4,\"bigram\":true,\"partial\":\"hash\"}", "[5]",
                  "block_hashes", "");
}

static void sha8(void **state) {
  (void)state;
  blockhash_check("sha256-8", "{\"block_size\":4}", BLOCKHASH_TT, "block_hashes",
                  "1d53604d816e87ea 661a9841fc7c444d");
}

static void lmcache(void **state) {
  (void)state;
  blockhash_check("lmcache-blake3", "{\"block_size\":4}", BLOCKHASH_T, "block_hashes",
                  "96ec50ce1838b8dce53fa82a309f09d6c503208c10e59f800f9ada6d445aaf8b");
  blockhash_check("lmcache-blake3", "{}", "[]", "none_hash",
                  "7e3eff9ef7613a50340eb12677ee03b83ac759fcba9bb32705f07248d56d473b");
  blockhash_refused("lmcache-blake3", "{\"none_hash\":\"0\"}", "must be 64 hex digits");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sglang),
      cmocka_unit_test(sha8),
      cmocka_unit_test(lmcache),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* vLLM's seed is never guessed, and what cannot be known is refused; the vectors are in
 * test_blockhash_chain.c. */
#include "blockhash_check.h"

static void no_seed_no_hash(void **state) {
  (void)state;
  static const char *const schemes[] = {"vllm-sha256", "vllm-sha256-cbor", "vllm-xxhash",
                                        "vllm-xxhash-cbor", "vllm-sha256-cbor-64bit"};
  for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
    blockhash_refused(schemes[i], "{}",
                      ": seed is missing: give seed = the text of the server's "
                      "PYTHONHASHSEED, or none_hash");
    blockhash_refused(schemes[i], "{}", "\"vllm-none-hash\"");
    blockhash_refused(schemes[i], "{\"seed\":\"1\",\"pythonhashseed\":\"2\"}", "differ; give one");
    blockhash_refused(schemes[i], "{\"none_hash\":\"12\"}", "hex digits");
  }
  blockhash_refused("lmcache-vllm-hash", "{\"seed\":\"0\"}", "algorithm is missing");
  blockhash_refused("lmcache-vllm-hash", "{\"algorithm\":\"sha256\"}", "seed is missing");
  blockhash_refused("lmcache-vllm-hash", "{\"algorithm\":\"sha256\",\"none_hash\":\"1\"}",
                    "must be 64 hex digits, or \"0\"");
}

static void seeds(void **state) {
  (void)state;
  static const char sha[] = "1973e23848344dc43a988a9b478663803cfffe1243480253f9a3cf004b14aa7c";
  blockhash_check("vllm-sha256", "{\"seed\":\"0\"}", "[]", "none_hash", sha);
  blockhash_check("vllm-sha256", "{\"pythonhashseed\":\"0\"}", "[]", "none_hash", sha);
  blockhash_check("vllm-xxhash", "{\"seed\":\"0\"}", "[]", "none_hash",
                  "6fb31cc38bba6066183f7f2104b9c051");
  blockhash_check("vllm-xxhash-cbor", "{\"seed\":\"0\",\"block_size\":4}", BLOCKHASH_T,
                  "block_hashes", "c0ef3ab4910fd6b4c53db56657270189");
  blockhash_check("vllm-xxhash-cbor", "{\"seed\":\"0\",\"block_size\":4}", BLOCKHASH_T,
                  "event_hashes", "c53db56657270189");
  /* NONE_HASH may be given as it is, and the seed does not matter then */
  blockhash_check("vllm-sha256-cbor-64bit", "{\"none_hash\":\"00000000000000ff\"}", "[]",
                  "none_hash", "00000000000000ff");
}

static void equal_strings_in_a_pickle(void **state) {
  (void)state;
#define ITEM(id, at) "{\"identifier\":\"" id "\",\"offset\":" at ",\"length\":16}"
  static const char lora_salt[] = "{\"seed\":\"0\",\"lora_name\":\"x\",\"cache_salt\":\"x\"}";
  static const char near[] =
      "{\"seed\":\"0\",\"mm_form\":\"bare\",\"mm\":[" ITEM("a", "8") "," ITEM("a", "24") "]}";
  static const char far[] =
      "{\"seed\":\"0\",\"mm_form\":\"bare\",\"mm\":[" ITEM("a", "0") "," ITEM("a", "16") "]}";
  static const char salt[] =
      "{\"seed\":\"0\",\"mm_form\":\"tuple\",\"cache_salt\":\"a\",\"mm\":[" ITEM("a", "8") "]}";
  static const char late[] =
      "{\"seed\":\"0\",\"mm_form\":\"tuple\",\"cache_salt\":\"a\",\"mm\":[" ITEM("a", "16") "]}";
  struct blockhash_chain *c;
  struct err err;
  for (int i = 0; i < 2; i++) {
    const char *scheme = i ? "vllm-xxhash" : "vllm-sha256";
    blockhash_refused(scheme, lora_salt, "lora_name and cache_salt are the same text");
    blockhash_refused(scheme, near, "the same multimodal identifier twice in one block");
    blockhash_refused(scheme, salt, "a multimodal identifier equals lora_name or cache_salt");
    check_ok(blockhash_open_json(scheme, far, &c, &err), &err);
    blockhash_chain_delete(c);
    check_ok(blockhash_open_json(scheme, late, &c, &err), &err);
    blockhash_chain_delete(c);
  }
  check_ok(blockhash_open_json("vllm-sha256-cbor", lora_salt, &c, &err), &err);
  blockhash_chain_delete(c);
}

static void forms_of_multimodal_keys(void **state) {
  (void)state;
  blockhash_refused("vllm-sha256", "{\"seed\":\"0\",\"mm\":[" ITEM("a", "0") "]}",
                    "mm_form is missing: \"tuple\" for vLLM since March 2026");
  blockhash_refused("vllm-sha256", "{\"seed\":\"0\",\"mm_form\":\"bare\"}", "there is no mm");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_seed_no_hash),
      cmocka_unit_test(seeds),
      cmocka_unit_test(equal_strings_in_a_pickle),
      cmocka_unit_test(forms_of_multimodal_keys),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What a chain's options may be; every refusal names the parameter and the way out. */
#include "check.h"

#include "base/mem.h"
#include "kv/blockhash_scheme.h"
#include "text/json.h"

static int open_json(const char *scheme, const char *json, struct err *err) {
  struct value options;
  struct blockhash_chain *c;
  check_ok(json_parse(json, strlen(json), &options, err), err);
  int rc = blockhash_chain_open(scheme, &options, &c, err);
  if (rc)
    assert_null(c);
  blockhash_chain_delete(c);
  value_free(&options);
  return rc;
}

static void refusals(void **state) {
  (void)state;
  static const struct {
    const char *scheme, *options, *text;
  } cases[] = {
      {"ic-xxh3", "{\"block_size\":0}",
       "ic-xxh3: block_size is 0; it must be a whole number from 1 to 1048576"},
      {"ic-xxh3", "{\"block_size\":-4}", "ic-xxh3: block_size is -4; it must be"},
      {"ic-xxh3", "{\"block_size\":1.5}", "ic-xxh3: block_size is a number; it must be"},
      {"ic-xxh3", "{\"block_size\":1048577}", "ic-xxh3: block_size is 1048577; it must be"},
      {"ic-xxh3", "{\"block_size\":null}", "ic-xxh3: block_size is null; it must be"},
      {"smg-path-hash", "{\"block_size\":16}",
       "smg-path-hash: block_size is 16; it must be left out: the scheme hashes no blocks"},
      {"ic-xxh3", "{\"sed\":1}", "ic-xxh3 knows no parameter 'sed' (did you mean 'seed'?)"},
      {"sglang", "{\"lora_name\":\"x\"}",
       "sglang knows no parameter 'lora_name' (it knows: block_size, cache_salt, bigram, partial, "
       "chain, extra_key)"},
      {"smg-path-hash", "{\"zzzzzz\":1}",
       "smg-path-hash knows no parameter 'zzzzzz' (it knows: block_size)"},
      {"ic-xxh3", "{\"seed\":\"12x\"}",
       "ic-xxh3: seed is \"12x\"; it must be a whole number from 0 to 2^64 - 1"},
      {"ic-xxh3", "{\"seed\":-1}", "ic-xxh3: seed is -1; it must be a whole number"},
      {"ic-xxh3", "{\"seed\":\"18446744073709551616\"}", "it must be a whole number"},
      {"ic-xxh3", "{\"seed\":\"\"}", "it must be a whole number"},
      {"ic-xxh3", "{\"parent_prefix\":\"deadbeef\"}",
       "ic-xxh3: parent_prefix is \"deadbeef\"; it must be a text of 16 hex digits"},
      {"ic-xxh3", "{\"parent_prefix\":\"00000000deadbeeg\"}", "16 hex digits"},
      {"vllm-sha256", "{\"seed\":0}",
       "vllm-sha256: seed is 0; it must be a text (a number in quotes is one)"},
      {"vllm-sha256", "{\"seed\":[]}", "vllm-sha256: seed is a list; it must be a text"},
      {"sglang", "{\"partial\":\"keep\"}",
       "sglang: partial is \"keep\"; it must be one of: drop hash"},
      {"sglang", "{\"partial\":true}", "sglang: partial is a boolean; it must be one of"},
      {"sglang", "{\"bigram\":\"yes\"}", "sglang: bigram is \"yes\"; it must be true or false"},
      {"epp-approx-chars", "{\"variant\":\"gie-v1\"}", "one of: gie-v1.1-v1.5 llm-d-sched"},
      {"epp-approx-tokens", "{\"model\":\"m\",\"max_blocks\":0}",
       "epp-approx-tokens: max_blocks is 0; leave it out for no limit"},
      {"llmd-xxh64", "{\"model\":\"m\",\"mm\":\"x\"}",
       "llmd-xxh64: mm is \"x\"; it must be a list of {identifier = text"},
      {"llmd-xxh64", "{\"model\":\"m\",\"mm\":[{\"identifier\":\"a\",\"offset\":1}]}",
       "llmd-xxh64: mm: item 1 is not as it should be"},
      {"llmd-xxh64", "{\"model\":\"m\",\"mm\":[{\"identifier\":\"a\",\"offset\":1,\"length\":0}]}",
       "item 1 lies over 0 tokens from token 1; both are whole numbers below 2^31"},
      {"vllm-sha256", "{\"seed\":\"0\",\"prompt_embeds_sha256\":[\"ab\"]}",
       "an item of prompt_embeds_sha256 is \"ab\"; it must be 64 hex digits"},
      {"vllm-sha256", "{\"seed\":\"0\",\"prompt_embeds_sha256\":3}",
       "prompt_embeds_sha256 is 3; it must be a list with the SHA-256"},
      {"dynamo", "{\"block_mm\":[[]]}", "dynamo: block_mm is a list; it must be an object"},
      {"dynamo", "{\"block_mm\":{\"x\":[]}}", "dynamo: block_mm: \"x\" does not do"},
      {"dynamo", "{\"block_mm\":{\"0\":[\"1\"]}}", "an item of block_mm is \"1\""},
      {"ic-xxh3", "[1]", "ic-xxh3: the options are a list; they must be an object"},
  };
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    struct err err = {0};
    if (!open_json(cases[i].scheme, cases[i].options, &err))
      fail_msg("%s %s was accepted", cases[i].scheme, cases[i].options);
    check_has(err.text, cases[i].text);
  }
}

static void what_does(void **state) {
  (void)state;
  static const struct {
    const char *scheme, *options;
  } cases[] = {
      {"ic-xxh3", "{}"},
      {"ic-xxh3", "{\"seed\":\"18446744073709551615\",\"block_size\":\"32\"}"},
      {"ic-xxh3", "{\"parent_prefix\":\"00000000DEADBEEF\"}"},
      {"ic-xxh3", "{\"parent_prefix\":null}"},
      {"mooncake-conductor-xxh64", "{\"block_size\":0}"},
      {"smg-path-hash", "{\"block_size\":0}"},
      {"dynamo", "{\"block_mm\":{}}"},
      {"llmd-xxh64", "{\"model\":\"m\",\"mm\":[]}"},
      {"llmd-xxh64", "{\"model\":\"m\",\"mm\":{}}"},
  };
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    struct err err = {0};
    if (open_json(cases[i].scheme, cases[i].options, &err))
      fail_msg("%s %s: %s", cases[i].scheme, cases[i].options, err.text);
  }
}

static void hex(void **state) {
  (void)state;
  uint8_t out[3];
  assert_true(blockhash_from_hex((struct blockhash_text){"00aFfe", 6}, out, 3));
  assert_memory_equal(out, "\x00\xaf\xfe", 3);
  assert_false(blockhash_from_hex((struct blockhash_text){"00aFf", 5}, out, 3));
  assert_false(blockhash_from_hex((struct blockhash_text){"00aFf:", 6}, out, 3));
  assert_false(blockhash_from_hex((struct blockhash_text){NULL, 0}, out, 0));
}

static void items_lie_over_blocks(void **state) {
  (void)state;
  struct blockhash_settings s = {.block_size = 16};
  struct blockhash_mm m = {.offset = 15, .length = 2}, one = {.offset = 16, .length = 16};
  assert_true(blockhash_mm_in_block(&s, &m, 0));
  assert_true(blockhash_mm_in_block(&s, &m, 1));
  assert_false(blockhash_mm_in_block(&s, &m, 2));
  assert_false(blockhash_mm_in_block(&s, &one, 0));
  assert_true(blockhash_mm_in_block(&s, &one, 1));
  assert_false(blockhash_mm_in_block(&s, &one, 2));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refusals),
      cmocka_unit_test(what_does),
      cmocka_unit_test(hex),
      cmocka_unit_test(items_lie_over_blocks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

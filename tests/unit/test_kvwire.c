/* test_kvwire.c: the bytes of event batches, as Python's msgpack packs the same objects. The first
 * two are what a real vLLM 0.26.0 published (volcano-sh/kthena issue #1535), as a map and as its
 * predecessors would have written it. */
#include "check.h"

#include "sim/kvwire.h"

static const char real_map[] =
    "93cb41daa8dbe0359fe7918ba474797065ab426c6f636b53746f726564ac626c6f636b5f686173686573"
    "91cfdab89baa7b5857c0b1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f696473dc0010"
    "ce0002505ccd0368ccc6cd2368cd0176cd0117cd1a42cd013bcd15f01ece0002505dccc6ce0002505cce"
    "00012d23ccc6ce00025073aa626c6f636b5f73697a6510a76c6f72615f6964c0a66d656469756da34750"
    "55a96c6f72615f6e616d65c0aa65787472615f6b65797391c0a967726f75705f69647800b26b765f6361"
    "6368655f737065635f6b696e64ae66756c6c5f617474656e74696f6e00";

static const char real_array[] =
    "93cb41daa8dbe0359fe7919bab426c6f636b53746f72656491cfdab89baa7b5857c0c0dc0010ce000250"
    "5ccd0368ccc6cd2368cd0176cd0117cd1a42cd013bcd15f01ece0002505dccc6ce0002505cce00012d23"
    "ccc6ce0002507310c0a3475055c091c000ae66756c6c5f617474656e74696f6e00";

static const char raw_array[] =
    "93cb3fe00000000000009394ac426c6f636b52656d6f76656491c420000102030405060708090a0b0c0d"
    "0e0f101112131415161718191a1b1c1d1e1fa34750550091b0416c6c426c6f636b73436c656172656498"
    "ab426c6f636b53746f72656491c420000102030405060708090a0b0c0d0e0f101112131415161718191a"
    "1b1c1d1e1fc420000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f920102"
    "0203a3435055a373716c00";

static const char keys_map[] =
    "93cb3fe00000000000009383a474797065ac426c6f636b52656d6f766564ac626c6f636b5f6861736865"
    "739107a66d656469756da343505581a474797065b0416c6c426c6f636b73436c65617265648ba4747970"
    "65ab426c6f636b53746f726564ac626c6f636b5f68617368657392cf01020304050607087fb170617265"
    "6e745f626c6f636b5f68617368ccc8a9746f6b656e5f69647394007fcc80ce00010000aa626c6f636b5f"
    "73697a6502a76c6f72615f696403a66d656469756da3475055a96c6f72615f6e616d65a373716caa6578"
    "7472615f6b6579739292a373716ca670657070657291a373716ca967726f75705f69647800b26b765f63"
    "616368655f737065635f6b696e64ae66756c6c5f617474656e74696f6e05";

static void check_bytes(const struct buf *b, const char *hex) {
  struct buf got;
  buf_init(&got, BUF_MAX_OWN);
  for (size_t i = 0; i < b->len; i++)
    buf_printf(&got, "%02x", (unsigned char)b->data[i]);
  assert_string_equal(got.data, hex);
  buf_free(&got);
}

static void be(uint8_t *out, uint64_t x) {
  kvwire_put_sequence(out, x);
}

static const uint32_t real_tokens[] = {151644, 872, 198,    9064, 374,    279,   6722, 315,
                                       5616,   30,  151645, 198,  151644, 77091, 198,  151667};

static void real(enum kvwire_encoding encoding, const char *want) {
  uint8_t hash[16] = {0xff, 0xff};
  be(hash + 8, UINT64_C(15760518052499183552));
  struct kvwire w = {.encoding = encoding, .width = 16};
  struct kvwire_stored s = {.hashes = hash,
                            .n_hashes = 1,
                            .tokens = real_tokens,
                            .block_size = 16,
                            .medium = "GPU",
                            .has_keys = true};
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  kvwire_begin(&b, 1);
  kvwire_add_stored(&b, &w, &s);
  kvwire_end(&b, 0);
  kvwire_set_time(&b, 0, 1789095808.8378847);
  check_bytes(&b, want);
  buf_free(&b);
}

static void test_as_vllm_published(void **state) {
  (void)state;
  real(KVWIRE_MAP, real_map);
  real(KVWIRE_ARRAY, real_array);
}

static void test_digests_in_arrays(void **state) {
  (void)state;
  uint8_t hash[32];
  for (int i = 0; i < 32; i++)
    hash[i] = (uint8_t)i;
  static const uint32_t tokens[] = {1, 2};
  struct kvwire w = {.encoding = KVWIRE_ARRAY, .raw_hashes = true, .width = 32};
  struct kvwire_stored s = {.hashes = hash,
                            .parent = hash,
                            .n_hashes = 1,
                            .tokens = tokens,
                            .block_size = 2,
                            .medium = "CPU",
                            .lora_id = 3,
                            .lora_name = "sql"};
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  buf_puts(&b, "before"); /* a batch may begin anywhere */
  kvwire_begin(&b, 3);
  kvwire_add_removed(&b, &w, hash, 1, "GPU", true);
  kvwire_add_cleared(&b, &w);
  kvwire_add_stored(&b, &w, &s);
  kvwire_end(&b, 0);
  kvwire_set_time(&b, 6, 0.5);
  buf_drop(&b, 6);
  check_bytes(&b, raw_array);
  buf_free(&b);
}

static void test_keys_in_maps(void **state) {
  (void)state;
  uint8_t hashes[16], parent[8], removed[8];
  be(hashes, UINT64_C(0x0102030405060708));
  be(hashes + 8, 127);
  be(parent, 200);
  be(removed, 7);
  static const uint32_t tokens[] = {0, 127, 128, 65536};
  struct kvwire w = {.encoding = KVWIRE_MAP, .width = 8};
  struct kvwire_stored s = {.hashes = hashes,
                            .parent = parent,
                            .n_hashes = 2,
                            .tokens = tokens,
                            .block_size = 2,
                            .medium = "GPU",
                            .lora_id = 3,
                            .lora_name = "sql",
                            .salt = "pepper",
                            .has_keys = true};
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  kvwire_begin(&b, 3);
  kvwire_add_removed(&b, &w, removed, 1, "CPU", false);
  kvwire_add_cleared(&b, &w);
  kvwire_add_stored(&b, &w, &s);
  kvwire_end(&b, 5);
  kvwire_set_time(&b, 0, 0.5);
  check_bytes(&b, keys_map);
  buf_free(&b);
}

/* The time's place does not move with the number of events. */
static void test_long_batches(void **state) {
  (void)state;
  struct kvwire w = {.encoding = KVWIRE_ARRAY, .width = 8};
  for (size_t n = 1; n <= 100000; n *= 10) {
    struct buf b;
    buf_init(&b, BUF_MAX_OWN);
    kvwire_begin(&b, n);
    for (size_t i = 0; i < n; i++)
      kvwire_add_cleared(&b, &w);
    kvwire_end(&b, 0);
    size_t len = b.len;
    kvwire_set_time(&b, 0, 0.5);
    assert_int_equal(b.len, len);
    assert_memory_equal(b.data, "\x93\xcb\x3f\xe0\0\0\0\0\0\0", 10);
    assert_int_equal((unsigned char)b.data[10], n < 16 ? 0x90 + n : n < 65536 ? 0xdc : 0xdd);
    buf_free(&b);
  }
}

static void test_sequence_numbers(void **state) {
  (void)state;
  uint8_t out[8];
  uint64_t x;
  kvwire_put_sequence(out, 258);
  assert_memory_equal(out, "\0\0\0\0\0\0\1\2", 8);
  kvwire_put_sequence(out, UINT64_MAX);
  assert_memory_equal(out, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
  assert_true(kvwire_read_sequence(out, 8, &x) && x == UINT64_MAX);
  assert_true(kvwire_read_sequence((const uint8_t *)"\1\0", 2, &x) && x == 256);
  assert_true(kvwire_read_sequence((const uint8_t *)"", 0, &x) && x == 0);
  assert_false(kvwire_read_sequence((const uint8_t *)"123456789", 9, &x));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_as_vllm_published), cmocka_unit_test(test_digests_in_arrays),
      cmocka_unit_test(test_keys_in_maps),      cmocka_unit_test(test_long_batches),
      cmocka_unit_test(test_sequence_numbers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

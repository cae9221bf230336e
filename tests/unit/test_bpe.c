/* Vocabularies and merging (bpe.c, bpe_merge.c): the fast ways equal the plain one. */
#include "tokenizer_cases.h"

#include "base/rng.h"
#include "text/bpe.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

static const struct bpe *bpe_of(const struct tokens *t) {
  return &CONTAINER_OF(t, struct tokenizer, base)->bpe;
}

static void add(struct bpe *b, uint32_t id, const char *text) {
  struct err err;
  check_ok(bpe_add(b, id, text, strlen(text), &err), &err);
}

static void test_building(void **state) {
  (void)state;
  struct bpe b;
  struct err err;
  size_t len;
  bpe_init(&b);
  add(&b, 5, "ab");
  add(&b, 0, "a");
  assert_int_equal(bpe_add(&b, 5, "x", 1, &err), ERR_INVALID);
  check_has(err.text, "\"x\": id 5 is taken by \"ab\"");
  assert_int_equal(bpe_add(&b, BPE_MAX_IDS, "x", 1, &err), ERR_INVALID);
  check_has(err.text, "too large");
  check_ok(bpe_seal(&b, &err), &err);
  assert_int_equal(b.n_ids, 6);
  assert_int_equal(b.n_tokens, 2);
  assert_int_equal(bpe_find(&b, "ab", 2), 5);
  assert_int_equal(bpe_find(&b, "abc", 3), BPE_NONE);
  assert_null(bpe_text(&b, 3, &len));
  assert_null(bpe_text(&b, 6, &len));
  assert_non_null(bpe_text(&b, 5, &len));
  assert_int_equal(len, 2);
  bpe_pairs_reserve(&b, 1);
  bpe_pairs_add(&b, 0, 0, 3, 5);
  bpe_pairs_add(&b, 0, 0, 9, 5); /* given again: the later rank */
  assert_int_equal(bpe_pairs_find(&b, 0, 0)->rank, 9);
  assert_null(bpe_pairs_find(&b, 0, 5));
  bpe_free(&b);

  bpe_init(&b);
  add(&b, 1000000, "far");
  assert_int_equal(bpe_seal(&b, &err), ERR_UNSUPPORTED);
  check_has(err.text, "ids up to 1000000 for 1 tokens");
  bpe_free(&b);

  bpe_init(&b);
  add(&b, 1, "same");
  add(&b, 2, "same");
  assert_int_equal(bpe_seal(&b, &err), ERR_INVALID);
  check_has(err.text, "ids 1 and 2 have the same text");
  bpe_free(&b);
}

/* Random text over a vocabulary's own tokens, other characters and, rarely, long runs. */
static size_t random_text(struct rng *rng, const struct bpe *b, char *out, size_t room) {
  static const uint32_t other[] = {'a',   'e',    'q',     ' ', 0x2581, 0xe9,
                                   0x301, 0x524d, 0x1f600, '<', 'x'};
  size_t n = 0, goal = (size_t)rng_int(rng, 1, rng_int(rng, 0, 9) ? 40 : (int64_t)room - 80);
  while (n < goal) {
    size_t len = 0;
    const char *token = b ? bpe_text(b, (uint32_t)rng_int(rng, 0, b->n_ids - 1), &len) : NULL;
    if (token && rng_int(rng, 0, 2) && len < 40 && json_utf8_valid(token, len) == len) {
      memcpy(out + n, token, len);
      n += len;
    } else {
      uint32_t cp = other[rng_int(rng, 0, (int64_t)ARRAY_LEN(other) - 1)];
      for (int64_t k = rng_int(rng, 0, 20) ? 1 : rng_int(rng, 1, 12); k > 0; k--)
        n += utf8_encode(cp, out + n);
    }
  }
  return n;
}

static void compare(const char *name, const struct bpe *b, struct bpe_scratch *s, const char *text,
                    size_t len) {
  struct tokens_list fast = {0}, plain = {0};
  bpe_encode(b, s, text, len, &fast);
  bpe_encode_plain(b, text, len, &plain);
  bool same = fast.n == plain.n &&
              (fast.n == 0 || memcmp(fast.ids, plain.ids, fast.n * sizeof *fast.ids) == 0);
  if (!same)
    fail_msg("%s: \"%.*s\" differs from plain merging", name, (int)len, text);
  tokens_list_free(&fast);
  tokens_list_free(&plain);
}

static void test_fast_is_plain(void **state) {
  (void)state;
  static const char *const names[] = {"byte_whole", "ignore_merges",   "llama",        "unk_fused",
                                      "unk_single", "fallback_no_unk", "chars_ignore", "unk_none"};
  struct cases c;
  struct rng rng;
  char text[900];
  cases_open(&c);
  rng_init(&rng, 11, 0);
  for (size_t i = 0; i < ARRAY_LEN(names); i++) {
    const struct tokens *t = cases_tokens(&c, cases_named(&c, names[i]));
    const struct bpe *b = bpe_of(t);
    assert_true(b->cuts);
    struct bpe_scratch *memo = bpe_scratch_new(b, true), *bare = bpe_scratch_new(b, false);
    for (int round = 0; round < 1500; round++) {
      size_t len = random_text(&rng, b, text, sizeof text);
      compare(names[i], b, memo, text, len);
      compare(names[i], b, memo, text, len); /* from the memo */
      compare(names[i], b, bare, text, len);
    }
    bpe_scratch_delete(memo);
    bpe_scratch_delete(bare);
    tokens_close(t);
  }
  cases_close(&c);
}

/* No cuts: long pieces are merged as a whole. */
static void test_whole(void **state) {
  (void)state;
  struct cases c;
  cases_open(&c);
  const struct tokens *t = cases_tokens(&c, cases_named(&c, "byte_whole"));
  struct bpe b = *bpe_of(t);
  b.cuts = false;
  struct bpe_scratch *s = bpe_scratch_new(&b, true);
  struct rng rng;
  char text[2000];
  rng_init(&rng, 12, 0);
  for (int round = 0; round < 200; round++) {
    size_t len = random_text(&rng, &b, text, round < 100 ? 200 : sizeof text);
    compare("whole", &b, s, text, len);
  }
  bpe_scratch_delete(s);
  tokens_close(t);
  cases_close(&c);
}

/* Small enough to be followed by hand: where a cut would be wrong. */
static void test_by_hand(void **state) {
  (void)state;
  struct bpe b;
  struct err err;
  bpe_init(&b);
  add(&b, 0, "a");
  add(&b, 1, "b");
  add(&b, 2, "c");
  add(&b, 3, "bc");
  add(&b, 4, "ab");
  add(&b, 5, "abc");
  check_ok(bpe_seal(&b, &err), &err);
  bpe_pairs_reserve(&b, 3);
  bpe_pairs_add(&b, 1, 2, 0, 3); /* b c first, so that a b never happens in abc */
  bpe_pairs_add(&b, 0, 1, 1, 4);
  bpe_pairs_add(&b, 4, 2, 2, 5);
  check_ok(bpe_finish(&b, &err), &err);
  struct bpe_scratch *s = bpe_scratch_new(&b, true);
  struct tokens_list ids = {0};
  bpe_encode(&b, s, "abcab", 5, &ids);
  const uint32_t want[] = {0, 3, 4};
  assert_int_equal(ids.n, 3);
  assert_memory_equal(ids.ids, want, sizeof want);
  ids.n = 0;
  bpe_encode(&b, s, "", 0, &ids);
  bpe_encode(&b, s, "xyz", 3, &ids); /* no tokens, no unknown token: they vanish */
  assert_int_equal(ids.n, 0);
  b.ignore_merges = true;
  struct bpe_scratch *fresh = bpe_scratch_new(&b, true);
  bpe_encode(&b, fresh, "abc", 3, &ids);
  assert_int_equal(ids.n, 1);
  assert_int_equal(ids.ids[0], 5);
  bpe_scratch_delete(s);
  bpe_scratch_delete(fresh);
  bpe_scratch_delete(NULL);
  tokens_list_free(&ids);
  bpe_free(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_building),
                                     cmocka_unit_test(test_fast_is_plain),
                                     cmocka_unit_test(test_whole), cmocka_unit_test(test_by_hand)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

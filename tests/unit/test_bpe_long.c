/* Merging many symbols (bpe_long.c): window by window it is what plain merging gives, for any list
 * of merges, also where windows cannot be joined. */
#include "tokenizer_cases.h"

#include "base/rng.h"
#include "text/bpe_impl.h"
#include "text/tokenizer.h"

/* Tokens are texts over the first `letters` letters; merges are any two tokens whose texts put
 * together are a token, in any order: mostly no order that a training would give. */
static void random_vocabulary(struct bpe *b, struct rng *rng, unsigned letters, uint32_t tokens) {
  struct err err;
  uint32_t n = letters;
  bpe_init(b);
  b->bytes = true;
  buf_put(&b->text, "", 0);
  for (uint32_t i = 0; i < letters; i++)
    check_ok(bpe_add(b, i, &(char){(char)('a' + i)}, 1, &err), &err);
  while (n < tokens) {
    char text[64];
    size_t len = 0, more;
    for (int64_t parts = rng_int(rng, 2, 3); parts > 0; parts--) {
      const char *part = bpe_text(b, (uint32_t)rng_int(rng, 0, n - 1), &more);
      if (len + more > sizeof text)
        break;
      memcpy(text + len, part, more);
      len += more;
    }
    bool there = false;
    for (uint32_t i = 0; i < n && !there; i++)
      there = b->len[i] == len && memcmp(b->text.data + b->start[i], text, len) == 0;
    if (!there)
      check_ok(bpe_add(b, n++, text, len, &err), &err);
  }
  check_ok(bpe_seal(b, &err), &err);
  bpe_pairs_reserve(b, (size_t)n * 64);
  for (uint32_t id = 0; id < n; id++)
    for (uint32_t cut = 1; cut < b->len[id]; cut++) {
      const char *text = b->text.data + b->start[id];
      uint32_t left = bpe_find(b, text, cut), right = bpe_find(b, text + cut, b->len[id] - cut);
      if (left != BPE_NONE && right != BPE_NONE && rng_int(rng, 0, 3))
        bpe_pairs_add(b, left, right, (uint32_t)rng_int(rng, 0, n), id); /* also equal ranks */
    }
  check_ok(bpe_finish(b, &err), &err);
}

/* Random letters, or a short text over and over, now and then another. */
static void random_letters(struct rng *rng, unsigned letters, char *text, size_t n) {
  size_t period = (size_t)rng_int(rng, 1, 12), goal = 0;
  bool over = rng_int(rng, 0, 1);
  for (size_t i = 0; i < n; i++) {
    if (i == goal) {
      goal = i + (size_t)rng_int(rng, 1, (int64_t)n);
      period = (size_t)rng_int(rng, 1, 12);
    } else if (over && i >= period) {
      text[i] = text[i - period];
      continue;
    }
    text[i] = (char)('a' + rng_int(rng, 0, letters - 1));
  }
}

static void compare(const struct bpe *b, struct bpe_long *l, const char *text, size_t len) {
  struct tokens_list plain = {0};
  uint32_t *ids = mem_alloc((len + 1) * sizeof *ids), *symbols = bpe_long_symbols(l, len + 1);
  size_t n = bpe_symbols(b, text, len, symbols);
  n = bpe_merge_long(b, l, symbols, n, ids);
  bpe_encode_plain(b, text, len, &plain);
  if (n != plain.n || (n && memcmp(ids, plain.ids, n * sizeof *ids) != 0))
    fail_msg("window %zu: \"%.*s\" differs from plain merging", l->window, (int)len, text);
  mem_free(ids);
  tokens_list_free(&plain);
}

static void test_random_vocabularies(void **state) {
  (void)state;
  struct rng rng;
  struct bpe_long l;
  char text[400];
  rng_init(&rng, 21, 0);
  bpe_long_init(&l);
  for (int i = 0; i < 150; i++) {
    struct bpe b;
    unsigned letters = (unsigned)rng_int(&rng, 1, 4);
    random_vocabulary(&b, &rng, letters,
                      letters + (uint32_t)rng_int(&rng, 0, letters == 1 ? 20 : 60));
    for (int round = 0; round < 120; round++) {
      size_t len = (size_t)rng_int(&rng, 0, sizeof text);
      random_letters(&rng, letters, text, len);
      l.window = (size_t)rng_int(&rng, 1, 64);
      compare(&b, &l, text, len);
    }
    bpe_free(&b);
  }
  bpe_long_free(&l);
}

/* Every real way to symbols: bytes, characters, byte fallback, unknown ones, none. */
static void test_cases(void **state) {
  (void)state;
  static const char *const names[] = {"byte_whole", "ignore_merges",   "llama",        "unk_fused",
                                      "unk_single", "fallback_no_unk", "chars_ignore", "unk_none"};
  static const char *const words[] = {"a", "e", " ", "the", "\xe2\x96\x81", "\xc3\xa9", "in", "q"};
  struct cases c;
  struct rng rng;
  struct bpe_long l;
  char text[700];
  cases_open(&c);
  rng_init(&rng, 22, 0);
  bpe_long_init(&l);
  for (size_t i = 0; i < ARRAY_LEN(names); i++) {
    const struct tokens *t = cases_tokens(&c, cases_named(&c, names[i]));
    struct bpe b = CONTAINER_OF(t, struct tokenizer, base)->bpe;
    b.ignore_merges = false; /* merging only */
    for (int round = 0; round < 300; round++) {
      size_t len = 0, goal = (size_t)rng_int(&rng, 1, sizeof text - 4);
      int64_t some = rng_int(&rng, 0, ARRAY_LEN(words) - 1);
      while (len < goal) {
        const char *word = words[rng_int(&rng, 0, some)];
        memcpy(text + len, word, strlen(word));
        len += strlen(word);
      }
      l.window = (size_t)rng_int(&rng, 1, 200);
      compare(&b, &l, text, len);
    }
    tokens_close(t);
  }
  bpe_long_free(&l);
  cases_close(&c);
}

/* x1 x2 ... x26: the later the pair the earlier it is merged, so that the last letter decides what
 * becomes of the first: no window's right end is like the piece's. */
static void test_no_join(void **state) {
  (void)state;
  struct bpe b;
  struct bpe_long l;
  struct err err;
  bpe_init(&b);
  b.bytes = true;
  for (uint32_t i = 0; i < 26; i++)
    check_ok(bpe_add(&b, i, &(char){(char)('a' + i)}, 1, &err), &err);
  for (uint32_t i = 0; i < 25; i++)
    check_ok(bpe_add(&b, 26 + i, (char[]){(char)('a' + i), (char)('b' + i)}, 2, &err), &err);
  check_ok(bpe_seal(&b, &err), &err);
  bpe_pairs_reserve(&b, 25);
  for (uint32_t i = 0; i < 25; i++)
    bpe_pairs_add(&b, i, i + 1, 25 - i, 26 + i);
  check_ok(bpe_finish(&b, &err), &err);
  bpe_long_init(&l);
  for (size_t len = 0; len <= 26; len++)
    for (l.window = 1; l.window < 30; l.window++)
      compare(&b, &l, "abcdefghijklmnopqrstuvwxyz", len);
  bpe_long_free(&l);
  bpe_free(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_vocabularies),
                                     cmocka_unit_test(test_cases), cmocka_unit_test(test_no_join)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

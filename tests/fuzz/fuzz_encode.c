/* fuzz_encode.c: any text through the small tokenizers of tests/data/tokenizer, by three ways that
 * must agree: with memo and cuts; a second time, from the memo; without either (whole pieces).
 * Where pieces are known, also by plain merging, and short texts in small windows. Byte-level ones
 * must give the text back. The first byte chooses the tokenizer. */
#include "fuzz_model.h"

#include "text/bpe_impl.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static const struct {
  const char *name;
  enum splitter splitter; /* SPLITTER_NONE: the pieces are not compared */
  bool exact;             /* decoding gives the text back */
} used[] = {{"byte_regex", SPLITTER_GPT2, true},
            {"split_o200k", SPLITTER_O200K, true},
            {"split_qwen35", SPLITTER_QWEN35, true},
            {"split_deepseek", SPLITTER_NONE, true},
            {"ignore_merges", SPLITTER_NONE, true},
            {"byte_whole", SPLITTER_NONE, true},
            {"flags", SPLITTER_NONE, false},
            {"nfc", SPLITTER_NONE, false},
            {"nfd", SPLITTER_NONE, false},
            {"lower", SPLITTER_NONE, false},
            {"llama", SPLITTER_NONE, false},
            {"gemma", SPLITTER_NONE, false},
            {"meta_first_split", SPLITTER_NONE, false},
            {"unk_fused", SPLITTER_NONE, false},
            {"unk_single", SPLITTER_NONE, false},
            {"chars_ignore", SPLITTER_NONE, false},
            {"cohere", SPLITTER_NONE, true}};

#define N (sizeof used / sizeof used[0])

static struct {
  const struct tokens *fast;
  struct tokens_encoder *encoder;
  struct tokenizer plain; /* the same with no cuts; owns nothing */
} all[N];

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  (void)argc, (void)argv;
  struct value cases = fuzz_model_json("tests/data/tokenizer/cases.json");
  struct value bases = fuzz_model_json("tests/data/tokenizer/bases.json");
  const struct value *list = value_get(&cases, "cases");
  for (size_t i = 0; i < value_count(list); i++) {
    struct value *one = value_at(list, i), *file = value_get(one, "file");
    struct value *base = value_get(&bases, value_to_string(value_get(one, "base")));
    for (size_t k = 0; k < N; k++) {
      if (strcmp(used[k].name, value_to_string(value_get(one, "name"))) != 0)
        continue;
      struct buf text;
      struct err err;
      buf_init(&text, BUF_MAX_OWN);
      value_set(value_get(file, "model"), "vocab", value_copy(value_get(base, "vocab")));
      value_set(value_get(file, "model"), "merges", value_copy(value_get(base, "merges")));
      json_write(&text, file);
      require(tokens_load_text("f", text.data, text.len, NULL, &all[k].fast, &err) == 0);
      all[k].encoder = tokens_encoder_new(all[k].fast);
      all[k].plain = *CONTAINER_OF(all[k].fast, struct tokenizer, base);
      all[k].plain.bpe.cuts = false;
      buf_free(&text);
    }
  }
  value_free(&cases);
  value_free(&bases);
  return 0;
}

static void same(const struct tokens_list *a, const struct tokens_list *b) {
  require(a->n == b->n && (a->n == 0 || memcmp(a->ids, b->ids, a->n * sizeof *a->ids) == 0));
}

static void check_pieces(size_t k, const char *text, size_t len, const struct tokens_list *want) {
  struct tokens_list ids = {0};
  uint32_t end;
  for (size_t at = 0; splitter_ends(used[k].splitter, text, len, at, &end, 1); at = end)
    bpe_encode_plain(&all[k].plain.bpe, text + at, end - at, &ids);
  same(&ids, want);
  tokens_list_free(&ids);
}

/* Merging in windows, small ones that depend on the text, against plain merging. */
static void check_windows(size_t k, const char *text, size_t len) {
  struct bpe b = all[k].plain.bpe;
  struct tokens_list want = {0}, got = {0};
  struct bpe_long l;
  b.ignore_merges = false; /* merging only */
  bpe_encode_plain(&b, text, len, &want);
  bpe_long_init(&l);
  l.window = 1 + ((unsigned char)text[0] * 31u + len) % 97;
  tokens_list_reserve(&got, len);
  uint32_t *symbols = bpe_long_symbols(&l, len);
  got.n = bpe_merge_long(&b, &l, symbols, bpe_symbols(&b, text, len, symbols), got.ids);
  same(&got, &want);
  bpe_long_free(&l);
  tokens_list_free(&want);
  tokens_list_free(&got);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size || size > 20000)
    return 0;
  size_t k = data[0] % N, len = size - 1, n;
  const char *text = (const char *)data + 1;
  struct tokens_options options = {.special = true};
  struct tokens_list first = {0}, again = {0}, plain = {0};
  struct err err = {0};
  require(tokens_encoder_encode(all[k].encoder, text, len, &options, &first, &err) == 0);
  require(tokens_encoder_encode(all[k].encoder, text, len, &options, &again, &err) == 0);
  same(&first, &again);
  struct tokens_encoder *bare = all[k].plain.base.ops->encoder_new(&all[k].plain.base, false);
  require(tokens_encoder_encode(bare, text, len, &options, &plain, &err) == 0);
  same(&first, &plain);
  tokens_encoder_delete(bare);
  require(tokens_encoder_count(all[k].encoder, text, len, &options, &n, &err) == 0);
  require(n == first.n);
  if (len && json_utf8_valid(text, len) == len) {
    struct buf back;
    buf_init(&back, BUF_MAX_OWN);
    if (used[k].splitter != SPLITTER_NONE)
      check_pieces(k, text, len, &first);
    if (len <= 2000)
      check_windows(k, text, len);
    require(tokens_decode(all[k].fast, first.ids, first.n, &back, &err) == 0);
    if (used[k].exact)
      require(back.len == len && memcmp(back.data, text, len) == 0);
    buf_free(&back);
  }
  tokens_list_free(&first);
  tokens_list_free(&again);
  tokens_list_free(&plain);
  return 0;
}

/* Rank files and paths (rankfile.c, tokenfile.c). */
#include "tokenizer_cases.h"

#include <sys/stat.h>
#include <unistd.h>

static void put_line(struct buf *b, const char *bytes, size_t n, unsigned rank) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < n; i += 3) {
    unsigned x = (unsigned)(unsigned char)bytes[i] << 16;
    if (i + 1 < n)
      x |= (unsigned)(unsigned char)bytes[i + 1] << 8;
    if (i + 2 < n)
      x |= (unsigned char)bytes[i + 2];
    for (size_t k = 0; k < 4; k++)
      buf_putc(b, i + k <= n ? digits[x >> (18 - 6 * k) & 63] : '=');
  }
  buf_printf(b, " %u\n", rank);
}

/* All bytes, then some words. */
static void small_file(struct buf *b) {
  buf_init(b, BUF_MAX_OWN);
  for (unsigned i = 0; i < 256; i++)
    put_line(b, &(char){(char)i}, 1, i);
  put_line(b, "he", 2, 256);
  put_line(b, "ll", 2, 257);
  put_line(b, "hell", 4, 258);
  put_line(b, " w", 2, 259);
  put_line(b, "hellop", 6, 260); /* no merge leads to it: only a whole piece is it */
}

static void check_encode(const struct tokens *t, const char *text, bool special, size_t n,
                         const uint32_t *want) {
  struct tokens_options options = {.special = special};
  struct tokens_list ids = {0};
  struct err err;
  check_ok(tokens_encode(t, text, strlen(text), &options, &ids, &err), &err);
  assert_int_equal(ids.n, n);
  assert_memory_equal(ids.ids, want, n * sizeof *want);
  struct buf back;
  buf_init(&back, BUF_MAX_OWN);
  check_ok(tokens_decode(t, ids.ids, ids.n, &back, &err), &err);
  assert_string_equal(back.data, text);
  buf_free(&back);
  tokens_list_free(&ids);
}

static void test_families(void **state) {
  (void)state;
  static const struct {
    const char *family, *special;
    uint32_t id;
  } all[] = {{"cl100k_base", "<|endofprompt|>", 100276},
             {"o200k_base", "<|endoftext|>", 199999},
             {"o200k_harmony", "<|channel|>", 200005},
             {"o200k_harmony", "<|reserved_200000|>", 200000},
             {"o200k_harmony", "<|reserved_201087|>", 201087},
             {"llama4", "<|begin_of_text|>", 200000},
             {"kimi_k2", "<|im_end|>", 163586}};
  struct buf file;
  struct err err;
  small_file(&file);
  for (size_t i = 0; i < ARRAY_LEN(all); i++) {
    const struct tokens *t;
    check_ok(tokens_load_text("small", file.data, file.len, all[i].family, &t, &err), &err);
    assert_string_equal(t->name, "small");
    check_encode(t, all[i].special, true, 1, &all[i].id);
    check_encode(t, "hello w", false, 3, (const uint32_t[]){258, 'o', 259});
    check_encode(t, "hellop hellopp", false, 6, (const uint32_t[]){260, ' ', 258, 'o', 'p', 'p'});
    tokens_close(t);
  }
  buf_free(&file);
}

static void check_bad(const char *text, const char *family, const char *what) {
  const struct tokens *t;
  struct err err;
  assert_int_equal(tokens_load_text("bad", text, strlen(text), family, &t, &err), ERR_INVALID);
  assert_null(t);
  check_has(err.text, what);
}

static void test_bad_files(void **state) {
  (void)state;
  check_bad("YQ== 0\n", "gpt9", "family \"gpt9\" is not known (cl100k_base, o200k_base");
  check_bad("YQ== 0\n", "llama4", "no rank for the byte 0x00");
  check_bad("YQ== 0\n!\n", "llama4", "line 2: no base64");
  check_bad("YQ 0\n", "llama4", "line 1: no base64");
  check_bad("YQ==\n", "llama4", "line 1: no rank");
  check_bad("YQ== x\n", "llama4", "no number below 2^32");
  check_bad("YQ== 99999999999\n", "llama4", "no number below 2^32");
  check_bad("YQ== 1\nYg== 1\n", "llama4", "line 2: token \"b\": id 1 is taken by \"a\"");
  check_bad("YQ== 1\n\r\nYQ== 2\n", "llama4", "ids 1 and 2 have the same text");
  struct buf file;
  small_file(&file);
  put_line(&file, "zz", 2, 163585);
  check_bad(file.data, "kimi_k2", "rank 163585 is the family's special token [EOS]");
  file.len = 0; /* as many as another family's file has */
  for (unsigned i = 0; i < 163584; i++)
    put_line(&file, (char[]){(char)i, (char)(i >> 8), (char)(i >> 16)}, i < 256 ? 1 : 3, i);
  check_bad(file.data, "o200k_base", "it has 163584 ranks, as kimi_k2 has; o200k_base has 199998");
  buf_free(&file);
}

static void write_file(const char *path, const char *text, size_t len) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(text, 1, len, f), len);
  fclose(f);
}

static void check_path(const char *path, const char *family, int code, const char *what) {
  const struct tokens *t;
  struct err err;
  struct tokens_load_options options = {.family = family};
  assert_int_equal(tokens_load(path, &options, &t, &err), code);
  check_has(err.text, what);
  check_has(err.text, path);
}

static void test_paths(void **state) {
  (void)state;
  char folder[] = "/tmp/perigee-tokens-XXXXXX", path[200], json[300];
  const struct tokens *t;
  struct err err;
  struct buf file;
  assert_non_null(mkdtemp(folder));
  check_path(folder, NULL, ERR_NOT_FOUND, "tokenizer.json: cannot open");
  snprintf(path, sizeof path, "%s/x.tiktoken", folder);
  check_path(path, NULL, ERR_NOT_FOUND, "cannot open");
  small_file(&file);
  write_file(path, file.data, file.len);
  check_path(path, NULL, ERR_INVALID, "say its family (cl100k_base, o200k_base");
  write_file(path, "\xef\xbb\xbf{}", 5);
  check_path(path, NULL, ERR_INVALID, "begins with a byte order mark (EF BB BF)");
  write_file(path, file.data, file.len);
  struct tokens_load_options options = {.family = "llama4"};
  check_ok(tokens_load(path, &options, &t, &err), &err);
  assert_string_equal(t->name, path);
  tokens_close(tokens_ref(t));
  tokens_close(t);
  buf_free(&file);

  struct cases c;
  cases_open(&c);
  struct value v = cases_file(&c, cases_named(&c, "byte_regex"));
  buf_init(&file, BUF_MAX_OWN);
  json_write(&file, &v);
  snprintf(json, sizeof json, "%s/tokenizer.json", folder);
  write_file(json, file.data, file.len);
  check_path(json, "llama4", ERR_INVALID, "only rank files have a family (leave out \"llama4\")");
  check_ok(tokens_open(folder, NULL, &t, &err), &err); /* a folder; a path in place of a name */
  assert_string_equal(t->name, json);
  tokens_close(t);
  write_file(json, "{\"a\": 1, }", 10);
  check_path(json, NULL, ERR_INVALID, "line 1");
  write_file(json, "", 0);
  check_path(json, NULL, ERR_INVALID, "not a tokenizer.json");
  unlink(path);
  assert_int_equal(mkfifo(path, 0600), 0); /* nobody writes to it */
  check_path(path, "llama4", ERR_INVALID, "no regular file");
  check_path("/dev/zero", "llama4", ERR_INVALID, "no regular file");
  unlink(json);
  unlink(path);
  rmdir(folder);
  value_free(&v);
  buf_free(&file);
  cases_close(&c);
}

/* Names are looked for in $PERIGEE_TOKENIZERS alone when it is set. */
static void test_names(void **state) {
  (void)state;
  char folder[] = "/tmp/perigee-names-XXXXXX", ranks[100], path[200];
  const struct tokens *t;
  struct err err;
  struct buf file;
  assert_non_null(mkdtemp(folder));
  snprintf(ranks, sizeof ranks, "%s/ranks", folder);
  assert_int_equal(mkdir(ranks, 0700), 0);
  snprintf(path, sizeof path, "%s/o200k_base.tiktoken", ranks);
  small_file(&file);
  write_file(path, file.data, file.len);
  setenv("PERIGEE_TOKENIZERS", folder, 1);
  check_ok(tokens_open("o200k_harmony", NULL, &t, &err), &err);
  assert_string_equal(t->name, "o200k_harmony");
  check_encode(t, "<|start|>hell", true, 2, (const uint32_t[]){200006, 258});
  tokens_close(t);
  assert_int_equal(tokens_open("qwen3", NULL, &t, &err), ERR_NOT_FOUND);
  check_has(err.text, folder);
  unsetenv("PERIGEE_TOKENIZERS");
  unlink(path);
  rmdir(ranks);
  rmdir(folder);
  buf_free(&file);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_families),
                                     cmocka_unit_test(test_bad_files), cmocka_unit_test(test_paths),
                                     cmocka_unit_test(test_names)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

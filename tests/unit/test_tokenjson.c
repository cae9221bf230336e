/* Loading tokenizer.json (tokenjson.c, tokenparts.c, tokenpost.c): every case of
 * tests/data/tokenizer equals the reference's ids and texts, and what is not supported is refused
 * by name. */
#include "tokenizer_cases.h"

#include <pthread.h>

static void put_ids(struct buf *b, const struct tokens_list *ids) {
  for (size_t i = 0; i < ids->n; i++)
    buf_printf(b, "%s%u", i ? "," : "", ids->ids[i]);
}

static void check_ids(const char *name, size_t row, const struct tokens_list *ids,
                      const struct value *want) {
  struct buf got, expected;
  buf_init(&got, BUF_MAX_OWN);
  buf_init(&expected, BUF_MAX_OWN);
  put_ids(&got, ids);
  for (size_t i = 0; i < value_count(want); i++)
    buf_printf(&expected, "%s%d", i ? "," : "", (int)value_at(want, i)->u.integer);
  buf_put(&got, "", 0);
  buf_put(&expected, "", 0);
  if (strcmp(got.data, expected.data) != 0)
    fail_msg("%s, text %zu: ids %s, expected %s", name, row, got.data, expected.data);
  buf_free(&got);
  buf_free(&expected);
}

static void check_row(const struct cases *c, const char *name, const struct tokens *t,
                      struct tokens_encoder *e, const struct value *row) {
  struct err err;
  size_t number = (size_t)value_at(row, 0)->u.integer, n;
  const struct value *text = value_at(value_get(&c->all, "texts"), number);
  const struct value *decoded = value_at(row, 2), *around = value_at(row, 3);
  const char *p = text->u.string.data;
  size_t len = text->u.string.len;
  struct tokens_options options = {.special = true};
  struct tokens_list ids = {0};
  check_ok(tokens_encoder_encode(e, p, len, &options, &ids, &err), &err);
  check_ids(name, number, &ids, value_at(row, 1));
  check_ok(tokens_encoder_count(e, p, len, &options, &n, &err), &err);
  assert_int_equal(n, ids.n);

  struct buf back;
  buf_init(&back, BUF_MAX_OWN);
  buf_put(&back, "", 0);
  check_ok(tokens_decode(t, ids.ids, ids.n, &back, &err), &err);
  if (back.len != decoded->u.string.len || memcmp(back.data, decoded->u.string.data, back.len) != 0)
    fail_msg("%s, text %zu: decoded \"%s\", expected \"%s\"", name, number, back.data,
             decoded->u.string.data);
  buf_free(&back);

  ids.n = 0;
  options.add_special = true;
  check_ok(tokens_encode(t, p, len, &options, &ids, &err), &err); /* without a memo */
  check_ids(name, number, &ids, around ? around : value_at(row, 1));
  tokens_list_free(&ids);
}

static void test_cases(void **state) {
  (void)state;
  struct cases c;
  cases_open(&c);
  size_t n = 0;
  for (const struct value *one; (one = cases_at(&c, n)); n++) {
    const char *name = value_to_string(value_get(one, "name"));
    const struct tokens *t = cases_tokens(&c, one);
    struct tokens_encoder *e = tokens_encoder_new(t);
    const struct value *rows = value_get(one, "rows");
    for (int pass = 0; pass < 2; pass++) /* the second time from the memo */
      for (size_t i = 0; i < value_count(rows); i++)
        check_row(&c, name, t, e, value_at(rows, i));
    tokens_encoder_delete(e);
    tokens_close(t);
  }
  assert_true(n > 60);
  cases_close(&c);
}

/* Sets a part of a case's file, given as JSON ("model.unk_token"), and expects to be refused. */
static void check_refused(const struct cases *c, const char *name, const char *part,
                          const char *json, int code, const char *what) {
  struct value file = cases_file(c, cases_named(c, name)), v, *at = &file;
  const struct tokens *t;
  struct err err;
  const char *dot = strchr(part, '.');
  check_ok(json_parse(json, strlen(json), &v, &err), &err);
  if (dot)
    at = value_get_len(&file, part, (size_t)(dot - part));
  value_set(at, dot ? dot + 1 : part, v);
  int rc = cases_load("FILE", file, &t, &err);
  if (rc != code || !strstr(err.text, what) || strncmp(err.text, "FILE: ", 6) != 0)
    fail_msg("%s = %s: rc %d, \"%s\", expected %d and \"%s\"", part, json, rc,
             rc ? err.text : "loaded", code, what);
}

static void test_refused_model(void **state) {
  (void)state;
  struct cases c;
  cases_open(&c);
  const char *name = "byte_regex";
  const int no = ERR_UNSUPPORTED, bad = ERR_INVALID;
  check_refused(&c, name, "model.type", "\"Unigram\"", no, "model: type \"Unigram\"");
  check_refused(&c, name, "model.type", "\"WordPiece\"", no, "model: type \"WordPiece\"");
  check_refused(&c, name, "model.dropout", "0.1", no, "model: dropout");
  check_refused(&c, name, "model.continuing_subword_prefix", "\"##\"", no,
                "continuing_subword_prefix \"##\"");
  check_refused(&c, name, "model.end_of_word_suffix", "\"</w>\"", no,
                "end_of_word_suffix \"</w>\"");
  check_refused(&c, name, "model.unk_token", "\"<what>\"", bad, "unk_token \"<what>\"");
  check_refused(&c, name, "model.fuse_unk", "1", bad, "fuse_unk: must be true or false");
  check_refused(&c, name, "model.magic", "1", no, "model: magic");
  check_refused(&c, name, "magic", "1", no, "\"magic\": this field is not known here");
  check_refused(&c, name, "version", "\"2.0\"", no, "version: \"2.0\" is not known");
  check_refused(&c, name, "version", "1", no, "version: 1 is not known");
  check_refused(&c, name, "truncation", "3", bad, "truncation: must be an object or null");
  check_refused(&c, name, "padding", "\"x\"", bad, "padding: must be an object or null");
  check_refused(&c, name, "added_tokens", "null", bad, "added_tokens: must be a list");
  check_refused(&c, name, "model.vocab", "[[\"a\",-1.5]]", bad, "model: vocab");
  check_refused(&c, name, "model.vocab", "{\"a\":-1}", bad,
                "model: vocab: the id of \"a\" is -1, not a whole number below 2^32");
  check_refused(&c, name, "model.vocab", "{\"a\":0,\"b\":5.5}", bad, "the id of \"b\" is 5.5");
  check_refused(&c, name, "model.vocab", "{\"a\":4294967296}", bad, "is 4294967296, not");
  check_refused(&c, name, "model.vocab", "{\"a\":1,\"b\":1}", bad, "id 1 is taken");
  check_refused(&c, name, "model.merges", "[\"a b c\"]", bad, "number 1 is neither");
  check_refused(&c, name, "model.merges", "[[\"a\"]]", bad, "number 1 is neither");
  check_refused(&c, name, "model.merges", "[\"\u524d b\"]", bad, "the first is not in");
  check_refused(&c, name, "model.merges", "[\"z z\"]", bad, "the result is not in");
  check_refused(&c, name, "model", "{}", no, "vocab is missing");
  check_refused(&c, name, "model", "null", bad, "model");
  cases_close(&c);
}

static void test_refused_parts(void **state) {
  (void)state;
  struct cases c;
  cases_open(&c);
  const char *name = "byte_regex";
  const int no = ERR_UNSUPPORTED, bad = ERR_INVALID;
  check_refused(&c, name, "normalizer", "{\"type\":\"BertNormalizer\"}", no,
                "normalizer: type \"BertNormalizer\" is not supported (known: Sequence NFC");
  check_refused(&c, name, "normalizer", "{\"type\":\"NFKC\"}", no, "normalizer: type \"NFKC\"");
  check_refused(&c, name, "normalizer", "{\"type\":\"NFC\",\"fast\":true}", no,
                "normalizer: NFC: fast");
  check_refused(&c, name, "normalizer", "7", bad, "normalizer: must be an object or null");
  check_refused(&c, name, "normalizer", "{\"type\":\"Sequence\",\"normalizers\":[null]}", bad,
                "null in a Sequence");
  check_refused(&c, name, "normalizer",
                "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"^a\"},\"content\":\"\"}", no,
                "normalizer: Replace: pattern \"^a\"");
  static const char *const empty[] = {"{\"String\":\"\"}", "{\"Regex\":\"l*\"}",
                                      "{\"Regex\":\"(?<=l)\"}"};
  for (size_t i = 0; i < ARRAY_LEN(empty); i++) {
    char part[200];
    snprintf(part, sizeof part, "{\"type\":\"Replace\",\"pattern\":%s,\"content\":\"-\"}",
             empty[i]);
    check_refused(&c, name, "normalizer", part, no,
                  "normalizer: Replace: pattern: it can match nothing at all");
  }
  check_refused(&c, name, "pre_tokenizer",
                "{\"type\":\"Split\",\"pattern\":{\"String\":\"\"},\"behavior\":\"Isolated\"}", no,
                "pre_tokenizer: Split: pattern: it can match nothing at all");
  check_refused(&c, name, "added_tokens",
                "[{\"id\":99999,\"content\":\" \\n\",\"lstrip\":true,\"rstrip\":true}]", no,
                "added_tokens: the one with id 99999 is white space and has lstrip");
  check_refused(&c, name, "added_tokens", "[{\"id\":99999,\"content\":\" \",\"rstrip\":true}]", no,
                "has rstrip");
  check_refused(&c, name, "pre_tokenizer", "{\"type\":\"Whitespace\"}", no, "\"Whitespace\"");
  check_refused(&c, name, "pre_tokenizer",
                "{\"type\":\"Split\",\"pattern\":{\"String\":\"a\"},\"behavior\":\"Kept\"}", no,
                "pre_tokenizer: Split: behavior");
  check_refused(&c, name, "pre_tokenizer",
                "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":"
                "\"Digits\"}]}",
                no, "Digits after ByteLevel");
  check_refused(&c, name, "pre_tokenizer", "null", no, "decoder: ByteLevel without");
  check_refused(&c, name, "decoder", "null", no, "without the ByteLevel decoder");
  check_refused(&c, name, "decoder", "{\"type\":\"WordPiece\"}", no, "decoder: type \"WordPiece\"");
  check_refused(
      &c, "llama", "decoder",
      "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"ByteLevel\"}]}", no,
      "not the first");
  check_refused(&c, "meta_always", "decoder", "{\"type\":\"Metaspace\",\"replacement\":\"ab\"}", no,
                "must be one character");
  check_refused(&c, "meta_first", "normalizer",
                "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\" \"},"
                "{\"type\":\"Strip\"}]}",
                no, "Prepend and Strip");
  check_refused(&c, name, "post_processor", "{\"type\":\"Magic\"}", no,
                "post_processor: type \"Magic\"");
  check_refused(&c, name, "post_processor",
                "{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"B\"}}]}", no,
                "piece 1 is neither");
  check_refused(&c, name, "post_processor",
                "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}}]}",
                bad, "lacks the ids of \"x\"");
  check_refused(
      &c, name, "post_processor",
      "{\"type\":\"Sequence\",\"processors\":[{\"type\":\"BertProcessing\",\"cls\":[\"a\",1],"
      "\"sep\":[\"b\",2]},{\"type\":\"BertProcessing\",\"cls\":[\"a\",1],\"sep\":[\"b\",2]}]}",
      no, "a second one that adds tokens");
  check_refused(&c, name, "added_tokens", "[{\"id\":99999,\"content\":\"<x>\"}]", no,
                "\"<x>\" has id 99999 in the file");
  check_refused(&c, name, "added_tokens", "[{\"content\":\"<x>\"}]", bad, "number 1 lacks");
  check_refused(&c, name, "added_tokens", "[{\"id\":668,\"content\":\"<x>\",\"fuzzy\":true}]", no,
                "the one with id 668: field \"fuzzy\"");
  cases_close(&c);
}

static void check_text(const char *text, int code, const char *what) {
  const struct tokens *t;
  struct err err;
  assert_int_equal(tokens_load_text("FILE", text, strlen(text), NULL, &t, &err), code);
  check_has(err.text, what);
}

static void test_other_files(void **state) {
  (void)state;
  check_text("", ERR_INVALID, "FILE: not a tokenizer.json");
  check_text("[1]", ERR_INVALID, "does not begin with {");
  check_text("{\"config\": {}, \"vocab\": []}", ERR_INVALID, "a tekken.json");
  check_text("{\"model\": 1,}", ERR_INVALID, "line 1");
  check_text("{} {}", ERR_INVALID, "line 1");
}

/* Texts with wrong bytes are encoded as the texts with U+FFFD that they would arrive as. */
static void test_wrong_bytes(void **state) {
  (void)state;
  struct cases c;
  struct err err;
  cases_open(&c);
  const struct tokens *t = cases_tokens(&c, cases_named(&c, "byte_regex"));
  struct tokens_list a = {0}, b = {0};
  check_ok(tokens_encode(t, "x\xff\xe4\xb8y\xc3", 6, NULL, &a, &err), &err);
  check_ok(tokens_encode(t, "x\xef\xbf\xbd\xef\xbf\xbdy\xef\xbf\xbd", 11, NULL, &b, &err), &err);
  assert_int_equal(a.n, b.n);
  assert_memory_equal(a.ids, b.ids, a.n * sizeof *a.ids);
  struct buf out;
  buf_init(&out, 4);
  uint32_t bad = 1 << 20;
  assert_int_equal(tokens_decode(t, &bad, 1, &out, &err), ERR_INVALID);
  check_has(err.text, "token 0: id 1048576 is not in the vocabulary");
  assert_int_equal(tokens_decode(t, b.ids, b.n, &out, &err), ERR_LIMIT);
  assert_int_equal(out.len, 0);
  buf_free(&out);
  tokens_list_free(&a);
  tokens_list_free(&b);
  tokens_close(t);
  cases_close(&c);
}

/* A tokenizer is shared: each thread with an encoder of its own, or none. */
struct reader {
  const struct tokens *t;
  const struct value *texts;
  uint64_t sum;
};

static void *read_all(void *user) {
  struct reader *r = user;
  struct tokens_encoder *e = tokens_encoder_new(tokens_ref(r->t));
  struct tokens_options options = {.special = true};
  struct tokens_list ids = {0};
  for (size_t i = 0; i < value_count(r->texts) * 4; i++) {
    const struct value *text = value_at(r->texts, i % value_count(r->texts));
    size_t n = 0;
    if (tokens_encoder_encode(e, text->u.string.data, text->u.string.len, &options, &ids, NULL) ||
        tokens_count(r->t, text->u.string.data, text->u.string.len, &options, &n, NULL))
      break;
    r->sum += n;
  }
  for (size_t i = 0; i < ids.n; i++)
    r->sum = r->sum * 31 + ids.ids[i];
  tokens_list_free(&ids);
  tokens_encoder_delete(e);
  tokens_close(r->t);
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  struct cases c;
  cases_open(&c);
  const struct tokens *t = cases_tokens(&c, cases_named(&c, "nfc"));
  struct reader readers[4];
  pthread_t threads[4];
  for (size_t i = 0; i < 4; i++) {
    readers[i] = (struct reader){t, value_get(&c.all, "texts"), 0};
    assert_int_equal(pthread_create(&threads[i], NULL, read_all, &readers[i]), 0);
  }
  for (size_t i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  for (size_t i = 1; i < 4; i++)
    assert_true(readers[i].sum == readers[0].sum && readers[0].sum > 1000);
  tokens_close(t);
  cases_close(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cases),         cmocka_unit_test(test_refused_model),
      cmocka_unit_test(test_refused_parts), cmocka_unit_test(test_other_files),
      cmocka_unit_test(test_wrong_bytes),   cmocka_unit_test(test_threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

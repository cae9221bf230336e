/* test_textapi.c: tokenizing and rendering, and that generation has the same ids. */
#include "chatmodel.h"

#include "sim/textapi.h"

static struct chatmodel folder;
static struct genmodel model;

static int start(void **state) {
  (void)state;
  struct err err = {0};
  chatmodel_make(&folder, chatmodel_template);
  struct genmodel_options o = {.tokenizer = folder.folder};
  model = (struct genmodel){.name = "m", .max_model_len = 900};
  check_ok(genmodel_open(&model, &o, &err), &err);
  return 0;
}

static int stop(void **state) {
  (void)state;
  genmodel_close(&model);
  chatmodel_remove(&folder);
  return 0;
}

typedef int text_fn(const struct genmodel *model, const struct value *body, struct buf *out,
                    struct apierror *e);

static void check_gives(text_fn *fn, const char *json, const char *want) {
  struct value v;
  struct err err = {0};
  struct apierror e = {0};
  struct buf out;
  buf_init(&out, BUF_MAX_OWN);
  check_ok(json_parse(json, strlen(json), &v, &err), &err);
  if (fn(&model, &v, &out, &e))
    fail_msg("%s: %s", json, e.message);
  assert_string_equal(out.data, want);
  buf_free(&out);
  value_free(&v);
}

static void check_refused(text_fn *fn, const char *json, int status, const char *needle) {
  struct value v;
  struct err err = {0};
  struct apierror e = {0};
  struct buf out;
  buf_init(&out, BUF_MAX_OWN);
  check_ok(json_parse(json, strlen(json), &v, &err), &err);
  assert_int_equal(fn(&model, &v, &out, &e), ERR_INVALID);
  assert_int_equal(e.status, status);
  check_has(e.message, needle);
  assert_int_equal(out.len, 0);
  value_free(&v);
}

#define ONE "\"messages\":[{\"role\":\"user\",\"content\":\"!\"}]"

static void test_tokenize(void **state) {
  (void)state;
  check_gives(textapi_tokenize, "{\"prompt\":\"!\\\"<|end|>\",\"return_token_strs\":true}",
              "{\"count\":4,\"max_model_len\":900,\"tokens\":[676,33,34,678],"
              "\"token_strs\":[\"<s>\",\"!\",\"\\\"\",\"<|end|>\"]}");
  check_gives(textapi_tokenize,
              "{\"model\":\"m\",\"prompt\":\"\\u00e9\",\"add_special_tokens\":"
              "false,\"return_token_strs\":true}",
              "{\"count\":2,\"max_model_len\":900,\"tokens\":[195,169],"
              "\"token_strs\":[\"\u00c3\",\"\u00a9\"]}");
  check_gives(
      textapi_tokenize,
      "{\"prompt\":\" \\n\\u00ad\",\"add_special_tokens\":false,\"return_token_strs\":true}",
      "{\"count\":4,\"max_model_len\":900,\"tokens\":[32,10,194,173],"
      "\"token_strs\":[\"\u0120\",\"\u010a\",\"\u00c2\",\"\u0143\"]}");
  check_gives(textapi_tokenize, "{\"prompt\":\"\",\"add_special_tokens\":false}",
              "{\"count\":0,\"max_model_len\":900,\"tokens\":[],\"token_strs\":null}");
  check_refused(textapi_tokenize, "{}", 400, "prompt: a string is required");
  check_refused(textapi_tokenize, "{\"prompt\":[1]}", 400, "prompt: a string is required");
  check_refused(textapi_tokenize, "{\"model\":\"x\",\"prompt\":\"\"}", 404, "`x` does not exist");
}

static void test_detokenize(void **state) {
  (void)state;
  check_gives(textapi_detokenize, "{\"tokens\":[676,33,678,195,169]}",
              "{\"prompt\":\"<s>!<|end|>\xc3\xa9\"}");
  check_gives(textapi_detokenize, "{\"tokens\":[]}", "{\"prompt\":\"\"}");
  check_gives(textapi_detokenize, "{\"tokens\":[195]}", "{\"prompt\":\"\xef\xbf\xbd\"}");
  check_refused(textapi_detokenize, "{\"tokens\":[679]}", 400, "Token id 679 is out of vocabulary");
  check_refused(textapi_detokenize, "{}", 400, "a list of token ids is required");
}

static struct value rendered(enum gen_api api, const char *body) {
  struct buf out;
  struct apierror e = {0};
  struct err err = {0};
  struct value v;
  buf_init(&out, BUF_MAX_OWN);
  if (textapi_render(&model, api, body, strlen(body), "one", &out, &e))
    fail_msg("%s: %s", body, e.message);
  check_ok(json_parse(out.data, out.len, &v, &err), &err);
  buf_free(&out);
  return v;
}

static void test_render(void **state) {
  (void)state;
  struct value v = rendered(GEN_CHAT, "{" ONE ",\"stream\":true,\"cache_salt\":\"s\",\"seed\":4,"
                                      "\"temperature\":0.5,\"max_tokens\":9}");
  struct genrequest r;
  struct apierror e = {0};
  static const char body[] = "{" ONE "}";
  assert_int_equal(genrequest_parse(GEN_CHAT, body, sizeof body - 1, &model, &r, &e), 0);
  const struct value *ids = value_get(&v, "token_ids");
  assert_int_equal(value_count(ids), r.choices->prompt_len);
  for (uint32_t i = 0; i < r.choices->prompt_len; i++)
    assert_int_equal(value_at(ids, i)->u.integer, r.choices->tokens[i]);
  assert_string_equal(value_to_string(value_get(&v, "request_id")), "chatcmpl-one");
  assert_string_equal(value_to_string(value_get(&v, "cache_salt")), "s");
  assert_string_equal(value_to_string(value_get(&v, "model")), "m");
  assert_true(value_get(&v, "stream")->u.boolean);
  assert_int_equal(value_get(&v, "features")->kind, VALUE_NULL);
  assert_int_equal(value_get(&v, "priority")->u.integer, 0);
  const struct value *p = value_get(&v, "sampling_params");
  assert_int_equal(value_get(p, "max_tokens")->u.integer, 9);
  assert_int_equal(value_get(p, "seed")->u.integer, 4);
  assert_null(value_get(p, "stop"));
  value_free(&v);
  genrequest_free(&r);
  v = rendered(GEN_COMPLETION, "{\"prompt\":[33,34],\"request_id\":\"mine\"}");
  assert_int_equal(value_count(&v), 1);
  assert_string_equal(value_to_string(value_get(value_at(&v, 0), "request_id")), "cmpl-mine-0");
  assert_int_equal(value_count(value_get(value_at(&v, 0), "token_ids")), 2);
  value_free(&v);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tokenize),
      cmocka_unit_test(test_detokenize),
      cmocka_unit_test(test_render),
  };
  return cmocka_run_group_tests_name("textapi", tests, start, stop);
}

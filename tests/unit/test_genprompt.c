/* test_genprompt.c: prompts and messages to ids, with the fleet's own template and a model's. */
#include "chatmodel.h"

#include "sim/genprompt.h"

static struct chatmodel folder;
static struct genmodel bytes, model;

static int start(void **state) {
  (void)state;
  struct err err = {0};
  chatmodel_make(&folder, chatmodel_template);
  struct genmodel_options o = {.tokenizer = folder.folder}, none = {0};
  check_ok(genmodel_open(&model, &o, &err), &err);
  check_ok(genmodel_open(&bytes, &none, &err), &err);
  return 0;
}

static int stop(void **state) {
  (void)state;
  genmodel_close(&model);
  genmodel_close(&bytes);
  chatmodel_remove(&folder);
  return 0;
}

/* Ids of {"messages" …} or {"prompt" …}. */
static int ids_of(const struct genmodel *m, const char *json, struct tokens_list *out,
                  struct apierror *e) {
  struct value v;
  struct err err = {0};
  check_ok(json_parse(json, strlen(json), &v, &err), &err);
  const struct value *prompt = value_get(&v, "prompt");
  int rc = prompt ? genprompt_text(m, &v, prompt, out, e) : genprompt_chat(m, &v, out, e);
  value_free(&v);
  return rc;
}

static void check_text(const struct genmodel *m, const char *json, const char *want) {
  struct tokens_list ids = {0};
  struct apierror e = {0};
  struct err err = {0};
  struct buf text;
  if (ids_of(m, json, &ids, &e))
    fail_msg("%s: %s", json, e.message);
  buf_init(&text, BUF_MAX_OWN);
  check_ok(tokens_decode(m->tokenizer, ids.ids, ids.n, &text, &err), &err);
  assert_string_equal(text.data, want);
  buf_free(&text);
  tokens_list_free(&ids);
}

static void check_refused(const char *json, const char *param, const char *needle) {
  struct tokens_list ids = {0};
  struct apierror e = {0};
  assert_int_equal(ids_of(&model, json, &ids, &e), ERR_INVALID);
  assert_int_equal(e.status, 400);
  assert_string_equal(e.param, param);
  check_has(e.message, needle);
  assert_int_equal(ids.n, 0);
  tokens_list_free(&ids);
}

#define ONE "\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]"

static void test_special_tokens(void **state) {
  (void)state;
  /* A prompt gets the model's first token unless it is told otherwise, messages only when asked. */
  check_text(&model, "{\"prompt\":\"a<|end|>\"}", "<s>a<|end|>");
  check_text(&model, "{\"prompt\":\"a\",\"add_special_tokens\":false}", "a");
  check_text(&model, "{" ONE "}", "<|im|>user\nHi<|end|>\n<|im|>assistant\n");
  check_text(&model, "{" ONE ",\"add_special_tokens\":true}",
             "<s><|im|>user\nHi<|end|>\n<|im|>assistant\n");
  struct tokens_list ids = {0};
  struct apierror e = {0};
  assert_int_equal(ids_of(&model, "{\"prompt\":\"<|im|><|end|>\"}", &ids, &e), 0);
  assert_int_equal(ids.n, 3);
  assert_int_equal(ids.ids[0], CHATMODEL_BOS);
  assert_int_equal(ids.ids[1], CHATMODEL_IM);
  assert_int_equal(ids.ids[2], CHATMODEL_END);
  tokens_list_free(&ids);
}

static void test_options(void **state) {
  (void)state;
  check_text(&model, "{" ONE ",\"add_generation_prompt\":false}", "<|im|>user\nHi<|end|>\n");
  check_text(&model, "{" ONE ",\"add_generation_prompt\":false,\"continue_final_message\":true}",
             "<|im|>user\nHi");
  check_text(&model, "{" ONE ",\"chat_template_kwargs\":{\"mood\":\"x\"}}",
             "<|im|>user\nHi<|end|>\n<|im|>assistant\n(x)");
  check_text(&bytes, "{" ONE "}", "<|user|>\nHi<|end|>\n<|assistant|>\n");
  check_text(&bytes, "{" ONE ",\"add_generation_prompt\":false}", "<|user|>\nHi<|end|>\n");
}

static void test_refusals(void **state) {
  (void)state;
  check_refused("{}", "messages", "messages: field required");
  check_refused("{" ONE ",\"continue_final_message\":true}", "messages", "Cannot set both");
  check_refused("{" ONE ",\"chat_template\":\"x\"}", "chat_template", "its own template only");
  check_refused("{" ONE ",\"chat_template_kwargs\":1}", "chat_template_kwargs", "an object");
  check_refused("{" ONE ",\"reasoning_effort\":1}", "reasoning_effort", "a string");
  check_refused("{" ONE ",\"tools\":1}", "messages", "tools should be an array");
  check_refused("{\"prompt\":\"a\",\"add_special_tokens\":1}", "add_special_tokens", "true or");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_special_tokens),
      cmocka_unit_test(test_options),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests_name("genprompt", tests, start, stop);
}

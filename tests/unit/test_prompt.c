/* test_prompt.c: the simulated replica's chat template. */
#include "check.h"

#include "sim/prompt.h"
#include "text/json.h"

static const struct prompt_options generate = {.add_generation_prompt = true};

static int render(const char *json, const struct prompt_options *options, struct buf *out,
                  struct apierror *e) {
  struct value v;
  struct err err = {0};
  check_ok(json_parse(json, strlen(json), &v, &err), &err);
  buf_init(out, BUF_MAX_OWN);
  int rc = prompt_render(value_get(&v, "messages"), value_get(&v, "tools"), options, out, e);
  value_free(&v);
  return rc;
}

static void check_render(const char *json, const struct prompt_options *options, const char *want) {
  struct buf out;
  struct apierror e = {0};
  int rc = render(json, options, &out, &e);
  if (rc)
    fail_msg("%s", e.message);
  assert_string_equal(out.data, want);
  buf_free(&out);
}

static void check_refused(const char *json, const char *param, const char *needle) {
  struct buf out;
  struct apierror e = {0};
  assert_int_equal(render(json, &generate, &out, &e), ERR_INVALID);
  assert_int_equal(e.status, 400);
  assert_string_equal(e.param, param);
  check_has(e.message, needle);
  buf_free(&out);
}

static void test_messages(void **state) {
  (void)state;
  check_render("{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},"
               "{\"role\":\"user\",\"content\":\"Hi\"}]}",
               &generate, "<|system|>\nBe brief.<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\n");
  static const struct prompt_options plain = {0};
  check_render("{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}", &plain,
               "<|user|>\nHi<|end|>\n");
  static const struct prompt_options go_on = {.continue_final_message = true};
  check_render("{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"},"
               "{\"role\":\"assistant\",\"content\":\"I th\"}]}",
               &go_on, "<|user|>\nHi<|end|>\n<|assistant|>\nI th");
}

static void test_parts_and_null_content(void **state) {
  (void)state;
  check_render("{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
               "{\"type\":\"text\",\"text\":\"b\"}]},{\"role\":\"assistant\",\"content\":null}]}",
               &generate, "<|user|>\nab<|end|>\n<|assistant|>\n<|end|>\n<|assistant|>\n");
}

static void test_tools_stand_in_front_in_canonical_form(void **state) {
  (void)state;
  check_render("{\"tools\":[ {\"type\" : \"function\", \"function\":{\"name\":\"f\"}} ],"
               "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}",
               &generate,
               "<|tools|>\n[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]<|end|>\n"
               "<|user|>\nx<|end|>\n<|assistant|>\n");
  check_render("{\"tools\":[],\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}", &generate,
               "<|user|>\nx<|end|>\n<|assistant|>\n");
}

static void test_tool_calls_are_part_of_the_message(void **state) {
  (void)state;
  check_render("{\"messages\":[{\"role\":\"assistant\",\"content\":\"ok\",\"tool_calls\":"
               "[{\"id\":\"c1\",\"n\":1}]},{\"role\":\"tool\",\"tool_call_id\":\"c1\","
               "\"content\":\"42\"}]}",
               &generate,
               "<|assistant|>\nok[{\"id\":\"c1\",\"n\":1}]<|end|>\n<|tool|>\n42<|end|>\n"
               "<|assistant|>\n");
}

/* What a growing conversation's cache hits rest on. */
static void test_a_turn_with_its_answer_is_a_prefix_of_the_next(void **state) {
  (void)state;
  struct buf one, two;
  struct apierror e = {0};
  assert_int_equal(
      render("{\"messages\":[{\"role\":\"user\",\"content\":\"q\"}]}", &generate, &one, &e), 0);
  buf_puts(&one, "the answer");
  assert_int_equal(render("{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":"
                          "\"assistant\",\"content\":\"the answer\"},{\"role\":\"user\","
                          "\"content\":\"more\"}]}",
                          &generate, &two, &e),
                   0);
  assert_true(two.len > one.len);
  assert_memory_equal(one.data, two.data, one.len);
  buf_free(&one);
  buf_free(&two);
}

static void test_refusals_name_the_field(void **state) {
  (void)state;
  check_refused("{}", "messages", "messages: field required");
  check_refused("{\"messages\":{}}", "messages", "messages should be an array");
  check_refused("{\"messages\":[]}", "messages", "at least one message");
  check_refused("{\"messages\":[1]}", "messages", "messages[0] should be an object");
  check_refused("{\"messages\":[{\"content\":\"x\"}]}", "messages", "messages[0].role");
  check_refused("{\"messages\":[{\"role\":\"user\",\"content\":3}]}", "messages",
                "messages[0].content should be a string");
  check_refused("{\"messages\":[{\"role\":\"user\",\"content\":\"\"},{\"role\":\"user\","
                "\"content\":[{\"type\":\"image_url\"}]}]}",
                "messages", "messages[1].content: parts of type image_url");
  check_refused("{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]}",
                "messages", "a text part needs a text");
  check_refused("{\"tools\":{},\"messages\":[{\"role\":\"user\"}]}", "tools",
                "tools should be an array");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_messages),
      cmocka_unit_test(test_parts_and_null_content),
      cmocka_unit_test(test_tools_stand_in_front_in_canonical_form),
      cmocka_unit_test(test_tool_calls_are_part_of_the_message),
      cmocka_unit_test(test_a_turn_with_its_answer_is_a_prefix_of_the_next),
      cmocka_unit_test(test_refusals_name_the_field),
  };
  return cmocka_run_group_tests_name("prompt", tests, NULL, NULL);
}

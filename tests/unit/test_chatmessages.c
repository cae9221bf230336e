/* test_chatmessages.c: messages and tools as vLLM hands them to a template. */
#include "check.h"

#include "base/buf.h"
#include "text/chatmessages.h"
#include "text/json.h"

typedef int prepare_fn(const struct value *in, struct value *out, struct err *err);

static struct value parse(const char *json) {
  struct value v;
  struct err err = {0};
  check_ok(json_parse(json, strlen(json), &v, &err), &err);
  return v;
}

static void check_gives(prepare_fn *fn, const char *json, const char *want) {
  struct value in = parse(json), out;
  struct err err = {0};
  struct buf text;
  check_ok(fn(&in, &out, &err), &err);
  buf_init(&text, BUF_MAX_OWN);
  json_write(&text, &out);
  assert_string_equal(text.data, want);
  buf_free(&text);
  value_free(&in);
  value_free(&out);
}

static void check_refuses(prepare_fn *fn, const char *json, const char *needle) {
  struct value in = parse(json), out;
  struct err err = {0};
  assert_int_equal(fn(&in, &out, &err), ERR_INVALID);
  check_has(err.text, needle);
  assert_int_equal(out.kind, VALUE_NULL);
  value_free(&in);
}

static void test_content(void **state) {
  (void)state;
  check_gives(
      chatmessages_prepare,
      "[{\"role\":\"user\",\"content\":\"a\",\"other\":1},{\"content\":null,\"role\":\"x\"},"
      "{\"role\":\"user\"}]",
      "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"x\",\"content\":\"\"},"
      "{\"role\":\"user\",\"content\":\"\"}]");
  check_gives(chatmessages_prepare,
              "[{\"role\":\"user\",\"name\":\"n\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
              "\"b\",{\"type\":\"text\",\"text\":null},{\"type\":\"input_text\",\"text\":\"\"},"
              "{\"type\":\"refusal\",\"refusal\":\"c\"}]}]",
              "[{\"role\":\"user\",\"content\":\"a\\nb\\n\\nc\",\"name\":\"n\"}]");
}

static void test_tool_calls(void **state) {
  (void)state;
  check_gives(
      chatmessages_prepare,
      "[{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\",\"function\":{"
      "\"name\":\"f\",\"arguments\":\"{\\\"b\\\": 1.0, \\\"a\\\": [ ]}\"}},{\"function\":{\"name\":"
      "\"g\",\"arguments\":\"\"}},{\"function\":{\"name\":\"h\"}},{\"function\":{\"arguments\":{"
      "\"k\":2},\"name\":\"i\"}}]}]",
      "[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"1\",\"type\":"
      "\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"b\":1.0,\"a\":[]}}},{"
      "\"function\":"
      "{\"name\":\"g\",\"arguments\":{}}},{\"function\":{\"name\":\"h\",\"arguments\":{}}},{"
      "\"function\":{\"arguments\":{\"k\":2},\"name\":\"i\"}}]}]");
  check_gives(chatmessages_prepare,
              "[{\"role\":\"assistant\",\"content\":\"a\",\"tool_calls\":[]},"
              "{\"role\":\"user\",\"content\":\"b\",\"tool_calls\":[1]}]",
              "[{\"role\":\"assistant\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"b\"}]");
}

static void test_what_roles_add(void **state) {
  (void)state;
  check_gives(chatmessages_prepare,
              "[{\"role\":\"assistant\",\"reasoning\":\"\",\"reasoning_content\":\"r\"},"
              "{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"t\"},"
              "{\"role\":\"user\",\"tool_call_id\":\"1\",\"reasoning\":\"r\"},"
              "{\"role\":\"developer\",\"content\":\"d\"}]",
              "[{\"role\":\"assistant\",\"content\":\"\",\"reasoning\":\"r\","
              "\"reasoning_content\":\"r\"},"
              "{\"role\":\"tool\",\"content\":\"t\",\"tool_call_id\":\"1\"},"
              "{\"role\":\"user\",\"content\":\"\"},"
              "{\"role\":\"developer\",\"content\":\"d\",\"tools\":null}]");
}

static void test_refused_messages(void **state) {
  (void)state;
  check_refuses(chatmessages_prepare, "{}", "messages should be an array");
  check_refuses(chatmessages_prepare, "[]", "at least one message");
  check_refuses(chatmessages_prepare, "[1]", "messages[0] should be an object");
  check_refuses(chatmessages_prepare, "[{\"role\":\"u\"},{\"role\":\"\"}]", "messages[1].role");
  check_refuses(chatmessages_prepare, "[{\"role\":\"u\",\"content\":1}]", "messages[0].content");
  check_refuses(chatmessages_prepare, "[{\"role\":\"u\",\"content\":[{\"text\":\"a\"}]}]",
                "a part needs a type");
  check_refuses(chatmessages_prepare, "[{\"role\":\"u\",\"content\":[{\"type\":\"image_url\"}]}]",
                "parts of type image_url are not supported");
  check_refuses(chatmessages_prepare,
                "[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"arguments\":\"{\"}}]}]",
                "messages[0].tool_calls[0].function.arguments");
  check_refuses(chatmessages_prepare, "[{\"role\":\"assistant\",\"tool_calls\":[{}]}]",
                "messages[0].tool_calls[0].function: an object");
  struct value out;
  struct err err = {0};
  assert_int_equal(chatmessages_prepare(NULL, &out, &err), ERR_INVALID);
  check_has(err.text, "field required");
}

static void test_tools(void **state) {
  (void)state;
  check_gives(
      chatmessages_tools,
      "[{\"function\":{\"parameters\":{\"b\":1,\"a\":2},\"strict\":true,\"name\":\"f\"},"
      "\"type\":\"function\",\"x\":1},{\"function\":{\"name\":\"g\",\"description\":\"d\"}}]",
      "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":null,"
      "\"parameters\":{\"b\":1,\"a\":2},\"strict\":true},\"x\":1},{\"type\":\"function\","
      "\"function\":{\"name\":\"g\",\"description\":\"d\",\"parameters\":null}}]");
  check_gives(chatmessages_tools, "null", "null");
  check_gives(chatmessages_tools, "[]", "null");
  check_refuses(chatmessages_tools, "{}", "tools should be an array");
  check_refuses(chatmessages_tools, "[{\"function\":{\"name\":\"f\"}},{}]", "tools[1].function");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_content),        cmocka_unit_test(test_tool_calls),
      cmocka_unit_test(test_what_roles_add), cmocka_unit_test(test_refused_messages),
      cmocka_unit_test(test_tools),
  };
  return cmocka_run_group_tests_name("chatmessages", tests, NULL, NULL);
}

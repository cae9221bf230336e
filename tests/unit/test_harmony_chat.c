/* Chat messages as a Harmony conversation, seen in the rendered text. */
#include "check.h"

#include "text/harmony.h"
#include "text/json.h"

static struct value json(const char *text) {
  struct value v;
  struct err err;
  check_ok(json_parse(text, strlen(text), &v, &err), &err);
  return v;
}

static void check_chat(const char *messages, const char *tools, struct harmony_chat chat,
                       const char *want) {
  struct value m = json(messages), t = json(tools), conversation;
  struct harmony_prompt p;
  struct err err;
  chat.tools = &t;
  harmony_init(&p);
  check_ok(harmony_from_chat(&m, &chat, &conversation, &err), &err);
  check_ok(harmony_render(&p, &conversation, &HARMONY_DEFAULTS, &err), &err);
  assert_string_equal(p.text.data, want);
  harmony_free(&p);
  value_free(&conversation);
  value_free(&m);
  value_free(&t);
}

#define HEAD(date, effort)                                                                         \
  "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"         \
  "Knowledge cutoff: 2024-06\n" date "\nReasoning: " effort                                        \
  "\n\n# Valid channels: analysis, commentary, final. Channel must be included for every message."

static void plain(void **state) {
  (void)state;
  check_chat("[{\"role\":\"user\",\"content\":\"Hi\"}]", "[]", (struct harmony_chat){0},
             HEAD("", "medium") "<|end|><|start|>user<|message|>Hi<|end|><|start|>assistant");
  check_chat(
      "[{\"role\":\"system\",\"content\":\"Rhyme.\"},{\"role\":\"user\",\"content\":[{\"type\":"
      "\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}]}]",
      "[]", (struct harmony_chat){.date = "2026-08-01", .reasoning_effort = "high"},
      HEAD("Current date: 2026-08-01\n",
           "high") "<|end|><|start|>developer<|message|># Instructions\n\nRhyme.<|end|>"
                   "<|start|>user<|message|>ab<|end|><|start|>assistant");
}

static void an_agents_turn(void **state) {
  (void)state;
  check_chat(
      "[{\"role\":\"user\",\"content\":\"q\"},"
      "{\"role\":\"assistant\",\"content\":\"let me "
      "see\",\"reasoning\":\"hm\",\"tool_calls\":[{\"id\":"
      "\"c1\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}}]},"
      "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"42\"}]",
      "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"F.\",\"parameters\":{"
      "\"type\":\"object\",\"properties\":{}}}}]",
      (struct harmony_chat){0},
      HEAD("",
           "medium") "\nCalls to these tools must go to the commentary channel: 'functions'.<|end|>"
                     "<|start|>developer<|message|># Tools\n\n## functions\n\nnamespace functions "
                     "{\n\n// F.\ntype f = (_: {\n}) => any;\n\n} // namespace functions<|end|>"
                     "<|start|>user<|message|>q<|end|>"
                     "<|start|>assistant<|channel|>commentary<|message|>let me see<|end|>"
                     "<|start|>assistant<|channel|>analysis<|message|>hm<|end|>"
                     "<|start|>assistant to=functions.f<|channel|>commentary json<|message|>"
                     "{\"a\":1}<|call|>"
                     "<|start|>functions.f to=assistant<|channel|>commentary<|message|>42<|end|>"
                     "<|start|>assistant");
}

static void reasoning_goes_once_it_is_answered(void **state) {
  (void)state;
  check_chat(
      "[{\"role\":\"user\",\"content\":\"1\"},{\"role\":\"assistant\",\"content\":\"A\","
      "\"reasoning_content\":\"r\"},{\"role\":\"user\",\"content\":\"2\"},{\"role\":\"assistant\","
      "\"content\":null,\"reasoning\":\"s\"}]",
      "null", (struct harmony_chat){.call_content_type = "x"},
      HEAD("", "medium") "<|end|><|start|>user<|message|>1<|end|>"
                         "<|start|>assistant<|channel|>final<|message|>A<|end|>"
                         "<|start|>user<|message|>2<|end|>"
                         "<|start|>assistant<|channel|>analysis<|message|>s<|end|>"
                         "<|start|>assistant");
}

static void refusals(void **state) {
  (void)state;
  static const char *const cases[][3] = {
      {"{}", "[]", "messages must be a list of chat messages"},
      {"[{\"role\":\"robot\",\"content\":\"x\"}]", "[]", "message 1: its role is none of"},
      {"[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]", "[]",
       "message 1: content must be a text or a list"},
      {"[{\"role\":\"tool\",\"tool_call_id\":\"x\",\"content\":\"y\"}]", "[]",
       "message 1: no call before it has the tool_call_id"},
      {"[{\"role\":\"assistant\",\"tool_calls\":[{}]}]", "[]", "message 1: tool call 1 is not"},
      {"[]", "[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]",
       "tool 1 (f) has no description"},
      {"[]", "[{\"type\":\"web\"}]", "tool 1 is not {type"},
      {"[]", "{\"a\":1}", "tools must be a list"},
  };
  struct value conversation;
  struct err err;
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    struct value m = json(cases[i][0]), t = json(cases[i][1]);
    if (!harmony_from_chat(&m, &(struct harmony_chat){.tools = &t}, &conversation, &err))
      fail_msg("%s was accepted", cases[i][0]);
    check_has(err.text, cases[i][2]);
    assert_int_equal(conversation.kind, VALUE_NULL);
    value_free(&m);
    value_free(&t);
  }
  struct value none = json("[]");
  assert_int_equal(harmony_from_chat(&none, &(struct harmony_chat){.reasoning_effort = "Low"},
                                     &conversation, &err),
                   ERR_INVALID);
  check_has(err.text, "reasoning_effort is \"Low\"; it is low, medium or high");
  value_free(&none);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(plain),
      cmocka_unit_test(an_agents_turn),
      cmocka_unit_test(reasoning_goes_once_it_is_answered),
      cmocka_unit_test(refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

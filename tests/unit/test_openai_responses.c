#include "openai_check.h"

static void responses(const char *bytes, const char *want) {
  openai_check(OPENAI_RESPONSES, bytes, want);
}

#define EVENT(type, fields)                                                                        \
  "event: " type "\ndata: {\"type\":\"" type "\",\"sequence_number\":0" fields "}\n\n"
#define COMPLETED                                                                                  \
  EVENT("response.completed",                                                                      \
        ",\"response\":{\"id\":\"r\",\"status\":\"completed\",\"usage\":null}")

static void test_text_and_reasoning(void **state) {
  (void)state;
  responses(
      EVENT("response.created", ",\"response\":{\"id\":\"r0\",\"status\":\"in_progress\"}")
          EVENT("response.reasoning_summary_text.delta", ",\"delta\":\"s\"")
              EVENT("response.reasoning_text.delta", ",\"delta\":\"r\"")
                  EVENT("response.output_text.delta", ",\"delta\":\"\"")
                      EVENT("response.output_text.delta", ",\"delta\":\"t\"")
                          EVENT("response.output_text.done", ",\"text\":\"t\"") COMPLETED,
      "{\"reasoning\":\"sr\",\"text\":\"t\",\"output_events\":3,\"ttft_event_index\":1,"
      "\"first_visible_event_index\":4,\"sse_events\":7,\"response_id\":\"r\","
      "\"finish_reason\":\"completed\",\"usage\":null,\"complete\":true,\"done_marker\":false}");
}

static void test_other_deltas(void **state) {
  (void)state;
  responses(EVENT("response.refusal.delta", ",\"delta\":\"no\"")
                EVENT("response.some_new.delta", ",\"delta\":{\"a\":1}") COMPLETED,
            "{\"output_events\":1,\"text\":\"\",\"first_visible_event_index\":null}");
}

static void test_tool_calls(void **state) {
  (void)state;
  responses(
      EVENT("response.output_item.added", ",\"output_index\":2,\"item\":{\"type\":\"function_"
                                          "call\",\"id\":\"fc\",\"call_id\":\"c2\","
                                          "\"name\":\"f\",\"arguments\":\"\"}")
          EVENT("response.output_item.added",
                ",\"output_index\":1,\"item\":{\"type\":\"mcp_call\",\"id\":\"m1\",\"name\":\"g\"}")
              EVENT("response.output_item.added",
                    ",\"output_index\":0,\"item\":{\"type\":"
                    "\"message\",\"id\":\"msg\"}") EVENT("response.function_call_arguments.delta",
                                                         ",\"output_index\":2,\"delta\":\"[\"")
                  EVENT("response.mcp_call_arguments.delta", ",\"output_index\":1,\"delta\":\"{}\"")
                      EVENT("response.function_call_arguments.delta",
                            ",\"output_index\":2,\"delta\":\"]\"")
                          EVENT("response.function_call_arguments.done",
                                ",\"output_index\":2,\"arguments\":\"[]\"")
                              EVENT(
                                  "response.output_item.done",
                                  ",\"output_index\":2,\"item\":{\"type\":\"function_call\",\"call_"
                                  "id\":\"c2\",\"name\":\"f\",\"arguments\":\"[]\"}") COMPLETED,
      "{\"output_events\":3,\"ttft_event_index\":3,\"tool_calls\":["
      "{\"index\":1,\"id\":\"m1\",\"name\":\"g\",\"arguments\":\"{}\"},"
      "{\"index\":2,\"id\":\"c2\",\"name\":\"f\",\"arguments\":\"[]\"}]}");
  /* A server that sends no deltas: the whole arguments count, but are no output event. */
  responses(
      EVENT("response.function_call_arguments.done", ",\"output_index\":0,\"arguments\":\"1\"")
          EVENT("response.output_item.done",
                ",\"output_index\":0,\"item\":{\"type\":\"function_call\",\"call_id\":\"c\","
                "\"name\":\"f\",\"arguments\":\"1\"}")
              EVENT("response.output_item.done",
                    ",\"output_index\":1,\"item\":{\"type\":\"custom_tool_call\",\"call_id\":\"d\","
                    "\"name\":\"h\",\"input\":\"2\"}") COMPLETED,
      "{\"output_events\":0,\"tool_calls\":["
      "{\"index\":0,\"id\":\"c\",\"name\":\"f\",\"arguments\":\"1\"},"
      "{\"index\":1,\"id\":\"d\",\"name\":\"h\",\"arguments\":\"2\"}]}");
}

static void test_ends(void **state) {
  (void)state;
  responses(
      EVENT("response.output_text.delta", ",\"delta\":\"t\"")
          EVENT("response.incomplete",
                ",\"response\":{\"id\":\"r\",\"status\":\"incomplete\",\"incomplete_details\":"
                "{\"reason\":\"max_output_tokens\"},\"usage\":{\"input_tokens\":3,\"output_"
                "tokens\":2,\"input_tokens_details\":{\"cached_tokens\":0}}}"),
      "{\"finish_reason\":\"incomplete:max_output_tokens\",\"complete\":true,\"error\":null,"
      "\"usage\":{\"prompt\":3,\"completion\":2,\"total\":null,\"cached\":0,\"reasoning\":null}}");
  responses(EVENT("response.failed",
                  ",\"response\":{\"id\":\"r\",\"status\":\"failed\",\"error\":{\"code\":"
                  "\"server_error\",\"message\":\"boom\"}}"),
            "{\"finish_reason\":\"failed\",\"complete\":false,\"error\":{\"kind\":\"in_band\","
            "\"message\":\"boom\",\"type\":\"server_error\",\"code\":null}}");
  responses(
      EVENT("response.failed", ",\"response\":{\"status\":\"failed\",\"error\":null}"),
      "{\"complete\":false,\"error\":{\"kind\":\"in_band\",\"message\":\"the response failed, and "
      "says no more\",\"type\":null,\"code\":null}}");
  /* vLLM: an error event, and no terminal one. */
  responses(
      EVENT("error", ",\"code\":\"rate_limit\",\"message\":\"slow down\""),
      "{\"complete\":false,\"sse_events\":1,\"error\":{\"kind\":\"in_band\",\"message\":\"slow "
      "down\",\"type\":\"rate_limit\",\"code\":null}}");
  responses(
      "event: error\ndata: {\"error\":{\"message\":\"m\",\"type\":\"T\",\"code\":\"503\"}}\n\n",
      "{\"error\":{\"kind\":\"in_band\",\"message\":\"m\",\"type\":\"T\",\"code\":503}}");
  responses(EVENT("response.output_text.delta", ",\"delta\":\"t\""),
            "{\"complete\":false,\"error\":null,\"finish_reason\":null}");
}

/* The event field serves where the data has no type. */
static void test_type_from_event_field(void **state) {
  (void)state;
  responses("event: response.output_text.delta\ndata: {\"delta\":\"t\"}\n\n"
            "event: response.completed\ndata: {\"response\":{\"status\":\"completed\"}}\n\n",
            "{\"text\":\"t\",\"complete\":true,\"finish_reason\":\"completed\"}");
}

static void test_replies(void **state) {
  (void)state;
  openai_check_reply(
      OPENAI_RESPONSES,
      "{\"id\":\"resp_1\",\"object\":\"response\",\"status\":\"completed\",\"error\":null,"
      "\"output\":["
      "{\"type\":\"reasoning\",\"id\":\"rs\",\"summary\":[],\"content\":[{\"type\":\"reasoning_"
      "text\","
      "\"text\":\"hm\"}]},{\"type\":\"function_call\",\"id\":\"fc\",\"call_id\":\"c\",\"name\":"
      "\"f\","
      "\"arguments\":\"{}\"},{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":"
      "\"a\"},"
      "{\"type\":\"output_text\",\"text\":\"b\"}]}],\"usage\":{\"input_tokens\":5,\"input_tokens_"
      "details\":"
      "{\"cached_tokens\":4},\"output_tokens\":3,\"output_tokens_details\":{\"reasoning_tokens\":1}"
      ","
      "\"total_tokens\":8}}",
      "{\"text\":\"ab\",\"reasoning\":\"hm\",\"response_id\":\"resp_1\",\"finish_reason\":"
      "\"completed\","
      "\"tool_calls\":[{\"index\":1,\"id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\"}],"
      "\"complete\":true,"
      "\"output_events\":1,\"ttft_event_index\":0,\"first_visible_event_index\":0,\"sse_events\":0,"
      "\"usage\":{\"prompt\":5,\"completion\":3,\"total\":8,\"cached\":4,\"reasoning\":1}}");
  openai_check_reply(
      OPENAI_RESPONSES,
      "{\"id\":\"x\",\"status\":\"incomplete\",\"incomplete_details\":{\"reason\":\"max_output_"
      "tokens\"},"
      "\"output\":[]}",
      "{\"finish_reason\":\"incomplete:max_output_tokens\",\"output_events\":0,\"complete\":true,"
      "\"ttft_event_index\":null}");
  openai_check_reply(
      OPENAI_RESPONSES,
      "{\"id\":\"x\",\"status\":\"failed\",\"error\":{\"code\":\"c\",\"message\":\"m\"}}",
      "{\"complete\":false,\"error\":{\"kind\":\"in_band\",\"message\":\"m\",\"type\":\"c\","
      "\"code\":null}}");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_text_and_reasoning),
      cmocka_unit_test(test_other_deltas),
      cmocka_unit_test(test_tool_calls),
      cmocka_unit_test(test_ends),
      cmocka_unit_test(test_type_from_event_field),
      cmocka_unit_test(test_replies),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

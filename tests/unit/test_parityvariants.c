/* test_parityvariants.c: causes that our side shows when it does as the server did, each of which
 * must be found by trying it, and the way out that parityfix.c names. */
#include "parity_check.h"

static void test_double_bos(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, "{\"messages\":" HELLO ",\"chat_template_kwargs\":{\"first\":true}}");
  served(&t, case_of(&t));
  assert_int_equal(t.server.ids[0], CHATMODEL_BOS);
  put(&t.server, 0, CHATMODEL_BOS);
  trial_judge(&t, true);
  assert_int_equal(t.result.index, 1);
  check_cause(&t.result, 0, "double_bos", PARITY_EXACT, "twice",
              "our ids with the first one twice");
  check_has(t.result.causes[0].text, "\"<s>\", id 676");
  check_cause(&t.result, 1, "add_special_tokens", PARITY_EXACT,
              "as if add_special_tokens were true, here it is false", "equal to the server's ids");
  assert_int_equal(t.result.n_causes, 2);
  trial_close(&t);
}

static void test_double_bos_here(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, "{\"messages\":" HELLO ",\"chat_template_kwargs\":{\"first\":true},"
                 "\"add_special_tokens\":true}");
  struct parity_case other = *case_of(&t);
  other.chat.add_special_tokens = false;
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "double_bos_here", PARITY_EXACT, "our ids begin with the first token",
              "our ids without the first one: equal");
  check_cause(&t.result, 1, "add_special_tokens", PARITY_EXACT, "were false, here it is true", "");
  trial_close(&t);
}

static void test_bos_missing_and_extra(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, "{\"messages\":" HELLO ",\"chat_template_kwargs\":{\"first\":true}}");
  struct parity_case other = *case_of(&t);
  other.chat.kwargs = NULL;
  served(&t, &other);
  trial_judge(&t, true);
  assert_int_equal(t.result.index, 0);
  check_cause(&t.result, 0, "bos_missing", PARITY_EXACT, "leaves the model's first token out",
              "our ids without the first one");
  trial_close(&t);

  trial_open(&t, HELLO);
  served(&t, case_of(&t));
  put(&t.server, 0, CHATMODEL_BOS);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "add_special_tokens", PARITY_EXACT, "were true, here it is false", "");
  check_cause(&t.result, 1, "bos_extra", PARITY_EXACT, "in front and we do not", "in front");
  trial_close(&t);
}

static void test_eos(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, HELLO);
  served(&t, case_of(&t));
  put(&t.server, t.server.n, CHATMODEL_END);
  trial_judge(&t, true);
  assert_int_equal(t.result.local_id, -1); /* ours have ended */
  assert_string_equal(t.result.local_text, "\"\"");
  check_cause(&t.result, 0, "eos_extra", PARITY_EXACT, "the model's last token", "behind: equal");
  check_has(t.result.causes[0].text, "\"<|end|>\", id 678");
  trial_close(&t);
}

static void test_generation_prompt(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, HELLO);
  struct parity_case other = *case_of(&t);
  other.chat.add_generation_prompt = false;
  served(&t, &other);
  trial_judge(&t, true);
  assert_int_equal(t.result.server_id, -1);
  check_cause(&t.result, 0, "generation_prompt", PARITY_EXACT, "we add one and the server does not",
              "add_generation_prompt the other way round: equal to the server's ids");
  assert_int_equal(t.result.n_causes, 1);
  trial_close(&t);
}

static void test_date(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, "{\"messages\":" HELLO ",\"chat_template_kwargs\":{\"dated\":true}}");
  struct parity_case other = *case_of(&t);
  other.chat.now.day = 30;
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "date", PARITY_EXACT,
              "the server says 30 Nov 2026, here it is 29 Nov 2026",
              "rendered at the server's date: equal");
  trial_close(&t);
}

static void test_fixed_date(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, "{\"messages\":" HELLO
                 ",\"chat_template_kwargs\":{\"dated\":true,\"date_string\":\"26 Jul 2024\"}}");
  struct parity_case other = *case_of(&t);
  struct value kwargs = value_copy(other.chat.kwargs);
  value_set(&kwargs, "date_string", value_cstring("29 Nov 2026"));
  other.chat.kwargs = &kwargs;
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "date", PARITY_EXACT,
              "the server says 29 Nov 2026, here it is 26 Jul 2024", "the server's date_string");
  trial_close(&t);
  value_free(&kwargs);
}

/* Each way of tojson that servers have. */
static void test_tojson(void **state) {
  (void)state;
  static const struct {
    unsigned flags;
    const char *text, *test;
  } ways[] = {
      {TEMPLATE_TOJSON_COMPACT, "writes other JSON", "no space behind , and :: equal"},
      {TEMPLATE_TOJSON_ASCII | TEMPLATE_TOJSON_SORTED | TEMPLATE_TOJSON_HTML, "Jinja2's own filter",
       "keys sorted, everything but ASCII"},
      {TEMPLATE_TOJSON_COMPACT | TEMPLATE_TOJSON_HTML, "minijinja", "and < > & ' escaped"},
      {TEMPLATE_TOJSON_COMPACT | TEMPLATE_TOJSON_SORTED | TEMPLATE_TOJSON_HTML, "Go's", "sorted"},
      {TEMPLATE_TOJSON_ASCII, "ensure_ascii", "everything but ASCII escaped"},
      {TEMPLATE_TOJSON_HTML, "writes other JSON", "< > & ' escaped"},
  };
  for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
    struct trial t;
    trial_open(&t, WITH_TOOLS);
    struct parity_case other = *case_of(&t);
    other.chat.tojson = ways[i].flags;
    served(&t, &other);
    trial_judge(&t, true);
    check_cause(&t.result, 0, "tojson", PARITY_EXACT, ways[i].text, ways[i].test);
    trial_close(&t);
  }
}

static void tools_swapped(const struct value *tools, struct value *out) {
  *out = value_array();
  value_push(out, value_copy(value_at(tools, 1)));
  value_push(out, value_copy(value_at(tools, 0)));
}

static void test_tools(void **state) {
  (void)state;
  struct trial t;
  struct value swapped;
  trial_open(&t, WITH_TOOLS);
  struct parity_case other = *case_of(&t);
  tools_swapped(other.chat.tools, &swapped);
  other.chat.tools = &swapped;
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "tool_order", PARITY_EXACT, "another order", "tools sorted by name");
  trial_close(&t);
  value_free(&swapped);

  trial_open(&t, WITH_TOOLS);
  other = *case_of(&t);
  other.chat.tools = NULL;
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "tools_ignored", PARITY_EXACT, "leaves the tools out",
              "rendered without tools");
  trial_close(&t);

  trial_open(&t, WITH_TOOLS);
  other = *case_of(&t);
  other.chat.tojson = TEMPLATE_TOJSON_SORTED; /* sorted keys, whoever did it */
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "tool_keys", PARITY_EXACT, "sorts the keys of tools",
              "keys of the tools");
  trial_close(&t);

  trial_open(&t, "{\"messages\":" HELLO ",\"tools\":[{\"function\":{\"parameters\":{\"type\":"
                 "\"object\"},\"name\":\"f\"},\"type\":\"function\"}]}");
  other = *case_of(&t);
  other.chat.tools_as_sent = true;
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "tool_keys", PARITY_EXACT, "as they were sent",
              "tools as they were sent");
  trial_close(&t);
}

static void test_messages_as_sent(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, "[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"\","
                 "\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"f\","
                 "\"arguments\":\"{\\\"a\\\": 1}\"}}]}]");
  struct parity_case other = *case_of(&t);
  other.chat.messages_as_sent = true;
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "as_sent", PARITY_EXACT, "arguments of tool calls stay text",
              "messages as they were sent: equal");
  trial_close(&t);
}

static void test_kwargs_and_newline(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, HELLO);
  struct parity_case other = *case_of(&t);
  struct value kwargs = value_object();
  value_set(&kwargs, "enable_thinking", value_bool(false));
  other.chat.kwargs = &kwargs;
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "kwargs", PARITY_EXACT, "enable_thinking false", "rendered with it");
  trial_close(&t);
  value_free(&kwargs);

  trial_open(&t, HELLO);
  other = *case_of(&t);
  other.chat.append = "\n";
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "trailing_newline", PARITY_EXACT, "keep_trailing_newline", "line end");
  trial_close(&t);
}

static void test_other_renderer(void **state) {
  (void)state;
  struct chatmodel second;
  struct chattemplate *plain;
  struct err err = {0};
  struct trial t;
  chatmodel_make(&second, chatmodel_template);
  check_ok(chattemplate_load(second.config, NULL, &plain, &err), &err);
  trial_open(&t, "[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"\","
                 "\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"f\","
                 "\"arguments\":\"{\\\"x\\\": 1}\"}}]}]");
  struct chattemplate *all[] = {chat, plain};
  t.local.chat = plain;
  served(&t, case_of(&t));
  t.local.chat = chat;
  t.local.others = all;
  t.local.n_others = 2;
  trial_judge(&t, true);
  check_cause(&t.result, 0, "renderer", PARITY_EXACT, "the server's is /tmp/perigee-chatmodel",
              "rendered with that one: equal");
  trial_close(&t);
  chattemplate_delete(plain);
  chatmodel_remove(&second);
}

static void test_two_causes_together(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, "{\"messages\":" HELLO "," TOOLS ",\"chat_template_kwargs\":{\"first\":true}}");
  struct parity_case other = *case_of(&t);
  other.chat.tojson = TEMPLATE_TOJSON_COMPACT;
  served(&t, &other);
  put(&t.server, 0, CHATMODEL_BOS);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "double_bos", PARITY_EXACT, "twice", "no space behind , and :: equal");
  check_cause(&t.result, 1, "tojson", PARITY_EXACT, "", "our ids with the first one twice, and no");
  assert_int_equal(t.result.n_causes, 2);
  trial_close(&t);
}

static void test_partial_cause(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, "{\"messages\":" HELLO ",\"chat_template_kwargs\":{\"first\":true}}");
  served(&t, case_of(&t));
  put(&t.server, 0, CHATMODEL_BOS);
  t.server.ids[t.server.n - 3] = 0; /* and something that no one knows */
  trial_judge(&t, true);
  char moved[80];
  snprintf(moved, sizeof moved, "moves from token 1 to %zu", t.server.n - 3);
  check_cause(&t.result, 0, "double_bos", PARITY_PARTIAL, "twice", moved);
  assert_int_equal(t.result.n_causes, 1);
  trial_close(&t);
}

static void test_causes_by_count(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, "{\"messages\":" HELLO ",\"chat_template_kwargs\":{\"first\":true}}");
  served(&t, case_of(&t));
  t.server.n++;
  trial_judge(&t, false);
  assert_int_equal(t.result.verdict, PARITY_DIFFERS);
  assert_false(t.result.has_difference);
  check_cause(&t.result, 0, "double_bos", PARITY_BY_COUNT, "twice",
              "as many tokens as the server's");
  trial_close(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_double_bos),
      cmocka_unit_test(test_double_bos_here),
      cmocka_unit_test(test_bos_missing_and_extra),
      cmocka_unit_test(test_eos),
      cmocka_unit_test(test_generation_prompt),
      cmocka_unit_test(test_date),
      cmocka_unit_test(test_fixed_date),
      cmocka_unit_test(test_tojson),
      cmocka_unit_test(test_tools),
      cmocka_unit_test(test_messages_as_sent),
      cmocka_unit_test(test_kwargs_and_newline),
      cmocka_unit_test(test_other_renderer),
      cmocka_unit_test(test_two_causes_together),
      cmocka_unit_test(test_partial_cause),
      cmocka_unit_test(test_causes_by_count),
  };
  return cmocka_run_group_tests(tests, parity_start, parity_stop);
}

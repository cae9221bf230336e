/* test_responses.c: bodies of the Responses API, items (respitems.c), tools (resptools.c), chains,
 * events (reply_responses.c), calls (gencall.c). */
#include "check.h"

#include "sim/gencall.h"
#include "sim/reply.h"
#include "sim/responses.h"
#include "text/json.h"

static struct genmodel model = {.name = "m", .max_model_len = 1000, .block_size = 16};
static struct response_store store;

struct fixture {
  struct genrequest gen;
  struct response_ask ask;
  struct reply reply;
  struct events events;
};

static void setup(struct fixture *f, const char *body) {
  struct apierror e = {0};
  if (responses_parse(body, strlen(body), &model, &store, &f->gen, &f->ask, &e))
    fail_msg("%s: %s", body, e.message);
  struct reply_options o = {
      .form = &reply_responses, .model = "m", .id = "resp_1", .created_s = 5, .ask = &f->ask};
  reply_init(&f->reply, &f->gen, &o);
  events_init(&f->events);
}

static void teardown(struct fixture *f) {
  events_free(&f->events);
  reply_free(&f->reply);
  genrequest_free(&f->gen);
  response_ask_free(&f->ask);
}

static void check_prompt(const struct genrequest *r, const char *want) {
  const struct genchoice *c = r->choices;
  assert_int_equal(c->prompt_len, strlen(want));
  for (uint32_t i = 0; i < c->prompt_len; i++)
    assert_int_equal(c->tokens[i], (unsigned char)want[i]);
}

static void check_refused(const char *body, int status, const char *message) {
  struct genrequest r;
  struct response_ask ask;
  struct apierror e = {0};
  assert_int_equal(responses_parse(body, strlen(body), &model, &store, &r, &ask, &e), ERR_INVALID);
  assert_int_equal(e.status, status);
  check_has(e.message, message);
}

static void test_items_become_messages(void **state) {
  (void)state;
  struct fixture f;
  setup(&f, "{\"instructions\":\"I\",\"input\":[{\"role\":\"user\",\"content\":[{\"type\":"
            "\"input_text\",\"text\":\"a\"},{\"type\":\"input_text\",\"text\":\"b\"}]},"
            "{\"type\":\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":\"{}\"},"
            "{\"type\":\"function_call_output\",\"call_id\":\"c\",\"output\":\"R\"}]}");
  check_prompt(&f.gen,
               "<|system|>\nI<|end|>\n<|user|>\nab<|end|>\n<|assistant|>\n[{\"id\":\"c\",\"type\":"
               "\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]<|end|>\n"
               "<|tool|>\nR<|end|>\n<|assistant|>\n");
  assert_int_equal(value_count(&f.ask.messages), 3); /* instructions are not stored */
  assert_true(f.ask.store);
  check_has(f.ask.echo.data, ",\"instructions\":\"I\",\"metadata\":{}");
  teardown(&f);
}

/* What the server ran itself, as a client feeds it back. */
static void test_own_calls_become_messages(void **state) {
  (void)state;
  struct fixture f;
  setup(&f, "{\"input\":[{\"type\":\"mcp_call\",\"id\":\"mcp_m\",\"name\":\"docs\",\"arguments\":"
            "\"{}\",\"output\":\"R\"},{\"type\":\"code_interpreter_call\",\"id\":\"c\",\"code\":"
            "\"1\\\"2\",\"outputs\":[{\"type\":\"logs\",\"logs\":\"L\"}]},{\"type\":"
            "\"web_search_call\",\"id\":\"w\",\"action\":{\"type\":\"search\",\"query\":\"q\"}}]}");
  check_prompt(
      &f.gen,
      "<|assistant|>\n[{\"id\":\"call_m\",\"type\":\"function\",\"function\":{\"name\":\"docs\","
      "\"arguments\":\"{}\"}}]<|end|>\n<|tool|>\nR<|end|>\n"
      "<|assistant|>\n[{\"id\":\"call_c\",\"type\":\"function\",\"function\":{\"name\":"
      "\"code_interpreter\",\"arguments\":\"{\\\"code\\\": \\\"1\\\\\\\"2\\\"}\"}}]<|end|>\n"
      "<|tool|>\nL<|end|>\n<|assistant|>\n[{\"id\":\"call_w\",\"type\":\"function\","
      "\"function\":{\"name\":\"web_search_preview\",\"arguments\":\"{\\\"query\\\": "
      "\\\"q\\\"}\"}}]<|end|>\n<|assistant|>\n");
  teardown(&f);
}

static void test_chain(void **state) {
  (void)state;
  struct fixture f;
  setup(&f, "{\"input\":\"one\"}");
  response_store_put(&store, "resp_a", 1, f.ask.messages, 0,
                     "{\"output\":[{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{"
                     "\"type\":\"output_text\",\"text\":\"two\"}]}]}");
  f.ask.messages = value_null();
  teardown(&f);
  assert_non_null(response_store_find(&store, "resp_a"));
  assert_null(response_store_find(&store, "resp_b"));
  setup(&f, "{\"input\":\"three\",\"previous_response_id\":\"resp_a\",\"store\":false}");
  check_prompt(&f.gen, "<|user|>\none<|end|>\n<|assistant|>\ntwo<|end|>\n<|user|>\nthree<|end|>\n"
                       "<|assistant|>\n");
  assert_false(f.ask.store);
  teardown(&f);
  check_refused("{\"input\":\"x\",\"previous_response_id\":\"resp_b\"}", 404,
                "Response with id 'resp_b' not found.");
  response_store_free(&store);
  store.off = true;
  setup(&f, "{\"input\":\"x\",\"store\":true}");
  assert_false(f.ask.store);
  teardown(&f);
  store.off = false;
}

static void test_refusals(void **state) {
  (void)state;
  check_refused("[]", 400, "a JSON object");
  check_refused("{}", 400, "input: field required");
  check_refused("{\"input\":[1]}", 400, "input[0] should be an object");
  check_refused("{\"input\":[{\"type\":\"image_call\"}]}", 400, "items of type image_call");
  check_refused("{\"input\":[{\"type\":\"mcp_call\"}]}", 400,
                "input[0]: a mcp_call item needs id, name and arguments");
  check_refused("{\"input\":[{\"type\":\"web_search_call\"}]}", 400,
                "a web_search_call item needs id");
  check_refused("{\"input\":[{\"type\":\"code_interpreter_call\"}]}", 400,
                "a code_interpreter_call item needs id");
  check_refused("{\"input\":\"x\",\"max_tool_calls\":-1}", 400,
                "max_tool_calls must be at least 0, got -1.");
  check_refused("{\"input\":[{\"content\":\"x\"}]}", 400, "input[0].role");
  check_refused("{\"input\":\"x\",\"prompt\":{}}", 400, "prompt template is not supported");
  check_refused("{\"input\":\"x\",\"background\":true,\"store\":false}", 400,
                "background can only be used when `store` is true");
  check_refused("{\"input\":\"x\",\"top_logprobs\":21}", 400, "greater than max allowed: 20");
  store.off = true;
  check_refused("{\"input\":\"x\",\"background\":true}", 400, "does not support `store=True`");
  store.off = false;
  check_refused("{\"input\":\"x\",\"tools\":[{\"type\":\"mcp\"}]}", 400,
                "tools[0]: an mcp tool needs a server_label");
  check_refused("{\"input\":\"x\",\"tools\":[{\"type\":\"file_search\"}]}", 400,
                "tools[0]: this simulated replica takes tools of type function");
  check_refused("{\"input\":\"x\",\"tools\":[{\"type\":\"function\",\"name\":\"a\"},{\"type\":"
                "\"mcp\",\"server_label\":\"a\"}]}",
                400, "tools[1]: there are two tools a");
  check_refused("{\"input\":\"x\",\"tool_choice\":\"required\"}", 400, "`tools` must be set");
}

static void test_events(void **state) {
  (void)state;
  struct fixture f;
  struct reply_facts facts = {.cached = 16, .completion = 3};
  setup(&f, "{\"input\":\"x\",\"max_output_tokens\":3,\"ignore_eos\":true,\"stream\":true}");
  memcpy(f.gen.choices->text, "abc", 3);
  f.gen.choices->thought = 1;
  reply_responses.begin(&f.reply, &f.events);
  check_has(f.events.bytes.data,
            "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,"
            "\"response\":{\"id\":\"resp_1\",\"object\":\"response\",\"created_at\":5,\"model\":"
            "\"m\",\"status\":\"in_progress\",\"output\":[],\"usage\":null,"
            "\"previous_response_id\":null,");
  assert_int_equal(f.events.n, 2);
  events_reset(&f.events);
  reply_responses.tokens(&f.reply, 0, 0, 2, false, &facts, &f.events);
  reply_responses.tokens(&f.reply, 0, 2, 3, true, &facts, &f.events);
  static const char *const types[] = {
      "output_item.added",   "reasoning_part.added", "reasoning_text.delta", "reasoning_text.done",
      "reasoning_part.done", "output_item.done",     "output_item.added",    "content_part.added",
      "output_text.delta",   "output_text.delta",    "output_text.done",     "content_part.done",
      "output_item.done"};
  assert_int_equal(f.events.n, ARRAY_LEN(types));
  for (size_t i = 0; i < f.events.n; i++) {
    char want[120];
    size_t len;
    const char *data = events_at(&f.events, i, &len);
    snprintf(want, sizeof want,
             "event: response.%s\ndata: {\"type\":\"response.%s\",\"sequence_"
             "number\":%zu,",
             types[i], types[i], i + 2);
    assert_memory_equal(data, want, strlen(want));
  }
  check_has(f.events.bytes.data, "\"output_index\":0,\"content_index\":0,\"delta\":\"a\"}");
  check_has(f.events.bytes.data,
            "\"output_index\":1,\"content_index\":0,\"delta\":\"b\",\"logprobs\":[]}");
  check_has(f.events.bytes.data, "\"output_index\":1,\"content_index\":0,\"text\":\"bc\"");
  events_reset(&f.events);
  reply_responses.end(&f.reply, &facts, &f.events);
  check_has(f.events.bytes.data, "event: response.incomplete\n");
  check_has(f.events.bytes.data, "\"incomplete_details\":{\"reason\":\"max_output_tokens\"}");
  check_has(f.events.bytes.data, "\"reasoning_tokens\":1,");
  assert_int_equal(f.events.marks[0].kind, TRUTH_DONE);
  teardown(&f);
}

static void test_a_call(void **state) {
  (void)state;
  struct fixture f;
  struct reply_facts facts = {0};
  struct value v;
  struct err err = {0};
  setup(&f, "{\"input\":\"x\",\"tool_choice\":\"required\",\"tools\":[{\"type\":\"function\","
            "\"name\":\"f\",\"parameters\":{\"properties\":{\"a\":{\"type\":\"string\"},\"n\":{"
            "\"type\":\"array\",\"items\":{\"type\":\"integer\"}}}}}]}");
  const struct genchoice *c = f.gen.choices;
  assert_string_equal(c->call_name, "f");
  assert_string_equal(c->finish, "tool_calls");
  check_ok(json_parse(c->text, strlen(c->text), &v, &err), &err);
  assert_int_equal(value_get(&v, "a")->kind, VALUE_STRING);
  assert_int_equal(value_at(value_get(&v, "n"), 0)->kind, VALUE_INT);
  value_free(&v);
  /* what is sampled is the message as the template writes it */
  char said[400] = "";
  for (uint32_t i = 0; i < c->output_len; i++)
    said[i] = (char)c->output[i];
  check_has(said,
            "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": ");
  assert_int_equal(c->shown[c->output_len - 1], strlen(c->text));
  for (uint32_t i = 0; i < c->output_len; i++)
    reply_responses.tokens(&f.reply, 0, i, i + 1, i + 1 == c->output_len, &facts, &f.events);
  check_has(f.events.bytes.data, "event: response.function_call_arguments.delta\n");
  check_has(f.events.bytes.data, "event: response.function_call_arguments.done\n");
  assert_int_equal(f.events.n, strlen(c->text) + 3);
  teardown(&f);
}

static void test_arguments(void **state) {
  (void)state;
  struct value schema, v;
  struct err err = {0};
  struct buf a, b;
  static const char text[] =
      "{\"type\":\"object\",\"properties\":{\"s\":{\"type\":[\"string\",\"null\"]},\"e\":{\"enum\":"
      "[7]},\"b\":{\"type\":\"boolean\"},\"x\":{\"type\":\"number\"},\"o\":{\"type\":\"object\","
      "\"properties\":{\"k\":{\"type\":\"null\"}}}}}";
  buf_init(&a, BUF_MAX_OWN);
  buf_init(&b, BUF_MAX_OWN);
  check_ok(json_parse(text, sizeof text - 1, &schema, &err), &err);
  gencall_arguments(&schema, 3, &a);
  gencall_arguments(&schema, 3, &b);
  assert_string_equal(a.data, b.data);
  check_ok(json_parse(a.data, a.len, &v, &err), &err);
  assert_int_equal(value_count(&v), 5);
  assert_int_equal(value_get(&v, "e")->u.integer, 7);
  assert_int_equal(value_get(value_get(&v, "o"), "k")->kind, VALUE_NULL);
  buf_reset(&a);
  gencall_arguments(NULL, 3, &a);
  assert_string_equal(a.data, "{}");
  value_free(&v);
  value_free(&schema);
  buf_free(&a);
  buf_free(&b);
}

int main(void) {
  struct err err;
  if (tokens_open("bytes", NULL, &model.tokenizer, &err))
    return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_items_become_messages),
      cmocka_unit_test(test_own_calls_become_messages),
      cmocka_unit_test(test_chain),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_events),
      cmocka_unit_test(test_a_call),
      cmocka_unit_test(test_arguments),
  };
  return cmocka_run_group_tests_name("responses", tests, NULL, NULL);
}

/* test_genturns.c: the server's own tool loop turn by turn, the items it makes (reply_items.c), and
 * when the model calls where it may choose (gencall.c). */
#include "check.h"

#include "sim/gencall.h"
#include "sim/genturns.h"
#include "sim/reply.h"
#include "text/json.h"

static struct genmodel model = {.name = "m", .max_model_len = 4000, .block_size = 16};
static struct response_store store;

struct loop_of {
  struct genrequest gen;
  struct response_ask ask;
  struct reply reply;
  struct events events;
};

static void begin(struct loop_of *f, double p, uint32_t rounds, const char *body) {
  struct apierror e = {0};
  model.tools = (struct gentools){.call_p = p, .rounds = rounds, .result_tokens = 5};
  if (responses_parse(body, strlen(body), &model, &store, &f->gen, &f->ask, &e))
    fail_msg("%s: %s", body, e.message);
  struct reply_options o = {
      .form = &reply_responses, .model = "m", .id = "resp_1", .created_s = 5, .ask = &f->ask};
  reply_init(&f->reply, &f->gen, &o);
  events_init(&f->events);
}

static void finish(struct loop_of *f) {
  events_free(&f->events);
  reply_free(&f->reply);
  genrequest_free(&f->gen);
  response_ask_free(&f->ask);
}

/* Runs the loop to its end; the number of turns. */
static uint32_t run(struct loop_of *f) {
  struct apierror e = {0};
  struct reply_facts facts = {0};
  for (;;) {
    uint32_t i = f->gen.n_choices - 1;
    f->gen.choices[i].cached = 16 * i;
    reply_responses.tokens(&f->reply, i, 0, f->gen.choices[i].output_len, true, &facts, &f->events);
    if (!genturns_go_on(&f->gen))
      return f->gen.n_choices;
    if (genturns_next(&f->ask, &f->gen, &model, &e))
      fail_msg("turn %u: %s", i + 1, e.message);
  }
}

static struct value whole(struct loop_of *f) {
  struct reply_facts facts = {0};
  struct buf out;
  struct value v;
  struct err err = {0};
  buf_init(&out, BUF_MAX_OWN);
  reply_responses.whole(&f->reply, &facts, &out);
  check_ok(json_parse(out.data, out.len, &v, &err), &err);
  buf_free(&out);
  return v;
}

#define MCP "{\"type\":\"mcp\",\"server_label\":\"docs\"}"
#define WEB "{\"type\":\"web_search_preview\"}"
#define CODE "{\"type\":\"code_interpreter\"}"
#define OWN "{\"type\":\"function\",\"name\":\"f\"}"

static const char *type_at(const struct value *v, size_t i) {
  return value_to_string(value_get(value_at(value_get(v, "output"), i), "type"));
}

static int64_t number(const struct value *usage, const char *group, const char *key, size_t turn) {
  const struct value *v = value_get(group ? value_get(usage, group) : usage, key);
  int64_t n = -1;
  if (!value_to_int(v && v->kind == VALUE_ARRAY ? value_at(v, turn) : v, &n))
    fail_msg("%s is no number", key);
  return n;
}

static void test_turns_and_their_usage(void **state) {
  (void)state;
  struct loop_of f;
  begin(&f, 1, 2, "{\"input\":\"x\",\"tools\":[" MCP "]}");
  assert_int_equal(run(&f), 3);
  const struct genchoice *c = f.gen.choices;
  for (uint32_t i = 1; i < 3; i++) { /* each prompt goes on from prompt and answer before it */
    assert_memory_equal(c[i].tokens, c[i - 1].tokens, c[i - 1].prompt_len * sizeof *c->tokens);
    assert_memory_equal(c[i].tokens + c[i - 1].prompt_len, c[i - 1].output,
                        c[i - 1].output_len * sizeof *c->tokens);
  }
  struct value v = whole(&f);
  const struct value *usage = value_get(&v, "usage"), *first = value_at(value_get(&v, "output"), 0);
  assert_int_equal(value_count(value_get(&v, "output")), 3);
  assert_string_equal(type_at(&v, 0), "mcp_call");
  assert_string_equal(type_at(&v, 1), "mcp_call");
  assert_string_equal(type_at(&v, 2), "message");
  assert_int_equal(strlen(value_to_string(value_get(first, "output"))), 5);
  assert_string_equal(value_to_string(value_get(first, "server_label")), "docs");
  int64_t input = 0, output = 0, tool = 0;
  for (uint32_t i = 0; i < 3; i++) {
    int64_t grown = i ? (int64_t)c[i].prompt_len - c[i - 1].prompt_len - c[i - 1].output_len : 0;
    assert_int_equal(number(usage, "input_tokens_details", "input_tokens_per_turn", i),
                     c[i].prompt_len);
    assert_int_equal(number(usage, "input_tokens_details", "cached_tokens_per_turn", i), 16 * i);
    assert_int_equal(number(usage, "output_tokens_details", "output_tokens_per_turn", i),
                     c[i].output_len);
    assert_int_equal(number(usage, "output_tokens_details", "tool_output_tokens_per_turn", i),
                     grown);
    input += c[i].prompt_len;
    output += c[i].output_len;
    tool += grown;
  }
  assert_true(tool >= 10);
  assert_int_equal(number(usage, NULL, "input_tokens", 0), input);
  assert_int_equal(number(usage, NULL, "output_tokens", 0), output);
  assert_int_equal(number(usage, "input_tokens_details", "cached_tokens", 0), 48);
  assert_int_equal(number(usage, "output_tokens_details", "tool_output_tokens", 0), tool);
  value_free(&v);
  assert_int_equal(f.ask.kept_items, 2);
  assert_int_equal(value_count(&f.ask.messages), 5); /* x, call, result, call, result */
  finish(&f);
}

static void check_events(struct loop_of *f, const char *const *types, size_t n) {
  assert_int_equal(f->events.n >= n, 1);
  for (size_t i = 0; i < n; i++) {
    char want[120];
    size_t len;
    const char *data = events_at(&f->events, i, &len);
    snprintf(want, sizeof want, "event: response.%s\ndata: {\"type\":\"response.%s\",", types[i],
             types[i]);
    if (len < strlen(want) || memcmp(data, want, strlen(want)) != 0)
      fail_msg("event %zu is %.60s, expected %s", i, data, types[i]);
  }
}

static void test_events_of_own_tools(void **state) {
  (void)state;
  static const char *const mcp[] = {"output_item.added",        "mcp_call.in_progress",
                                    "mcp_call_arguments.delta", "mcp_call_arguments.done",
                                    "mcp_call.completed",       "output_item.done"};
  static const char *const web[] = {"output_item.added", "web_search_call.in_progress",
                                    "web_search_call.searching", "web_search_call.completed",
                                    "output_item.done"};
  static const char *const code[] = {"output_item.added",
                                     "code_interpreter_call.in_progress",
                                     "code_interpreter_call_code.delta",
                                     "code_interpreter_call_code.done",
                                     "code_interpreter_call.interpreting",
                                     "code_interpreter_call.completed",
                                     "output_item.done"};
  struct loop_of f;
  begin(&f, 1, 1, "{\"input\":\"x\",\"stream\":true,\"tools\":[" MCP "]}");
  run(&f);
  check_events(&f, mcp, ARRAY_LEN(mcp));
  check_has(f.events.bytes.data, "\"output_index\":1,\"item\":{\"id\":\"msg_");
  finish(&f);
  begin(&f, 1, 1, "{\"input\":\"x\",\"stream\":true,\"tools\":[" WEB "]}");
  run(&f);
  check_events(&f, web, ARRAY_LEN(web));
  check_has(f.events.bytes.data, "\"action\":{\"type\":\"search\",\"query\":\"");
  finish(&f);
  begin(&f, 1, 1, "{\"input\":\"x\",\"stream\":true,\"tools\":[" CODE "]}");
  run(&f);
  check_events(&f, code, ARRAY_LEN(code));
  finish(&f);
}

static void test_what_ends_the_loop(void **state) {
  (void)state;
  struct loop_of f;
  struct apierror e = {0};
  begin(&f, 1, 9, "{\"input\":\"x\",\"max_tool_calls\":2,\"tools\":[" WEB "]}");
  assert_int_equal(run(&f), 3);
  finish(&f);
  begin(&f, 1, 9, "{\"input\":\"x\",\"max_tool_calls\":0,\"tools\":[" WEB "]}");
  assert_int_equal(run(&f), 1);
  finish(&f);
  begin(&f, 1, 9, "{\"input\":\"x\",\"tools\":[" OWN "]}"); /* the client's */
  assert_int_equal(run(&f), 1);
  assert_string_equal(f.gen.choices->finish, "tool_calls");
  finish(&f);
  begin(&f, 1, 9, "{\"input\":\"x\",\"max_output_tokens\":3,\"tools\":[" WEB "]}"); /* cut */
  assert_int_equal(run(&f), 1);
  assert_string_equal(f.gen.choices->finish, "length");
  struct value v = whole(&f);
  assert_int_equal(value_count(value_get(&v, "output")), 0);
  value_free(&v);
  finish(&f);
  begin(&f, 1, 9, "{\"input\":\"x\",\"tools\":[" MCP "]}");
  model.tools.result_tokens = 5000; /* beyond the context */
  assert_int_equal(genturns_next(&f.ask, &f.gen, &model, &e), ERR_INVALID);
  assert_int_equal(f.gen.n_choices, 1);
  check_has(e.message, "maximum context length is 4000 tokens");
  finish(&f);
}

/* ---- where the model may choose ---- */

static const struct value *draw(const char *body_text, double p, uint32_t rounds, uint64_t key,
                                char *name, size_t size) {
  struct value body;
  struct err err = {0};
  struct apierror e = {0};
  struct gencall_ask ask;
  model.tools = (struct gentools){.call_p = p, .rounds = rounds};
  check_ok(json_parse(body_text, strlen(body_text), &body, &err), &err);
  assert_int_equal(gencall_read(&body, &model, &ask, &e), 0);
  const struct value *tool = gencall_tool(&ask, &model, key);
  const char *own = value_to_string(value_get(value_get(tool, "function"), "name"));
  snprintf(name, size, "%s", own ? own : "");
  value_free(&body);
  return tool;
}

#define AB                                                                                         \
  "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a\"}},{\"type\":\"function\","       \
  "\"function\":{\"name\":\"b\"}}]"

static void test_auto_draws(void **state) {
  (void)state;
  char name[16];
  unsigned calls = 0, of_a = 0;
  for (uint64_t key = 0; key < 2000; key++) {
    bool called = draw("{" AB "}", 0.25, 8, key, name, sizeof name) != NULL;
    char again[16];
    assert_int_equal(draw("{" AB "}", 0.25, 8, key, again, sizeof again) != NULL, called);
    assert_string_equal(name, again);
    calls += called;
    of_a += called && name[0] == 'a';
  }
  assert_in_range(calls, 430, 570); /* 500 of 2000, 3.6 standard deviations */
  assert_in_range(of_a, calls / 3, calls * 2 / 3);
}

static void test_when_auto_never_calls(void **state) {
  (void)state;
  char name[16];
  static const char *const never[] = {"{}", "{\"tool_choice\":\"none\"," AB "}",
                                      "{\"ignore_eos\":true," AB "}", "{\"tools\":[]}"};
  for (size_t i = 0; i < ARRAY_LEN(never); i++)
    assert_null(draw(never[i], 1, 8, 1, name, sizeof name));
  assert_null(draw("{" AB "}", 0, 8, 1, name, sizeof name));
  assert_non_null(draw("{\"tool_choice\":\"auto\"," AB "}", 1, 8, 1, name, sizeof name));
  /* results since the user's last message count */
  static const char asked[] = "{\"messages\":[{\"role\":\"tool\"},{\"role\":\"user\"},{\"role\":"
                              "\"assistant\"},{\"role\":\"tool\"}]," AB "}";
  assert_null(draw(asked, 1, 1, 1, name, sizeof name));
  assert_non_null(draw(asked, 1, 2, 1, name, sizeof name));
  /* what has to be called is called whatever the odds */
  assert_non_null(draw("{\"tool_choice\":\"required\"," AB "}", 0, 0, 1, name, sizeof name));
  draw("{\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"b\"}}," AB "}", 0, 0, 1,
       name, sizeof name);
  assert_string_equal(name, "b");
}

int main(void) {
  struct err err;
  if (tokens_open("bytes", NULL, &model.tokenizer, &err))
    return 1;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_turns_and_their_usage), cmocka_unit_test(test_events_of_own_tools),
      cmocka_unit_test(test_what_ends_the_loop),    cmocka_unit_test(test_auto_draws),
      cmocka_unit_test(test_when_auto_never_calls),
  };
  return cmocka_run_group_tests_name("genturns", tests, NULL, NULL);
}

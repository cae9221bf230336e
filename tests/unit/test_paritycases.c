/* test_paritycases.c: the battery and the bodies of its requests. */
#include "check.h"

#include "base/base.h"
#include "base/mem.h"
#include "text/json.h"
#include "text/paritycases.h"

static const struct parity_case *named(const struct paritycases *p, enum parity_form form,
                                       const char *name) {
  for (size_t i = 0; i < p->n; i++)
    if (p->items[i].form == form && strcmp(p->items[i].name, name) == 0)
      return &p->items[i];
  fail_msg("no case %s", name);
  return NULL;
}

static struct value body_of(const struct parity_case *c, bool completion, bool ids) {
  struct buf b;
  struct value v;
  struct err err = {0};
  buf_init(&b, BUF_MAX_OWN);
  if (completion)
    paritycases_completion_body(c, "m\"1", ids, &b);
  else
    paritycases_tokenize_body(c, "m\"1", &b);
  check_ok(json_parse(b.data, b.len, &v, &err), &err);
  assert_string_equal(value_to_string(value_get(&v, "model")), "m\"1");
  buf_free(&b);
  return v;
}

static bool flag(const struct value *v, const char *key) {
  const struct value *f = value_get(v, key);
  assert_non_null(f);
  return f->u.boolean;
}

static void test_battery(void **state) {
  (void)state;
  struct paritycases p = paritycases_all();
  assert_int_equal(p.n, 15);
  const struct parity_case *c = named(&p, PARITY_PROMPT, "plain");
  assert_true(c->chat.add_special_tokens);
  struct value v = body_of(c, false, false);
  assert_string_equal(value_to_string(value_get(&v, "prompt")), c->text);
  assert_int_equal(value_count(&v), 2); /* nothing that a strict server does not know */
  value_free(&v);
  c = named(&p, PARITY_PROMPT, "no_special_tokens");
  v = body_of(c, false, false);
  assert_false(flag(&v, "add_special_tokens"));
  value_free(&v);
  c = named(&p, PARITY_MESSAGES, "tool_calls");
  assert_int_equal(value_count(c->chat.messages), 4);
  assert_int_equal(value_count(c->chat.tools), 2);
  assert_true(c->chat.add_generation_prompt);
  v = body_of(c, false, false);
  assert_true(value_equal(value_get(&v, "messages"), c->chat.messages));
  assert_true(value_equal(value_get(&v, "tools"), c->chat.tools));
  assert_int_equal(value_count(&v), 3);
  value_free(&v);
  c = named(&p, PARITY_MESSAGES, "no_generation_prompt");
  v = body_of(c, true, true);
  assert_false(flag(&v, "add_generation_prompt"));
  assert_true(flag(&v, "return_token_ids"));
  int64_t n;
  assert_true(value_to_int(value_get(&v, "max_tokens"), &n));
  assert_int_equal(n, 1);
  value_free(&v);
  v = body_of(c, true, false);
  assert_null(value_get(&v, "return_token_ids"));
  value_free(&v);
  for (size_t i = 0; i < p.n; i++) { /* UTF-8, every one */
    v = body_of(&p.items[i], false, false);
    value_free(&v);
  }
  paritycases_free(&p);
  assert_int_equal(p.n, 0);
}

static void test_quick(void **state) {
  (void)state;
  struct paritycases p = paritycases_quick();
  struct pytime now = {.year = 2026, .month = 1, .day = 2};
  static const char *const kinds[] = {"user",       "system",   "multi_turn",          "tools",
                                      "tool_calls", "thinking", "no_generation_prompt"};
  assert_int_equal(p.n, 1 + ARRAY_LEN(kinds));
  assert_int_equal(p.items[0].form, PARITY_PROMPT);
  for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
    assert_int_equal(p.items[i + 1].form, PARITY_MESSAGES);
    assert_string_equal(p.items[i + 1].name, kinds[i]);
  }
  /* The commonest difference between templates shows without a system message alone. */
  const struct value *first = value_at(named(&p, PARITY_MESSAGES, "user")->chat.messages, 0);
  assert_string_equal(value_to_string(value_get(first, "role")), "user");
  const struct parity_case *thinking = named(&p, PARITY_MESSAGES, "thinking");
  assert_false(flag(thinking->chat.kwargs, "enable_thinking"));
  assert_false(p.items[1].chat.has_now);
  paritycases_set_now(&p, &now);
  assert_true(p.items[1].chat.has_now);
  assert_int_equal(p.items[1].chat.now.year, 2026);
  paritycases_free(&p);
}

static void test_own(void **state) {
  (void)state;
  static const char whole[] =
      "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"chat_template_kwargs\":{\"a\":1},"
      "\"reasoning_effort\":\"low\",\"documents\":[{\"text\":\"d\"}],\"continue_final_message\":"
      "true,"
      "\"add_special_tokens\":true,\"tools\":null}";
  struct paritycases p = {0};
  struct err err = {0};
  check_ok(paritycases_add_messages(&p, "own", whole, sizeof whole - 1, &err), &err);
  for (int i = 0; i < 20; i++) /* what a case points into stays */
    paritycases_add_prompt(&p, "p", "text\0more", 9);
  const struct parity_case *c = &p.items[0];
  assert_false(c->chat.add_generation_prompt); /* the two exclude each other */
  assert_string_equal(c->chat.reasoning_effort, "low");
  struct value v = body_of(c, false, false);
  assert_true(flag(&v, "continue_final_message"));
  assert_true(flag(&v, "add_special_tokens"));
  assert_false(flag(&v, "add_generation_prompt"));
  assert_int_equal(value_count(value_get(&v, "documents")), 1);
  assert_int_equal(value_count(value_get(&v, "chat_template_kwargs")), 1);
  assert_string_equal(value_to_string(value_get(&v, "reasoning_effort")), "low");
  assert_null(value_get(&v, "tools"));
  value_free(&v);
  assert_int_equal(p.items[20].len, 9);
  v = body_of(&p.items[20], false, false);
  assert_int_equal(value_get(&v, "prompt")->u.string.len, 9);
  value_free(&v);
  paritycases_free(&p);
}

static void refuse(const char *json, const char *want) {
  struct paritycases p = {0};
  struct err err = {0};
  int rc = paritycases_add_messages(&p, "bad", json, strlen(json), &err);
  if (rc != ERR_INVALID)
    fail_msg("%s: rc=%d", json, rc);
  check_has(err.text, want);
  assert_int_equal(p.n, 0);
  paritycases_free(&p);
}

static void test_refused(void **state) {
  (void)state;
  refuse("[1", "line 1");
  refuse("3", "messages: a list of messages is needed");
  refuse("[]", "messages: a list of messages is needed");
  refuse("{\"messages\":{}}", "messages: a list");
  refuse("{\"messages\":[{}],\"tools\":{}}", "tools must be a list");
  refuse("{\"messages\":[{}],\"chat_template_kwargs\":[]}",
         "chat_template_kwargs must be an object");
  refuse("{\"messages\":[{}],\"reasoning_effort\":1}", "reasoning_effort must be a string");
  refuse("{\"messages\":[{}],\"documents\":1}", "documents must be a list");
  refuse("{\"messages\":[{}],\"kwargs\":{}}",
         "kwargs: a chat request calls them chat_template_kwargs");
  refuse("{\"messages\":[{}],\"add_generation_prompt\":1}",
         "add_generation_prompt must be true or false");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_battery),
      cmocka_unit_test(test_quick),
      cmocka_unit_test(test_own),
      cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_parity.c: ids against a server's: the verdict and the first difference in words; prompts,
 * bytes and Harmony. */
#include "parity_check.h"

#include "text/harmony.h"

static void test_equal(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, HELLO);
  served(&t, case_of(&t));
  trial_judge(&t, true);
  assert_int_equal(t.result.verdict, PARITY_EQUAL);
  assert_false(t.result.has_difference);
  assert_int_equal(t.result.n_causes, 0);
  struct value difference = parity_difference_value(&t.result);
  assert_int_equal(difference.kind, VALUE_NULL);
  trial_close(&t);
}

static void test_equal_counts(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, HELLO);
  served(&t, case_of(&t));
  trial_judge(&t, false);
  assert_int_equal(t.result.verdict, PARITY_COUNT);
  assert_int_equal(t.result.n_causes, 0);
  trial_close(&t);
}

static void test_first_difference_in_words(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, HELLO);
  served(&t, case_of(&t));
  t.server.ids[1] = id_of("X");
  trial_judge(&t, true);
  assert_int_equal(t.result.verdict, PARITY_DIFFERS);
  assert_true(t.result.has_difference);
  assert_int_equal(t.result.index, 1);
  assert_int_equal(t.result.local_id, t.ours.ids[1]);
  assert_int_equal(t.result.server_id, id_of("X"));
  assert_string_equal(t.result.before, "\"<|im|>\"");
  assert_int_equal(strncmp(t.result.server_text, "\"X", 2), 0);
  assert_int_equal(strncmp(t.result.local_text, "\"user", 5), 0);
  assert_false(t.result.same_text);
  struct value v = parity_difference_value(&t.result);
  int64_t index;
  assert_true(value_to_int(value_get(&v, "index"), &index));
  assert_int_equal(index, 1);
  assert_string_equal(value_to_string(value_get(&v, "before")), "\"<|im|>\"");
  value_free(&v);
  assert_int_equal(t.result.n_causes, 0); /* no cause is made up */
  trial_close(&t);
}

/* What a server counts, of the very request whose ids it told and of the same asked otherwise. */
static void test_usage(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, HELLO);
  served(&t, case_of(&t));
  trial_judge(&t, true);
  parity_judge_usage(&t.result, t.server.n, true);
  assert_int_equal(t.result.verdict, PARITY_EQUAL);
  assert_int_equal(t.result.n_causes, 0);
  parity_judge_usage(&t.result, t.server.n + 1, true);
  assert_int_equal(t.result.verdict, PARITY_DIFFERS);
  assert_false(t.result.has_difference);
  check_cause(&t.result, 0, "usage", PARITY_EXACT, "counts 1 more than the ids that the same reply",
              "usage.prompt_tokens");
  trial_close(&t);
  trial_open(&t, HELLO);
  served(&t, case_of(&t));
  t.server.n -= 2;
  trial_judge(&t, false);
  size_t others = t.result.n_causes;
  parity_judge_usage(&t.result, t.server.n, false);
  check_cause(&t.result, others, "usage", PARITY_BY_COUNT,
              "counts 2 fewer than the ids that the server gives of the same request", "ids");
  trial_close(&t);
}

static void test_prompts(void **state) {
  (void)state;
  static const char text[] = "a <|end|> b";
  struct parity_local local = {.encoder = encoder};
  struct paritycases cases = {0};
  struct tokens_list ours = {0}, server = {0};
  struct parity_result r;
  struct err err = {0};
  paritycases_add_prompt(&cases, "p", text, sizeof text - 1);
  check_ok(parity_encode(&local, &cases.items[0], &ours, &err), &err);
  assert_int_equal(ours.ids[0], CHATMODEL_BOS); /* a prompt gets the model's first token */
  struct tokens_options plain = {.add_special = true};
  check_ok(tokens_encoder_encode(encoder, text, sizeof text - 1, &plain, &server, &err), &err);
  parity_compare(&local, &cases.items[0], &ours, server.ids, server.n, &r);
  check_cause(&r, 0, "special_text", PARITY_EXACT, "for plain text", "special tokens not found");
  parity_result_free(&r);
  parity_compare(&local, &cases.items[0], &ours, ours.ids + 1, ours.n - 1, &r);
  check_cause(&r, 0, "add_special_tokens", PARITY_EXACT, "were false, here it is true", "equal");
  check_cause(&r, 1, "bos_missing", PARITY_EXACT, "", "");
  parity_result_free(&r);
  tokens_list_free(&ours);
  tokens_list_free(&server);
  paritycases_free(&cases);
}

static void test_messages_need_a_template(void **state) {
  (void)state;
  struct trial t;
  struct err err = {0};
  trial_open(&t, HELLO);
  t.local.chat = NULL;
  assert_int_equal(parity_encode(&t.local, case_of(&t), &t.ours, &err), ERR_UNSUPPORTED);
  check_has(err.text, "no chat template");
  trial_close(&t);
}

/* `bytes` has no first token and no special ones; quoted bytes that are no character. */
static void test_bytes(void **state) {
  (void)state;
  struct parity_local local = {.encoder = byte_encoder};
  struct paritycases cases = {0};
  struct tokens_list ours = {0};
  struct parity_result r;
  struct err err = {0};
  paritycases_add_prompt(&cases, "p", "caf\xc3\xa9", 5);
  check_ok(parity_encode(&local, &cases.items[0], &ours, &err), &err);
  assert_int_equal(ours.n, 5);
  const uint32_t server[] = {'c', 'a', 'f', 0xc3};
  parity_compare(&local, &cases.items[0], &ours, server, 4, &r);
  assert_int_equal(r.index, 4);
  assert_string_equal(r.before, "\"caf\\xc3\"");
  assert_string_equal(r.local_text, "\"\\xa9\"");
  assert_int_equal(r.server_id, -1);
  check_cause(&r, 0, "truncated", PARITY_EXACT, "cuts", "our first 4 of 5");
  parity_result_free(&r);
  parity_compare(&local, &cases.items[0], &ours, NULL, 7, &r);
  assert_int_equal(r.verdict, PARITY_DIFFERS);
  assert_int_equal(r.n_causes, 0);
  parity_result_free(&r);
  parity_compare(&local, &cases.items[0], &ours, server, 0, &r); /* a server with nothing */
  assert_int_equal(r.index, 0);
  assert_int_equal(r.n_causes, 0);
  parity_result_free(&r);
  tokens_list_free(&ours);
  paritycases_free(&cases);
}

static void test_harmony(void **state) {
  (void)state;
  const struct tokens *o200k;
  struct chattemplate *harmony;
  struct err err = {0};
  if (tokens_open("o200k_harmony", NULL, &o200k, &err)) {
    print_message("o200k_harmony is not there (make deps): skipped\n");
    skip();
  }
  check_ok(chattemplate_load("harmony", NULL, &harmony, &err), &err);
  struct trial t;
  trial_open(&t, HELLO);
  t.local.encoder = tokens_encoder_new(o200k);
  t.local.chat = harmony;
  struct parity_case other = *case_of(&t);
  other.chat.now.month = 12;
  other.chat.now.day = 1;
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "date", PARITY_EXACT,
              "the server says 2026-12-01, here it is 2026-11-29", "at the server's date");
  parity_result_free(&t.result);
  t.ours.n = 0;
  other.chat.has_now = false;
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "date", PARITY_EXACT, "the server says none", "without a date");
  parity_result_free(&t.result);
  t.ours.n = 0;
  other = *case_of(&t);
  other.chat.reasoning_effort = "high";
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "kwargs", PARITY_EXACT, "reasoning_effort \"high\"", "");
  struct tokens_encoder *e = t.local.encoder;
  trial_close(&t);
  /* A server with a template tokenizes the whole text: the tokenizer is the same. */
  trial_open(&t, "[{\"role\":\"user\",\"content\":\"What is <|end|>?\"}]");
  t.local.encoder = e;
  t.local.chat = harmony;
  served(&t, case_of(&t));
  struct buf whole;
  const struct tokens_options options = {.special = true};
  buf_init(&whole, BUF_MAX_OWN);
  check_ok(tokens_decode(o200k, t.server.ids, t.server.n, &whole, &err), &err);
  t.server.n = 0;
  check_ok(tokens_encoder_encode(e, whole.data, whole.len, &options, &t.server, &err), &err);
  buf_free(&whole);
  trial_judge(&t, true);
  assert_true(t.result.same_text);
  check_cause(&t.result, 0, "special_text", PARITY_EXACT, "tokenizes the rendered text as a whole",
              "tokenized as a whole");
  assert_int_equal(t.result.n_causes, 1);
  trial_close(&t);
  tokens_encoder_delete(e);
  chattemplate_delete(harmony);
  tokens_close(o200k);
}

static void test_values(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, HELLO);
  struct parity_case other = *case_of(&t);
  other.chat.add_generation_prompt = false;
  served(&t, &other);
  trial_judge(&t, true);
  struct value difference = parity_difference_value(&t.result),
               causes = parity_causes_value(&t.result);
  assert_int_equal(value_get(&difference, "server_id")->kind, VALUE_NULL);
  assert_string_equal(value_to_string(value_get(value_at(&causes, 0), "name")),
                      "generation_prompt");
  assert_string_equal(value_to_string(value_get(value_at(&causes, 0), "strength")), "exact");
  value_free(&difference);
  value_free(&causes);
  trial_close(&t);
  assert_string_equal(parity_form_name(PARITY_PROMPT), "prompt");
  assert_string_equal(parity_form_name(PARITY_MESSAGES), "messages");
  assert_string_equal(parity_verdict_name(PARITY_DIFFERS), "differs");
  assert_string_equal(parity_strength_name(PARITY_BY_COUNT), "count");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_equal),
      cmocka_unit_test(test_equal_counts),
      cmocka_unit_test(test_first_difference_in_words),
      cmocka_unit_test(test_usage),
      cmocka_unit_test(test_prompts),
      cmocka_unit_test(test_messages_need_a_template),
      cmocka_unit_test(test_bytes),
      cmocka_unit_test(test_harmony),
      cmocka_unit_test(test_values),
  };
  return cmocka_run_group_tests(tests, parity_start, parity_stop);
}

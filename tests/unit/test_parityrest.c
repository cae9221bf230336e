/* test_parityrest.c: causes that no rendering of ours gives: what the two lists of ids show. */
#include "parity_check.h"

static void test_truncated(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, HELLO);
  served(&t, case_of(&t));
  memmove(t.server.ids, t.server.ids + 3, (t.server.n - 3) * sizeof *t.server.ids);
  t.server.n -= 3;
  trial_judge(&t, true);
  check_cause(&t.result, 0, "truncated", PARITY_EXACT, "cuts the prompt off", "are our last");
  trial_close(&t);
}

/* A token of two letters at least becomes one for each letter. */
static void spell_out(struct tokens_list *ids) {
  struct buf one;
  struct err err = {0};
  buf_init(&one, BUF_MAX_OWN);
  for (size_t at = 0; at < ids->n; at++) {
    buf_reset(&one);
    check_ok(tokens_decode(tokens, &ids->ids[at], 1, &one, &err), &err);
    if (one.len < 2 || ids->ids[at] >= CHATMODEL_BOS)
      continue;
    ids->ids[at] = id_of(one.data);
    for (size_t i = 1; i < one.len; i++)
      put(ids, at + i, id_of(one.data + i));
    buf_free(&one);
    return;
  }
  fail_msg("no token of two letters");
}

static void test_same_text_other_tokens(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, "[{\"role\":\"user\",\"content\":\"the hello of the and in to\"}]");
  served(&t, case_of(&t));
  spell_out(&t.server);
  trial_judge(&t, true);
  assert_true(t.result.same_text);
  assert_int_equal(t.result.n_causes, 0); /* rendered: it may be the renderer's doing as well */
  trial_close(&t);
  /* Where nothing is rendered, it is the tokenizer. */
  t = (struct trial){.local = {.encoder = encoder, .chat = chat}};
  paritycases_add_prompt(&t.cases, "p", "the hello of the and in to", 26);
  served(&t, case_of(&t));
  spell_out(&t.server);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "tokenizer", PARITY_EXACT, "cuts the same text into other tokens",
              "decode to the same bytes");
  check_has(t.result.causes[0].fix, "--tokenizer");
  assert_int_equal(t.result.n_causes, 1);
  trial_close(&t);
}

/* A piece that the server puts in, or leaves out: a default system prompt, say. */
static void test_pieces(void **state) {
  (void)state;
  struct trial t;
  struct err err = {0};
  struct paritycases more = {0}, hello = {0};
  static const char json[] = "[{\"role\":\"system\",\"content\":\"Be good.\"},{\"role\":\"user\","
                             "\"content\":\"Hello <you>\"}]";
  check_ok(paritycases_add_messages(&more, "more", json, sizeof json - 1, &err), &err);
  check_ok(paritycases_add_messages(&hello, "hello", HELLO, strlen(HELLO), &err), &err);
  trial_open(&t, HELLO);
  served(&t, &more.items[0]);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "extra_text", PARITY_EXACT, "system\\nBe good.<|end|>", "put in");
  check_has(t.result.causes[0].text, "default system prompt");
  check_has(t.result.causes[0].fix, "--template");
  assert_int_equal(t.result.n_causes, 1);
  trial_close(&t);
  static const char two[] = "[{\"role\":\"user\",\"content\":\"Be good.\"},{\"role\":\"user\","
                            "\"content\":\"Hello <you>\"}]";
  trial_open(&t, two);
  struct trial other;
  trial_open(&other, "[{\"role\":\"user\",\"content\":\"Be good.Hello <you>\"}]");
  served(&t, case_of(&other));
  trial_close(&other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "missing_text", PARITY_EXACT, "<|end|>\\n<|im|>user", "taken out");
  trial_close(&t);
  trial_open(&t, json); /* the end of ours, and yet not cut off */
  served(&t, &hello.items[0]);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "missing_text", PARITY_EXACT, "Be good.<|end|>", "taken out");
  trial_close(&t);
  paritycases_free(&more);
  paritycases_free(&hello);
}

/* Ids of another vocabulary that are all in the range of ours. */
static void test_ids_that_read_as_another_text(void **state) {
  (void)state;
  struct trial t = {.local = {.encoder = encoder, .chat = chat}};
  paritycases_add_prompt(&t.cases, "p", "the hello of the and in to", 26);
  served(&t, case_of(&t));
  for (size_t i = 0; i < t.server.n; i++)
    t.server.ids[i] = (uint32_t)(7 + 3 * i);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "vocabulary", PARITY_EXACT, "of another vocabulary than",
              "read with the vocabulary that is here");
  check_has(t.result.causes[0].fix, "--tokenizer");
  assert_int_equal(t.result.n_causes, 1);
  trial_close(&t);
  trial_open(&t, HELLO);
  served(&t, case_of(&t));
  for (size_t i = 0; i < t.server.n; i++)
    t.server.ids[i] = (uint32_t)(7 + 3 * i);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "vocabulary", PARITY_EXACT, "another vocabulary", "read with");
  trial_close(&t);
  /* Once it is known, nothing else is tried. */
  trial_open(&t, HELLO);
  t.local.other_vocabulary = true;
  struct parity_case bare = *case_of(&t);
  bare.chat.add_generation_prompt = false;
  served(&t, &bare);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "vocabulary", PARITY_EXACT, "another vocabulary", "another request");
  assert_int_equal(t.result.n_causes, 1);
  trial_close(&t);
}

static void test_other_vocabulary(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, HELLO);
  served(&t, case_of(&t));
  t.server.ids[2] = 151644;
  trial_judge(&t, true);
  check_cause(&t.result, 0, "vocabulary", PARITY_EXACT, "another vocabulary than", "151644");
  check_has(t.result.server_text, "<id 151644>");
  trial_close(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_truncated),        cmocka_unit_test(test_same_text_other_tokens),
      cmocka_unit_test(test_pieces),           cmocka_unit_test(test_ids_that_read_as_another_text),
      cmocka_unit_test(test_other_vocabulary),
  };
  return cmocka_run_group_tests(tests, parity_start, parity_stop);
}

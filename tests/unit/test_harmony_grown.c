/* Harmony prompts of chats that grow: always those of the whole, and little is done for them. */
#include "check.h"
#include "harmony_steps.h"
#include "tokenize_rows.h"

static void random_chats(void **state) {
  (void)state;
  const struct tokens *t = steps_tokenizer(true);
  int steps = CHECK_SANITIZED ? 4000 : 40000;
  assert_true(steps_random(t, steps_seeded(1), steps, (size_t)1 << 20) > steps / 3);
  assert_true(steps_random(t, steps_seeded(2), steps / 4, 2000) >
              steps / 12); /* the memo forgets */
  tokens_close(t);
}

/* A tokenizer that lacks a token is refused with the first prompt that needs it. */
static void a_token_is_missing(void **state) {
  (void)state;
  const struct tokens *t = steps_tokenizer(false);
  assert_true(steps_random(t, steps_seeded(3), 2000, (size_t)1 << 20) > 100);
  tokens_close(t);
}

static void gpt_oss(void **state) {
  (void)state;
  char path[1024];
  const struct tokens *t;
  struct err err;
  const struct rows_model model = {"", "tokenizers/ranks/o200k_base.tiktoken", "o200k_harmony"};
  if (!rows_find(&model, path, sizeof path) || CHECK_SANITIZED)
    skip();
  const struct tokens_load_options options = {.family = model.family};
  check_ok(tokens_load(path, &options, &t, &err), &err);
  assert_true(steps_random(t, steps_seeded(4), 10000, (size_t)1 << 20) > 3000);
  tokens_close(t);
}

static void say(struct chat *c, const char *format, size_t i) {
  char json[200];
  snprintf(json, sizeof json, format, i);
  steps_put(c, c->n, json);
}

/* Turns, forks, edits and cuts: what is rendered and tokenized for each. */
static void little_is_done(void **state) {
  (void)state;
  const struct tokens *t = steps_tokenizer(true);
  struct tokens_encoder *e = tokens_encoder_new(t);
  struct harmony_memo *m = harmony_memo_new(e, (size_t)1 << 20);
  struct chat c = {.n = 0}, f = {.n = 0};
  uint64_t rendered, tokenized, more, bytes;
  for (size_t i = 0; i < 10; i++) {
    say(&c, "{\"role\":\"user\",\"content\":\"the question %03zu\"}", i);
    assert_true(steps_check(&c, m, e));
    say(&c, "{\"role\":\"assistant\",\"content\":\"the answer %05zu\",\"reasoning\":\"so\"}", i);
    harmony_memo_stats(m, &rendered, &tokenized);
    assert_true(steps_check(&c, m, e));
    harmony_memo_stats(m, &more, &bytes);
    assert_int_equal(more - rendered, 1);
    assert_true(bytes - tokenized < 40);
  }
  assert_true(promptids_firm(&c.prompt, 3) + 40 > c.prompt.n);
  steps_fork(&c, &f);
  steps_put(&f, 4, "{\"role\":\"user\",\"content\":\"another one\"}");
  harmony_memo_stats(m, &rendered, &tokenized);
  assert_true(steps_check(&f, m, e));
  harmony_memo_stats(m, &more, &bytes);
  assert_int_equal(more - rendered, 1); /* what is behind it is taken from where it was */
  assert_int_equal(bytes - tokenized, strlen("another one"));
  steps_cut(&c, 13);
  assert_true(steps_check(&c, m, e) && steps_check(&c, m, e));
  harmony_memo_stats(m, &rendered, &tokenized);
  assert_int_equal(rendered, more);
  c.options.date = "2026-08-01";
  assert_true(steps_check(&c, m, e));
  harmony_memo_stats(m, &rendered, &tokenized);
  assert_int_equal(rendered, more); /* the head alone */
  steps_free(&c);
  steps_free(&f);
  harmony_memo_delete(m);
  tokens_encoder_delete(e);
  tokens_close(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_chats),
      cmocka_unit_test(a_token_is_missing),
      cmocka_unit_test(gpt_oss),
      cmocka_unit_test(little_is_done),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

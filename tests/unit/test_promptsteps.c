/* Prompts of renderers that give what is new: always the whole, and only what is new is rendered.
 */
#include "check.h"
#include "render_steps.h"

static void test_random_steps(void **state) {
  (void)state;
  int steps = CHECK_SANITIZED ? 4000 : 20000;
  const struct tokens *t = steps_tokenizer(true);
  assert_true(talk_random(t, steps_seeded(1), steps, (size_t)1 << 20) > 1000);
  (void)talk_random(t, steps_seeded(2), steps / 4, 500); /* the memo forgets */
  tokens_close(t);
}

static void test_random_steps_of_bytes(void **state) {
  (void)state;
  const struct tokens *t;
  struct err err;
  check_ok(tokens_open("bytes", NULL, &t, &err), &err);
  (void)talk_random(t, steps_seeded(3), 4000, (size_t)1 << 20);
  tokens_close(t);
}

static void add(struct talk *c, int message) {
  talk_changed(c, c->n);
  c->messages[c->n++] = message;
}

static void test_what_is_rendered(void **state) {
  (void)state;
  const struct tokens *t = steps_tokenizer(true);
  struct tokens_encoder *e = tokens_encoder_new(t);
  struct promptids_memo *m = promptids_memo_new(e, 1 << 20);
  struct talk c, f;
  talk_init(&c);
  talk_init(&f);
  for (int i = 0; i < 3; i++)
    add(&c, i);
  assert_int_equal(talk_check(&c, m, e), 3);
  assert_int_equal(talk_check(&c, m, e), 0); /* as it was */
  add(&c, 3);
  add(&c, 4);
  assert_int_equal(talk_check(&c, m, e), 2);
  add(&c, 5);
  assert_int_equal(talk_check(&c, m, e), 1);
  talk_fork(&c, &f);
  add(&f, 6);
  assert_int_equal(talk_check(&f, m, e), 1);
  assert_int_equal(talk_check(&c, m, e), 0);
  c.messages[4] = 9; /* the second call ended behind it */
  talk_changed(&c, 4);
  assert_int_equal(talk_check(&c, m, e), 3);
  c.n = 4; /* cut inside of what that made */
  talk_changed(&c, 4);
  assert_int_equal(talk_check(&c, m, e), 1);
  add(&c, 1);
  assert_int_equal(talk_check(&c, m, e), 1);
  c.tools = blob_new("tools", 5);
  assert_int_equal(talk_check(&c, m, e), 5);
  blob_unref(c.tools);
  c.tools = blob_new("tools", 5); /* the same */
  assert_int_equal(talk_check(&c, m, e), 0);
  c.kwarg = 1;
  assert_int_equal(talk_check(&c, m, e), 5);
  c.style = STYLE_LAST;
  assert_int_equal(talk_check(&c, m, e), 5);
  add(&c, 1);
  assert_int_equal(talk_check(&c, m, e), 2); /* the last but one, too */
  talk_free(&c);
  talk_free(&f);
  promptids_memo_delete(m);
  tokens_encoder_delete(e);
  tokens_close(t);
}

/* The first calls, those that go back, and one each time it has doubled. */
static void test_what_is_compared(void **state) {
  (void)state;
  struct promptids p;
  struct promptsteps s = {0};
  struct err err;
  char compared[70] = "";
  promptids_init(&p);
  for (size_t n = 1; n <= 64; n++) {
    assert_true(promptsteps_begin(&s, &p, "k", NULL, n));
    compared[n - 1] = s.call.compare ? 'x' : '.';
    uint32_t id = 7;
    assert_int_equal(s.call.from, n - 1);
    check_ok(promptsteps_set_ids(&s, &p, &id, 1, 1, n, &err), &err);
  }
  assert_string_equal(compared, "xxxx...x.......x...............x...............................x");
  for (int i = 0; i < 3; i++) {
    s.same = 60;
    assert_true(promptsteps_begin(&s, &p, "k", NULL, 64));
    assert_int_equal(s.call.compare, i < 2);
    check_ok(promptsteps_set_ids(&s, &p, (const uint32_t[]){7, 8, 9, 9}, 4, 4, 64, &err), &err);
  }
  assert_false(promptsteps_begin(&s, &p, "k", NULL, 64));
  assert_true(promptsteps_begin(&s, &p, "other", NULL, 64) && s.call.compare && !s.call.from);
  promptsteps_free(&s);
  promptids_free(&p);
}

static void refused(struct promptsteps *s, struct promptids *p, struct promptids_memo *m,
                    size_t staying, size_t upto, const char *why) {
  struct err err;
  size_t n = p->n;
  assert_int_equal(promptsteps_set_text(s, p, m, "abc", 3, staying, upto, &err), ERR_INVALID);
  assert_string_equal(err.text, why);
  assert_int_equal(p->n, n);
}

static void test_refusals(void **state) {
  (void)state;
  const struct tokens *t = steps_tokenizer(true);
  struct tokens_encoder *e = tokens_encoder_new(t);
  struct promptids_memo *m = promptids_memo_new(e, 1 << 20);
  struct promptids p;
  struct promptsteps s = {0};
  struct err err;
  promptids_init(&p);
  assert_true(promptsteps_begin(&s, &p, "k", NULL, 2));
  check_ok(promptsteps_set_text(&s, &p, m, "hc", 2, 1, 0, &err), &err); /* a head */
  assert_true(promptsteps_begin(&s, &p, "k", NULL, 2));
  assert_int_equal(s.call.from + s.call.keep, 0);
  check_ok(promptsteps_set_text(&s, &p, m, "abc", 3, 2, 2, &err), &err);
  assert_true(promptsteps_begin(&s, &p, "k", NULL, 4));
  assert_int_equal(s.call.from, 2);
  assert_int_equal(s.call.keep, 2);
  refused(&s, &p, m, 1, 5, "what stays is said to be of messages 3 to 5 of 4");
  refused(&s, &p, m, 1, 1, "what stays is said to be of messages 3 to 1 of 4");
  refused(&s, &p, m, 1, 2, "1 bytes stay that belong to no message of 3 to 4");
  assert_int_equal(promptsteps_set_ids(&s, &p, (const uint32_t[]){1}, 1, 0, 4, &err), ERR_INVALID);
  assert_string_equal(err.text, "it gave text before and gives ids now");
  check_ok(promptsteps_set_text(&s, &p, m, "abc", 3, 0, 2, &err), &err);
  assert_int_equal(p.n, 5);
  assert_true(promptsteps_begin(&s, &p, "k", NULL, 5));
  assert_int_equal(s.call.from, 2);
  promptids_set_ids(&p, (const uint32_t[]){1, 2, 3}, 3);
  refused(&s, &p, m, 1, 5, "the conversation was rendered anew meanwhile");
  promptsteps_free(&s);
  promptids_free(&p);
  promptids_memo_delete(m);
  tokens_encoder_delete(e);
  tokens_close(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_steps),     cmocka_unit_test(test_random_steps_of_bytes),
      cmocka_unit_test(test_what_is_rendered), cmocka_unit_test(test_what_is_compared),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

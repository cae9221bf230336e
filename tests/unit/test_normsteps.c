/* Limits of the steps (normsteps.c, presteps.c, decosteps.c); what they do is in
 * tests/data/tokenizer, run by test_tokenjson. */
#include "check.h"

#include "base/mem.h"
#include "text/tokensteps.h"

static void test_norm(void **state) {
  (void)state;
  struct normsteps n = {0};
  struct buf bufs[2];
  struct err err;
  const char *out;
  size_t len;
  bool first = true;
  buf_init(&bufs[0], 20);
  buf_init(&bufs[1], 20);
  check_ok(normsteps_run(&n, "a b", 3, bufs, &out, &len, &first, &err), &err);
  assert_string_equal(out, "a b"); /* the text itself */

  n.steps = mem_calloc(3, sizeof *n.steps);
  n.n = n.cap = 2;
  n.steps[0] =
      (struct normstep){.kind = NORM_PREPEND, .content = mem_strdup("_"), .content_len = 1};
  n.steps[1] = (struct normstep){.kind = NORM_REPLACE,
                                 .pattern = pattern_string(" ", 1),
                                 .content = mem_strdup("__"),
                                 .content_len = 2};
  check_ok(normsteps_run(&n, "a b", 3, bufs, &out, &len, &first, &err), &err);
  assert_int_equal(len, 5);
  assert_memory_equal(out, "_a__b", 5);
  assert_true(first);
  check_ok(normsteps_run(&n, "", 0, bufs, &out, &len, &first, &err), &err);
  assert_int_equal(len, 0); /* nothing is put in front of nothing */
  assert_int_equal(normsteps_run(&n, "a b c d e f g h", 15, bufs, &out, &len, &first, &err),
                   ERR_LIMIT);
  check_has(err.text, "more than 20 bytes");

  n.n = 3;
  n.steps[2] = (struct normstep){.kind = NORM_STRIP, .left = true, .right = true};
  mem_free(n.steps[0].content);
  n.steps[0].content = mem_strdup(" ");
  n.steps[1].kind = NORM_LOWER;
  check_ok(normsteps_run(&n, "A\xc2\xa0", 3, bufs, &out, &len, &first, &err), &err);
  assert_int_equal(len, 1);
  assert_int_equal(*out, 'a');
  assert_false(first);
  normsteps_free(&n);
  buf_free(&bufs[0]);
  buf_free(&bufs[1]);
}

static void test_deco(void **state) {
  (void)state;
  struct decosteps d = {0};
  struct decopieces p;
  struct err err;
  d.steps = mem_calloc(2, sizeof *d.steps);
  d.n = d.cap = 2;
  d.steps[0].kind = DECO_FALLBACK;
  d.steps[1] = (struct decostep){
      .kind = DECO_STRIP, .content = mem_strdup("x"), .content_len = 1, .start = 1, .stop = 2};
  decopieces_init(&p, 100);
  static const char *const in[] = {"xxa", "<0xC3>", "<0xa9>", "<0xG0>", "xx", "bxxx"};
  for (size_t i = 0; i < ARRAY_LEN(in); i++)
    check_ok(decopieces_add(&p, in[i], strlen(in[i])), &err);
  check_ok(decosteps_run(&d, &p, &err), &err);
  assert_int_equal(p.n, 5); /* the two bytes became one piece */
  assert_string_equal(p.text.data, "xa\xc3\xa9<0xG0>bx");
  decopieces_free(&p);
  decopieces_init(&p, 4);
  d.steps[0] = (struct decostep){.kind = DECO_REPLACE,
                                 .pattern = pattern_string("a", 1),
                                 .content = mem_strdup("bbb"),
                                 .content_len = 3};
  check_ok(decopieces_add(&p, "aa", 2), &err);
  assert_int_equal(decosteps_run(&d, &p, &err), ERR_LIMIT);
  check_has(err.text, "more than 4 bytes");
  decopieces_free(&p);
  decosteps_free(&d);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_norm), cmocka_unit_test(test_deco)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

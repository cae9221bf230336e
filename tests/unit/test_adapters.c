/* test_adapters.c: the adapters that a replica serves, and requests that choose one. */
#include "check.h"

#include "sim/adapters.h"
#include "sim/genrequest.h"

static void test_list(void **state) {
  (void)state;
  struct adapters a = {0}, b = {0};
  struct err err = {0};
  check_ok(adapters_add(&a, "one=/x/y=z", &err), &err);
  check_ok(adapters_add(&a, "two", &err), &err);
  check_ok(adapters_add(&a, "three=", &err), &err);
  assert_string_equal(adapters_find(&a, "one")->path, "/x/y=z");
  assert_string_equal(adapters_find(&a, "two")->path, "two");
  assert_string_equal(adapters_find(&a, "three")->path, "three");
  assert_null(adapters_find(&a, "on"));
  assert_int_equal(adapters_add(&a, "two=/z", &err), ERR_INVALID);
  assert_string_equal(err.text, "there are two adapters two");
  assert_int_equal(adapters_add(&a, "=/z", &err), ERR_INVALID);
  assert_string_equal(err.text, "\"=/z\" should be NAME or NAME=PATH");
  static const char *const names[] = {"a\nb", "\xff", "a=\xff", "a\x7f"};
  for (size_t i = 0; i < ARRAY_LEN(names); i++) {
    assert_int_equal(adapters_add(&a, names[i], &err), ERR_INVALID);
    assert_string_equal(err.text, "a name and a path are UTF-8 without control characters");
  }
  adapters_copy(&b, &a);
  assert_true(adapters_remove(&a, "one"));
  assert_false(adapters_remove(&a, "one"));
  assert_int_equal(a.n, 2);
  assert_string_equal(adapters_find(&b, "one")->path, "/x/y=z");
  adapters_free(&a);
  adapters_free(&b);
}

static void test_a_request_chooses(void **state) {
  (void)state;
  struct adapters a = {0};
  struct genmodel model = {.name = "m", .max_model_len = 100, .adapters = &a};
  struct genrequest r;
  struct apierror e = {0};
  struct err err = {0};
  check_ok(tokens_open("bytes", NULL, &model.tokenizer, &err), &err);
  check_ok(adapters_add(&a, "one", &err), &err);
  static const char *const bodies[] = {"{\"prompt\":\"x\",\"model\":\"one\"}",
                                       "{\"prompt\":\"x\",\"model\":\"m\"}", "{\"prompt\":\"x\"}"};
  for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
    assert_int_equal(genrequest_parse(GEN_COMPLETION, bodies[i], strlen(bodies[i]), &model, &r, &e),
                     0);
    if (i)
      assert_null(r.adapter);
    else
      assert_string_equal(r.adapter, "one");
    genrequest_free(&r);
  }
  static const char other[] = "{\"prompt\":\"x\",\"model\":\"two\"}";
  assert_int_equal(genrequest_parse(GEN_COMPLETION, other, sizeof other - 1, &model, &r, &e),
                   ERR_INVALID);
  assert_int_equal(e.status, 404);
  assert_string_equal(e.message, "The model `two` does not exist.");
  adapters_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_list),
      cmocka_unit_test(test_a_request_chooses),
  };
  return cmocka_run_group_tests_name("adapters", tests, NULL, NULL);
}

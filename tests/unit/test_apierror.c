/* test_apierror.c: vLLM's error body. */
#include "check.h"

#include "sim/apierror.h"

static void check_body(const struct apierror *e, const char *want) {
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  apierror_write(e, &b);
  assert_string_equal(b.data, want);
  buf_free(&b);
}

static void test_body_with_and_without_param(void **state) {
  (void)state;
  struct apierror e = {0};
  assert_int_equal(apierror_set(&e, 404, "model", "The model `%s` does not exist.", "a\"b"),
                   ERR_INVALID);
  check_body(&e, "{\"error\":{\"message\":\"The model `a\\\"b` does not exist.\",\"type\":"
                 "\"NotFoundError\",\"param\":\"model\",\"code\":404}}");
  apierror_set(&e, 503, NULL, "busy");
  check_body(&e, "{\"error\":{\"message\":\"busy\",\"type\":\"Service Unavailable\",\"param\":null,"
                 "\"code\":503}}");
}

static void test_types(void **state) {
  (void)state;
  assert_string_equal(apierror_type(400), "BadRequestError");
  assert_string_equal(apierror_type(500), "InternalServerError");
  assert_string_equal(apierror_type(429), "Too Many Requests");
  assert_string_equal(apierror_type(418), "Error");
}

static void test_long_message_is_cut_between_characters(void **state) {
  (void)state;
  struct apierror e = {0};
  char text[2000];
  for (size_t i = 0; i + 2 < sizeof text; i += 2)
    memcpy(text + i, "\xc3\xa9", 2);
  text[sizeof text - 2] = '\0';
  apierror_set(&e, 400, NULL, "x%s", text);
  assert_int_equal(strlen(e.message), 511);
  apierror_set(&e, 400, NULL, "%s", text);
  assert_int_equal(strlen(e.message), 510);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_body_with_and_without_param),
      cmocka_unit_test(test_types),
      cmocka_unit_test(test_long_message_is_cut_between_characters),
  };
  return cmocka_run_group_tests_name("apierror", tests, NULL, NULL);
}

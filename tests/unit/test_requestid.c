/* test_requestid.c: what the ids of requests look like, and that runs have different ones. */
#include "check.h"

#include "run/requestid.h"

static void check_id(uint64_t run, uint32_t worker, uint64_t number, const char *text) {
  char id[REQUESTID_MAX];
  assert_int_equal(requestid_write(run, worker, number, id), strlen(text));
  assert_string_equal(id, text);
}

static void test_form(void **state) {
  (void)state;
  check_id(0, 0, 0, "perigee-000000000000-0-0");
  check_id(0x123456789abc, 3, 0xff, "perigee-123456789abc-3-ff");
  check_id(UINT64_MAX, UINT32_MAX, UINT64_MAX,
           "perigee-ffffffffffffffff-ffffffff-ffffffffffffffff");
}

static void test_runs_differ(void **state) {
  (void)state;
  uint64_t a = requestid_run(1000, 5);
  assert_int_equal(a, requestid_run(1000, 5));
  assert_true(a != requestid_run(1001, 5));
  assert_true(a != requestid_run(1000, 6));
  assert_true(a < UINT64_C(1) << 48);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_form),
      cmocka_unit_test(test_runs_differ),
  };
  return cmocka_run_group_tests_name("requestid", tests, NULL, NULL);
}

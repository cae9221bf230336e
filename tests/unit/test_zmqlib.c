/* test_zmqlib.c: libzmq is found, and what is said where it is not. */
#include "check.h"

#include <errno.h>

#include "io/zmqlib.h"

static void test_loaded(void **state) {
  (void)state;
  struct zmqlib lib;
  struct err err = {0};
  check_ok(zmqlib_load(&lib, NULL, &err), &err);
  void *context = lib.ctx_new();
  assert_non_null(context);
  assert_true(lib.ctx_get(context, ZMQ_SOCKET_LIMIT) > 1000);
  assert_string_equal(lib.strerror(ENOTSOCK), "Socket operation on non-socket");
  assert_int_equal(lib.ctx_term(context), 0);
}

static void test_missing(void **state) {
  (void)state;
  struct zmqlib lib;
  struct err err = {0};
  assert_int_equal(zmqlib_load(&lib, "libzmq.so.999", &err), ERR_NOT_FOUND);
  check_has(err.text, "libzmq.so.999 cannot be loaded (install libzmq5): ");
  assert_int_equal(zmqlib_load(&lib, "libm.so.6", &err), ERR_NOT_FOUND);
  assert_string_equal(err.text, "libm.so.6 has no zmq_ctx_new (install libzmq5)");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_loaded), cmocka_unit_test(test_missing)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

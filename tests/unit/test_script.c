/* test_script.c: one-shot states (script.c): files, values, commands in Lua, texts. */
#include "check.h"

#include <unistd.h>

#include "bind/script.h"

static char *path_of(const char *text) {
  static char path[64];
  strcpy(path, "/tmp/perigee-script-XXXXXX");
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
  close(fd);
  return path;
}

static void runs_a_file_with_its_arguments(void **state) {
  (void)state;
  struct err err = {0};
  char *argv[] = {"one", "two"};
  char *path = path_of("assert(arg[1] == 'one' and arg[2] == 'two' and select('#', ...) == 2)\n"
                       "assert(require('perigee.json').encode({1, 2}) == '[1,2]')\n");
  check_ok(script_file(path, 2, argv, &err), &err);
  unlink(path);
  path = path_of("local x = 1\nerror('on purpose')\n");
  assert_int_equal(script_file(path, 0, NULL, &err), ERR_INVALID);
  check_has(err.text, ":2: on purpose");
  check_has(err.text, "stack traceback");
  unlink(path);
  assert_int_equal(script_file("/nonexistent/x.lua", 0, NULL, &err), ERR_INVALID);
  check_has(err.text, "/nonexistent/x.lua");
}

static void reads_a_value(void **state) {
  (void)state;
  struct err err = {0};
  struct value v;
  char *path = path_of("return { replicas = { { id = 'a', url = 'http://x' } }, n = 3 }\n");
  check_ok(script_value(path, &v, &err), &err);
  assert_string_equal(value_to_string(value_get(value_at(value_get(&v, "replicas"), 0), "id")),
                      "a");
  value_free(&v);
  unlink(path);
  path = path_of("return 42\n");
  assert_int_equal(script_value(path, &v, &err), ERR_INVALID);
  check_has(err.text, "must return a table, it returned number");
  assert_int_equal(v.kind, VALUE_NULL);
  unlink(path);
  path = path_of("return { a = { b = 0/0 } }\n");
  assert_int_equal(script_value(path, &v, &err), ERR_INVALID);
  assert_string_equal(err.text, "its table must not hold NaN (at .a.b)");
  assert_int_equal(script_value(path, &v, NULL), ERR_INVALID);
  unlink(path);
}

static void calls_a_module_s_function(void **state) {
  (void)state;
  struct err err = {0};
  struct buf out;
  buf_init(&out, 1000);
  struct value arg = value_object();
  value_set(&arg, "b", value_int(1));
  value_set(&arg, "a", value_array());
  const struct value *args[] = {&arg};
  check_ok(script_text("perigee.json", "encode", args, 1, &out, &err), &err);
  assert_string_equal(out.data, "{\"b\":1,\"a\":[]}");
  assert_int_equal(script_text("perigee.json", "nothing", args, 1, &out, &err), ERR_INVALID);
  check_has(err.text, "module perigee.json has no function nothing");
  value_free(&arg);
  buf_free(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(runs_a_file_with_its_arguments),
      cmocka_unit_test(reads_a_value),
      cmocka_unit_test(calls_a_module_s_function),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

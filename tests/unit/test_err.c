/* test_err.c: error texts: filling, prefixing, cutting at a character, the nearest word. */
#include "check.h"

#include "base/err.h"
#include "base/mem.h"

static void sets_and_prefixes(void **state) {
  (void)state;
  struct err e = {0};
  assert_int_equal(err_set(&e, ERR_IO, "cannot open %s", "x.lua"), ERR_IO);
  assert_string_equal(e.text, "cannot open x.lua");
  assert_int_equal(err_prefix(&e, "line %d", 3), ERR_IO);
  assert_string_equal(e.text, "line 3: cannot open x.lua");
  assert_int_equal(err_set(NULL, ERR_LIMIT, "nobody listens"), ERR_LIMIT);
  /* its own text as an argument */
  err_set(&e, ERR_INVALID, "again: %s", e.text);
  assert_string_equal(e.text, "again: line 3: cannot open x.lua");
}

static void cuts_at_a_character(void **state) {
  (void)state;
  for (size_t pad = sizeof(struct err) - 20; pad < sizeof(struct err); pad++) {
    struct err e;
    char text[2 * sizeof(struct err)];
    memset(text, 'a', pad);
    for (size_t i = 100; i < pad; i += 100)
      text[i] = ' '; /* of long words the middle would go */
    strcpy(text + pad, "€€€€€€€€€€");
    err_set(&e, ERR_INVALID, "%s", text);
    size_t len = strlen(e.text);
    assert_true(len < sizeof e.text && len >= sizeof e.text - 4);
    assert_true(len >= pad ? (len - pad) % 3 == 0 : len == pad || len == sizeof e.text - 1);
  }
}

/* What a person gave may be of any length; what to do about it stands behind it. */
static void keeps_the_way_out(void **state) {
  (void)state;
  struct err e;
  char *name = mem_alloc(100001);
  memset(name, 'y', 100000);
  name[100000] = '\0';
  err_set(&e, ERR_INVALID, "there is no axis '%s': axes are a and b", name);
  assert_memory_equal(e.text, "there is no axis 'yyyy", 22);
  check_has(e.text, "yyyy…yyyy");
  check_has(e.text, "yyy': axes are a and b");
  assert_true(strlen(e.text) < sizeof e.text && strlen(e.text) > sizeof e.text - 8);
  err_prefix(&e, "%s", name);
  check_has(e.text, "yyy: there is no axis 'yyyy");
  check_has(e.text, "yyy': axes are a and b");
  for (size_t from = 0; from < 3; from++) { /* whole characters are left of it */
    memset(name, 'x', from);
    for (size_t i = 0; i < 30000; i++)
      memcpy(name + from + 3 * i, "€", 4);
    err_set(&e, ERR_INVALID, "'%s' is %s, no name", name, name);
    check_has(e.text, "€…€");
    check_has(e.text, "€, no name");
  }
  for (size_t size = 100; size < 300; size++) { /* words about as long as what is kept of one */
    for (size_t i = 0; i < 5000; i++)
      name[i] = i % (size + 1) == size ? ' ' : 'w';
    name[5000] = '\0';
    err_set(&e, ERR_INVALID, "%s", name);
    assert_true(strlen(e.text) < sizeof e.text && strlen(e.text) > 700);
  }
  mem_free(name);
}

static void names_codes(void **state) {
  (void)state;
  assert_string_equal(err_name(0), "ok");
  assert_string_equal(err_name(ERR_TIMEOUT), "timeout");
  assert_string_equal(err_name(ERR_UNSUPPORTED), "unsupported");
  assert_string_equal(err_name(-99), "unknown");
  assert_string_equal(err_name(5), "unknown");
}

static void finds_the_nearest(void **state) {
  (void)state;
  static const char *const names[] = {"ttft", "itl", "cached_ratio", "output_tokens", "duration"};
  const size_t n = ARRAY_LEN(names);
  assert_string_equal(err_nearest("tfft", names, n), "ttft");
  assert_string_equal(err_nearest("durration", names, n), "duration");
  assert_string_equal(err_nearest("cached", names, n), "cached_ratio");
  assert_string_equal(err_nearest("ouput_tokens", names, n), "output_tokens");
  assert_string_equal(err_nearest("TTFT", names, n), "ttft");
  assert_string_equal(err_nearest("CACHED", names, n), "cached_ratio");
  assert_string_equal(err_nearest("durations_of_it", names, n), "duration");
  assert_null(err_nearest("zebra", names, n));
  assert_null(err_nearest("x", names, n));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sets_and_prefixes), cmocka_unit_test(cuts_at_a_character),
      cmocka_unit_test(keeps_the_way_out), cmocka_unit_test(names_codes),
      cmocka_unit_test(finds_the_nearest),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

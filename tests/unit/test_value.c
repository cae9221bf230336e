#include "check.h"

#include "text/value.h"

static void test_kinds(void **state) {
  (void)state;
  assert_int_equal(value_null().kind, VALUE_NULL);
  assert_int_equal(value_cstring(NULL).kind, VALUE_NULL);
  struct value v = value_string("a\0b", 3);
  assert_int_equal(v.u.string.len, 3);
  assert_memory_equal(value_to_string(&v), "a\0b\0", 4);
  value_free(&v);
  assert_int_equal(v.kind, VALUE_NULL);
  v = value_string(NULL, 0);
  assert_string_equal(value_to_string(&v), "");
  value_free(&v);
  v = value_int(3);
  assert_null(value_to_string(&v));
  assert_null(value_to_string(NULL));
}

static void test_numbers(void **state) {
  (void)state;
  int64_t i = 0;
  double d = 0;
  struct value v = value_int(INT64_MIN);
  assert_true(value_to_int(&v, &i));
  assert_true(i == INT64_MIN);
  assert_true(value_to_double(&v, &d));
  assert_true(d == -0x1p63);
  v = value_double(-0x1p63);
  assert_true(value_to_int(&v, &i));
  assert_true(i == INT64_MIN);
  double no[] = {0x1p63, 0.5, -1.25, 1e300, 0.0 / 0.0, 1.0 / 0.0};
  for (size_t k = 0; k < ARRAY_LEN(no); k++) {
    v = value_double(no[k]);
    assert_false(value_to_int(&v, &i));
  }
  v = value_bool(true);
  assert_false(value_to_int(&v, &i));
  assert_false(value_to_double(&v, &d));
  assert_false(value_to_int(NULL, &i));
  assert_false(value_to_double(NULL, &d));
}

static void test_array(void **state) {
  (void)state;
  struct value a = value_array();
  assert_int_equal(value_count(&a), 0);
  assert_null(value_at(&a, 0));
  for (int64_t i = 0; i < 100; i++)
    assert_true(value_push(&a, value_int(i))->u.integer == i);
  assert_int_equal(value_count(&a), 100);
  assert_true(value_at(&a, 99)->u.integer == 99);
  assert_null(value_at(&a, 100));
  assert_null(value_at(NULL, 0));
  assert_null(value_get(&a, "0"));
  assert_int_equal(value_count(NULL), 0);
  value_free(&a);
}

/* Crosses every growth of the index, with replacement on both sides of it. */
static void test_object(void **state) {
  (void)state;
  struct value o = value_object();
  char key[16];
  for (int i = 0; i < 3000; i++) {
    snprintf(key, sizeof key, "k%d", i);
    assert_null(value_get(&o, key));
    value_set(&o, key, value_int(i));
    snprintf(key, sizeof key, "k%d", i / 2); /* an older one, or itself */
    value_set(&o, key, value_int(-i / 2));
    assert_int_equal(value_count(&o), i + 1);
  }
  for (int i = 0; i < 3000; i++) {
    snprintf(key, sizeof key, "k%d", i);
    assert_string_equal(o.u.object.pairs[i].key, key);
    int want = i < 1500 ? -i : i;
    assert_int_equal(value_get(&o, key)->u.integer, want);
  }
  assert_null(value_get(&o, "k3000"));
  assert_null(value_get(&o, ""));
  assert_null(value_at(&o, 0));
  value_free(&o);
}

static void test_keys_with_nul(void **state) {
  (void)state;
  struct value o = value_object();
  for (int i = 0; i < 12; i++) /* the last ones in the index */
    value_set_len(&o, "abcdefghijkl", (size_t)i, value_int(i));
  value_set_len(&o, "a\0b", 3, value_int(100));
  assert_true(value_get_len(&o, "a\0b", 3)->u.integer == 100);
  assert_true(value_get(&o, "a")->u.integer == 1);
  assert_true(value_get(&o, "")->u.integer == 0);
  assert_null(value_get_len(&o, "a\0c", 3));
  value_free(&o);
}

static struct value sample(void) {
  struct value o = value_object();
  struct value *list = value_set(&o, "list", value_array());
  value_push(list, value_int(1));
  value_push(list, value_cstring("x"));
  value_push(list, value_object());
  value_set(&o, "b", value_bool(true));
  return o;
}

static void test_equal(void **state) {
  (void)state;
  struct value a = sample(), b = value_copy(&a);
  assert_true(value_equal(&a, &b));
  value_push(value_get(&b, "list"), value_null());
  assert_false(value_equal(&a, &b));
  value_free(&b);

  /* Key order does not matter; another key, or one more, does. */
  b = value_object();
  value_set(&b, "b", value_bool(true));
  assert_false(value_equal(&a, &b));
  value_set(&b, "list", value_copy(value_get(&a, "list")));
  assert_true(value_equal(&a, &b));
  value_set(&b, "c", value_null());
  assert_false(value_equal(&a, &b));
  value_free(&b);
  value_free(&a);

  a = value_int(1);
  b = value_double(1);
  assert_false(value_equal(&a, &b));
  a = value_array();
  b = value_object();
  assert_false(value_equal(&a, &b));
  a = value_cstring("a");
  b = value_string("a\0", 2);
  assert_false(value_equal(&a, &b));
  value_free(&a);
  value_free(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_kinds), cmocka_unit_test(test_numbers),
      cmocka_unit_test(test_array), cmocka_unit_test(test_object),
      cmocka_unit_test(test_equal), cmocka_unit_test(test_keys_with_nul),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

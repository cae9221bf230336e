/* test_fleet.c: replicas as people write them. */
#include "check.h"

#include "base/mem.h"
#include "run/fleet.h"
#include "text/tokens.h"

static void reads_the_three_forms(void **state) {
  (void)state;
  struct fleet f = {0};
  struct err err;
  check_ok(fleet_add_replica(&f, "http://127.0.0.1:8000/", &err), &err);
  check_ok(fleet_add_replica(&f, "gpu-1=https://example.com:8443/v1x", &err), &err);
  check_ok(fleet_add_replica(&f, "b|http://b:1", &err), &err);
  check_ok(fleet_add_replica(&f, "http://c", &err), &err);
  assert_int_equal(f.n_replicas, 4);
  assert_string_equal(f.replicas[0].id, "r0");
  assert_string_equal(f.replicas[0].url, "http://127.0.0.1:8000");
  assert_string_equal(f.replicas[1].id, "gpu-1");
  assert_string_equal(f.replicas[1].url, "https://example.com:8443/v1x");
  assert_string_equal(f.replicas[2].id, "b");
  assert_string_equal(f.replicas[2].url, "http://b:1");
  assert_string_equal(f.replicas[3].id, "r3");
  assert_null(f.replicas[3].metrics);
  f.model = mem_strdup("m");
  f.headers = mem_strdup("X: y\r\n");
  fleet_free(&f);
  assert_int_equal(f.n_replicas, 0);
  assert_null(f.model);
}

static void names_what_is_wrong(void **state) {
  (void)state;
  struct fleet f = {0};
  struct err err;
  check_ok(fleet_add_replica(&f, "a=http://h:1", &err), &err);
  const struct {
    const char *text, *says;
  } bad[] = {
      {"a=http://h:2", "the id 'a' is taken by http://h:1"},
      {"=http://h:2", "the id is empty"},
      {"|http://h:2", "the id is empty"},
      {"b=", "replica 'b='"},
      {"b=ftp://h", "replica 'b=ftp://h'"},
      {"b c=http://h", "has no spaces"},
      {"localhost:8000", "replica 'localhost:8000'"},
      {"http://h:99999", "replica 'http://h:99999'"},
      {"", "replica ''"},
  };
  for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
    assert_int_equal(fleet_add_replica(&f, bad[i].text, &err), ERR_INVALID);
    check_has(err.text, bad[i].says);
  }
  assert_int_equal(f.n_replicas, 1);
  fleet_free(&f);
}

static void loads_the_tokenizer_once(void **state) {
  (void)state;
  struct fleet f = {0};
  struct err err;
  check_ok(fleet_load_tokens(&f, &err), &err);
  assert_null(f.tokens);
  f.tokenizer = mem_strdup("bytes");
  check_ok(fleet_load_tokens(&f, &err), &err);
  const struct tokens *t = f.tokens;
  assert_string_equal(t->name, "bytes");
  check_ok(fleet_load_tokens(&f, &err), &err);
  assert_ptr_equal(f.tokens, t);
  fleet_free(&f);
  f.tokenizer = mem_strdup("/nowhere.tiktoken");
  f.family = mem_strdup("o200k_base");
  assert_int_equal(fleet_load_tokens(&f, &err), ERR_NOT_FOUND);
  check_has(err.text, "/nowhere.tiktoken: cannot open");
  fleet_free(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_the_three_forms),
      cmocka_unit_test(loads_the_tokenizer_once),
      cmocka_unit_test(names_what_is_wrong),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_faults.c: the grammar of faults, and who is hit. */
#include "check.h"

#include "sim/faults.h"

static struct fault parse(const char *spec) {
  struct fault f;
  struct err err = {0};
  check_ok(faults_parse(spec, &f, &err), &err);
  return f;
}

static void check_bad(const char *spec, const char *needle) {
  struct fault f;
  struct err err = {0};
  assert_int_equal(faults_parse(spec, &f, &err), ERR_INVALID);
  check_has(err.text, needle);
}

static void check_round_trip(const char *spec, const char *want) {
  struct fault f = parse(spec), again;
  struct buf b;
  struct err err = {0};
  buf_init(&b, BUF_MAX_OWN);
  faults_format(&f, &b);
  assert_string_equal(b.data, want);
  check_ok(faults_parse(b.data, &again, &err), &err);
  assert_int_equal(again.kind, f.kind);
  assert_true(again.for_ns == f.for_ns && again.delay_ns == f.delay_ns);
  buf_free(&b);
}

static void test_every_kind_parses(void **state) {
  (void)state;
  check_round_trip("refuse", "refuse");
  check_round_trip("refuse for=1.5s", "refuse for=1.5s");
  check_round_trip("reset after=3", "reset after=3");
  check_round_trip("429 retry_after=2000ms", "status code=429 retry_after=2s");
  check_round_trip("status code=503 p=30%", "status code=503 p=0.3");
  check_round_trip("stall after=2 for=250ms", "stall after=2 for=0.25s");
  check_round_trip("  empty   p=0.3 ", "empty p=0.3");
  check_round_trip("only_done", "only_done");
  check_round_trip("not_sse count=2", "not_sse count=2");
  check_round_trip("error after=0", "error after=0");
  check_round_trip("bad_json after=1", "bad_json after=1");
  check_round_trip("truncated", "truncated");
  check_round_trip("cut after=4", "cut after=4");
  check_round_trip("slow bytes=5 delay=2ms", "slow bytes=5 delay=0.002s");
  check_round_trip("coalesce events=10", "coalesce events=10");
  check_round_trip("no_usage", "no_usage");
  check_round_trip("no_output path=/v1/completions", "no_output path=/v1/completions");
}

static void test_bad_words_name_the_nearest(void **state) {
  (void)state;
  check_bad("", "a fault needs a kind");
  check_bad("emty", "fault \"emty\" is unknown (did you mean empty?)");
  check_bad("zzzzzzzz", "known: refuse reset status");
  check_bad("reset afer=1", "fault reset has no key afer (did you mean after?)");
  check_bad("refuse p=0.5", "fault refuse has no key p; it takes for");
  check_bad("empty p", "fault empty: \"p\" should be key=value");
  check_bad("empty p=1.5", "a probability from 0 to 1");
  check_bad("empty count=0", "count=0: a whole number from 1 to 1000000000 is needed");
  check_bad("reset after=1.5", "after=1.5: a whole number from 0 to 1000000000 is needed");
  check_bad("empty path=v1", "path=v1: a path such as /v1/models is needed");
  check_bad("stall for=3parsecs",
            "fault stall: for=3parsecs: a time from 0 to 24h, as in 250ms or 2s, is needed");
  check_bad("status", "fault status needs code=");
  check_bad("200", "fault 200: it is no error status (400 to 599)");
  check_bad("status code=200", "fault status: code=200 is no error status (400 to 599)");
  check_bad("429 p=2", "fault 429: p=2: a probability from 0 to 1 is needed");
  check_bad("429 after=2", "fault 429 has no key after");
  check_bad("status code=429 p=2", "fault status: p=2: ");
  check_bad("status code=4e21", "code=4e21: a whole number from 1 to 1000000000");
  check_bad("reset after=nan", "after=nan: a whole number from 0");
  check_bad("reset after=-1", "after=-1: a whole number from 0");
  check_bad("stall for=-1s", "for=-1s: a time from 0");
  check_bad("stall for=2d", "for=2d: a time from 0 to 24h");
  check_bad("empty p=-0.1", "p=-0.1: a probability from 0 to 1");
  check_bad("empty p=", "p=: a probability from 0 to 1");
  check_bad("slow bytes=3", "fault slow needs delay=");
  check_bad("coalesce", "fault coalesce needs events=");
}

static struct fault_plan decide(struct faults *list, const char *path, uint64_t n) {
  struct fault_plan plan;
  faults_decide(list, path, n, &plan);
  return plan;
}

static void add(struct faults *list, const char *spec) {
  struct fault f = parse(spec);
  faults_add(list, &f);
}

static void test_honest_without_faults(void **state) {
  (void)state;
  struct faults list;
  faults_init(&list, 1);
  struct fault_plan p = decide(&list, "/v1/completions", 0);
  assert_int_equal(p.kinds, 0);
  assert_int_equal(p.instead, FAULT_KINDS);
  assert_int_equal(p.ending, FAULT_KINDS);
  assert_int_equal(p.stall_after, FAULT_NEVER);
  assert_int_equal(p.bad_json_at, FAULT_NEVER);
  faults_free(&list);
}

static void test_paths(void **state) {
  (void)state;
  struct faults list;
  faults_init(&list, 1);
  add(&list, "503");
  add(&list, "no_usage path=/v1/models");
  assert_int_equal(decide(&list, "/v1/chat/completions", 0).kinds, 1u << FAULT_STATUS);
  assert_int_equal(decide(&list, "/v1/completions", 0).kinds, 1u << FAULT_STATUS);
  assert_int_equal(decide(&list, "/v1/models", 0).kinds, 1u << FAULT_NO_USAGE);
  assert_int_equal(decide(&list, "/health", 0).kinds, 0);
  faults_free(&list);
}

static void test_count_limits(void **state) {
  (void)state;
  struct faults list;
  faults_init(&list, 1);
  add(&list, "empty count=2");
  for (uint64_t i = 0; i < 5; i++)
    assert_int_equal(decide(&list, "/v1/completions", i).instead,
                     i < 2 ? FAULT_EMPTY : FAULT_KINDS);
  assert_int_equal(list.items[0].used, 2);
  faults_free(&list);
}

/* The share is right, equal for equal seeds, and not the same for another seed or place. */
static void test_probability_is_a_function_of_the_number(void **state) {
  (void)state;
  enum { N = 20000 };
  struct faults a, b, c;
  faults_init(&a, 7);
  faults_init(&b, 7);
  faults_init(&c, 8);
  add(&a, "empty p=0.3");
  add(&b, "empty p=0.3");
  add(&c, "empty p=0.3");
  add(&a, "no_usage p=0.3");
  int hits = 0, differ = 0, both = 0;
  for (uint64_t i = 0; i < N; i++) {
    struct fault_plan pa = decide(&a, "/v1/completions", i);
    bool hit = pa.instead == FAULT_EMPTY;
    hits += hit;
    both += hit && pa.no_usage;
    assert_int_equal(decide(&b, "/v1/completions", i).instead == FAULT_EMPTY, hit);
    differ += (decide(&c, "/v1/completions", i).instead == FAULT_EMPTY) != hit;
  }
  check_near(hits / (double)N, 0.3, 0.015);
  check_near(both / (double)N, 0.09, 0.01);
  check_near(differ / (double)N, 0.42, 0.02);
  faults_free(&a);
  faults_free(&b);
  faults_free(&c);
}

static void test_faults_combine_and_the_first_ending_holds(void **state) {
  (void)state;
  struct faults list;
  faults_init(&list, 1);
  add(&list, "coalesce events=4");
  add(&list, "slow bytes=3 delay=1ms");
  add(&list, "stall after=2 for=10ms");
  add(&list, "error after=5");
  add(&list, "truncated");
  add(&list, "bad_json");
  add(&list, "no_output");
  struct fault_plan p = decide(&list, "/v1/completions", 0);
  assert_int_equal(p.coalesce, 4);
  assert_int_equal(p.piece_bytes, 3);
  assert_int_equal(p.piece_delay_ns, NS_PER_MS);
  assert_int_equal(p.stall_after, 2);
  assert_int_equal(p.stall_ns, 10 * NS_PER_MS);
  assert_int_equal(p.ending, FAULT_ERROR);
  assert_int_equal(p.ending_after, 5);
  assert_int_equal(p.bad_json_at, 0);
  assert_true(p.no_output);
  assert_false(p.no_usage);
  faults_clear(&list);
  add(&list, "429 retry_after=3s");
  add(&list, "empty");
  p = decide(&list, "/v1/completions", 0);
  assert_int_equal(p.instead, FAULT_STATUS);
  assert_int_equal(p.status, 429);
  assert_int_equal(p.retry_after_s, 3);
  faults_free(&list);
}

static void test_reset_without_after_answers_nothing(void **state) {
  (void)state;
  struct faults list;
  faults_init(&list, 1);
  add(&list, "reset");
  assert_int_equal(decide(&list, "/v1/completions", 0).instead, FAULT_RESET);
  faults_clear(&list);
  add(&list, "reset after=2");
  struct fault_plan p = decide(&list, "/v1/completions", 0);
  assert_int_equal(p.instead, FAULT_KINDS);
  assert_int_equal(p.ending, FAULT_RESET);
  assert_int_equal(p.ending_after, 2);
  faults_clear(&list);
  add(&list, "truncated");
  assert_int_equal(decide(&list, "/v1/completions", 0).ending_after, FAULT_NEVER);
  assert_null(faults_refuse(&list));
  add(&list, "refuse");
  assert_ptr_equal(faults_refuse(&list), &list.items[1]);
  assert_int_equal(decide(&list, "/v1/completions", 0).kinds, 1u << FAULT_TRUNCATED);
  faults_free(&list);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_kind_parses),
      cmocka_unit_test(test_bad_words_name_the_nearest),
      cmocka_unit_test(test_honest_without_faults),
      cmocka_unit_test(test_paths),
      cmocka_unit_test(test_count_limits),
      cmocka_unit_test(test_probability_is_a_function_of_the_number),
      cmocka_unit_test(test_faults_combine_and_the_first_ending_holds),
      cmocka_unit_test(test_reset_without_after_answers_nothing),
  };
  return cmocka_run_group_tests_name("faults", tests, NULL, NULL);
}

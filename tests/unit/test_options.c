/* test_options.c: the option table: every kind, every error text. */
#include "check.h"

#include "cmd/options.h"

struct dest {
  bool flag;
  const char *text, *maybe;
  struct options_list list;
  int64_t count, few;
  double seconds, ratio;
};

static const struct options_spec specs[] = {
    {"--flag", NULL, OPTIONS_FLAG, offsetof(struct dest, flag), "a flag"},
    {"--text", "T", OPTIONS_TEXT, offsetof(struct dest, text), "a text"},
    {"--maybe", "T", OPTIONS_OPTIONAL_TEXT, offsetof(struct dest, maybe), "perhaps"},
    {"--list", "L", OPTIONS_LIST, offsetof(struct dest, list), "many"},
    {"--count", "N", OPTIONS_COUNT, offsetof(struct dest, count), "whole"},
    {"--seconds", "S", OPTIONS_SECONDS, offsetof(struct dest, seconds), "time"},
    {"--ratio", "R", OPTIONS_RATIO, offsetof(struct dest, ratio), "share"},
    {"--few", "N", OPTIONS_COUNT, offsetof(struct dest, few), "not many"},
};
static const struct options_range ranges[] = {
    {"--few", 1, 64}, {"--seconds", 1e-3, 3600}, {"--ratio", 0, 1}};
static const struct options_hint hints[] = {{"--number", "--count N"}, {"-n", "--count N"}};
static const struct options_command command = {"demo", "a test", "FILE", NULL, specs, 8,
                                               1,      2,        ranges, 3,    hints, 2};

static int parse(const char *line, struct dest *d, struct options_list *args, struct err *err) {
  static char copy[256];
  static char *argv[32];
  int argc = 0;
  snprintf(copy, sizeof copy, "%s", line);
  for (char *t = strtok(copy, " "); t; t = strtok(NULL, " "))
    argv[argc++] = t;
  *d = (struct dest){0};
  return options_parse(&command, argc, argv, d, args, err);
}

static void reads_every_kind(void **state) {
  (void)state;
  struct dest d;
  struct options_list args;
  struct err err = {0};
  check_ok(parse("a --flag --text x --maybe --list 1 --list=2 --count 42 --seconds 50ms --ratio=5% "
                 "-- --odd",
                 &d, &args, &err),
           &err);
  assert_true(d.flag);
  assert_string_equal(d.text, "x");
  assert_string_equal(d.maybe, "");
  assert_int_equal(d.list.n, 2);
  assert_string_equal(d.list.items[1], "2");
  assert_int_equal(d.count, 42);
  check_near(d.seconds, 0.05, 0);
  check_near(d.ratio, 0.05, 1e-15);
  assert_int_equal(args.n, 2);
  assert_string_equal(args.items[1], "--odd");
  options_free(&command, &d, &args);
}

static void says_what_is_wrong(void **state) {
  (void)state;
  static const char *const cases[][2] = {
      {"a --cout 3", "unknown option --cout (did you mean --count?); see `perigee demo --help`"},
      {"a --number 3", "unknown option --number (did you mean --count N?); see"},
      {"a --number=3", "unknown option --number (did you mean --count N?); see"},
      {"a -n 3", "unknown option -n (did you mean --count N?); see"},
      {"a --zzzzzz", "unknown option --zzzzzz; see `perigee demo --help`"},
      {"a --flag=1", "--flag takes no value"},
      {"a --text", "--text needs a value: --text T"},
      {"a --text --flag", "--text needs a value"},
      {"a --text=", "--text: the value is empty; write --text T"},
      {"a --list=", "--list: the value is empty"},
      {"a --count=", "--count: the value is empty"},
      {"a --count 1.5", "--count: \"1.5\" is not a whole number (0 or more)"},
      {"a --count=-3", "--count: -3 is out of range (0 or more)"},
      {"a --count -3", "--count: -3 is out of range (0 or more)"},
      {"a --count many", "--count: \"many\" is not a whole number"},
      {"a --count 1e400", "--count: \"1e400\" is not a whole number"},
      {"a --count 99999999999999999999",
       "--count: 99999999999999999999 is out of range (0 to 9007199254740992)"},
      {"a --count 5s", "--count: \"5s\" is not a whole number"},
      {"a --few 0", "--few: 0 is out of range (1 to 64)"},
      {"a --few 65", "--few: 65 is out of range (1 to 64)"},
      {"a --seconds 5%", "--seconds: \"5%\" is not a time, as in 50ms, 2s, 3m"},
      {"a --seconds 0", "--seconds: 0 is out of range (1.00 ms to 60m 00s)"},
      {"a --seconds -1s", "--seconds: -1s is out of range"},
      {"a --seconds 61m", "--seconds: 61m is out of range"},
      {"a --ratio 5s", "--ratio: \"5s\" is not a share, as in 5% or a number from 0 to 1"},
      {"a --ratio 101%", "--ratio: 101% is out of range (0 to 1)"},
      {"--flag", "missing argument; usage: perigee demo FILE"},
      {"a b c", "too many arguments"},
  };
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    struct dest d;
    struct options_list args;
    struct err err = {0};
    assert_int_equal(parse(cases[i][0], &d, &args, &err), ERR_INVALID);
    check_has(err.text, cases[i][1]);
    options_free(&command, &d, &args);
  }
}

static int parse_words(int argc, char **argv, struct err *err) {
  struct dest d = {0};
  struct options_list args;
  int rc = options_parse(&command, argc, argv, &d, &args, err);
  options_free(&command, &d, &args);
  return rc;
}

static void empty_words_are_no_values(void **state) {
  (void)state;
  struct err err = {0};
  assert_int_equal(parse_words(1, (char *[]){""}, &err), ERR_INVALID);
  check_has(err.text, "argument 1 is empty; usage: perigee demo FILE");
  assert_int_equal(parse_words(3, (char *[]){"a", "--text", ""}, &err), ERR_INVALID);
  check_has(err.text, "--text: the value is empty");
  assert_int_equal(parse_words(2, (char *[]){"a", "--maybe="}, &err), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_every_kind),
      cmocka_unit_test(says_what_is_wrong),
      cmocka_unit_test(empty_words_are_no_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

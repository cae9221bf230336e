#include "check.h"

#include "text/addedtokens.h"

static struct addedtokens set;

static int open_set(void **state) {
  (void)state;
  static const struct {
    const char *text;
    struct added_token flags;
  } all[] = {{"<|end|>", {.id = 1, .special = true}},
             {"<|end|>more", {.id = 2}},
             {"word", {.id = 3, .single_word = true}},
             {"<l>", {.id = 4, .lstrip = true}},
             {"<r>", {.id = 5, .rstrip = true}},
             {"aa", {.id = 6}},
             {"", {.id = 7}},
             {"aa", {.id = 8}}};
  addedtokens_init(&set);
  for (size_t i = 0; i < ARRAY_LEN(all); i++)
    addedtokens_add(&set, all[i].text, strlen(all[i].text), &all[i].flags);
  return 0;
}

static int close_set(void **state) {
  (void)state;
  addedtokens_free(&set);
  return 0;
}

/* All matches as "id:start-end". */
static void check_matches(const char *text, bool special, const char *want) {
  struct added_place place = {0};
  struct added_match m;
  char got[300] = "";
  size_t n = 0;
  while (addedtokens_next(&set, text, strlen(text), special, &place, &m))
    n += (size_t)snprintf(got + n, sizeof got - n, "%s%u:%zu-%zu", n ? " " : "", m.id, m.start,
                          m.end);
  if (strcmp(got, want) != 0)
    fail_msg("\"%s\": %s, expected %s", text, got, want);
}

static void test_matching(void **state) {
  (void)state;
  assert_int_equal(set.n, 6); /* the empty one and the repeated one are none */
  check_matches("", true, "");
  check_matches("nothing <|end| here", true, "");
  check_matches("x<|end|>y", true, "1:1-8");
  check_matches("<|end|>more<|end|>mor", true, "2:0-11 1:11-18"); /* the longest */
  check_matches("<|end|>x<|end|>more", false, "2:8-19");          /* specials are text */
  check_matches("aaaaa", true, "6:0-2 6:2-4");
  check_matches("word sword word_ \xc3\xa9word word\xe2\x80\x8d word.", true, "3:0-4 3:32-36");
  check_matches("a  <l>  b", true, "4:1-6");
  check_matches("a  <r>  b", true, "5:3-8");
  check_matches("<r>  <l>", true, "5:0-5 4:5-8"); /* what is taken is not taken twice */
  check_matches("\xc2\xa0\xe3\x80\x80<l>", true, "4:0-8");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_matching)};
  return cmocka_run_group_tests(tests, open_set, close_set);
}

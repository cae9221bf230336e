/* test_tokenparity.c: the server's tokens against ours, per arm: by ids before the load, by counts
 * over the run. */
#include "check.h"

#include "out_rows.h"

#include <math.h>

#include "out/tokenparity.h"
#include "text/json.h"

static struct value parse(const char *text) {
  struct value v;
  struct err err = {0};
  check_ok(json_parse(text, strlen(text), &v, &err), &err);
  return v;
}

/* A good reply: the server counts `server` tokens, we `local`. */
static void add(struct table *t, const char *arm, uint64_t session, uint32_t turn, int64_t server,
                int64_t local) {
  struct sample *s = row_tokens(row_ok(session, turn, 0, 1, 1), server, 10, 0);
  s->prompt_tokens_local = local;
  s->arm = arm;
  row_add(t, s);
}

static void counts_by_arm(void **state) {
  (void)state;
  struct table *t = table_new(0);
  struct tokenparity_counts c;
  add(t, "a", 5, 2, 100, 100);
  add(t, "a", 5, 1, 103, 100);
  add(t, "a", 4, 3, 99, 100);
  add(t, "b", 1, 1, 50, 50);
  add(t, NULL, 1, 1, 7, SAMPLE_ABSENT); /* nothing to compare */
  struct sample *failed = row_failed(1, 1, 0, SAMPLE_HTTP_5XX);
  failed->prompt_tokens = 1;
  failed->prompt_tokens_local = 9;
  row_add(t, failed);
  struct sample *warm = row_tokens(row_ok(1, 1, 0, 1, 1), 1, 1, 0);
  warm->prompt_tokens_local = 9;
  warm->measured = false;
  row_add(t, warm);
  table_finish(t);
  tokenparity_count(t, 0, &c);
  assert_int_equal(c.compared, 3);
  assert_int_equal(c.differ, 2);
  assert_int_equal(c.largest, 3);
  assert_int_equal(c.session, 4); /* the first by session, turn and step, whenever it came */
  assert_int_equal(c.turn, 3);
  assert_int_equal(c.server, 99);
  assert_int_equal(c.local, 100);
  tokenparity_count(t, 1, &c);
  assert_int_equal(c.compared, 1);
  assert_int_equal(c.differ, 0);
  tokenparity_count(t, TABLE_NO_ARM, &c);
  assert_int_equal(c.compared, 0);
  tokenparity_count(t, TOKENPARITY_ALL, &c);
  assert_int_equal(c.compared, 4);
  table_free(t);
}

static void proven_by_arm(void **state) {
  (void)state;
  struct value v = parse("[{\"arm\":\"a\",\"verdict\":\"equal\"},{\"arm\":\"b\",\"verdict\":"
                         "\"differs\"},{\"arm\":\"a\",\"verdict\":\"equal\"}]");
  assert_true(tokenparity_proven(&v, "a"));
  assert_false(tokenparity_proven(&v, "b"));
  assert_false(tokenparity_proven(&v, "c"));
  assert_false(tokenparity_proven(&v, NULL));
  value_free(&v);
  v = parse("[{\"arm\":null,\"verdict\":\"equal\"}]");
  assert_true(tokenparity_proven(&v, NULL));
  assert_true(tokenparity_proven(&v, "a")); /* without an arm it is for all */
  value_free(&v);
  v = parse("[{\"arm\":null,\"verdict\":\"count\"}]");
  assert_false(tokenparity_proven(&v, NULL));
  value_free(&v);
  assert_false(tokenparity_proven(NULL, NULL));
}

static void judge(struct table *t, const char *list, const char *missing, double figure,
                  const char *note) {
  struct value v = list ? parse(list) : value_null();
  struct tokenparity_judgement j;
  table_finish(t);
  tokenparity_judge(t, list ? &v : NULL, missing, &j);
  if (isnan(figure) ? !isnan(j.figure) : j.figure != figure)
    fail_msg("figure %g, not %g (%s)", j.figure, figure, j.note);
  check_has(j.note, note);
  value_free(&v);
}

#define CASE(form, name, verdict)                                                                  \
  "{\"verdict\":\"" verdict "\",\"form\":\"" form "\",\"case\":\"" name                            \
  "\",\"reason\":\"POST /tokenize: status 404\"}"
#define CASES                                                                                      \
  "\"cases\":[" CASE("prompt", "a", "equal") "," CASE("messages", "a", "equal") "," CASE(          \
      "messages", "b", "equal") "," CASE("messages", "a", "equal")

static void judged(void **state) {
  (void)state;
  struct table *t = table_new(0);
  judge(t, NULL, "--no-preflight", (double)NAN,
        "not measured: parity is not proven (--no-preflight)");
  judge(t, "[{\"verdict\":\"unknown\",\"reason\":\"POST /tokenize: status 404\"}]", NULL,
        (double)NAN, "not measured: parity is not proven (POST /tokenize: status 404)");
  judge(t, "[{\"verdict\":\"equal\"," CASES "]},{\"verdict\":\"equal\"}]", NULL, 0,
        "ids of 3 requests (2 of them conversations) were equal on 2 servers before the load");
  judge(t, "[{\"verdict\":\"equal\"," CASES "," CASE("messages", "c", "error") "]}]", NULL, 0,
        "before the load; not all could be compared: POST /tokenize: status 404");
  judge(t, "[{\"verdict\":\"equal\",\"cases\":[" CASE("prompt", "a", "equal") "]}]", NULL, 0,
        "ids of a prompt were equal on 1 server before the load (without --template");
  judge(t,
        "[{\"verdict\":\"equal\"},{\"server\":\"r1\",\"renderer\":\"q\",\"verdict\":\"differs\","
        "\"cases\":[{\"verdict\":\"equal\"},{\"verdict\":\"differs\",\"difference\":{\"index\":7},"
        "\"causes\":[{\"name\":\"date\"}]}]}]",
        NULL, 1, "r1 (q) differs from token 7: date");
  judge(t,
        "[{\"server\":\"r1\",\"verdict\":\"differs\",\"cases\":[{\"verdict\":\"differs\","
        "\"difference\":null,\"causes\":[]}]}]",
        NULL, 1, "r1 differs: no cause is known");
  judge(t,
        "[{\"server\":\"r1\",\"verdict\":\"differs\",\"cases\":[{\"verdict\":\"differs\"},"
        "{\"verdict\":\"differs\",\"causes\":[{\"name\":\"usage\"}]}]}]",
        NULL, 1, "r1 differs: usage.prompt_tokens is not the number of its token ids");
  add(t, NULL, 1, 1, 100, 100);
  judge(t, NULL, "--no-preflight", 0,
        "not proven for all: --no-preflight; ids were equal on 0 of 0, the counts of 1 prompts");
  add(t, NULL, 2, 1, 101, 100);
  judge(t, NULL, "--no-preflight", 1,
        "1 of 2 prompts have another number of tokens on the server, by up to 1; the first 101, "
        "here 100");
  /* Where ids are proven equal, usage_vs_local judges the counts. */
  judge(t, "[{\"verdict\":\"equal\",\"renderer\":\"x\"}]", NULL, 0, "equal on 1 server before");
  table_free(t);
}

static void as_value(void **state) {
  (void)state;
  struct table *t = table_new(0);
  add(t, "a", 1, 1, 101, 100);
  add(t, NULL, 1, 1, 100, 100);
  table_finish(t);
  struct value list = parse("[{\"arm\":\"a\",\"verdict\":\"equal\"}]");
  struct value v = tokenparity_value(t, &list, NULL), got;
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  json_write(&b, &v);
  assert_string_equal(
      b.data,
      "{\"proven\":true,\"missing\":null,\"comparisons\":[{\"arm\":\"a\",\"verdict\":\"equal\"}],"
      "\"counts\":[{\"arm\":\"a\",\"compared\":1,\"differ\":1,\"largest\":1,\"first\":{\"session\":"
      "1,"
      "\"turn\":1,\"step\":1,\"local\":100,\"server\":101}},{\"arm\":null,\"compared\":1,"
      "\"differ\":0,"
      "\"largest\":0,\"first\":null}]}");
  buf_free(&b);
  got = tokenparity_value(t, NULL, "why");
  assert_int_equal(value_count(value_get(&got, "comparisons")), 0);
  assert_string_equal(value_to_string(value_get(&got, "missing")), "why");
  value_free(&got);
  value_free(&v);
  value_free(&list);
  table_free(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_by_arm),
      cmocka_unit_test(proven_by_arm),
      cmocka_unit_test(judged),
      cmocka_unit_test(as_value),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* All golden traces of tests/data/engine, every field of every step; and the proof that the
 * comparison would notice: of every rule's trace each leaf of `expect` is changed in turn. */
#include "check.h"

#include <dirent.h>

#include "base/buf.h"
#include "base/mem.h"
#include "engine_compare.h"
#include "kv/engine.h"
#include "text/json.h"

#define DIR_NAME "tests/data/engine/"
#define NUM_TRACES 40

static struct value parse(const char *text, size_t len) {
  struct err err;
  struct value v;
  check_ok(json_parse(text, len, &v, &err), &err);
  return v;
}

/* The trace as read (value_free it) and what the engine made of it (the same). */
static void replay_file(const char *name, struct value *trace, struct value *result) {
  char path[300];
  snprintf(path, sizeof path, DIR_NAME "%s", name);
  size_t len;
  char *text = check_read_file(path, &len);
  *trace = parse(text, len);
  struct buf out;
  struct err err;
  buf_init(&out, BUF_MAX_OWN);
  check_ok(engine_replay(text, len, &out, &err), &err);
  *result = parse(out.data, out.len);
  buf_free(&out);
  free(text);
}

static void all_traces_hold(void **state) {
  (void)state;
  DIR *dir = opendir(DIR_NAME);
  assert_non_null(dir);
  int n = 0, wrong = 0;
  for (struct dirent *d; (d = readdir(dir));) {
    size_t len = strlen(d->d_name);
    if (len < 5 || strcmp(d->d_name + len - 5, ".json"))
      continue;
    struct value trace, result;
    struct compare c;
    replay_file(d->d_name, &trace, &result);
    assert_int_equal(value_count(&result), 1);
    if (!compare_expect(&c, value_get(&result, "expect"), value_get(&trace, "expect"))) {
      print_error("%s: %s\n", d->d_name, c.what);
      wrong++;
    }
    value_free(&trace);
    value_free(&result);
    n++;
  }
  closedir(dir);
  assert_int_equal(wrong, 0);
  assert_int_equal(n, NUM_TRACES);
}

/* Keys in the order of the golden files as well, so that the two can be compared as text. */
static void text_is_that_of_the_trace(void **state) {
  (void)state;
  static const char *const files[] = {"12-duplicate-copies.json", "30-reset.json",
                                      "38-random-everything.json"};
  for (size_t i = 0; i < ARRAY_LEN(files); i++) {
    struct value trace, result;
    struct buf got, want;
    replay_file(files[i], &trace, &result);
    buf_init(&got, BUF_MAX_OWN);
    buf_init(&want, BUF_MAX_OWN);
    json_write(&got, value_get(&result, "expect"));
    json_write(&want, value_get(&trace, "expect"));
    assert_int_equal(got.len, want.len);
    assert_memory_equal(got.data, want.data, want.len);
    buf_free(&got);
    buf_free(&want);
    value_free(&trace);
    value_free(&result);
  }
}

/* ------------------------------------------------------------------- the comparison is awake */

struct mutator {
  const struct value *got;
  struct value *want;
  int changes;
};

static void must_differ(struct mutator *m, const char *what) {
  struct compare c;
  m->changes++;
  if (compare_expect(&c, m->got, m->want))
    fail_msg("change not noticed: %s", what);
  assert_true(c.what[0]);
}

static void mutate(struct mutator *m, struct value *v);

static void mutate_object(struct mutator *m, struct value *v) {
  struct value whole = *v;
  for (size_t i = 0; i < whole.u.object.n; i++)
    mutate(m, &whole.u.object.pairs[i].value);
  for (size_t without = 0; without < whole.u.object.n; without++) {
    *v = value_object();
    for (size_t i = 0; i < whole.u.object.n; i++)
      if (i != without)
        value_set(v, whole.u.object.pairs[i].key, value_copy(&whole.u.object.pairs[i].value));
    must_differ(m, whole.u.object.pairs[without].key);
    value_free(v);
  }
  *v = whole;
}

static void mutate_array(struct mutator *m, struct value *v) {
  size_t n = v->u.array.n;
  for (size_t i = 0; i < n; i++)
    mutate(m, &v->u.array.items[i]);
  if (!n)
    return;
  v->u.array.n--;
  must_differ(m, "element removed");
  v->u.array.n++;
  for (size_t i = 0; i + 1 < n; i++) {
    struct value *a = &v->u.array.items[i], *b = a + 1, t = *a;
    if (value_equal(a, b))
      continue;
    *a = *b, *b = t;
    must_differ(m, "neighbours swapped");
    *b = *a, *a = t;
  }
}

static void mutate(struct mutator *m, struct value *v) {
  struct value old = *v;
  switch (v->kind) {
  case VALUE_OBJECT:
    mutate_object(m, v);
    return;
  case VALUE_ARRAY:
    mutate_array(m, v);
    return;
  case VALUE_NULL:
    *v = value_int(0);
    must_differ(m, "null to 0");
    break;
  case VALUE_BOOL:
    v->u.boolean = !v->u.boolean;
    must_differ(m, "bool");
    break;
  case VALUE_INT:
    v->u.integer++;
    must_differ(m, "integer + 1");
    break;
  case VALUE_DOUBLE:
    v->u.number += 1e-11;
    must_differ(m, "double + 1e-11");
    break;
  case VALUE_STRING:
    v->u.string.data[v->u.string.len - 1] ^= 1;
    must_differ(m, "last character");
    v->u.string.data[v->u.string.len - 1] ^= 1;
    break;
  }
  *v = old;
}

/* The traces that README.md section 8 names as guards of the rules that are easy to get wrong. */
static void every_changed_expectation_is_noticed(void **state) {
  (void)state;
  static const char *const guards[] = {"02-hit-cap.json",
                                       "04-identical-same-step.json",
                                       "05-identical-chunked.json",
                                       "06-identical-chunked-threshold.json",
                                       "08-evict-tail-first.json",
                                       "10-touch-middle.json",
                                       "11-unregistered-to-front.json",
                                       "12-duplicate-copies.json",
                                       "13-preempt-self.json",
                                       "15-preempt-several-one-step.json",
                                       "16-preempt-mid-prefill.json",
                                       "17-preempt-own-blocks.json",
                                       "19-preempt-front-of-queue.json",
                                       "20-preempt-twice.json",
                                       "24-long-prefill-threshold.json",
                                       "26-head-of-line.json",
                                       "27-reserve-on.json",
                                       "30-reset.json",
                                       "34-conversation.json"};
  for (size_t i = 0; i < ARRAY_LEN(guards); i++) {
    struct value trace, result;
    replay_file(guards[i], &trace, &result);
    struct mutator m = {value_get(&result, "expect"), value_get(&trace, "expect"), 0};
    mutate(&m, m.want);
    assert_true(m.changes > 200);
    struct compare c; /* and everything was put back */
    assert_true(compare_expect(&c, m.got, m.want));
    value_free(&trace);
    value_free(&result);
  }
}

static void tolerance_is_for_used_alone(void **state) {
  (void)state;
  struct compare c;
  struct value a = parse("{\"used\":0.5,\"x\":0.5}", 20);
  struct value b = parse("{\"used\":0.5,\"x\":0.5}", 20);
  value_get(&b, "used")->u.number += 9e-13;
  assert_true(compare_expect(&c, &a, &b));
  value_get(&b, "used")->u.number += 9e-13;
  assert_false(compare_expect(&c, &a, &b));
  check_has(c.what, "expect.used: 0.5, expected 0.50000000000");
  value_get(&b, "used")->u.number = 0.5;
  value_get(&b, "x")->u.number += 1e-15;
  assert_false(compare_expect(&c, &a, &b));
  value_free(&a);
  value_free(&b);
}

/* ---------------------------------------------------------------------------------- the runner */

#define CONFIG                                                                                     \
  "\"config\":{\"num_blocks\":5,\"block_size\":4,\"max_num_batched_tokens\":8,\"max_num_seqs\":2," \
  "\"enable_prefix_caching\":true,\"max_model_len\":16}"

static void check_replay(const char *trace, const char *want) {
  struct buf out;
  struct err err;
  buf_init(&out, BUF_MAX_OWN);
  check_ok(engine_replay(trace, strlen(trace), &out, &err), &err);
  assert_string_equal(out.data, want);
  buf_free(&out);
}

/* No requests: step 0 is recorded and that is all. Optional keys may be absent. */
static void smallest_trace(void **state) {
  (void)state;
  check_replay("{" CONFIG ",\"requests\":[]}",
               "{\"expect\":{\"steps\":[{\"t\":0,\"running\":0,\"waiting\":0,\"free_blocks\":4,"
               "\"used\":0.0}],\"names\":[],\"totals\":{\"scheduled_tokens\":0,"
               "\"generated_tokens\":0,\"preemptions\":0,\"prefix_queries\":0,\"prefix_hits\":0,"
               "\"preempted_queries\":0,\"preempted_hits\":0,\"finished\":0,\"aborted\":0,"
               "\"steps\":1,\"stored\":0,\"removed\":0,\"cleared\":0,\"per_request\":[],"
               "\"final_free_queue\":[null,null,null,null]}}}");
}

/* An id with a quote is written as JSON; an effectless reset after the end still makes a step. */
static void ids_and_late_inputs(void **state) {
  (void)state;
  check_replay(
      "{" CONFIG ",\"requests\":[{\"id\":\"q\\\"\",\"arrival_step\":0,\"prompt\":[1,2,3,4],"
      "\"output\":[9]}],\"resets\":[{\"step\":1}]}",
      "{\"expect\":{\"steps\":[{\"t\":0,\"scheduled\":[[\"q\\\"\",4]],\"new_cached\":"
      "[[\"q\\\"\",0]],\"finished\":[\"q\\\"\"],\"stored\":[\"b1\"],\"events\":[[\"S\",null,"
      "\"b1\"]],\"running\":0,\"waiting\":0,\"free_blocks\":4,\"used\":0.0},{\"t\":1,"
      "\"all_cleared\":true,\"events\":[[\"C\"]],\"running\":0,\"waiting\":0,\"free_blocks\":4,"
      "\"used\":0.0}],\"names\":[[\"q\\\"\",0]],\"totals\":{\"scheduled_tokens\":4,"
      "\"generated_tokens\":1,\"preemptions\":0,\"prefix_queries\":4,\"prefix_hits\":0,"
      "\"preempted_queries\":0,\"preempted_hits\":0,\"finished\":1,\"aborted\":0,\"steps\":2,"
      "\"stored\":1,\"removed\":0,\"cleared\":1,\"per_request\":[[\"q\\\"\",0,0,0,0,0,"
      "\"length\",1]],\"final_free_queue\":[null,null,null,null]}}}");
}

static void errors_leave_the_buffer_alone(void **state) {
  (void)state;
  struct buf out;
  struct err err;
  buf_init(&out, 16);
  buf_puts(&out, "keep");
  const char *bad = "{\"config\":{\"num_blocks\":4,\"block_size\":4,\"max_num_batched_tokens\":8,"
                    "\"max_num_seqs\":2,\"enable_prefix_caching\":true,\"max_model_len\":16},"
                    "\"requests\":[]}";
  assert_int_equal(engine_replay(bad, strlen(bad), &out, &err), ERR_INVALID);
  check_has(err.text, "trace: config: max_model_len is 16, but num_blocks 4 of block_size 4 hold "
                      "12 tokens");
  assert_int_equal(engine_replay(bad, strlen(bad), &out, NULL), ERR_INVALID);
  assert_int_equal(engine_replay("{", 1, &out, &err), ERR_INVALID);
  check_has(err.text, "trace: ");
  const char *good = "{" CONFIG ",\"requests\":[]}";
  assert_int_equal(engine_replay(good, strlen(good), &out, &err), ERR_LIMIT);
  check_has(err.text, "more than the buffer takes (16)");
  assert_string_equal(out.data, "keep");
  buf_free(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_traces_hold),
      cmocka_unit_test(text_is_that_of_the_trace),
      cmocka_unit_test(every_changed_expectation_is_noticed),
      cmocka_unit_test(tolerance_is_for_used_alone),
      cmocka_unit_test(smallest_trace),
      cmocka_unit_test(ids_and_late_inputs),
      cmocka_unit_test(errors_leave_the_buffer_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

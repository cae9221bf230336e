/* fuzz_expect.c: any text as an expectation. What is refused names itself and a column, and leaves
 * nothing behind; what is accepted reads the same again and can be judged on a table, whatever is
 * in that. */
#include "out/expect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
  if (!ok)
    abort();
}

static const char *const arms[] = {"load_only", "approx", "precise"};

static void add(struct table *t, uint32_t i) {
  struct sample *s = sample_new();
  s->arm = arms[i % 3];
  s->session = i / 4;
  s->turn = i % 4 + 1;
  s->measured = s->is_generation = s->streamed = true;
  s->status = 200;
  s->error = i % 9 == 8 ? SAMPLE_RESET : SAMPLE_OK;
  s->t[STAMP_SCHED] = s->t[STAMP_START] = s->t[STAMP_SENT] = i * UINT64_C(1000000);
  s->t[STAMP_FIRST_TOKEN] = s->t[STAMP_START] + (i * 7919 % 97 + 1) * UINT64_C(100000);
  s->first_visible = s->t[STAMP_FIRST_TOKEN];
  s->t[STAMP_LAST_TOKEN] = s->t[STAMP_FIRST_TOKEN] + 40000000;
  s->t[STAMP_DONE] = s->t[STAMP_LAST_TOKEN];
  s->prompt_tokens = 100;
  s->output_tokens = 9;
  s->cached_tokens = i % 4 * 20;
  s->cached_state = CACHED_VALUE;
  s->tags = mem_strdup(i % 2 ? "{\"tier\":\"gold\",\"size\":7}" : "{\"tier\":null}");
  s->chosen = mem_strdup(i % 2 ? "r0" : "r1");
  table_add_sample(t, s);
  sample_free(s);
}

static struct table *make_table(void) {
  struct table *t = table_new(0);
  for (uint32_t i = 0; i < 60; i++)
    add(t, i);
  struct value_record v = {.session = 3, .name = "size", .value = 5, .measured = true};
  table_add_value(t, &v);
  table_add_window(t, NULL, 0, 50000000);
  table_finish(t);
  return t;
}

/* Made once: a fuzzer has no other place to keep them than the process. */
static struct metrics *the_metrics(void) {
  static struct metrics m;
  if (!m.n) {
    metrics_init(&m);
    require(metrics_declare(&m, "size", "KiB", NULL) == 0);
    require(metrics_declare(&m, "hit", "ratio", NULL) == 0);
    require(metrics_add_slo(&m, "ttft", "5ms", NULL) == 0);
  }
  return &m;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct table *table;
  if (!table)
    table = make_table();
  const struct metrics *m = the_metrics();
  char *text = mem_strndup((const char *)data, size);
  struct expect e, again;
  struct err err = {0};
  if (expect_parse(text, m, arms, ARRAY_LEN(arms), &e, &err)) {
    require(err.code == ERR_INVALID && strstr(err.text, "expectation") && !e.text &&
            !e.left.filter.n);
  } else {
    require(expect_parse(e.text, m, arms, ARRAY_LEN(arms), &again, &err) == 0);
    require(again.op == e.op && again.left.metric == e.left.metric && again.kind == e.kind &&
            again.left.filter.n == e.left.filter.n && again.has_right == e.has_right);
    struct expect_result r;
    expect_eval(&e, table, m, &r);
    require(r.met || r.reason[0]);
    require(!r.met || isfinite(r.value));
    expect_free(&again);
    expect_free(&e);
  }
  mem_free(text);
  return 0;
}

/* The golden rows of every model, by tokenizer.c with everything below it. */
#include "tokenize_rows.h"

static void check_rows(const struct rows_model *m, const struct tokens *t) {
  struct err err;
  char path[4096];
  snprintf(path, sizeof path, "tests/data/tokenize/%s.jsonl", m->rows);
  size_t len, equal = 0, total = 0;
  char *file = check_read_file(path, &len);
  struct tokens_encoder *e = tokens_encoder_new(t);
  struct buf text;
  struct tokens_list ids = {0};
  buf_init(&text, BUF_MAX_OWN);
  for (char *line = file, *stop; (stop = strchr(line, '\n')); line = stop + 1) {
    struct value row;
    check_ok(json_parse(line, (size_t)(stop - line), &row, &err), &err);
    rows_text(&row, &text);
    struct tokens_options options = rows_options(&row);
    ids.n = 0;
    check_ok(tokens_encoder_encode(e, text.data, text.len, &options, &ids, &err), &err);
    bool same = rows_equal(&row, &ids);
    total++;
    equal += same;
    if (!same && total - equal < 5)
      fprintf(stderr, "%s: row %zu differs: %.200s\n", m->rows, total, line);
    value_free(&row);
  }
  tokens_list_free(&ids);
  buf_free(&text);
  tokens_encoder_delete(e);
  free(file);
  printf("%s: %zu of %zu rows equal\n", m->rows, equal, total);
  assert_int_equal(equal, total);
}

static void test_golden(void **state) {
  const struct rows_model *m = *state;
  char path[4096];
  if (!rows_find(m, path, sizeof path)) {
    printf("skip %s: no %s\n", m->rows, path);
    skip();
  }
  struct err err;
  const struct tokens *t;
  struct tokens_load_options options = {.family = m->family};
  check_ok(tokens_load(path, &options, &t, &err), &err);
  check_rows(m, t);
  tokens_close(t);
}

int main(void) {
  enum { MODELS = sizeof rows_models / sizeof rows_models[0] };
  struct CMUnitTest golden[MODELS];
  for (size_t i = 0; i < MODELS; i++)
    golden[i] = (struct CMUnitTest){.name = rows_models[i].rows,
                                    .test_func = test_golden,
                                    .initial_state = (void *)&rows_models[i]};
  return cmocka_run_group_tests_name("golden rows", golden, NULL, NULL);
}

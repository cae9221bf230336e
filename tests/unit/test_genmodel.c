/* test_genmodel.c: loading what the fleet plays. */
#include "chatmodel.h"

#include "sim/genmodel.h"

static struct chatmodel folder;

static int start(void **state) {
  (void)state;
  chatmodel_make(&folder, chatmodel_template);
  return 0;
}

static int stop(void **state) {
  (void)state;
  chatmodel_remove(&folder);
  return 0;
}

static struct genmodel open_model(struct genmodel_options o) {
  struct genmodel m = {.name = "m", .max_model_len = 1000, .seed = 1};
  struct err err = {0};
  check_ok(genmodel_open(&m, &o, &err), &err);
  return m;
}

static void check_refused(struct genmodel_options o, int code, const char *needle) {
  struct genmodel m = {0};
  struct err err = {0};
  assert_int_equal(genmodel_open(&m, &o, &err), code);
  check_has(err.text, needle);
  assert_null(m.tokenizer);
  assert_null(m.encoder);
}

static void test_bytes_and_the_own_template(void **state) {
  (void)state;
  struct genmodel m = open_model((struct genmodel_options){0});
  assert_string_equal(m.tokenizer->name, "bytes");
  assert_string_equal(genmodel_template(&m), "sim");
  assert_null(m.speech);
  struct pytime now;
  assert_false(genmodel_now(&m, &now));
  genmodel_close(&m);
}

static void test_a_folder(void **state) {
  (void)state;
  struct genmodel m = open_model(
      (struct genmodel_options){.tokenizer = folder.folder, .now = "2026-08-22T12:34:56"});
  assert_string_equal(genmodel_template(&m), folder.folder);
  assert_true(m.speech->repeats);
  assert_true(m.speech->has_eos);
  assert_int_equal(m.speech->eos, CHATMODEL_END);
  struct pytime now;
  assert_true(genmodel_now(&m, &now));
  assert_int_equal(now.day, 22);
  assert_int_equal(now.second, 56);
  struct value said = value_object();
  char hash[20];
  genmodel_describe(&m, &said);
  snprintf(hash, sizeof hash, "%016llx", (unsigned long long)m.tokenizer->hash);
  assert_string_equal(value_to_string(value_get(&said, "tokenizer")), folder.file);
  assert_string_equal(value_to_string(value_get(&said, "tokenizer_hash")), hash);
  assert_null(value_get(&said, "tokenizer_family"));
  assert_string_equal(value_to_string(value_get(&said, "template")), folder.folder);
  assert_int_equal(strlen(value_to_string(value_get(&said, "template_hash"))), 16);
  assert_string_equal(value_to_string(value_get(&said, "now")), "2026-08-22T12:34:56");
  value_free(&said);
  genmodel_close(&m);
  m = open_model((struct genmodel_options){.tokenizer = folder.file, .template = "sim"});
  assert_string_equal(genmodel_template(&m), "sim");
  assert_true(m.speech->repeats);
  assert_false(m.speech->has_eos);
  genmodel_close(&m);
}

static void test_a_template_that_rewrites_answers(void **state) {
  (void)state;
  struct chatmodel loud;
  chatmodel_make(&loud, "{% for m in messages %}<|im|>{{ m.content | upper }}<|end|>{% endfor %}");
  struct genmodel m = open_model((struct genmodel_options){.tokenizer = loud.folder});
  assert_false(m.speech->repeats);
  assert_true(m.speech->first.n > 0);
  genmodel_close(&m);
  chatmodel_remove(&loud);
}

/* Found at the start, not at the first request: with and without a tokenizer to speak with. */
static void test_templates_without_an_end(void **state) {
  (void)state;
  static const struct {
    const char *source, *says;
  } rows[] = {
      {"{% for i in range(9999) %}\n{% for j in range(9999) %}{% set x = j %}{% endfor %}"
       "{% endfor %}",
       "line 2: it runs too long"},
      {"{{ 'a' * 5000000 }}", "the text is longer than 4194304 bytes"},
      {"{% if messages | length > 1 %}{% for i in range(9999) %}{% for j in range(9999) %}"
       "{% set x = j %}{% endfor %}{% endfor %}{% endif %}",
       "line 1: it runs too long"},
  };
  for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
    struct chatmodel endless;
    chatmodel_make(&endless, rows[i].source);
    char path[512], begins[600];
    snprintf(path, sizeof path, "%s", endless.config);
    snprintf(begins, sizeof begins,
             "--template: a conversation of a few words is too much for it: template '%s'", path);
    struct genmodel_options o = {.tokenizer = endless.folder, .template = path};
    check_refused(o, ERR_INVALID, begins);
    check_refused(o, ERR_INVALID, rows[i].says);
    if (i < 2)
      check_refused((struct genmodel_options){.template = path}, ERR_INVALID, begins);
    chatmodel_remove(&endless);
  }
}

static void test_refusals(void **state) {
  (void)state;
  check_refused((struct genmodel_options){.tokenizer = "/nowhere"}, ERR_NOT_FOUND,
                "--tokenizer: /nowhere");
  check_refused((struct genmodel_options){.family = "llama4"}, ERR_INVALID, "give both");
  check_refused((struct genmodel_options){.template = "/nowhere"}, ERR_NOT_FOUND,
                "--template: template \"/nowhere\"");
  check_refused((struct genmodel_options){.now = "noon"}, ERR_INVALID, "--now");
  check_refused((struct genmodel_options){.tokenizer = folder.folder, .template = "harmony"},
                ERR_INVALID, "--template harmony with --tokenizer");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bytes_and_the_own_template),
      cmocka_unit_test(test_a_folder),
      cmocka_unit_test(test_a_template_that_rewrites_answers),
      cmocka_unit_test(test_templates_without_an_end),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests_name("genmodel", tests, start, stop);
}

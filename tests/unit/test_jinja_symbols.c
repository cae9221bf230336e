#include "check.h"

#include "jinja_check.h"

/* where a name comes from: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_scopes(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{% set x = 5 %}{% for i in [1, 2] %}{{ x }}{% set x = x + 1 %}{{ x }},{% endfor %}{{ x }}",
       CONTEXT, "56,56,5"},
      {"{% for i in [1, 2] %}{% if loop.first %}{% set y = i %}{% endif %}[{{ y }}]{% endfor %}",
       CONTEXT, "[1][]"},
      {"{% if n %}{% set z = 1 %}{% endif %}{{ z }}", CONTEXT, "1"},
      {"{{ z }}{% set z = 1 %}{{ z }}", CONTEXT, "1"},
      {"{% macro f() %}{{ q }}{% endmacro %}{{ f() }}{% set q = 5 %}{{ f() }}", CONTEXT, "5"},
      {"{% macro f(x=q) %}{{ x }}{% endmacro %}{% set q = 5 %}{{ f() }}", CONTEXT, "5"},
      {"{% for s in [1] %}{{ s }}{% endfor %}{{ s }}", CONTEXT, "1aXb"},
      {"{% with s = 1 %}{% set s = 2 %}{{ s }}{% endwith %}{{ s }}", CONTEXT, "2aXb"},
      {"{% set s %}{% set s = 9 %}{{ s }}{% endset %}{{ s }}", CONTEXT, "9"},
      {"{% if not n %}{% set s = 1 %}{% elif n %}{% set t = 2 %}{% endif %}{{ s }}{{ t }}", CONTEXT,
       "aXb2"},
      {"{% for a in [1, 2] %}{% for b in [3] %}{% set a = b %}{{ a }}{% endfor %}{{ a }}{% endfor "
       "%}",
       CONTEXT, "3132"},
      {"{% set n = n %}{{ n }}", CONTEXT, "7"},
      {"{% macro f() %}{% set n = 1 %}{{ n }}{% endmacro %}{{ f() }}{{ n }}", CONTEXT, "17"},
      {"{% for x in [1] %}{% else %}{% set n = 2 %}{% endfor %}{{ n }}", CONTEXT, "7"},
      {"{% for x in [] %}{% else %}{% set n = 2 %}{{ n }}{% endfor %}{{ n }}", CONTEXT, "27"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

/* Each is looked for among all before it, so that their number has a bound: a source of 4 MB must
 * not take minutes. */
static void test_too_many_names(void **state) {
  (void)state;
  static const struct {
    const char *before, *each, *behind, *what;
  } rows[] = {
      {"{% macro f(", "a%d,", "z) %}{% endmacro %}", "more than 4096 parameters"},
      {"{{ f(", "a%d=1,", "z=1) }}", "more than 4096 keyword arguments"},
      {"", "{%% block a%d %%}{%% endblock %%}", "", "more than 4096 blocks"},
      {"", "{%% set a%d = 1 %%}", "", "more than 4096 variables in one scope"},
      {"", "{{ a%d }}", "", "more than 4096 variables in one scope"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct buf source;
    struct template *tpl;
    struct err err;
    buf_init(&source, TEMPLATE_MAX_SOURCE);
    for (int n = 4000; n <= 100000; n += 96000) {
      buf_reset(&source);
      buf_put(&source, rows[i].before, strlen(rows[i].before));
      for (int k = 0; k < n; k++)
        buf_printf(&source, rows[i].each, k);
      buf_put(&source, rows[i].behind, strlen(rows[i].behind));
      int rc = template_load(source.data, source.len, "t", &tpl, &err);
      if (n == 4000) {
        check_ok(rc, &err);
      } else {
        assert_int_equal(rc, ERR_LIMIT);
        check_has(err.text, "template 't' line 1: ");
        check_has(err.text, rows[i].what);
      }
      template_delete(tpl);
    }
    buf_free(&source);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_scopes),
      cmocka_unit_test(test_too_many_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

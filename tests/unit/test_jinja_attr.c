#include "check.h"

#include "jinja_check.h"

/* attributes, items, slices, the sandbox: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_lookups(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ d.a }}{{ d['a'] }}{{ d.zz }}|{{ l.0 }}{{ l[-1] }}{{ l['0'] }}|{{ s.foo }}|{{ (1).real "
       "}}{{ true.real }}{{ 1.5.imag }}",
       CONTEXT, "22|32||110.0"},
      {"{{ {'items': 1}['items'] }}{{ {'items': 1}.items is callable }}", CONTEXT, "1True"},
      {"{{ d['items'] is callable }}", CONTEXT, "True"},
      {"{{ s['upper']() }}", CONTEXT, "AXB"},
      {"{{ l[true] }}{{ l[1.0] }}|{{ l[99] }}|{{ s[5] }}|", CONTEXT, "1|||"},
      {"{{ range(5)[2] }}{{ range(5).stop }}{{ range(10)[2:6:2] }}{{ range(3, 9)[5:2] }}{{ "
       "range(9)[::-2] }}{{ (range(9)[::-1])|list }}",
       CONTEXT, "25range(2, 6, 2)range(8, 5)range(8, -1, -2)[8, 7, 6, 5, 4, 3, 2, 1, 0]"},
      {"{{ namespace(_a=1)._a }}|{{ namespace(a=1)['a'] }}", CONTEXT, "|1"},
      {"{{ {'_x': 1}._x }}{{ {'__class__': 1}['__class__'] }}", CONTEXT, "11"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_sandbox(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ s.__class__ }}|{{ s.__len__ is defined }}{{ s.__nope__ is defined }}", CONTEXT,
       "|FalseFalse"},
      {"{{ s.__class__.__name__ }}", CONTEXT,
       "!SecurityError: access to attribute '__class__' of 'str' object is unsafe."},
      {"{{ [].append(1) }}", CONTEXT,
       "!SecurityError: access to attribute 'append' of 'list' object is unsafe."},
      {"{{ {}.update({}) }}", CONTEXT,
       "!SecurityError: access to attribute 'update' of 'dict' object is unsafe."},
      {"{{ d.setdefault('q', 1) }}", CONTEXT,
       "!SecurityError: access to attribute 'setdefault' of 'dict' object is unsafe."},
      {"{{ l.sort }}|", CONTEXT, "|"},
      {"{{ nope.__class__ }}|", CONTEXT, "|"},
      {"{{ nope._undefined_hint }}|", CONTEXT, "|"},
      {"{{ namespace().__class__ }}|", CONTEXT, "|"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_slices(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ l[1:] }}{{ l[:-1] }}{{ l[::-1] }}{{ l[5:] }}{{ l[-2:] }}{{ (1, 2, 3)[1:] }}{{ u[1:2] "
       "}}{{ u[::2] }}{{ s[none:2] }}{{ l[true:] }}",
       CONTEXT, "[1, 2][3, 1][2, 1, 3][][1, 2](2, 3)\344\275\240\303\251\360\237\230\200aX[1, 2]"},
      {"{{ s[::0] }}", CONTEXT, "!ValueError: slice step cannot be zero"},
      {"{{ s['a':] }}", CONTEXT,
       "!TypeError: slice indices must be integers or None or have an __index__ method"},
      {"{{ n[1:] }}", CONTEXT, "!TypeError: 'int' object is not subscriptable"},
      {"{{ d[1:] }}", CONTEXT, "!TypeError: unhashable type: 'slice'"},
      {"{{ nope[1:] }}", CONTEXT, "!UndefinedError: 'nope' is undefined"},
      {"{{ 'abcdef'[4:1:-2] }}{{ 'abc'[-99:99] }}{{ [1, 2, 3][-1:0:-1] }}", CONTEXT, "ecabc[3, 2]"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lookups),
      cmocka_unit_test(test_sandbox),
      cmocka_unit_test(test_slices),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

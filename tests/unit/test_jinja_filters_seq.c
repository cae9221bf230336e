#include "check.h"

#include "jinja_check.h"

/* filters over sequences: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_sorting(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ l|sort }}{{ l|sort(reverse=true) }}{{ ['b', 'A', 'a', 'B']|sort }}{{ ['b', 'A', "
       "'a']|sort(case_sensitive=true) }}{{ m|sort(attribute='r') }}",
       CONTEXT, "!TypeError: '<' not supported between instances of 'NoneType' and 'str'"},
      {"{{ m[:2]|sort(attribute='v')|map(attribute='r')|list }}{{ "
       "m[:2]|sort(attribute='r,v')|map(attribute='v')|list }}{{ [3, 'a']|sort }}",
       CONTEXT, "!TypeError: '<' not supported between instances of 'str' and 'int'"},
      {"{{ d|dictsort }}{{ d|dictsort(true) }}{{ d|dictsort(by='value', reverse=true) }}", CONTEXT,
       "[('A', 3), ('a', 2), ('b', 1)][('A', 3), ('a', 2), ('b', 1)][('A', 3), ('a', 2), ('b', "
       "1)]"},
      {"{{ d|dictsort(by='x') }}", CONTEXT,
       "!FilterArgumentError: You can only sort by either \"key\" or \"value\""},
      {"{{ l|dictsort }}", CONTEXT, "!AttributeError: 'list' object has no attribute 'items'"},
      {"{% for g, i in [{'k': 'b', 'v': 1}, {'k': 'A', 'v': 2}, {'k': 'B', 'v': 3}]|groupby('k') "
       "%}{{ g }}={{ i|map(attribute='v')|list }} {% endfor %}{{ ([{'k': "
       "1}]|groupby('k')|first).grouper }}",
       CONTEXT, "A=[2] b=[1, 3] 1"},
      {"{{ [1, 1.0, true, 'a', 'A', 2]|unique|list }}{{ ['a', 'A']|unique(true)|list }}", CONTEXT,
       "[1, 'a', 2]['a', 'A']"},
      {"{{ [[1]]|unique|list }}", CONTEXT, "!TypeError: unhashable type: 'list'"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_lazy(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ l|map('string')|join('-') }}{{ m|map(attribute='v', default=0)|list }}{{ "
       "['a']|map('replace', 'a', 'z')|list }}{{ m|map(attribute='r.x')|list }}",
       CONTEXT, "3-1-2[2, 1, 0]['z'][Undefined, Undefined, Undefined]"},
      {"{{ l|map|list }}", CONTEXT, "!FilterArgumentError: "},
      {"{{ l|map('nope')|list }}", CONTEXT, "!TemplateRuntimeError: No filter named 'nope'."},
      {"{{ l|map(attribute='a', x=1)|list }}", CONTEXT, "!FilterArgumentError: "},
      {"{{ l|select('odd')|list }}{{ l|reject('gt', 1)|list }}{{ [0, 1, '']|select|list }}{{ "
       "m|selectattr('v')|list|length }}{{ m|selectattr('r', 'equalto', 'x')|list }}{{ "
       "m|rejectattr('v', 'defined')|list }}",
       CONTEXT, "[3, 1][1][1]2[{'r': 'x', 'v': 2}][{'r': None}]"},
      {"{{ l|selectattr|list }}", CONTEXT,
       "!FilterArgumentError: Missing parameter for attribute name"},
      {"{{ [1, 2, 3, 4, 5]|batch(2)|list }}{{ [1, 2, 3]|batch(2, 'x')|list }}{{ [1, 2, 3, 4, "
       "5]|slice(2)|list }}{{ [1, 2, 3]|slice(2, 'x')|list }}",
       CONTEXT, "[[1, 2], [3, 4], [5]][[1, 2], [3, 'x']][[1, 2, 3], [4, 5]][[1, 2], [3, 'x']]"},
      {"{{ l|slice(0)|list }}", CONTEXT, "!ZeroDivisionError: integer division or modulo by zero"},
      {"{{ d|items|list }}{{ nope|items|list }}", CONTEXT, "[('b', 1), ('A', 3), ('a', 2)][]"},
      {"{{ l|items|list }}", CONTEXT, "!TypeError: Can only get item pairs from a mapping."},
      {"{{ 5|map('string')|list }}", CONTEXT, "!TypeError: 'int' object is not iterable"},
      {"{% set g = l|map('nope') %}ok", CONTEXT, "ok"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_ends(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ l|first }}{{ l|last }}{{ ''|first is defined }}{{ 'ab'|last }}{{ d|first }}{{ d|last "
       "}}{{ (1, 2)|last }}{{ nope|last is defined }}",
       CONTEXT, "32Falsebba2False"},
      {"{{ (l|map('int'))|last }}", CONTEXT, "!TypeError: 'generator' object is not reversible"},
      {"{{ 5|first }}", CONTEXT, "!TypeError: 'int' object is not iterable"},
      {"{{ l|reverse|list }}{{ 'ab\303\251'|reverse }}{{ d|reverse|list }}{{ "
       "(l|map('int'))|reverse }}",
       CONTEXT, "[2, 1, 3]\303\251ba['a', 'A', 'b'][2, 1, 3]"},
      {"{{ 5|reverse }}", CONTEXT, "!FilterArgumentError: "},
      {"{{ l|min }}{{ l|max }}{{ ['b', 'A']|min }}{{ m[:2]|max(attribute='v') }}{{ []|max is "
       "defined }}{{ l|sum }}{{ m[:2]|sum('v') }}{{ l|sum(start=10) }}{{ [[1], [2]]|sum(start=[]) "
       "}}",
       CONTEXT, "13A{'r': 'x', 'v': 2}False6316[1, 2]"},
      {"{{ ['a']|sum }}", CONTEXT,
       "!TypeError: unsupported operand type(s) for +: 'int' and 'str'"},
      {"{{ ['a']|sum(start='') }}", CONTEXT,
       "!TypeError: sum() can't sum strings [use ''.join(seq) instead]"},
      {"{{ l|join(', ') }}{{ [1, none, nope]|join('|') }}{{ m|join('-', attribute='r') }}{{ ['<', "
       "'>'|safe]|join }}",
       CONTEXT, "3, 1, 21|None|x-y-None<>"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sorting),
      cmocka_unit_test(test_lazy),
      cmocka_unit_test(test_ends),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

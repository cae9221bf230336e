#include "check.h"

#include "jinja_check.h"

/* json.dumps: rows that Jinja2 itself answered. */
static const char CONTEXT[] =
    "{\"s\": \"aXb\", \"l\": [3, 1, 2], \"d\": {\"b\": 1, \"A\": 3, \"a\": 2}, \"m\": [{\"r\": "
    "\"x\", \"v\": 2}, {\"r\": \"y\", \"v\": 1}, {\"r\": null}], \"n\": 7, \"big\": "
    "18446744073709551616, \"u\": \"\303\251\344\275\240\360\237\230\200\"}";

static void test_values(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ [1, 1.0, 1e20, 1e-7, big, true, none, 'a\"\\\\/\\n\\x01\\x7f\303\251\360\237\230\200', "
       "(1, 2), {}, [], {'b': 1, 'a': {'c': []}}]|tojson }}",
       CONTEXT,
       "[1, 1.0, 1e+20, 1e-07, 18446744073709551616, true, null, "
       "\"a\\\"\\\\/\\n\\u0001\177\303\251\360\237\230\200\", [1, 2], {}, [], {\"b\": 1, \"a\": "
       "{\"c\": []}}]"},
      {"{{ [u, '\\x7f']|tojson(ensure_ascii=true) }}{{ u|tojson(1) }}", CONTEXT,
       "[\"\\u00e9\\u4f60\\ud83d\\ude00\", \"\\u007f\"]\"\\u00e9\\u4f60\\ud83d\\ude00\""},
      {"{{ d|tojson(indent=2) }}{{ [1, [2], {}]|tojson(indent='\\t') }}{{ [1]|tojson(indent=0) "
       "}}{{ [1]|tojson(indent=-1) }}{{ [1]|tojson(indent=true) }}",
       CONTEXT,
       "{\n  \"b\": 1,\n  \"A\": 3,\n  \"a\": "
       "2\n}[\n\0111,\n\011[\n\011\0112\n\011],\n\011{}\n][\n1\n][\n1\n][\n 1\n]"},
      {"{{ d|tojson(separators=(',', ':')) }}{{ d|tojson(sort_keys=true) }}{{ {1: 2, none: 3, "
       "true: 4, 1.5: 5}|tojson }}",
       CONTEXT,
       "{\"b\":1,\"A\":3,\"a\":2}{\"A\": 3, \"a\": 2, \"b\": 1}{\"1\": 4, \"null\": 3, \"1.5\": "
       "5}"},
      {"{{ (1e400, -1e400)|tojson }}", CONTEXT, "[Infinity, -Infinity]"},
      {"{{ '<&>'|tojson }}", CONTEXT, "\"<&>\""},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

static void test_errors(void **state) {
  (void)state;
  static const struct jinja_row rows[] = {
      {"{{ nope|tojson }}", CONTEXT,
       "!TypeError: Object of type Undefined is not JSON serializable"},
      {"{{ range(3)|tojson }}", CONTEXT,
       "!TypeError: Object of type range is not JSON serializable"},
      {"{{ [d.items()]|tojson }}", CONTEXT,
       "!TypeError: Object of type dict_items is not JSON serializable"},
      {"{{ {(1, 2): 3}|tojson }}", CONTEXT,
       "!TypeError: keys must be str, int, float, bool or None, not tuple"},
      {"{{ {1: 1, 'a': 2}|tojson(sort_keys=true) }}", CONTEXT,
       "!TypeError: '<' not supported between instances of 'str' and 'int'"},
      {"{{ 1|tojson(indent=1.5) }}", CONTEXT,
       "!TypeError: can't multiply sequence by non-int of type 'float'"},
      {"{{ 1|tojson(separators=(1,)) }}", CONTEXT,
       "!ValueError: not enough values to unpack (expected 2, got 1)"},
      {"{{ (l|map('int'))|tojson }}", CONTEXT,
       "!TypeError: Object of type generator is not JSON serializable"},
      {"{{ namespace()|tojson }}", CONTEXT,
       "!TypeError: Object of type Namespace is not JSON serializable"},
  };
  jinja_check(rows, sizeof rows / sizeof *rows);
}

/* As other servers write it; what the template itself asks for stands. */
static void test_other_servers(void **state) {
  (void)state;
  static const char source[] = "{{ x|tojson }}{{ x|tojson(separators=('; ', '= ')) }}"
                               "{{ x|tojson(indent=1) }}";
  static const char given[] = "{\"x\":{\"b\":[1,\"<\303\251>&'\"],\"a\":null}}";
  static const struct {
    unsigned flags;
    const char *want;
  } ways[] = {
      {TEMPLATE_TOJSON_COMPACT,
       "{\"b\":[1,\"<\303\251>&'\"],\"a\":null}{\"b\"= [1; \"<\303\251>&'\"]; \"a\"= null}"
       "{\n \"b\": [\n  1,\n  \"<\303\251>&'\"\n ],\n \"a\": null\n}"},
      {TEMPLATE_TOJSON_ASCII | TEMPLATE_TOJSON_SORTED | TEMPLATE_TOJSON_HTML,
       "{\"a\": null, \"b\": [1, \"\\u003c\\u00e9\\u003e\\u0026\\u0027\"]}"
       "{\"a\"= null; \"b\"= [1; \"\\u003c\\u00e9\\u003e\\u0026\\u0027\"]}"
       "{\n \"a\": null,\n \"b\": [\n  1,\n  \"\\u003c\\u00e9\\u003e\\u0026\\u0027\"\n ]\n}"},
  };
  struct template *tpl;
  struct value context;
  struct err err = {0};
  check_ok(template_load(source, sizeof source - 1, "t", &tpl, &err), &err);
  check_ok(json_parse(given, sizeof given - 1, &context, &err), &err);
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    struct template_options options = {.tojson = ways[i].flags};
    struct buf out;
    buf_init(&out, BUF_MAX_OWN);
    check_ok(template_render(tpl, &context, &options, &out, &err), &err);
    assert_string_equal(out.data, ways[i].want);
    buf_free(&out);
  }
  value_free(&context);
  template_delete(tpl);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_errors),
      cmocka_unit_test(test_other_servers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

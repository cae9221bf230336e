/* The section on tools: small schemas with what each prints; the golden rows are in test_harmony.c.
 * Expected texts follow openai-harmony 0.0.8. */
#include "check.h"

#include "text/harmony.h"
#include "text/json.h"

/* The type of one tool's parameters. */
static void check_type(const char *schema, const char *want) {
  static const char head[] = "# Tools\n\n## n\n\nnamespace n {\n\ntype t = (_: ";
  static const char tail[] = ") => any;\n\n} // namespace n";
  struct value v, s;
  struct err err;
  struct buf b;
  char json[] = "{\"n\":{\"name\":\"n\",\"tools\":[{\"name\":\"t\",\"description\":\"\"}]}}";
  check_ok(json_parse(json, strlen(json), &v, &err), &err);
  check_ok(json_parse(schema, strlen(schema), &s, &err), &err);
  value_set(value_at(value_get(value_get(&v, "n"), "tools"), 0), "parameters", s);
  buf_init(&b, BUF_MAX_OWN);
  check_ok(harmony_put_tools(&b, &v, "here", &err), &err);
  assert_memory_equal(b.data, head, sizeof head - 1);
  assert_string_equal(b.data + b.len - (sizeof tail - 1), tail);
  b.data[b.len - (sizeof tail - 1)] = '\0';
  assert_string_equal(b.data + sizeof head - 1, want);
  buf_free(&b);
  value_free(&v);
}

static void simple_types(void **state) {
  (void)state;
  check_type("{\"type\":\"string\"}", "string");
  check_type("{\"type\":\"integer\"}", "number");
  check_type("{\"type\":\"boolean\"}", "boolean");
  check_type("{\"type\":\"array\"}", "Array<any>");
  check_type("{\"type\":\"array\",\"items\":{\"type\":\"array\",\"items\":{}}}", "any[][]");
  check_type("{\"type\":\"null\"}", "any");
  check_type("{}", "any");
  check_type("true", "any");
  check_type("{\"type\":3}", "any");
  check_type("{\"type\":[\"integer\",\"null\",7]}", "number | null");
  check_type("{\"type\":[]}", "any");
  check_type("{\"type\":\"string\",\"enum\":[\"a\",1,\"b\"]}", "\"a\" | \"b\"");
  check_type("{\"type\":\"string\",\"enum\":[1]}", "string");
  check_type("{\"enum\":[\"a\"]}", "any");
}

static void objects(void **state) {
  (void)state;
  check_type("{\"type\":\"object\"}", "{\n}");
  check_type("{\"type\":\"object\",\"properties\":[]}", "{\n}");
  check_type("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"nullable\":true},"
             "\"b\":{\"type\":[\"string\",\"null\"],\"nullable\":true}},\"required\":[\"b\",1]}",
             "{\na?: string | null,\nb: string | null,\n}");
  check_type(
      "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"object\",\"description\":\"d\","
      "\"properties\":{\"b\":{\"title\":\"T\",\"examples\":[\"x\",1]}}}}}",
      "{\n// d\na?:     // d\n{\n    // T\n    //\n    // Examples:\n    // - \"x\"\n    b?: "
      "any,\n    },\n}");
}

static void defaults(void **state) {
  (void)state;
#define WITH(d)                                                                                    \
  "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"default\":" d "}}}"
#define SAYS(d) "{\na?: string, // default: " d "\n}"
  check_type(WITH("\"x\""), SAYS("\"x\""));
  check_type(WITH("null"), SAYS("null"));
  check_type(WITH("[1,\"a\",{\"b\":1.5}]"), SAYS("[1,\"a\",{\"b\":1.5}]"));
  check_type("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"enum\":[\"x\"],"
             "\"default\":\"x\"}}}",
             "{\na?: \"x\", // default: x\n}");
  /* floats as Rust prints them */
  check_type(WITH("1.0"), SAYS("1.0"));
  check_type(WITH("-0.0"), SAYS("-0.0"));
  check_type(WITH("0.5"), SAYS("0.5"));
  check_type(WITH("100.25"), SAYS("100.25"));
  check_type(WITH("1e15"), SAYS("1000000000000000.0"));
  check_type(WITH("1e16"), SAYS("1e16"));
  check_type(WITH("1.25e20"), SAYS("1.25e20"));
  check_type(WITH("1e-5"), SAYS("0.00001"));
  check_type(WITH("1.5e-6"), SAYS("1.5e-6"));
  check_type(WITH("-2.5e-7"), SAYS("-2.5e-7"));
}

static void variants(void **state) {
  (void)state;
  check_type("{\"oneOf\":[{\"type\":\"string\",\"description\":\"d\",\"default\":\"x\"},"
             "{\"type\":\"string\",\"enum\":[\"y\"],\"default\":\"y\",\"nullable\":true}]}",
             "\n | string // d default: \"x\"\n | \"y\" | null // default: \"y\"");
  check_type("{\"oneOf\":3,\"type\":\"string\"}", "string");
  check_type("{\"type\":\"object\",\"properties\":{\"a\":{\"oneOf\":[{\"type\":\"string\","
             "\"description\":\"same\"},{\"type\":\"number\",\"description\":\"n\",\"default\":1}],"
             "\"description\":\"same\",\"default\":\"q\"}}}",
             "{\n// default: \"q\"\na?:\n | string\n | number // n default: 1\n,\n}");
  check_type("{\"type\":\"object\",\"properties\":{\"a\":{\"oneOf\":[],\"default\":1}}}",
             "{\n// default: 1\na?:\n,\n}");
}

static void namespaces_by_name(void **state) {
  (void)state;
  char json[] = "{\"b\":{\"name\":\"bee\",\"description\":\"x\\r\\ny\\n\",\"tools\":[]},"
                "\"a\":{\"name\":\"a\",\"description\":null,\"tools\":[]}}";
  struct value v;
  struct err err;
  struct buf b;
  check_ok(json_parse(json, strlen(json), &v, &err), &err);
  buf_init(&b, BUF_MAX_OWN);
  check_ok(harmony_put_tools(&b, &v, "here", &err), &err);
  assert_string_equal(b.data, "# Tools\n\n## a\n\n\n## bee\n\nx\ny");
  buf_free(&b);
  value_free(&v);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(simple_types),       cmocka_unit_test(objects),
      cmocka_unit_test(defaults),           cmocka_unit_test(variants),
      cmocka_unit_test(namespaces_by_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

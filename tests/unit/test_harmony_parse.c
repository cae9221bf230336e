/* What gpt-oss said, taken apart. */
#include "check.h"

#include "text/harmony.h"
#include "text/json.h"

static void check(const char *text, const char *want) {
  struct value v;
  struct err err;
  struct buf b;
  check_ok(harmony_parse(text, strlen(text), &v, &err), &err);
  buf_init(&b, BUF_MAX_OWN);
  json_write(&b, &v);
  assert_string_equal(b.data, want);
  buf_free(&b);
  value_free(&v);
}

#define SAID(reasoning, content, calls)                                                            \
  "{\"reasoning\":" reasoning ",\"content\":" content ",\"tool_calls\":[" calls "]}"

static void channels(void **state) {
  (void)state;
  check("<|channel|>final<|message|>Hello<|return|>", SAID("null", "\"Hello\"", ""));
  check("<|channel|>final<|message|>Hello", SAID("null", "\"Hello\"", ""));
  check("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
        SAID("\"Hm.\"", "\"Yes.\"", ""));
  check("<|channel|>analysis<|message|>A<|end|><|start|>assistant<|channel|>analysis<|message|>B",
        SAID("\"A\\nB\"", "null", ""));
  check("<|channel|>final<|message|>", SAID("null", "\"\"", ""));
  /* a preamble is content; a new start ends a body as well */
  check("<|channel|>commentary<|message|>I look.<|start|>assistant<|channel|>final<|message|>2",
        SAID("null", "\"I look.\\n2\"", ""));
}

static void calls(void **state) {
  (void)state;
  static const char one[] = "{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}";
  char want[200];
  snprintf(want, sizeof want, SAID("null", "null", "%s"), one);
  check("<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\":1}<|call|>", want);
  check(" to=functions.f<|channel|>commentary <|constrain|>json<|message|>{\"a\":1}", want);
  check(" to=functions.f<|channel|>commentary json<|message|>{\"a\":1}<|call|>", want);
  check("<|channel|>analysis to=functions.f code<|message|>{\"a\":1}<|call|>", want);
  check("<|channel|>analysis<|message|>R<|end|><|start|>assistant to=functions.g<|channel|>"
        "commentary<|message|>{}<|end|><|start|>assistant<|channel|>commentary to=python<|message|>"
        "print(1)<|call|>",
        SAID("\"R\"", "null",
             "{\"name\":\"g\",\"arguments\":\"{}\"},{\"name\":\"python\",\"arguments\":\"print(1)"
             "\"}"));
  check("<|channel|>commentary to=functions.<|message|>x",
        SAID("null", "null", "{\"name\":\"functions.\",\"arguments\":\"x\"}"));
}

static void cut_off(void **state) {
  (void)state;
  check("", SAID("null", "null", ""));
  check("plain words", SAID("null", "\"plain words\"", ""));
  check("<|channel|>fin", SAID("null", "null", ""));
  check("<|channel|>analysis<|message|>Hm<|end|><|start|>assist", SAID("\"Hm\"", "null", ""));
  check("<|channel|>final<|message|>a <|mess", SAID("null", "\"a <|mess\"", ""));
  check("<|channel|>final<|message|>Yes<|end", SAID("null", "\"Yes<|end\"", ""));
}

static void refused(void **state) {
  (void)state;
  static const char *const texts[][2] = {
      {"so <|channel|>final<|message|>x", "\"so <|channel|>final\" is no header"},
      {"<|channel|>final<|end|><|message|>x", "\"<|channel|>final<|end|>\" is no header"},
      {"<|channel|>final<|message|>x<|end|>y", "\"y\" comes behind a Harmony message"}};
  for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
    struct value v;
    struct err err;
    assert_int_equal(harmony_parse(texts[i][0], strlen(texts[i][0]), &v, &err), ERR_INVALID);
    check_has(err.text, texts[i][1]);
    assert_int_equal(v.kind, VALUE_NULL);
  }
}

/* Where what harmony_parse calls content begins; -1: nowhere. */
static void answer_begins(const char *text, int want) {
  size_t at = 0;
  bool is = harmony_answer_at(text, strlen(text), &at);
  if ((is ? (int)at : -1) != want)
    fail_msg("%s: %d, not %d", text, is ? (int)at : -1, want);
}

static void answers_begin(void **state) {
  (void)state;
  answer_begins("", -1);
  answer_begins("plain words", 0);
  answer_begins("<|return|>", -1);
  answer_begins("<|channel|>final<|message|>Yes", 27);
  answer_begins("<|channel|>final<|message|>", -1);
  answer_begins("<|channel|>final<|message|><|end|><|start|>assistant<|channel|>final<|message|>Y",
                79);
  answer_begins("<|channel|>analysis<|message|>Hm", -1);
  answer_begins("<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final", -1);
  answer_begins(
      "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>Y", 84);
  answer_begins("<|channel|>commentary<|message|>I look.<|end|>", 32); /* a preamble is content */
  answer_begins(" to=functions.f<|channel|>commentary json<|message|>{}<|call|>", -1);
  answer_begins("so <|channel|>final<|message|>x", 0); /* refused: it stays the text */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(answers_begin), cmocka_unit_test(channels),
                                     cmocka_unit_test(calls), cmocka_unit_test(cut_off),
                                     cmocka_unit_test(refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

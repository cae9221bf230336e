/* Harmony: the golden rows where the fixtures are (their text; ids: tests/lua/test_harmony.lua),
 * and what must hold without them: segments, what is refused. */
#include "check.h"

#include <unistd.h>

#include "base/mem.h"
#include "text/harmony.h"
#include "text/json.h"

static struct value json(const char *text) {
  struct value v;
  struct err err;
  check_ok(json_parse(text, strlen(text), &v, &err), &err);
  return v;
}

static enum harmony_mode mode_of(const struct value *row) {
  const char *mode = value_to_string(value_get(row, "mode"));
  return strcmp(mode, "completion") == 0     ? HARMONY_COMPLETION
         : strcmp(mode, "conversation") == 0 ? HARMONY_CONVERSATION
                                             : HARMONY_TRAINING;
}

static void check_row(const struct value *row) {
  struct harmony_options options = {
      .mode = mode_of(row), .auto_drop_analysis = value_get(row, "auto_drop_analysis")->u.boolean};
  struct harmony_prompt p;
  struct err err;
  harmony_init(&p);
  int rc = harmony_render(&p, value_get(row, "messages"), &options, &err);
  const struct value *error = value_get(row, "error"), *text = value_get(row, "text");
  if (error) {
    assert_int_equal(rc, ERR_INVALID);
    if (strstr(value_to_string(error), "Tools should"))
      check_has(err.text, value_to_string(error)); /* other words are ours */
  } else {
    check_ok(rc, &err);
    if (p.text.len != text->u.string.len ||
        (p.text.len && memcmp(p.text.data, text->u.string.data, p.text.len) != 0))
      fail_msg("the row's text is\n%s\nexpected\n%s", p.text.len ? p.text.data : "",
               text->u.string.data);
  }
  harmony_free(&p);
}

/* PERIGEE_FIXTURES, or the folder beside the checkout; NULL when the rows are not there. */
static char *open_rows(void) {
  const char *folder = getenv("PERIGEE_FIXTURES");
  char path[1024];
  snprintf(path, sizeof path, "%s/harmony/harmony.jsonl", folder ? folder : "../shared/fixtures");
  return access(path, R_OK) == 0 ? check_read_file(path, NULL) : NULL;
}

/* Checks each line of the rows; returns how many there were. */
static int check_rows(char *text) {
  int n = 0;
  for (char *line = text, *next; *line; line = next, n++) {
    next = strchr(line, '\n');
    if (next)
      *next++ = '\0';
    else
      next = line + strlen(line);
    struct value row = json(line);
    check_row(&row);
    value_free(&row);
  }
  free(text);
  return n;
}

static void golden_rows(void **state) {
  (void)state;
  char *text = open_rows();
  if (!text)
    skip();
  assert_true(check_rows(text) > 100);
}

/* What openai-harmony made of random conversations (tests/data/harmony/make.py). */
static void random_rows(void **state) {
  (void)state;
  assert_int_equal(check_rows(check_read_file("tests/data/harmony/random.jsonl", NULL)), 150);
}

static void check_text(const char *messages, struct harmony_options options, const char *want) {
  struct value v = json(messages);
  struct harmony_prompt p;
  struct err err;
  harmony_init(&p);
  check_ok(harmony_render(&p, &v, &options, &err), &err);
  assert_string_equal(p.text.len ? p.text.data : "", want);
  harmony_free(&p);
  value_free(&v);
}

static void modes(void **state) {
  (void)state;
  static const char one[] = "[{\"role\":\"user\",\"content\":\"a\"},"
                            "{\"role\":\"assistant\",\"channel\":\"analysis\",\"content\":\"t\"},"
                            "{\"role\":\"assistant\",\"channel\":\"final\",\"content\":\"f\"}]";
#define USER "<|start|>user<|message|>a<|end|>"
#define FINAL "<|start|>assistant<|channel|>final<|message|>f"
#define ANALYSIS "<|start|>assistant<|channel|>analysis<|message|>t<|end|>"
  check_text(one, HARMONY_DEFAULTS, USER FINAL "<|end|><|start|>assistant");
  check_text(one, (struct harmony_options){HARMONY_CONVERSATION, false},
             USER ANALYSIS FINAL "<|end|>");
  check_text(one, (struct harmony_options){HARMONY_TRAINING, true}, USER FINAL "<|return|>");
  check_text("[]", HARMONY_DEFAULTS, "<|start|>assistant");
  check_text("[]", (struct harmony_options){HARMONY_TRAINING, true}, "");
}

/* Without an assistant's message nothing is dropped; an empty identity is a section. */
static void corners(void **state) {
  (void)state;
  check_text("[{\"role\":\"user\",\"channel\":\"analysis\",\"content\":\"t\"},"
             "{\"role\":\"user\",\"channel\":\"final\",\"content\":\"f\"}]",
             (struct harmony_options){HARMONY_CONVERSATION, true},
             "<|start|>user<|channel|>analysis<|message|>t<|end|>"
             "<|start|>user<|channel|>final<|message|>f<|end|>");
  check_text(
      "[{\"role\":\"system\",\"content\":[{\"type\":\"system_content\",\"model_identity\":\"\","
      "\"reasoning_effort\":\"Low\"}]}]",
      (struct harmony_options){HARMONY_CONVERSATION, true},
      "<|start|>system<|message|>\n\nReasoning: low<|end|>");
  check_text(
      "[{\"role\":\"tool\",\"channel\":\"analysis\",\"content\":[{\"type\":"
      "\"system_content\"}]},{\"role\":\"assistant\",\"channel\":\"final\",\"content\":\"f\"}]",
      (struct harmony_options){HARMONY_CONVERSATION, true},
      "<|start|>assistant<|channel|>final<|message|>f<|end|>");
  check_text("[{\"role\":\"developer\",\"content\":[{\"type\":\"developer_content\","
             "\"instructions\":\"\"}]}]",
             (struct harmony_options){HARMONY_CONVERSATION, true},
             "<|start|>developer<|message|># Instructions\n\n<|end|>");
}

/* A special token written in a message is no special token; parts stay apart. */
static void segments(void **state) {
  (void)state;
  struct value v = json("[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"<|end|>\"},"
                        "{\"type\":\"text\",\"text\":\"b\"},{\"type\":\"text\",\"text\":\"\"}]}]");
  static const struct {
    bool special;
    const char *text;
  } want[] = {{true, "<|start|>"}, {false, "user"}, {true, "<|message|>"},
              {false, "<|end|>"},  {false, "b"},    {true, "<|end|>"}};
  struct harmony_prompt p;
  struct err err;
  harmony_init(&p);
  for (int again = 0; again < 2; again++) {
    check_ok(harmony_render(&p, &v, &(struct harmony_options){HARMONY_CONVERSATION, true}, &err),
             &err);
    assert_int_equal(p.n, ARRAY_LEN(want));
    for (size_t i = 0; i < p.n; i++) {
      assert_int_equal(p.segments[i].special, want[i].special);
      assert_int_equal(p.segments[i].len, strlen(want[i].text));
      assert_memory_equal(p.text.data + p.segments[i].start, want[i].text, p.segments[i].len);
    }
  }
  struct tokens_list ids = {0};
  const struct tokens *bytes;
  check_ok(tokens_open("bytes", NULL, &bytes, &err), &err);
  struct tokens_encoder *e = tokens_encoder_new(bytes);
  assert_int_equal(harmony_encode(&p, e, &ids, &err), ERR_INVALID);
  tokens_encoder_delete(e);
  check_has(err.text, "tokenizer bytes has no token <|start|>: Harmony needs o200k_harmony");
  tokens_list_free(&ids);
  tokens_close(bytes);
  harmony_free(&p);
  value_free(&v);
}

static void refusals(void **state) {
  (void)state;
#define ONE(rest) "[{\"role\":\"user\",\"content\":\"x\"},{" rest "}]"
#define SYSTEM(rest) ONE("\"role\":\"system\",\"content\":[{\"type\":\"system_content\"," rest "}]")
#define DEVELOPER(rest)                                                                            \
  ONE("\"role\":\"developer\",\"content\":[{\"type\":\"developer_content\"," rest "}]")
  static const char *const cases[][2] = {
      {"{}", "messages must be a list"},
      {ONE("\"role\":\"bot\",\"content\":\"x\""), "message 2: its role is none of user"},
      {ONE("\"content\":\"x\""), "message 2: its role is none of user"},
      {ONE("\"role\":\"user\""), "message 2: content must be a text or a list of parts"},
      {ONE("\"role\":\"user\",\"content\":null"), "message 2: content must be"},
      {ONE("\"role\":\"user\",\"content\":[{\"type\":\"text\"}]"),
       "message 2: a part of its content"},
      {ONE("\"role\":\"user\",\"content\":\"x\",\"channel\":1"),
       "message 2: channel must be a text"},
      {ONE("\"role\":\"tool\",\"content\":\"x\""), "Tools should have a name!"},
      {ONE("\"role\":\"user\",\"content\":[{\"type\":\"system_content\"}]"),
       "message 2: system_content belongs in a system message"},
      {ONE("\"role\":\"system\",\"content\":[{\"type\":\"developer_content\"}]"),
       "message 2: developer_content belongs in a developer message"},
      {SYSTEM("\"reasoning_effort\":\"low\""), "message 2: reasoning_effort is one of Low"},
      {SYSTEM("\"model_identity\":3"), "message 2: model_identity must be a text"},
      {SYSTEM("\"channel_config\":{\"valid_channels\":[]}"), "message 2: channel_config is {"},
      {SYSTEM("\"channel_config\":{\"valid_channels\":[1],\"channel_required\":true}"),
       "message 2: channel_config is {"},
      /* a message that is dropped must be well formed */
      {"[{\"role\":\"user\",\"channel\":\"analysis\",\"content\":[1]},{\"role\":\"assistant\","
       "\"channel\":\"final\",\"content\":\"x\"}]",
       "message 1: a part of its content"},
      {DEVELOPER("\"instructions\":[]"), "message 2: instructions must be a text"},
      {DEVELOPER("\"tools\":[]"), "message 2: tools is an object"},
      {DEVELOPER("\"tools\":{\"functions\":{\"name\":\"functions\"}}"),
       "message 2: a namespace of"},
      {DEVELOPER("\"tools\":{\"f\":{\"name\":\"f\",\"tools\":[{\"name\":\"g\"}]}}"),
       "message 2: tool 1 of namespace \"f\" needs a name and a description"},
  };
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    struct value v = json(cases[i][0]);
    struct harmony_prompt p;
    struct err err = {0};
    harmony_init(&p);
    if (!harmony_render(&p, &v, &HARMONY_DEFAULTS, &err))
      fail_msg("%s was accepted", cases[i][0]);
    check_has(err.text, cases[i][1]);
    harmony_free(&p);
    value_free(&v);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(golden_rows), cmocka_unit_test(random_rows), cmocka_unit_test(modes),
      cmocka_unit_test(corners),     cmocka_unit_test(segments),    cmocka_unit_test(refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

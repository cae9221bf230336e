/* test_chattemplate.c: a chat template from its files, applied to a request. */
#include "chatmodel.h"

#include "text/chattemplate.h"

static struct chatmodel model;
static const struct tokens *tokens;
static struct tokens_encoder *encoder;

static int start(void **state) {
  (void)state;
  struct err err = {0};
  chatmodel_make(&model, chatmodel_template);
  check_ok(tokens_open(model.folder, NULL, &tokens, &err), &err);
  encoder = tokens_encoder_new(tokens);
  return 0;
}

static int stop(void **state) {
  (void)state;
  tokens_encoder_delete(encoder);
  tokens_close(tokens);
  chatmodel_remove(&model);
  return 0;
}

static struct chattemplate *load(const char *path, const char *tokenizer) {
  struct chattemplate *t;
  struct err err = {0};
  check_ok(chattemplate_load(path, tokenizer, &t, &err), &err);
  return t;
}

/* The text of the ids that a request (an object with its fields) becomes. */
static char *text_of(const struct chattemplate *t, const char *json, bool generate) {
  struct value v;
  struct err err = {0};
  struct tokens_list ids = {0};
  struct buf text;
  check_ok(json_parse(json, strlen(json), &v, &err), &err);
  struct chattemplate_request r = {.messages = value_get(&v, "messages"),
                                   .tools = value_get(&v, "tools"),
                                   .kwargs = value_get(&v, "kwargs"),
                                   .add_generation_prompt = generate};
  check_ok(chattemplate_encode(t, encoder, &r, &ids, &err), &err);
  buf_init(&text, BUF_MAX_OWN);
  check_ok(tokens_decode(tokens, ids.ids, ids.n, &text, &err), &err);
  assert_int_equal(ids.ids[0], CHATMODEL_IM); /* no <s> in front, the special token as one */
  tokens_list_free(&ids);
  value_free(&v);
  return buf_take(&text, NULL);
}

static void check_text(const struct chattemplate *t, const char *json, bool generate,
                       const char *want) {
  char *text = text_of(t, json, generate);
  assert_string_equal(text, want);
  mem_free(text);
}

static void test_requests(void **state) {
  (void)state;
  struct chattemplate *t = load(model.folder, NULL);
  assert_string_equal(chattemplate_name(t), model.folder);
  assert_false(chattemplate_is_harmony(t));
  assert_string_equal(chattemplate_special(t, "bos_token"), "<s>");
  assert_string_equal(chattemplate_special(t, "eos_token"), "<|end|>");
  assert_null(chattemplate_special(t, "pad_token"));
  check_text(t,
             "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
             "{\"type\":\"text\",\"text\":\"b\"}]}]}",
             true, "<|im|>user\na\nb<|end|>\n<|im|>assistant\n");
  check_text(t,
             "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":"
             "\"f\",\"arguments\":\"{\\\"x\\\":7}\"}}]}],\"kwargs\":{\"mood\":\"calm\"}}",
             true, "<|im|>assistant\n[f:7]<|end|>\n<|im|>assistant\n(calm)");
  check_text(t,
             "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":[{\"function\":"
             "{\"name\":\"f\"}}]}",
             false,
             "<|im|>tools\n[{\"type\": \"function\", \"function\": {\"name\": \"f\", "
             "\"description\": null, \"parameters\": null}}]<|end|>\n<|im|>user\na<|end|>\n");
  chattemplate_delete(t);
}

static void test_places(void **state) {
  (void)state;
  struct err err = {0};
  struct chattemplate *t = load(model.config, NULL);
  check_text(t, "{\"messages\":[{\"role\":\"u\"}]}", false, "<|im|>u\n<|end|>\n");
  chattemplate_delete(t);
  /* A Jinja file elsewhere takes the special tokens of the tokenizer's folder. */
  char path[] = "/tmp/perigee-template.XXXXXX";
  static const char source[] = "<|im|>{{ bos_token }}{{ messages[0].content }}";
  int fd = mkstemp(path);
  assert_int_equal(write(fd, source, sizeof source - 1), sizeof source - 1);
  close(fd);
  uint64_t hashes[3] = {0};
  assert_int_equal(chattemplate_load(path, NULL, &t, &err), ERR_NOT_FOUND);
  check_has(err.text, "names bos_token, and nothing says what that is: neither a tokenizer_config");
  assert_null(t);
  t = load(path, model.file);
  hashes[2] = chattemplate_hash(t);
  check_text(t, "{\"messages\":[{\"role\":\"u\",\"content\":\"x\"}]}", false, "<|im|><s>x");
  chattemplate_delete(t);
  /* What comes with a tokenizer, by folder and by file. */
  const char *const with[] = {model.folder, model.file};
  for (int i = 0; i < 2; i++) {
    check_ok(chattemplate_default(with[i], NULL, &t, &err), &err);
    assert_string_equal(chattemplate_name(t), with[i]);
    check_text(t, "{\"messages\":[{\"role\":\"u\"}]}", false, "<|im|>u\n<|end|>\n");
    hashes[i] = chattemplate_hash(t);
    chattemplate_delete(t);
  }
  assert_true(hashes[0] == hashes[1] && hashes[0] != hashes[2]);
  check_ok(chattemplate_default(path, NULL, &t, &err), &err);
  assert_null(t);
  check_ok(chattemplate_default("ranks.tiktoken", "o200k_harmony", &t, &err), &err);
  assert_true(chattemplate_is_harmony(t));
  assert_string_equal(chattemplate_special(t, "eos_token"), "<|return|>");
  chattemplate_delete(t);
  unlink(path);
}

static void write_file(const char *path, const char *text) {
  FILE *f = fopen(path, "we");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

/* Without a file that says so, the token that the tokenizer.json puts in front of a text is the
 * model's first one; any other that is named stays unknown. */
static void test_special_of_a_tokenizer(void **state) {
  (void)state;
  char folder[] = "/tmp/perigee-special.XXXXXX", jinja[80], json[80];
  struct chattemplate *t;
  struct err err = {0};
  assert_non_null(mkdtemp(folder));
  snprintf(jinja, sizeof jinja, "%s/own.jinja", folder);
  snprintf(json, sizeof json, "%s/tokenizer.json", folder);
  write_file(jinja, "{{ bos_token }}{{ messages[0].content }}");
  write_file(json,
             "{\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":"
             "\"ByteLevel\"},{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
             "\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}]}]}}");
  const char *const ways[] = {json, folder};
  for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
    t = load(jinja, ways[i]);
    assert_string_equal(chattemplate_special(t, "bos_token"), "<s>");
    assert_null(chattemplate_special(t, "eos_token"));
    chattemplate_delete(t);
  }
  write_file(jinja, "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}");
  assert_int_equal(chattemplate_load(jinja, folder, &t, &err), ERR_NOT_FOUND);
  check_has(err.text, "names eos_token, and nothing says what that is");
  check_has(err.text, "put a special_tokens_map.json there, as in {\"eos_token\": \"<s>\"}");
  write_file(json,
             "{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{"
             "\"id\":\"A\"}},{\"SpecialToken\":{\"id\":\"</s>\"}}]}}");
  assert_int_equal(chattemplate_load(jinja, folder, &t, &err), ERR_NOT_FOUND);
  check_has(err.text, "names bos_token");
  write_file(jinja, "{{ bos_token }}");
#define ADDED(content, special) "{\"content\":\"" content "\",\"special\":" special "}"
  write_file(json,
             "{\"added_tokens\":[" ADDED("<|end|>", "true") "," ADDED("<s>", "false") "," ADDED(
                 "<|begin_of_text|>", "true") "],\"post_processor\":{\"type\":\"ByteLevel\"}}");
  t = load(jinja, folder);
  assert_string_equal(chattemplate_special(t, "bos_token"), "<|begin_of_text|>");
  chattemplate_delete(t);
  write_file(json, "{\"added_tokens\":[" ADDED("<s>", "true") "," ADDED("<bos>",
                                                                        "true") "]}"); /* which? */
  assert_int_equal(chattemplate_load(jinja, folder, &t, &err), ERR_NOT_FOUND);
  check_has(err.text, "names bos_token");
  unlink(jinja);
  unlink(json);
  rmdir(folder);
}

/* chattemplate_served of a request against the row (JSON) or the refusal. */
static void check_served(const char *json, const char *want, bool refused) {
  struct value v, row;
  struct err err = {0};
  check_ok(json_parse(json, strlen(json), &v, &err), &err);
  int rc = chattemplate_served(&v, &row, &err);
  if (refused) {
    assert_int_equal(rc, ERR_INVALID);
    assert_string_equal(err.text, want);
    assert_int_equal(row.kind, VALUE_NULL);
  } else {
    struct buf text;
    check_ok(rc, &err);
    buf_init(&text, BUF_MAX_OWN);
    json_write(&text, &row);
    buf_putc(&text, '\0');
    assert_string_equal(text.data, want);
    buf_free(&text);
    value_free(&row);
  }
  value_free(&v);
}

static void test_served(void **state) {
  (void)state;
  check_served(
      "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\","
      "\"arguments\":\"{\\\"b\\\":1,\\\"a\\\":2}\"}}]}],\"tools\":[{\"function\":{\"name\":\"f\"}}]"
      ","
      "\"documents\":[1],\"reasoning_effort\":\"low\",\"chat_template_kwargs\":{\"x\":3},\"now\":"
      "\"n\"}",
      "{\"messages\":[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"function\":{"
      "\"name\":"
      "\"f\",\"arguments\":{\"b\":1,\"a\":2}}}]}],\"tools\":[{\"type\":\"function\",\"function\":{"
      "\"name\":"
      "\"f\",\"description\":null,\"parameters\":null}}],\"documents\":[1],\"reasoning_effort\":"
      "\"low\","
      "\"chat_template_kwargs\":{\"x\":3},\"now\":\"n\",\"kwargs\":{\"documents\":[1],"
      "\"reasoning_effort\":\"low\",\"x\":3}}",
      false);
  check_served(
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"kwargs\":null}",
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"kwargs\":{},\"tools\":null}", false);
  check_served("{\"messages\":[{\"role\":\"user\"}],\"kwargs\":{},\"chat_template_kwargs\":{}}",
               "kwargs and chat_template_kwargs are two names of one thing: leave one out", true);
  check_served("{\"messages\":[{\"role\":\"user\"}],\"chat_template_kwargs\":[]}",
               "chat_template_kwargs must be an object of template variables", true);
  check_served("{}", "messages: field required", true);
  check_served("{\"messages\":[{\"role\":\"user\"}],\"tools\":[1]}",
               "tools[0].function: an object with a name is required", true);
}

static void test_names_special(void **state) {
  (void)state;
  static const char *const rows[][2] = {{"{{ bos_token }}", "bos_token"},
                                        {"{{ x }}{{eos_token}}", "eos_token"},
                                        {"pad_token", "pad_token"},
                                        {"{{ my_bos_token + bos_tokens + xeos_token }}", NULL},
                                        {"", NULL}};
  for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
    const char *got = chattemplate_names_special(rows[i][0], strlen(rows[i][0]));
    assert_true(rows[i][1] ? got && strcmp(got, rows[i][1]) == 0 : !got);
  }
}

static void test_refusals(void **state) {
  (void)state;
  struct err err = {0};
  struct chattemplate *t;
  assert_int_equal(chattemplate_load("/nowhere/x.jinja", NULL, &t, &err), ERR_NOT_FOUND);
  check_has(err.text, "template \"/nowhere/x.jinja\": neither a file");
  assert_null(t);
  assert_int_equal(chattemplate_load(model.file, NULL, &t, &err), ERR_NOT_FOUND);
  check_has(err.text, "tokenizer.json");
  t = load(model.folder, NULL);
  struct value none = value_array();
  struct chattemplate_request r = {.messages = &none};
  struct tokens_list ids = {0};
  assert_int_equal(chattemplate_encode(t, encoder, &r, &ids, &err), ERR_INVALID);
  check_has(err.text, "at least one message");
  r.add_generation_prompt = r.continue_final_message = true;
  assert_int_equal(chattemplate_encode(t, encoder, &r, &ids, &err), ERR_INVALID);
  check_has(err.text, "Cannot set both");
  assert_int_equal(ids.n, 0);
  value_free(&none);
  chattemplate_delete(t);
  /* Harmony with a tokenizer that does not know it. */
  t = load("harmony", NULL);
  struct value messages;
  check_ok(json_parse("[{\"role\":\"user\",\"content\":\"x\"}]", 31, &messages, &err), &err);
  r = (struct chattemplate_request){.messages = &messages};
  assert_int_equal(chattemplate_encode(t, encoder, &r, &ids, &err), ERR_INVALID);
  check_has(err.text, "<|start|>");
  r.continue_final_message = true;
  assert_int_equal(chattemplate_encode(t, encoder, &r, &ids, &err), ERR_INVALID);
  check_has(err.text, "continue_final_message is not done with Harmony");
  value_free(&messages);
  tokens_list_free(&ids);
  chattemplate_delete(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_requests),
      cmocka_unit_test(test_places),
      cmocka_unit_test(test_served),
      cmocka_unit_test(test_names_special),
      cmocka_unit_test(test_special_of_a_tokenizer),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests_name("chattemplate", tests, start, stop);
}

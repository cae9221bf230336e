/* chatmodel.h: a small model in a folder of its own: a byte-level tokenizer of tests/data/tokenizer
 * with chat tokens, and a tokenizer_config.json with a chat template of our own. */
#ifndef TESTS_UNIT_CHATMODEL_H
#define TESTS_UNIT_CHATMODEL_H

#include <sys/stat.h>
#include <unistd.h>

#include "tokenizer_cases.h"

struct chatmodel {
  char folder[64];
  char file[96];   /* tokenizer.json */
  char config[96]; /* tokenizer_config.json */
};

/* Ids of the added tokens: behind the base vocabulary. */
enum { CHATMODEL_BOS = 676, CHATMODEL_IM = 677, CHATMODEL_END = 678 };

static const char chatmodel_template[] =
    "{%- if tools %}<|im|>tools\n{{ tools | tojson }}<|end|>\n{% endif -%}"
    "{%- for m in messages %}<|im|>{{ m.role }}\n{{ m.content }}"
    "{%- for c in m.tool_calls or [] %}[{{ c.function.name }}:{{ c.function.arguments.x }}]"
    "{% endfor -%}<|end|>\n{% endfor -%}"
    "{%- if add_generation_prompt %}<|im|>assistant\n{% if mood %}({{ mood }}){% endif %}"
    "{% endif -%}";

static inline void chatmodel_write(const char *path, struct value v) {
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  json_write(&text, &v);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  assert_int_equal(fwrite(text.data, 1, text.len, f), text.len);
  fclose(f);
  buf_free(&text);
  value_free(&v);
}

static inline struct value chatmodel_tokenizer(void) {
  struct cases c;
  cases_open(&c);
  struct value file = cases_file(&c, cases_named(&c, "split_qwen2"));
  static const char *const added[] = {"<s>", "<|im|>", "<|end|>"};
  struct value *list = value_set(&file, "added_tokens", value_array());
  for (int i = 0; i < 3; i++) {
    struct value *t = value_push(list, value_object());
    value_set(t, "id", value_int(CHATMODEL_BOS + i));
    value_set(t, "content", value_cstring(added[i]));
    static const char *const off[] = {"single_word", "lstrip", "rstrip", "normalized"};
    for (int k = 0; k < 4; k++)
      value_set(t, off[k], value_bool(false));
    value_set(t, "special", value_bool(true));
  }
  static const char post[] =
      "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":"
      "0}"
      "},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[{\"Sequence\":{\"id\":\"A\","
      "\"type_id\":0}},{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}],\"special_tokens\":{\"<s>\":{"
      "\"id\":\"<s>\",\"ids\":[676],\"tokens\":[\"<s>\"]}}}";
  struct value processor;
  struct err err = {0};
  check_ok(json_parse(post, sizeof post - 1, &processor, &err), &err);
  value_set(&file, "post_processor", processor);
  cases_close(&c);
  return file;
}

static inline void chatmodel_make(struct chatmodel *m, const char *template) {
  snprintf(m->folder, sizeof m->folder, "/tmp/perigee-chatmodel.XXXXXX");
  assert_non_null(mkdtemp(m->folder));
  snprintf(m->file, sizeof m->file, "%s/tokenizer.json", m->folder);
  snprintf(m->config, sizeof m->config, "%s/tokenizer_config.json", m->folder);
  chatmodel_write(m->file, chatmodel_tokenizer());
  struct value config = value_object();
  value_set(&config, "chat_template", value_cstring(template));
  value_set(&config, "bos_token", value_cstring("<s>"));
  struct value *eos = value_set(&config, "eos_token", value_object());
  value_set(eos, "content", value_cstring("<|end|>"));
  chatmodel_write(m->config, config);
}

static inline void chatmodel_remove(struct chatmodel *m) {
  unlink(m->file);
  unlink(m->config);
  rmdir(m->folder);
}

#endif

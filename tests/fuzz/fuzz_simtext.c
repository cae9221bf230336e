/* fuzz_simtext.c: what the fleet makes of texts and messages with a model's tokenizer and template:
 * any JSON as chat messages and tools, as the body of /tokenize, /detokenize and the two renders;
 * and any numbers as what an answer shall be. The first byte chooses. What is refused says why,
 * what is answered is JSON, prompts of one request are the same everywhere, and answers are ids
 * that their text gives back. */
#include "fuzz_model.h"

#include <unistd.h>

#include "sim/genprompt.h"
#include "sim/textapi.h"
#include "text/chatmessages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static struct genmodel model;
static struct speech speech;

#define SOURCE                                                                                     \
  "{% if tools %}<|im|>{{ tools | tojson }}<|end|>{% endif %}{% for m in messages %}"              \
  "<|im|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}[{{ c.function.name }}"     \
  "{{ c.function.arguments | tojson }}]{% endfor %}<|end|>{% endfor %}"                            \
  "{% if add_generation_prompt %}<|im|>assistant\n{% endif %}"

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  char path[] = "/tmp/fuzz-template.XXXXXX";
  struct err err = {0};
  (void)argc, (void)argv;
  model = (struct genmodel){.name = "m", .max_model_len = 2000, .seed = 1};
  model.tokenizer = fuzz_model_tokens("split_qwen2");
  model.encoder = tokens_encoder_new(model.tokenizer);
  int fd = mkstemp(path);
  require(fd >= 0 && write(fd, SOURCE, sizeof SOURCE - 1) == sizeof SOURCE - 1);
  close(fd);
  require(chattemplate_load(path, NULL, &model.chat, &err) == 0);
  unlink(path);
  struct speech_options o = {.header = "<|im|>x<|end|>",
                             .opening = "<|im|>",
                             .eos = "<|end|>",
                             .think = "<|im|>t",
                             .answer = "<|end|><|im|>x"};
  require(speech_init(&speech, model.tokenizer, model.encoder, &o, &err) == 0);
  model.speech = &speech;
  return 0;
}

static void check_refusal(const struct apierror *e) {
  require((e->status == 400 || e->status == 404) && e->message[0]);
}

/* ---- messages ---- */

static void try_messages(const struct value *body) {
  struct value out;
  struct err err = {0};
  const struct value *messages = value_get(body, "messages");
  if (messages && chatmessages_prepare(messages, &out, &err) == 0) {
    require(value_count(&out) == value_count(messages));
    for (size_t i = 0; i < value_count(&out); i++)
      require(value_get(value_at(&out, i), "content")->kind == VALUE_STRING);
    value_free(&out);
  } else if (messages) {
    require(err.text[0] && out.kind == VALUE_NULL);
  }
  err.text[0] = '\0';
  const struct value *tools = value_get(body, "tools");
  if (chatmessages_tools(tools, &out, &err)) {
    require(err.text[0] != '\0');
  } else {
    require(out.kind == VALUE_NULL || value_count(&out) == value_count(tools));
    value_free(&out);
  }
}

/* ---- endpoints ---- */

typedef int json_fn(const struct genmodel *model, const struct value *body, struct buf *out,
                    struct apierror *e);

/* The answer, parsed; null when it was refused. */
static struct value call(json_fn *fn, const struct value *body) {
  struct apierror e = {0};
  struct buf out;
  struct err err;
  struct value v = value_null();
  buf_init(&out, BUF_MAX_OWN);
  if (fn(&model, body, &out, &e)) {
    check_refusal(&e);
    require(out.len == 0);
  } else {
    require(json_parse(out.data, out.len, &v, &err) == 0);
  }
  buf_free(&out);
  return v;
}

static void try_tokenize(const struct value *body) {
  struct value said = call(textapi_tokenize, body);
  const struct value *tokens = value_get(&said, "tokens"), *prompt = value_get(body, "prompt");
  if (said.kind == VALUE_NULL)
    return;
  const struct value *names = value_get(&said, "token_strs");
  require(names->kind == VALUE_NULL || value_count(names) == value_count(tokens));
  if (value_count(tokens)) {
    struct value ask = value_object();
    value_set(&ask, "tokens", value_copy(tokens));
    struct value back = call(textapi_detokenize, &ask);
    const struct value *text = value_get(&back, "prompt");
    require(text && text->kind == VALUE_STRING);
    if (!value_get(body, "messages") && prompt && prompt->kind == VALUE_STRING)
      require(text->u.string.len >= prompt->u.string.len); /* what NFC leaves */
    value_free(&back);
    value_free(&ask);
  }
  value_free(&said);
}

static void try_render(enum gen_api api, const char *text, size_t len) {
  struct apierror e = {0};
  struct buf out;
  struct value v;
  struct err err;
  buf_init(&out, BUF_MAX_OWN);
  if (textapi_render(&model, api, text, len, "id", &out, &e)) {
    check_refusal(&e);
  } else {
    require(json_parse(out.data, out.len, &v, &err) == 0);
    value_free(&v);
  }
  buf_free(&out);
}

/* ---- answers ---- */

static void try_speech(const uint8_t *data, size_t size) {
  uint8_t b[12] = {0};
  memcpy(b, data, size < sizeof b ? size : sizeof b);
  struct speech_ask ask = {.ends = b[8] & 1,
                           .header = b[8] & 2,
                           .show_header = b[8] & 4,
                           .show_special = b[8] & 8,
                           .think = b[8] >> 4,
                           .most = (uint32_t)b[9] + 1,
                           .natural = (uint32_t)b[10] + 1u + (b[11] & 1u) * 256u};
  struct speech_answer a;
  struct tokens_list again = {0};
  struct err err;
  memcpy(&ask.key, b, sizeof ask.key);
  speech_say(&speech, &ask, &a);
  size_t len = strlen(a.text);
  require(a.n >= 1 && a.n <= ask.most && a.hidden <= a.n && json_utf8_valid(a.text, len) == len);
  require(!a.ended || (ask.ends && a.ids[a.n - 1] == speech.eos));
  for (uint32_t i = 0; i < a.n; i++) {
    require(a.ids[i] < model.tokenizer->vocab_size && a.shown[i] <= len);
    require(!i || a.shown[i] >= a.shown[i - 1]);
    require(a.shown[i] == len || ((unsigned char)a.text[a.shown[i]] & 0xc0) != 0x80);
  }
  if (a.ended && !ask.header) { /* the whole answer: its text has its ids */
    require(tokens_encode(model.tokenizer, a.text, len, NULL, &again, &err) == 0);
    require(again.n == a.n - 1 && memcmp(again.ids, a.ids, again.n * sizeof *again.ids) == 0);
  }
  tokens_list_free(&again);
  mem_free(a.ids);
  mem_free(a.shown);
  mem_free(a.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct value body;
  struct err err;
  if (!size || size > 20000)
    return 0;
  const char *text = (const char *)data + 1;
  if (data[0] == 's') {
    try_speech(data + 1, size - 1);
  } else if (data[0] == 'c' || data[0] == 'p') {
    try_render(data[0] == 'c' ? GEN_CHAT : GEN_COMPLETION, text, size - 1);
  } else if (json_parse(text, size - 1, &body, &err) == 0) {
    if (data[0] == 'm') {
      try_messages(&body);
    } else if (data[0] == 'd') {
      struct value v = call(textapi_detokenize, &body);
      value_free(&v);
    } else {
      try_tokenize(&body);
    }
    value_free(&body);
  }
  return 0;
}

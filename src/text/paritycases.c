/* paritycases.c: the battery, and the bodies of requests with a case; see paritycases.h. */
#include "text/paritycases.h"

#include <string.h>

#include "base/mem.h"
#include "text/json.h"

/* ---- what is tried ---- */

struct text_case {
  const char *name, *text;
};

/* Accents before and behind, a ligature, CJK, Hebrew, emoji with joiners and flags, U+180E, which
 * classes of white space disagree on, and a no-break space. In bytes where editors disagree. */
#define FAMILY                                                                                     \
  "\xf0\x9f\x99\x82 \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x9a\x80 \xf0\x9f\x87\xab\xf0\x9f\x87\xb7"
#define UNICODE_TEXT                                                                               \
  "naïve café e\xcc\x81 ﬁ Ω日本語の文章、한국어 \xd7\xa2\xd7\x91\xd7\xa8\xd7\x99\xd7\xaa " FAMILY  \
  " \xe1\xa0\x8e x\xc2\xa0y"

static const struct text_case prompts[] = {
    {"plain", "The quick brown fox jumps over the lazy dog."},
    {"unicode", UNICODE_TEXT},
    {"whitespace", "  two  spaces\n\n\ttab\t\r\n   three lines\n\n\n   and the end  "},
    {"code",
     "for (int i = 0; i < 1024; i++) { x[i] += 3.14e-7 * y[i]; } // 12345678 it's don't WE'LL"},
    {"special_text", "a <s> b </s> c <|im_end|> d <|endoftext|> e <|eot_id|> f <|end|> g [INST] h"},
};

/* Tools whose keys are in no order, with what tojson may escape. */
#define TOOLS                                                                                      \
  "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"read_file\",\"description\":"        \
  "\"Reads "                                                                                       \
  "a file's text; paths are < 4096 bytes & relative, naïve ones too\",\"parameters\":{\"type\":"  \
  "\"object\",\"required\":[\"path\"],\"properties\":{\"path\":{\"type\":\"string\","              \
  "\"description\":\"where\"},\"limit\":{\"type\":\"integer\",\"default\":100}}}}},{\"type\":"     \
  "\"function\",\"function\":{\"name\":\"grep\",\"description\":\"Finds lines\",\"parameters\":{"  \
  "\"type\":\"object\",\"properties\":{\"pattern\":{\"type\":\"string\"},\"case\":{\"type\":"      \
  "\"string\",\"enum\":[\"as_is\",\"ignore\"]}},\"required\":[\"pattern\"]}}}]"
#define SYSTEM "{\"role\":\"system\",\"content\":\"You are terse. Answer in one line.\"},"
#define ASKED                                                                                      \
  "{\"role\":\"user\",\"content\":\"What does main.c do, and where is parse() called?\"}"
#define CALLED                                                                                     \
  ",{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"call_00001\",\"type\":"     \
  "\"function\",\"function\":{\"name\":\"read_file\",\"arguments\":\"{\\\"path\\\": "              \
  "\\\"main.c\\\""                                                                                 \
  ", \\\"limit\\\": "                                                                              \
  "20}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"call_00001\",\"content\":\"int "                \
  "main(void) {\\n  return parse();\\n}\"}"

/* `quick`: what a run asks before its load, too. One of each of what templates decide on: whether
 * there is a system message (else many write one of their own), answers in the history, tools,
 * calls of them, whether the model thinks, and whether its answer is begun. */
static const struct chat_case {
  const char *name, *text;
  bool quick;
} conversations[] = {
    {"user", "[{\"role\":\"user\",\"content\":\"Hello, who are you?\"}]", true},
    {"system", "[" SYSTEM "{\"role\":\"user\",\"content\":\"Hello 🙂 naïve 日本\"}]", true},
    {"multi_turn",
     "[" SYSTEM "{\"role\":\"user\",\"content\":\"One?\"},{\"role\":\"assistant\","
     "\"content\":\"Two.\"},{\"role\":\"user\",\"content\":\"Three, please.\"}]",
     true},
    {"whitespace", "[{\"role\":\"user\",\"content\":\"  indented\\n\\n\\ttext \\n\"}]", false},
    {"special_text",
     "[{\"role\":\"user\",\"content\":\"What are <|im_end|>, </s>, <|eot_id|> and "
     "<|start|>?\"}]",
     false},
    {"tools", "{\"messages\":[" SYSTEM ASKED "]," TOOLS "}", true},
    {"tool_calls", "{\"messages\":[" SYSTEM ASKED CALLED "]," TOOLS "}", true},
    {"thinking",
     "{\"messages\":[{\"role\":\"user\",\"content\":\"Hello, who are you?\"}],"
     "\"chat_template_kwargs\":{\"enable_thinking\":false}}",
     true},
    {"no_generation_prompt",
     "{\"messages\":[" SYSTEM "{\"role\":\"user\",\"content\":\"One?\"},{\"role\":\"assistant\","
     "\"content\":\"Two.\"}],\"add_generation_prompt\":false}",
     true},
};

/* ---- lists of cases ---- */

static struct parity_case *add(struct paritycases *p, const char *name, enum parity_form form) {
  p->items = mem_resize(p->items, p->n + 1, sizeof *p->items);
  p->items[p->n] = (struct parity_case){.name = name, .form = form};
  return &p->items[p->n++];
}

static struct value *keep(struct paritycases *p, struct value body) {
  p->bodies = mem_resize(p->bodies, p->n_bodies + 1, sizeof *p->bodies);
  p->bodies[p->n_bodies] = body;
  return &p->bodies[p->n_bodies++];
}

void paritycases_add_prompt(struct paritycases *p, const char *name, const char *text, size_t len) {
  const struct value *kept = keep(p, value_string(text, len));
  struct parity_case *c = add(p, name, PARITY_PROMPT);
  c->text = kept->u.string.data;
  c->len = kept->u.string.len;
  c->chat.add_special_tokens = true;
}

static int read_flag(const struct value *body, const char *key, bool *out, struct err *err) {
  const struct value *v = value_get(body, key);
  if (!v || v->kind == VALUE_NULL)
    return 0;
  if (v->kind != VALUE_BOOL)
    return err_set(err, ERR_INVALID, "%s must be true or false", key);
  *out = v->u.boolean;
  return 0;
}

static int check_kind(const struct value *body, const char *key, enum value_kind kind,
                      const char *what, struct err *err) {
  const struct value *v = value_get(body, key);
  if (!v || v->kind == VALUE_NULL || v->kind == kind)
    return 0;
  return err_set(err, ERR_INVALID, "%s must be %s", key, what);
}

/* Points the case at the fields of a body that stays where it is. */
static void point(struct parity_case *c, const struct value *body) {
  c->chat.messages = value_get(body, "messages");
  c->chat.tools = value_get(body, "tools");
  c->chat.kwargs = value_get(body, "chat_template_kwargs");
  c->chat.documents = value_get(body, "documents");
  c->chat.reasoning_effort = value_to_string(value_get(body, "reasoning_effort"));
}

static int check_body(const struct value *body, struct parity_case *c, struct err *err) {
  const struct value *messages = value_get(body, "messages");
  if (!messages || messages->kind != VALUE_ARRAY || !value_count(messages))
    return err_set(err, ERR_INVALID, "messages: a list of messages is needed");
  if (value_get(body, "kwargs"))
    return err_set(err, ERR_INVALID, "kwargs: a chat request calls them chat_template_kwargs");
  int rc = check_kind(body, "tools", VALUE_ARRAY, "a list", err);
  if (!rc)
    rc = check_kind(body, "chat_template_kwargs", VALUE_OBJECT, "an object", err);
  if (!rc)
    rc = check_kind(body, "documents", VALUE_ARRAY, "a list", err);
  if (!rc)
    rc = check_kind(body, "reasoning_effort", VALUE_STRING, "a string", err);
  c->chat.add_generation_prompt = true;
  if (!rc)
    rc = read_flag(body, "continue_final_message", &c->chat.continue_final_message, err);
  if (c->chat.continue_final_message && !value_get(body, "add_generation_prompt"))
    c->chat.add_generation_prompt = false;
  if (!rc)
    rc = read_flag(body, "add_generation_prompt", &c->chat.add_generation_prompt, err);
  if (!rc)
    rc = read_flag(body, "add_special_tokens", &c->chat.add_special_tokens, err);
  return rc;
}

int paritycases_add_messages(struct paritycases *p, const char *name, const char *json, size_t len,
                             struct err *err) {
  struct value v, body;
  int rc = json_parse(json, len, &v, err);
  if (rc)
    return rc;
  if (v.kind == VALUE_ARRAY) {
    body = value_object();
    value_set(&body, "messages", v);
  } else {
    body = v;
  }
  struct parity_case c = {0};
  rc = check_body(&body, &c, err);
  if (rc) {
    value_free(&body);
    return rc;
  }
  const struct value *kept = keep(p, body);
  struct parity_case *added = add(p, name, PARITY_MESSAGES);
  added->chat = c.chat;
  point(added, kept); /* the tree under a kept body does not move when the list grows */
  return 0;
}

static void add_built_in(struct paritycases *p, const struct chat_case *c) {
  struct err err;
  int rc = paritycases_add_messages(p, c->name, c->text, strlen(c->text), &err);
  assert(rc == 0); /* our own text */
  (void)rc;
}

struct paritycases paritycases_all(void) {
  struct paritycases p = {0};
  for (size_t i = 0; i < ARRAY_LEN(prompts); i++)
    paritycases_add_prompt(&p, prompts[i].name, prompts[i].text, strlen(prompts[i].text));
  paritycases_add_prompt(&p, "no_special_tokens", prompts[0].text, strlen(prompts[0].text));
  p.items[p.n - 1].chat.add_special_tokens = false;
  for (size_t i = 0; i < ARRAY_LEN(conversations); i++)
    add_built_in(&p, &conversations[i]);
  return p;
}

struct paritycases paritycases_quick(void) {
  static const char text[] =
      "naïve café 日本語 🙂  two  spaces\n\n\ttab 12345 for (i = 0; i < "
      "10; i++) <|im_end|> it's";
  struct paritycases p = {0};
  paritycases_add_prompt(&p, "quick", text, sizeof text - 1);
  for (size_t i = 0; i < ARRAY_LEN(conversations); i++)
    if (conversations[i].quick)
      add_built_in(&p, &conversations[i]);
  return p;
}

void paritycases_free(struct paritycases *p) {
  for (size_t i = 0; i < p->n_bodies; i++)
    value_free(&p->bodies[i]);
  mem_free(p->bodies);
  mem_free(p->items);
  *p = (struct paritycases){0};
}

void paritycases_set_now(struct paritycases *p, const struct pytime *now) {
  for (size_t i = 0; i < p->n; i++) {
    p->items[i].chat.has_now = true;
    p->items[i].chat.now = *now;
  }
}

/* ---- bodies ---- */

static void put_value(struct buf *out, const char *key, const struct value *v) {
  if (!v || v->kind == VALUE_NULL)
    return;
  buf_printf(out, ",\"%s\":", key);
  json_write(out, v);
}

static void put_flag(struct buf *out, const char *key, bool flag) {
  buf_printf(out, ",\"%s\":%s", key, flag ? "true" : "false");
}

static void put_head(const struct parity_case *c, const char *model, struct buf *out) {
  buf_puts(out, "{\"model\":");
  json_write_string(out, model, strlen(model));
  if (c->form == PARITY_PROMPT) {
    buf_puts(out, ",\"prompt\":");
    json_write_string(out, c->text, c->len);
    if (!c->chat.add_special_tokens) /* strict servers know no such field */
      put_flag(out, "add_special_tokens", false);
    return;
  }
  put_value(out, "messages", c->chat.messages);
  put_value(out, "tools", c->chat.tools);
  put_value(out, "documents", c->chat.documents);
  put_value(out, "chat_template_kwargs", c->chat.kwargs);
  if (c->chat.reasoning_effort) {
    buf_puts(out, ",\"reasoning_effort\":");
    json_write_string(out, c->chat.reasoning_effort, strlen(c->chat.reasoning_effort));
  }
  if (!c->chat.add_generation_prompt)
    put_flag(out, "add_generation_prompt", false);
  if (c->chat.continue_final_message)
    put_flag(out, "continue_final_message", true);
  if (c->chat.add_special_tokens)
    put_flag(out, "add_special_tokens", true);
}

void paritycases_tokenize_body(const struct parity_case *c, const char *model, struct buf *out) {
  put_head(c, model, out);
  buf_putc(out, '}');
}

void paritycases_completion_body(const struct parity_case *c, const char *model, bool ids,
                                 struct buf *out) {
  put_head(c, model, out);
  buf_puts(out, ",\"max_tokens\":1,\"temperature\":0");
  if (ids)
    put_flag(out, "return_token_ids", true);
  buf_putc(out, '}');
}

/* chattemplate.c: finding, loading and applying a model's chat template; see chattemplate.h. */
#include "text/chattemplate.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "base/mem.h"
#include "text/chatmessages.h"
#include "text/harmony.h"
#include "text/json.h"
#include "text/template.h"
#include "text/tokenizer.h"

#define CONFIG "tokenizer_config.json"
#define MAP "special_tokens_map.json"
#define JINJA "chat_template.jinja"
#define TOKENIZER "tokenizer.json"
#define CONFIG_MAX ((size_t)64 << 20)

struct chattemplate {
  char *name;
  bool harmony;
  uint64_t hash;
  unsigned wants;                 /* special tokens that the source names: bits of special_names */
  struct template *plain, *tools; /* tools may be NULL: plain does both */
  struct value special;           /* object */
};

void chattemplate_delete(struct chattemplate *t) {
  if (!t)
    return;
  template_delete(t->plain);
  template_delete(t->tools);
  value_free(&t->special);
  mem_free(t->name);
  mem_free(t);
}

const char *chattemplate_name(const struct chattemplate *t) {
  return t->name;
}

bool chattemplate_is_harmony(const struct chattemplate *t) {
  return t->harmony;
}

uint64_t chattemplate_hash(const struct chattemplate *t) {
  return t->hash;
}

const char *chattemplate_special(const struct chattemplate *t, const char *which) {
  return value_to_string(value_get(&t->special, which));
}

const struct value *chattemplate_specials(const struct chattemplate *t) {
  return &t->special;
}

/* ---- files ---- */

static bool is_folder(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool is_file(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static bool ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}

/* `file` in the folder that is, or holds, what `path` names; false when it is not there. */
static bool find_beside(const char *path, const char *file, struct buf *out) {
  const char *slash = strrchr(path, '/');
  buf_reset(out);
  if (!is_folder(path) && !is_file(path))
    return tokenfile_find(path, file, out);
  if (is_folder(path))
    buf_printf(out, "%s/%s", path, file);
  else if (slash)
    buf_printf(out, "%.*s/%s", (int)(slash - path), path, file);
  else
    buf_puts(out, file);
  return is_file(out->data);
}

static int read_config(const char *path, struct value *out, struct err *err) {
  struct buf text;
  buf_init(&text, CONFIG_MAX);
  int rc = tokenfile_read(path, &text, err);
  if (!rc) {
    rc = json_parse(text.data ? text.data : "", text.len, out, err);
    if (rc)
      err_prefix(err, "%s", path);
  }
  buf_free(&text);
  return rc;
}

static const char *const special_names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                            "pad_token", "cls_token", "mask_token"};

static bool is_word(const char *p) {
  return (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ||
         *p == '_';
}

static bool names(const char *source, size_t len, const char *word) {
  const char *end = source + len, *p = source;
  size_t n = strlen(word);
  while ((p = memmem(p, (size_t)(end - p), word, n))) {
    if ((p == source || !is_word(p - 1)) && (p + n == end || !is_word(p + n)))
      return true;
    p += n;
  }
  return false;
}

const char *chattemplate_names_special(const char *source, size_t len) {
  for (size_t i = 0; i < ARRAY_LEN(special_names); i++)
    if (names(source, len, special_names[i]))
      return special_names[i];
  return NULL;
}

static int load_text(struct chattemplate *t, const char *text, size_t len, const char *path,
                     struct template **out, struct err *err) {
  for (size_t i = 0; i < ARRAY_LEN(special_names); i++)
    t->wants |= names(text, len, special_names[i]) ? 1u << i : 0;
  t->hash = XXH3_64bits_withSeed(text, len, t->hash);
  return template_load(text, len, path, out, err);
}

static int load_source(struct chattemplate *t, const char *path, struct err *err) {
  struct buf text;
  buf_init(&text, CONFIG_MAX);
  int rc = tokenfile_read(path, &text, err);
  if (!rc)
    rc = load_text(t, text.data ? text.data : "", text.len, path, &t->plain, err);
  buf_free(&text);
  return rc;
}

static int load_configured(struct chattemplate *t, const char *path, const struct value *config,
                           struct err *err) {
  const struct value *plain = template_of_config(config, false, err);
  if (!plain)
    return err_prefix(err, "%s", path);
  const struct value *tools = template_of_config(config, true, err);
  int rc = load_text(t, plain->u.string.data, plain->u.string.len, path, &t->plain, err);
  if (!rc && tools && tools != plain)
    rc = load_text(t, tools->u.string.data, tools->u.string.len, path, &t->tools, err);
  return rc;
}

/* ---- special tokens ---- */

static struct value token_text(const struct value *v) {
  const struct value *content = value_get(v, "content");
  if (v->kind == VALUE_STRING)
    return value_copy(v);
  return content ? value_copy(content) : value_null();
}

/* The entries that transformers hands to a template: those that are set. */
static void take_special(struct chattemplate *t, const struct value *config) {
  for (size_t i = 0; i < ARRAY_LEN(special_names); i++) {
    const struct value *v = value_get(config, special_names[i]);
    if (v && v->kind != VALUE_NULL)
      value_set(&t->special, special_names[i], token_text(v));
  }
  const struct value *more = value_get(config, "additional_special_tokens");
  if (!value_count(more) || more->kind != VALUE_ARRAY)
    return;
  struct value *list = value_set(&t->special, "additional_special_tokens", value_array());
  for (size_t i = 0; i < value_count(more); i++)
    value_push(list, token_text(value_at(more, i)));
}

/* The text of the special token that stands first, or last, in what a tokenizer.json puts around
 * one text; NULL. */
static const char *around(const struct value *post, bool last) {
  const char *type = value_to_string(value_get(post, "type"));
  const struct value *list = value_get(post, "processors"), *single = value_get(post, "single");
  if (type && strcmp(type, "Sequence") == 0)
    for (size_t i = 0; i < value_count(list); i++)
      if (around(value_at(list, i), last))
        return around(value_at(list, i), last);
  size_t n = type && strcmp(type, "TemplateProcessing") == 0 ? value_count(single) : 0;
  if (n < 2)
    return NULL;
  const struct value *end = value_at(single, last ? n - 1 : 0);
  return value_to_string(value_get(value_get(end, "SpecialToken"), "id"));
}

/* The only special token whose name is one that models give their first token; NULL: none, or
 * several. */
static const char *only_first(const struct value *added) {
  static const char *const known[] = {"<s>",
                                      "<bos>",
                                      "<|begin_of_text|>",
                                      "<|startoftext|>",
                                      "[BOS]",
                                      "<|begin_of_sentence|>",
                                      "<｜begin▁of▁sentence｜>"};
  const char *only = NULL;
  for (size_t i = 0; i < value_count(added); i++) {
    const char *text = value_to_string(value_get(value_at(added, i), "content"));
    const struct value *special = value_get(value_at(added, i), "special");
    for (size_t k = 0; k < ARRAY_LEN(known); k++)
      if (text && strcmp(text, known[k]) == 0 && special && special->kind == VALUE_BOOL &&
          special->u.boolean) {
        if (only)
          return NULL;
        only = text;
      }
  }
  return only;
}

/* No file says what the special tokens are: the tokenizer.json knows the model's first and last
 * one, where it puts them around a text itself. */
static int take_from_tokenizer(struct chattemplate *t, const char *tokenizer, struct buf *file,
                               struct err *err) {
  struct value config;
  bool given = tokenizer && is_file(tokenizer) && ends_with(tokenizer, ".json");
  if (given) {
    buf_reset(file);
    buf_puts(file, tokenizer);
  } else if (!tokenizer || !find_beside(tokenizer, TOKENIZER, file)) {
    return 0;
  }
  int rc = read_config(file->data, &config, err);
  if (rc)
    return rc;
  const struct value *post = value_get(&config, "post_processor");
  const char *first = around(post, false), *last = around(post, true);
  if (!first)
    first = only_first(value_get(&config, "added_tokens"));
  if (first)
    value_set(&t->special, "bos_token", value_cstring(first));
  if (last)
    value_set(&t->special, "eos_token", value_cstring(last));
  value_free(&config);
  return 0;
}

/* Every special token that the source names is known. */
static int check_wanted(const struct chattemplate *t, const char *path, struct err *err) {
  for (size_t i = 0; i < ARRAY_LEN(special_names); i++)
    if ((t->wants & 1u << i) && !value_get(&t->special, special_names[i]))
      return err_set(err, ERR_NOT_FOUND,
                     "template \"%s\" names %s, and nothing says what that is: neither a " CONFIG
                     " nor a " MAP " lies beside it or the tokenizer, and its " TOKENIZER
                     " does not tell; put a " MAP " there, as in {\"%s\": \"<s>\"} ({} "
                     "for none)",
                     path, special_names[i], special_names[i]);
  return 0;
}

static int find_special(struct chattemplate *t, const char *path, const char *tokenizer,
                        struct buf *file, struct err *err) {
  static const char *const files[] = {CONFIG, MAP};
  const char *const places[] = {path, tokenizer};
  bool found = false;
  for (size_t i = 0; i < ARRAY_LEN(places) && !found; i++)
    for (size_t k = 0; k < ARRAY_LEN(files) && places[i] && !found; k++)
      found = find_beside(places[i], files[k], file);
  if (!found) {
    int rc = t->wants ? take_from_tokenizer(t, tokenizer, file, err) : 0;
    return rc ? rc : check_wanted(t, path, err);
  }
  struct value config;
  int rc = read_config(file->data, &config, err);
  if (rc)
    return rc;
  take_special(t, &config);
  value_free(&config);
  return 0;
}

/* ---- loading ---- */

/* The template's file into `file`: a folder's, a name's, or `path` itself. */
static bool find_template(const char *path, struct buf *file) {
  if (!is_file(path))
    return find_beside(path, JINJA, file) || find_beside(path, CONFIG, file);
  buf_reset(file);
  buf_puts(file, path);
  return true;
}

static int load_found(struct chattemplate *t, const char *path, const char *tokenizer,
                      struct buf *file, struct err *err) {
  struct value config;
  int rc;
  if (ends_with(file->data, ".json")) {
    rc = read_config(file->data, &config, err);
    if (rc)
      return rc;
    rc = load_configured(t, file->data, &config, err);
    if (!rc)
      take_special(t, &config);
    value_free(&config);
    return rc;
  }
  rc = load_source(t, file->data, err);
  return rc ? rc : find_special(t, path, tokenizer, file, err);
}

static struct chattemplate *new_template(const char *name) {
  struct chattemplate *t = MEM_NEW(struct chattemplate);
  t->name = mem_strdup(name);
  t->special = value_object();
  return t;
}

static void make_harmony(struct chattemplate *t) {
  t->harmony = true;
  t->hash = XXH3_64bits("harmony", strlen("harmony"));
  value_set(&t->special, "eos_token", value_cstring("<|return|>"));
}

int chattemplate_load(const char *path, const char *tokenizer, struct chattemplate **out,
                      struct err *err) {
  struct chattemplate *t = new_template(path);
  struct buf file;
  int rc = 0;
  buf_init(&file, BUF_MAX_OWN);
  *out = NULL;
  if (strcmp(path, "harmony") == 0)
    make_harmony(t);
  else if (!find_template(path, &file))
    rc = err_set(err, ERR_NOT_FOUND,
                 "template \"%s\": neither a file, nor a folder with a " JINJA " or a " CONFIG
                 ", nor \"harmony\", nor a tokenizer with a template (`make deps` fetches qwen3)",
                 path);
  else
    rc = load_found(t, path, tokenizer, &file, err);
  buf_free(&file);
  if (rc)
    chattemplate_delete(t);
  else
    *out = t;
  return rc;
}

int chattemplate_default(const char *tokenizer, const char *family, struct chattemplate **out,
                         struct err *err) {
  struct buf file;
  struct value config;
  int rc = 0;
  *out = NULL;
  if (strcmp(family ? family : tokenizer, "o200k_harmony") == 0)
    return chattemplate_load("harmony", tokenizer, out, err);
  buf_init(&file, BUF_MAX_OWN);
  bool there = find_beside(tokenizer, JINJA, &file);
  if (!there && find_beside(tokenizer, CONFIG, &file)) {
    rc = read_config(file.data, &config, err);
    if (!rc) {
      const struct value *v = value_get(&config, "chat_template");
      there = v && v->kind != VALUE_NULL;
      value_free(&config);
    }
  }
  if (!rc && there) {
    rc = chattemplate_load(file.data, tokenizer, out, err);
    if (!rc) {
      mem_free((*out)->name);
      (*out)->name = mem_strdup(tokenizer);
    }
  }
  buf_free(&file);
  return rc;
}

/* ---- applying ---- */

static int encode_harmony(struct tokens_encoder *e, const struct chattemplate_request *r,
                          const struct value *messages, struct tokens_list *out, struct err *err) {
  char date[32];
  struct harmony_chat chat = {.tools = r->tools, .reasoning_effort = r->reasoning_effort};
  struct harmony_options options = HARMONY_DEFAULTS;
  struct harmony_prompt prompt;
  struct value rows;
  if (r->continue_final_message)
    return err_set(err, ERR_INVALID, "continue_final_message is not done with Harmony");
  if (r->has_now) {
    snprintf(date, sizeof date, "%04d-%02d-%02d", r->now.year, r->now.month, r->now.day);
    chat.date = date;
  }
  int rc = harmony_from_chat(messages, &chat, &rows, err);
  if (rc)
    return rc;
  harmony_init(&prompt);
  rc = harmony_render(&prompt, &rows, &options, err);
  if (!rc)
    rc = harmony_encode(&prompt, e, out, err);
  harmony_free(&prompt);
  value_free(&rows);
  return rc;
}

/* chat_template_kwargs over the request's own fields that templates may ask for. */
static struct value all_kwargs(const struct chattemplate_request *r) {
  struct value all = value_object();
  if (r->documents && r->documents->kind != VALUE_NULL)
    value_set(&all, "documents", value_copy(r->documents));
  if (r->reasoning_effort)
    value_set(&all, "reasoning_effort", value_cstring(r->reasoning_effort));
  for (size_t i = 0; r->kwargs && r->kwargs->kind == VALUE_OBJECT && i < value_count(r->kwargs);
       i++) {
    const struct value_pair *p = &r->kwargs->u.object.pairs[i];
    value_set_len(&all, p->key, p->key_len, value_copy(&p->value));
  }
  return all;
}

int chattemplate_kwargs(const struct value *request, const struct value **out, struct err *err) {
  const struct value *kwargs = value_get(request, "chat_template_kwargs");
  *out = value_get(request, "kwargs");
  if (*out && kwargs)
    return err_set(err, ERR_INVALID,
                   "kwargs and chat_template_kwargs are two names of one thing: leave one out");
  if (kwargs)
    *out = kwargs;
  if (*out && (*out)->kind == VALUE_NULL)
    *out = NULL;
  if (*out && (*out)->kind != VALUE_OBJECT)
    return err_set(err, ERR_INVALID, "%s must be an object of template variables",
                   kwargs ? "chat_template_kwargs" : "kwargs");
  return 0;
}

int chattemplate_served(const struct value *request, struct value *row, struct err *err) {
  struct chattemplate_request r = {.documents = value_get(request, "documents"),
                                   .reasoning_effort =
                                       value_to_string(value_get(request, "reasoning_effort"))};
  struct value messages, tools;
  *row = value_null();
  int rc = chattemplate_kwargs(request, &r.kwargs, err);
  if (!rc)
    rc = chatmessages_prepare(value_get(request, "messages"), &messages, err);
  if (rc)
    return rc;
  rc = chatmessages_tools(value_get(request, "tools"), &tools, err);
  if (rc) {
    value_free(&messages);
    return rc;
  }
  *row = value_copy(request);
  value_set(row, "messages", messages);
  value_set(row, "tools", tools);
  value_set(row, "kwargs", all_kwargs(&r));
  return 0;
}

static int render(const struct chattemplate *t, const struct chattemplate_request *r,
                  const struct value *messages, const struct value *tools, struct buf *out,
                  struct err *err) {
  struct template_options options = {.now = r->now,
                                     .has_now = r->has_now,
                                     .tojson = r->tojson,
                                     .max_steps = r->max_steps,
                                     .max_output_bytes = r->max_output_bytes,
                                     .max_memory_bytes = r->max_memory_bytes};
  struct value kwargs = all_kwargs(r);
  struct template_chat chat = {.messages = messages,
                               .tools = tools,
                               .special = &t->special,
                               .kwargs = &kwargs,
                               .add_generation_prompt = r->add_generation_prompt,
                               .continue_final_message = r->continue_final_message};
  bool with_tools = t->tools && value_count(tools);
  int rc = template_render_chat(with_tools ? t->tools : t->plain, &chat, &options, out, err);
  value_free(&kwargs);
  return rc;
}

int chattemplate_encode(const struct chattemplate *t, struct tokens_encoder *e,
                        const struct chattemplate_request *r, struct tokens_list *out,
                        struct err *err) {
  struct value messages, tools = value_null();
  struct buf text;
  if (r->add_generation_prompt && r->continue_final_message)
    return err_set(err, ERR_INVALID,
                   "Cannot set both `continue_final_message` and `add_generation_prompt` to True.");
  int rc = chatmessages_prepare(r->messages, &messages, err);
  if (rc)
    return rc;
  buf_init(&text, (size_t)1 << 30);
  if (t->harmony) {
    rc = encode_harmony(e, r, r->messages, out, err);
  } else {
    rc = chatmessages_tools(r->tools, &tools, err);
    if (!rc)
      rc = render(t, r, r->messages_as_sent ? r->messages : &messages,
                  r->tools_as_sent && value_count(&tools) ? r->tools : &tools, &text, err);
    if (!rc && r->append)
      rc = buf_add(&text, r->append, strlen(r->append));
    struct tokens_options options = {.special = true, .add_special = r->add_special_tokens};
    if (!rc)
      rc = tokens_encoder_encode(e, text.data ? text.data : "", text.len, &options, out, err);
  }
  buf_free(&text);
  value_free(&messages);
  value_free(&tools);
  return rc;
}

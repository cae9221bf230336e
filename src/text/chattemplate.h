/* chattemplate.h: a model's chat template with what belongs to it, as a server loads it: the Jinja
 * source, the variant for requests with tools, the special tokens that the template may name; or
 * Harmony.
 *
 * Read-only once loaded; any thread. The prompt of a request is its messages as vLLM prepares them
 * (chatmessages.h), rendered, then tokenized without the model's own first and last tokens, special
 * tokens in the text found. Harmony's pieces are tokenized one by one (harmony.h). */
#ifndef TEXT_CHATTEMPLATE_H
#define TEXT_CHATTEMPLATE_H

#include "text/pytime.h"
#include "text/tokens.h"
#include "text/value.h"

struct chattemplate;

/* "harmony"; a Jinja file; a tokenizer_config.json; a folder with a chat_template.jinja or a
 * tokenizer_config.json; or the name of a tokenizer that came with one (tokens.h: qwen3). The
 * special tokens are those of the tokenizer_config.json, else special_tokens_map.json, that lies
 * with the template, else with `tokenizer` (as given to tokens_load; may be NULL); without all
 * bos_token is the token that the tokenizer.json puts in front of a text, else its only special one
 * with a name of first tokens (<s>, <bos>, <|begin_of_text|>, ...), eos_token the one that it puts
 * behind; a template that names any other is refused. ERR_NOT_FOUND, ERR_IO, ERR_INVALID with file,
 * line and reason. */
NODISCARD int chattemplate_load(const char *path, const char *tokenizer, struct chattemplate **out,
                                struct err *err);
/* What a tokenizer comes with: the template in its folder; Harmony for o200k_harmony (name or
 * `family`, which may be NULL). 0 with *out NULL when it has none. */
NODISCARD int chattemplate_default(const char *tokenizer, const char *family,
                                   struct chattemplate **out, struct err *err);
void chattemplate_delete(struct chattemplate *t); /* NULL is allowed */

/* As it was given; of a default one, the tokenizer's. */
const char *chattemplate_name(const struct chattemplate *t);
bool chattemplate_is_harmony(const struct chattemplate *t);
/* Of the sources it was loaded from; Harmony has one of its own. */
uint64_t chattemplate_hash(const struct chattemplate *t);
/* "eos_token" and the like; NULL when it is not known. */
const char *chattemplate_special(const struct chattemplate *t, const char *which);
/* All of them: an object. */
const struct value *chattemplate_specials(const struct chattemplate *t);
/* The first special token ("bos_token") that a template's source names anywhere; NULL. */
const char *chattemplate_names_special(const char *source, size_t len);

/* Values are borrowed; NULL and null are none. */
struct chattemplate_request {
  const struct value *messages;
  const struct value *tools;
  const struct value *kwargs;    /* chat_template_kwargs: an object */
  const struct value *documents; /* given to the template when there */
  const char *reasoning_effort;  /* the same; NULL: none */
  bool add_generation_prompt;    /* Harmony: always */
  bool continue_final_message;   /* Harmony: refused */
  bool add_special_tokens;       /* the model's first and last tokens as well */
  bool has_now;
  struct pytime now; /* what strftime_now and Harmony's system message tell, local time */
  /* How servers have been seen to do it otherwise; no server of ours does. Not for Harmony. */
  bool messages_as_sent; /* without chatmessages_prepare: tool arguments stay text */
  bool tools_as_sent;    /* without chatmessages_tools: keys in the client's order */
  unsigned tojson;       /* template.h: enum template_tojson */
  const char *append;    /* goes behind the rendered text; NULL: nothing */
  /* Bounds of this rendering, as in struct template_options; 0: their defaults. Not Harmony's. */
  uint64_t max_steps;
  size_t max_output_bytes, max_memory_bytes;
};

/* The template variables of a request or row, kwargs or chat_template_kwargs, borrowed; *out is
 * NULL for none. ERR_INVALID for both, and for what is no object. */
NODISCARD int chattemplate_kwargs(const struct value *request, const struct value **out,
                                  struct err *err);
/* What template_chat_read takes, from a chat request as a client sends it: messages and tools as
 * vLLM prepares them, chat_template_kwargs (or kwargs) over documents and reasoning_effort as
 * kwargs; every other field as it is. ERR_INVALID names the field. */
NODISCARD int chattemplate_served(const struct value *request, struct value *row, struct err *err);

/* Appends the prompt's ids; `e` is the thread's encoder. ERR_INVALID and ERR_LIMIT name message,
 * tool, or the template's line. */
NODISCARD int chattemplate_encode(const struct chattemplate *t, struct tokens_encoder *e,
                                  const struct chattemplate_request *request,
                                  struct tokens_list *out, struct err *err);

#endif

/* paritycases.h: the requests that parity is tried with: each holds something that clients and
 * servers have been seen to do differently (shared/facts/tokenizers.md, section 6). */
#ifndef TEXT_PARITYCASES_H
#define TEXT_PARITYCASES_H

#include "text/parity.h"

struct paritycases {
  struct parity_case *items;
  size_t n;
  struct value *bodies; /* what the items point into */
  size_t n_bodies;
};

/* The whole battery: prompts (plain, unicode, white space, code and numbers, special tokens' text,
 * without the model's first token) and messages (with and without system message, several turns,
 * special tokens' text in a message, tools, tool calls with their answers, without thinking,
 * without a generation prompt). Free with paritycases_free. */
struct paritycases paritycases_all(void);
/* What a run asks before its load, and the doctor: one prompt, and a conversation of each kind that
 * templates treat in a way of their own: a user's message alone, a system message before it,
 * answers in the history, tools, a tool call with its answer, thinking switched off, and one
 * without a generation prompt. */
struct paritycases paritycases_quick(void);
void paritycases_free(struct paritycases *p);

/* Appends a prompt (copied), or a conversation from JSON: a list of messages, or an object with the
 * fields messages, tools, chat_template_kwargs, documents, reasoning_effort, add_generation_prompt,
 * continue_final_message, add_special_tokens (the names of a request). ERR_INVALID names line or
 * field. `name` is borrowed. */
void paritycases_add_prompt(struct paritycases *p, const char *name, const char *text, size_t len);
NODISCARD int paritycases_add_messages(struct paritycases *p, const char *name, const char *json,
                                       size_t len, struct err *err);

/* Every messages case is rendered at this time on our side. */
void paritycases_set_now(struct paritycases *p, const struct pytime *now);

/* Appends the JSON body of a request with a case: /tokenize's, or with `max_tokens` the
 * completion's
 * (/v1/completions, /v1/chat/completions) that gives its prompt's ids back when `ids`. */
void paritycases_tokenize_body(const struct parity_case *c, const char *model, struct buf *out);
void paritycases_completion_body(const struct parity_case *c, const char *model, bool ids,
                                 struct buf *out);

#endif

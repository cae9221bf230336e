/* genprompt.h: the prompt of a request as token ids, for generation, /tokenize and /render alike.
 *
 * Fields and defaults are vLLM's: messages go through the chat template without the model's own
 * first and last tokens (add_special_tokens false), a prompt gets them (true). */
#ifndef SIM_GENPROMPT_H
#define SIM_GENPROMPT_H

#include "sim/apierror.h"
#include "sim/genmodel.h"

/* messages, tools, chat_template_kwargs, documents, reasoning_effort, add_generation_prompt (true),
 * continue_final_message (false), add_special_tokens (false). A chat_template of the request's own
 * is refused, as vLLM does without --trust-request-chat-template. Appends to *out; 400 with the
 * field's name otherwise. */
NODISCARD int genprompt_chat(const struct genmodel *model, const struct value *body,
                             struct tokens_list *out, struct apierror *e);
/* A prompt's text, with the body's add_special_tokens (true). */
NODISCARD int genprompt_text(const struct genmodel *model, const struct value *body,
                             const struct value *text, struct tokens_list *out, struct apierror *e);

#endif

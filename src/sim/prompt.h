/* prompt.h: how a simulated replica turns messages into the bytes of a prompt.
 *
 * Its own chat template, made to be readable and to grow by appending only. For each message:
 *   <|ROLE|>\nCONTENT<|end|>\n
 * In front, when there are tools: <|tools|>\nJSON<|end|>\n (the array in canonical form, one line).
 * CONTENT is the content's text (the text parts one after the other), then, when the message has
 * tool_calls, their canonical JSON. At the end <|assistant|>\n when a generation prompt is wanted.
 * So a conversation whose history repeats the model's answer is a prefix of its next turn, with
 * the answer's bytes included. The tokenizer is `bytes`: one token = one byte. */
#ifndef SIM_PROMPT_H
#define SIM_PROMPT_H

#include "base/buf.h"
#include "sim/apierror.h"
#include "text/value.h"

struct prompt_options {
  bool add_generation_prompt;
  bool continue_final_message; /* the last message is left open; excludes the other one */
};

/* Appends the rendered conversation. `tools` may be NULL or null. Refuses with 400 and the field's
 * name: messages that are no array, empty, without a role, parts that are not text. */
NODISCARD int prompt_render(const struct value *messages, const struct value *tools,
                            const struct prompt_options *options, struct buf *out,
                            struct apierror *e);

#endif

/* harmony_impl.h: what the harmony*.c files share. Private to them. */
#ifndef TEXT_HARMONY_IMPL_H
#define TEXT_HARMONY_IMPL_H

#include "text/harmony.h"

/* ---- harmony.c ---- */

/* Appends one message of Harmony's own form; `number` is for errors. `function_tools`: some
 * developer content has functions, which a system message speaks of. */
NODISCARD int harmony_put_message(struct harmony_prompt *p, const struct value *message,
                                  size_t number, bool function_tools, struct err *err);
/* Appends the beginning of the assistant's answer. */
void harmony_put_start(struct harmony_prompt *p);
/* Whether any developer content of the list has functions. */
bool harmony_has_function_tools(const struct value *messages);
/* Whether it is a text, this one. */
bool harmony_is(const struct value *v, const char *text);
/* Appends the id of a special token, written out; ERR_INVALID: the tokenizer has it not. */
NODISCARD int harmony_encode_special(struct tokens_encoder *e, const char *text, size_t len,
                                     struct tokens_list *out, struct err *err);

/* ---- harmony_chat.c ---- */

/* Whether it is of the system or the developer: in front, its content is the instructions. */
bool harmony_leads(const struct value *message);
/* Appends the system message and, where there is something to say, the developer's. `instructions`
 * is the content of the chat message that leads, NULL for none. */
NODISCARD int harmony_chat_head(struct value *out, const struct value *instructions,
                                const struct harmony_chat *chat, struct err *err);
/* Appends what a chat message that does not lead becomes, analysis included. `called` is the name
 * of the call that it answers, NULL when there is none. */
NODISCARD int harmony_chat_message(struct value *out, const struct value *message, size_t number,
                                   const struct value *called, const char *call_content_type,
                                   struct err *err);

#endif

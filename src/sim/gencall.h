/* gencall.h: answers that are a function call, in chat and in Responses.
 *
 * A call is made when tool_choice is "required" or names a function ("auto" and "none" give text:
 * a simulated model decides nothing). Arguments are drawn from the function's JSON schema with the
 * answer's key, written as Python's json writes them. What the model samples is what the chat
 * template makes of a message with this call, so a client that repeats the call in its history
 * sends the sampled ids; where the template does not allow that, it is the arguments alone. */
#ifndef SIM_GENCALL_H
#define SIM_GENCALL_H

#include "sim/genrequest.h"

/* The tool that has to be called, out of the body's `tools`; NULL: none. 400 when tool_choice is no
 * string or object, or asks for what is not there. */
NODISCARD int gencall_wanted(const struct value *body, const struct value **tool,
                             struct apierror *e);
/* Fills in the answer of a choice whose prompt and max_tokens are there. `key`: what it is drawn
 * from. */
NODISCARD int gencall_settle(struct genchoice *c, const struct value *body,
                             const struct value *tool, uint64_t key, const struct genmodel *model,
                             struct apierror *e);
/* Appends arguments for a schema (of an object; NULL: no parameters) as JSON. */
void gencall_arguments(const struct value *schema, uint64_t key, struct buf *out);

#endif

/* gencall.h: answers that are a function call, in chat and in Responses.
 *
 * A call is made when tool_choice is "required" or names a function. With "auto" (what holds when
 * there are tools) the model calls with a probability that the fleet was given (gentools.h), drawn
 * from the answer's key, until enough results have come since the user's last message; never with
 * ignore_eos, which wants a text of some length. "none" gives text. Arguments are drawn from the
 * function's JSON schema with the answer's key, written as Python's json writes them. What the
 * model samples is what the chat template makes of a message with this call, so a client that
 * repeats the call in its history sends the sampled ids; where the template does not allow that, it
 * is the arguments alone. */
#ifndef SIM_GENCALL_H
#define SIM_GENCALL_H

#include "sim/genrequest.h"

/* What a request says of calls: the same for all of its choices. */
struct gencall_ask {
  const struct value *tool;  /* has to be called, out of the body's `tools`; NULL: none */
  const struct value *tools; /* out of which the model may call; NULL: it may not */
};
/* 400 when tool_choice is no string or object, or asks for what is not there. */
NODISCARD int gencall_read(const struct value *body, const struct genmodel *model,
                           struct gencall_ask *out, struct apierror *e);
/* The tool that the answer drawn from `key` calls; NULL: none. */
const struct value *gencall_tool(const struct gencall_ask *ask, const struct genmodel *model,
                                 uint64_t key);
/* Fills in the answer of a choice whose prompt and max_tokens are there. `key`: what it is drawn
 * from. */
NODISCARD int gencall_settle(struct genchoice *c, const struct value *body,
                             const struct value *tool, uint64_t key, const struct genmodel *model,
                             struct apierror *e);
/* Appends arguments for a schema (of an object; NULL: no parameters) as JSON. */
void gencall_arguments(const struct value *schema, uint64_t key, struct buf *out);

#endif

/* respitems.h: the items of the Responses API as chat messages.
 *
 * Input items and output items that a client feeds back: messages, reasoning (it goes with the
 * message or call that follows), function_call and function_call_output, and the calls that the
 * server ran itself: mcp_call with its output, code_interpreter_call, web_search_call (an item does
 * not say what a search found, so a client's history lacks it, as with vLLM). */
#ifndef SIM_RESPITEMS_H
#define SIM_RESPITEMS_H

#include "sim/reqfield.h"

/* Appends the messages for items number `from` and on. 400 names the item that cannot be read. */
NODISCARD int respitems_add(struct value *messages, const struct value *items, size_t from,
                            struct apierror *e);
/* An assistant's message with one call at the end of the list, or the call behind those that the
 * last message has. */
void respitems_add_call(struct value *messages, const char *id, const char *name,
                        const char *arguments);
/* A tool's message. */
void respitems_add_result(struct value *messages, const char *id, const char *text);

#endif

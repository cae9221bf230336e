/* reply_told.h: vLLM's streams without their bytes: what each event says, and how long it would be.
 *
 * For a client in this process and in virtual time, which would only take the bytes apart again.
 * tests/unit/test_reply_told.c holds it against the bytes of reply_vllm.c and what text/openai.h
 * makes of them. */
#ifndef SIM_REPLY_TOLD_H
#define SIM_REPLY_TOLD_H

#include "sim/reply.h"
#include "text/openai.h"

/* Whether all events hold a role, a piece of text, a finish reason or usage and no more, in a text
 * without escapes. */
bool reply_told_possible(const struct reply *r);
/* t->pieces are the next of choice 0. Fills in t->role (of the first ones: `first`), the length of
 * all events and, with `f` (they are the last), the finish reason, usage and the end marker. */
void reply_told_fill(const struct reply *r, bool first, const struct reply_facts *f,
                     struct openai_usage *usage, struct openai_told *t);

#endif

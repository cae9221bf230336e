/* responses.h: the body of POST /v1/responses as a chat request, and the store of past responses.
 *
 * Fields after facts/interfaces.md §1.5. `instructions` is the first message, each time anew; it is
 * not part of what is stored. A chain (previous_response_id) is the stored messages, the output of
 * the response they led to, and the new input. The store is in memory, unbounded, of one replica,
 * and lost with it, as vLLM's is. */
#ifndef SIM_RESPONSES_H
#define SIM_RESPONSES_H

#include "sim/resptools.h"

struct response_entry {
  char *id;
  uint64_t maker;        /* number of the generation that made it */
  struct value messages; /* chat messages of its input, those of the chain before it included, and
                            of the first kept_items of its output: calls the server ran itself */
  size_t kept_items;
  char *reply;            /* the response object as JSON */
  bool pending, streamed; /* background.h: it is being made; its events are kept */
  struct buf events;      /* theirs, with the end of each */
  size_t *ends;
  size_t n_events, cap_ends;
};

struct response_store {
  bool off; /* store is always false: a vLLM without VLLM_ENABLE_RESPONSES_API_STORE=1 */
  struct response_entry *entries;
  size_t n, cap;
};

void response_store_free(struct response_store *s);
/* NULL when there is none of that id. */
const struct response_entry *response_store_find(const struct response_store *s, const char *id);
/* The same, to be changed; it moves with the next put. */
struct response_entry *response_store_get(struct response_store *s, const char *id);
/* Another reply. */
void response_entry_say(struct response_entry *x, const char *reply);
/* Takes `messages`. Of an entry of the same id and maker they, kept_items and reply are replaced;
 * another maker's goes. Returns the entry, as response_store_get. */
struct response_entry *response_store_put(struct response_store *s, const char *id, uint64_t maker,
                                          struct value messages, size_t kept_items,
                                          const char *reply);

/* What a response repeats of its request, and what becomes of it. */
struct response_ask {
  struct value messages; /* to be stored: without instructions */
  size_t kept_items;     /* so many output items are in them */
  struct value chat;     /* the conversation as a chat request: what the next turn is made of */
  struct resptools tools;
  int64_t max_calls, calls; /* max_tool_calls; those that were made of the server's own tools */
  char *previous;           /* previous_response_id; NULL */
  bool store, background;
  bool raw;        /* enable_response_messages: prompts and outputs are told as they were */
  struct buf echo; /* `,"instructions":…,"metadata":…` and the rest, ready made */
};

/* Reads a body. Errors as genrequest_parse, and 404 for an unknown previous_response_id. Free *ask
 * with response_ask_free. */
NODISCARD int responses_parse(const char *body, size_t len, const struct genmodel *model,
                              const struct response_store *store, struct genrequest *out,
                              struct response_ask *ask, struct apierror *e);
/* No calls any more when there were max_tool_calls of them. */
void responses_bound_calls(struct response_ask *ask);
/* Who runs the call of the newest turn, if it is one. */
void responses_mark_call(const struct response_ask *ask, struct genrequest *r);
void response_ask_free(struct response_ask *ask);
/* 404 as vLLM says it. */
int responses_not_found(const char *id, struct apierror *e);

#endif

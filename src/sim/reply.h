/* reply.h: the bytes of an answer: streamed events and whole replies, in the form of one server.
 *
 * Pure: bytes in buffers, no sockets. A form (struct reply_form) is one server's way with one API;
 * vLLM's for chat and completions is in reply_vllm.c. Source of shapes, key order and what is left
 * out: facts/interfaces.md §1, §9 and fixtures/sse. */
#ifndef SIM_REPLY_H
#define SIM_REPLY_H

#include "sim/events.h"
#include "sim/genrequest.h"

struct reply;

/* What the engine did for the request, as far as it is known when an event is made. */
struct reply_facts {
  uint32_t cached;  /* prompt tokens that were not computed */
  uint32_t created; /* prompt tokens that it put into the cache: the other ones of whole blocks */
  uint32_t completion; /* tokens sampled, of all choices */
  /* Of the first choice: until it was scheduled, to its first token, from there on. */
  uint64_t queue_ns, prefill_ns, decode_ns;
  uint32_t first_tokens; /* tokens sampled for it */
};

/* How far a prompt is (llama.cpp). */
struct reply_progress {
  uint32_t total, cached, processed; /* tokens; processed: the cached ones too */
  uint64_t time_ns;                  /* since it was scheduled */
};

/* One server's form. Functions append whole events to `out`; each may be called when it has nothing
 * to say. In this order: begin, first, tokens…, end. */
struct reply_form {
  const char *name;
  int kind; /* enum face_kind */
  /* The request was accepted; NULL: nothing is said then. */
  void (*begin)(struct reply *r, struct events *out);
  /* Some of a choice's prompt was computed, and the client wants to know; NULL: it is not told. */
  void (*progress)(struct reply *r, uint32_t choice, const struct reply_progress *p,
                   struct events *out);
  /* The engine's first output for any choice is there; its tokens follow. NULL: nothing. */
  void (*first)(struct reply *r, const struct reply_facts *f, struct events *out);
  /* Output tokens from..to−1 of a choice; `last`: with the finish reason. from == to only when
   * `last`. */
  void (*tokens)(struct reply *r, uint32_t choice, uint32_t from, uint32_t to, bool last,
                 const struct reply_facts *f, struct events *out);
  /* All choices are finished: usage, end marker. */
  void (*end)(struct reply *r, const struct reply_facts *f, struct events *out);
  /* The engine failed in mid-stream: everything to the end. */
  void (*error)(struct reply *r, const struct apierror *e, struct events *out);
  /* The whole reply as one JSON object; of Responses, `f` NULL: nothing is made of it yet. */
  void (*whole)(struct reply *r, const struct reply_facts *f, struct buf *out);
};

extern const struct reply_form reply_vllm, reply_responses;
extern const struct reply_form reply_sglang, reply_tgi, reply_llamacpp, reply_trtllm, reply_ollama;

/* Which item of a Responses stream is open. */
enum reply_item {
  REPLY_NONE,
  REPLY_REASONING,
  REPLY_MESSAGE,
  REPLY_CALL, /* a function: the client's; the others are the server's own */
  REPLY_MCP,
  REPLY_CODE,
  REPLY_WEB
};

struct response_ask;

struct reply_options {
  const struct reply_form *form;
  const char *model;
  const struct genmodel *model_of; /* what tokens are decoded with, for logprobs */
  const char *id;                  /* the whole response id ("chatcmpl-…") */
  uint64_t created_s;              /* Unix seconds */
  bool metrics;                    /* --enable-per-request-metrics */
  bool no_cached;                  /* usage never says how many tokens were cached */
  bool hide;                       /* fault no_output: no content */
  bool no_usage;                   /* fault no_usage */
  const struct response_ask *ask;  /* of Responses; else NULL */
};

struct reply {
  struct reply_options o;
  const struct genrequest *request; /* borrowed, outlives the reply, as do the strings of `o` */
  struct buf head;            /* `{"id":…,"model":…,"choices":[`: what all events begin with */
  uint32_t sequence, n_items; /* Responses: events and items so far */
  enum reply_item item; /* the open one, of this turn, which began with this byte of its text */
  uint32_t turn, item_from;
  const char *status; /* Responses: instead of what follows from how it ended; static; NULL */
  char *transfer;     /* kv_transfer_params of the whole reply as JSON; NULL = null. reply_free's */
};

void reply_init(struct reply *r, const struct genrequest *request, const struct reply_options *o);
void reply_free(struct reply *r);

/* ---- for forms ---- */

/* A list of numbers. */
void reply_put_ids(const uint32_t *ids, size_t n, struct buf *out);
/* "key": and the text as a JSON string. */
void reply_put_string(const char *key, const char *text, struct buf *out);
/* Bytes of the choice's text that are out after n tokens. */
uint32_t reply_shown(const struct genchoice *c, uint32_t n);
/* Bytes start..end of the text less what is not of its kind, as a JSON string: thoughts, or the
 * answer (with an echoed prompt in front of its first part). */
void reply_put_part(const struct genchoice *c, uint32_t start, uint32_t end, bool thoughts,
                    struct buf *out);
/* `,"prompt_progress":{…}` and `,"timings":{…}`, of llama.cpp. */
void reply_put_progress(const struct reply_progress *p, struct buf *out);
void reply_put_timings(const struct reply *r, const struct reply_facts *f, struct buf *out);
/* Says of the event that is being made what bytes start..end of the text are: reasoning or the
 * answer (with an echoed prompt), or a call's. `ids`: it has token ids. */
void reply_say(const struct genchoice *c, uint32_t start, uint32_t end, bool ids,
               struct events *out);
/* Whether anything of that kind lies there. */
bool reply_has_part(const struct genchoice *c, uint32_t start, uint32_t end, bool thoughts);
/* Tokens that are reasoning, of all choices. */
uint32_t reply_reasoning_tokens(const struct genrequest *q);

/* What an error looks like when no request was read: vLLM's event and end marker. */
void reply_error_event(const struct apierror *e, struct events *out);

#endif

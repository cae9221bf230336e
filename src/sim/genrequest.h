/* genrequest.h: the body of POST /v1/chat/completions and /v1/completions, read and checked.
 *
 * Fields and defaults as vLLM has them (facts/interfaces.md §1.1, §1.2); unknown fields are
 * accepted, fields whose effect a simulated replica cannot give are refused by name. A request has
 * one choice for each of its prompts (chat: one), times `n`, as vLLM numbers them; each is a
 * request of its own to the engine. What the model will say is settled here too (genanswer.h). */
#ifndef SIM_GENREQUEST_H
#define SIM_GENREQUEST_H

#include "sim/reqfield.h"

/* GEN_NATIVE: a server's own API beside OpenAI's (native.h), read as a completion. */
enum gen_api { GEN_CHAT, GEN_COMPLETION, GEN_RESPONSES, GEN_NATIVE };

/* Who runs a call: the client, or the server itself, which then asks the model again (genturns.h).
 */
enum gen_call { GEN_CALL_FUNCTION, GEN_CALL_WEB, GEN_CALL_CODE, GEN_CALL_MCP };

/* Log-probabilities (logprobs.h): how many of the likeliest tokens are told; −1: nothing is. */
struct logprobs_ask {
  int output, prompt;
  bool as_ids; /* tokens as "token_id:N" */
  bool echo;   /* the prompt is repeated, and told of, too */
};

/* Choices of one request: more are refused. */
#define GENREQUEST_MAX_CHOICES 256
/* Tokens of all choices, prompts and answers: a request is read, and its reply made, in one go,
 * while every replica of the fleet waits. */
#define GENREQUEST_MAX_TOKENS ((uint64_t)1 << 23)
#define GENREQUEST_NO_PING INT64_MIN

struct genchoice {
  uint32_t *tokens; /* the prompt, and room for output_len more */
  uint32_t prompt_len;
  uint32_t max_tokens; /* asked for, or what the context leaves */
  uint32_t output_len; /* tokens that will be sampled, >= 1 */
  uint32_t *output;    /* their ids */
  uint32_t *shown;     /* bytes of text that are out after each: whole characters */
  char *text;
  uint32_t visible; /* bytes of text that are shown at the end: less when a stop string ends it */
  uint32_t hidden;  /* leading output tokens that no event is made for (speech.h) */
  uint32_t thought; /* leading bytes of text that are reasoning, of chat */
  uint32_t
      before; /* … that raw words have before the answer: who asks for these takes them apart */
  const char *finish;        /* "stop", "length", "tool_calls" or "abort"; static */
  char *call_name, *call_id; /* a function call (gencall.h): its arguments are the text; NULL */
  enum gen_call call;
  char *call_result; /* what the server's own tool gave; NULL: it has not run */
  uint32_t cached;   /* prompt tokens that were not computed; set with its first token */
  char *stop;        /* the stop string that ends it; NULL */
  char *echo;        /* the prompt's text, which the answer begins with (`echo`); NULL */
  size_t echo_len;
};

struct genrequest {
  enum gen_api api;
  struct genchoice *choices; /* number i: prompt i / n; of Responses: the turns so far */
  uint32_t n_choices, n;     /* n: choices a prompt */
  bool stream, include_usage, continuous_usage, return_token_ids;
  struct logprobs_ask logprobs;
  bool echo_alone;          /* echo with max_tokens 0: nothing but the prompt is shown */
  uint32_t stream_interval; /* tokens per event; 0: not said, the server's */
  bool list;                /* GEN_NATIVE: the answer is a list, for several prompts or choices */
  bool progress;            /* llama.cpp's return_progress: events while the prompt is computed */
  int64_t ping_s;   /* llama.cpp's sse_ping_interval, s; −1: none; GENREQUEST_NO_PING: not said */
  char *salt;       /* NULL or not empty */
  char *adapter;    /* LoRA; NULL: the base model */
  char *request_id; /* of the body; NULL when absent */
  /* kv_transfer_params: the prefill leg of a pair (do_remote_decode); the decode leg
   * (do_remote_prefill), which names where so many leading tokens have KV. */
  bool remote_decode, remote_prefill;
  char *remote_engine, *remote_request; /* of the decode leg */
  uint32_t remote_tokens;
};

/* Reads a body. Returns 0, or ERR_INVALID with *e as vLLM would answer (400 naming the field, 404
 * for a model that is not served); *out is empty then. Free with genrequest_free. */
NODISCARD int genrequest_parse(enum gen_api api, const char *body, size_t len,
                               const struct genmodel *model, struct genrequest *out,
                               struct apierror *e);
/* The same from a body that was read: of chat in its form for GEN_RESPONSES too (responses.h). */
NODISCARD int genrequest_read(enum gen_api api, const struct value *body,
                              const struct genmodel *model, struct genrequest *out,
                              struct apierror *e);
/* One more turn of Responses: a choice for what the conversation has become. On failure there is
 * none more. */
NODISCARD int genrequest_next(struct genrequest *r, const struct value *body,
                              const struct genmodel *model, struct apierror *e);
void genrequest_free(struct genrequest *r);
/* Ends a choice after the first n of its output tokens, for `finish` (static). */
void genrequest_cut(struct genchoice *c, uint32_t n, const char *finish);
/* Tokens of all prompts, each counted once, as usage has them. */
uint32_t genrequest_prompt_tokens(const struct genrequest *r);

#endif

/* paritycheck.h: does a server make the same token ids of a prompt as we do? Asked over HTTP.
 *
 * For each server, renderer (a chat template, or Harmony) and case (text/paritycases.h) one
 * comparison, with the best evidence the server gives, first that holds:
 *   tokenize   POST /tokenize (vLLM, SGLang; llama.cpp's form too): ids
 *   render     POST /v1/chat/completions/render, /v1/completions/render (vLLM): ids
 *   inference  a completion of one token that gives prompt_token_ids back: ids
 *   usage      the same completion's usage.prompt_tokens: the count alone
 * The last two only with `generate`: they use the server's GPU and leave a short prompt in its
 * cache. Beside that one completion is asked for with `count`, for its usage.prompt_tokens: what
 * the server counts is held against the ids. The judging itself is pure: text/parity.h.
 *
 * Used by `perigee parity`, by every run before its load (per arm), and by `perigee doctor`. Blocks
 * the calling thread, on a loop of its own; http_global_init comes first. */
#ifndef CMD_PARITYCHECK_H
#define CMD_PARITYCHECK_H

#include "run/fleet.h"
#include "text/chattemplate.h"
#include "text/parity.h"
#include "text/paritycases.h"

struct paritycheck {
  /* Servers (the replicas; the gateway alone where there is one), model (needed), tokens (loaded:
   * fleet_load_tokens; needed), headers, TLS, proxy. Borrowed. */
  const struct fleet *fleet;
  const char *only; /* id or URL of the one server to ask; NULL: all */
  const char *arm;  /* of a run; NULL: none */
  /* What renders messages here; without any the messages form is skipped, with the reason. The
   * first is what the others are weighed against as a cause ("the server renders with harmony"). */
  struct chattemplate *const *templates;
  size_t n_templates;
  const struct paritycases *cases; /* NULL: paritycases_quick() */
  bool generate; /* let a completion of one token answer where nothing else does, and ask the
                  * first case of each form by one as well */
  bool count;    /* ask one case by a completion: the first conversation, else the first prompt */
  uint64_t timeout_ns; /* of one request; 0: 10 s */
};

/* Appends one object for each server and renderer to the list `out`:
 *
 * - arm: the arm, or null
 * - server, url: the replica's id ("gateway" for the gateway), its URL
 * - model, tokenizer, renderer: names; renderer null: no template here, prompts alone
 * - sources: where what our side is made with comes from: {tokenizer, renderer, now}, each "option"
 *   (given), "server" (a simulated one says so of itself), "tokenizer" (what comes with it) or
 *   "clock" (this machine's)
 * - now: the day that templates are told, "2026-08-22"
 * - announced: what the server says of itself (run/fleet.h), or null
 * - verdict: "equal" (all that was compared, by ids), "count" (equal counts, no ids to be had),
 *   "differs", "unknown" (nothing could be compared, or the server was gone before all was;
 * `reason` says why)
 * - compared, differ, by_count: numbers of cases
 * - requests: how many were made to the server, for all its renderers together
 * - reason: null, or what could not be asked
 * - cases: [{case, form ("prompt" | "messages"), evidence (null: none), local_tokens, server_tokens
 *   (null where unknown), usage_tokens (null: no completion said it), odd (null, or what another
 *   way of asking answered that is neither ids nor "no such way"), verdict ("equal" "count"
 * "differs" "refused" (both sides refuse it) "skipped" "error"), reason (null, or text), difference
 * (null, or {index, local_id, server_id, same_text, before, local, server}: texts readable,
 * quoted), causes [{name, text, test, strength}]}]
 *
 * 0 also when servers differ, refuse or are gone (that is in the answer); an error when nothing can
 * be asked at all (URL, TLS files, no memory for a loop) or a template cannot be used here. */
NODISCARD int paritycheck_run(const struct paritycheck *check, struct value *out, struct err *err);

/* Whether all entries of a list by paritycheck_run are "equal"; with `arm` (may be NULL) those of
 * that arm, and of none, alone. False for an empty list. */
bool paritycheck_proven(const struct value *list, const char *arm);

#endif

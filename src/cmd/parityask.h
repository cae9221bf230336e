/* parityask.h: what ids servers make of requests: the asking half of paritycheck.h.
 *
 * All servers are asked one question at a time, side by side; a server that does not know one way
 * of asking is asked in the next. */
#ifndef CMD_PARITYASK_H
#define CMD_PARITYASK_H

#include "run/fleet.h"
#include "text/paritycases.h"

/* In the order they are tried in. */
enum parityask_step {
  ASK_TOKENIZE,
  ASK_TOKENIZE_CONTENT, /* llama.cpp's form of it: prompts alone */
  ASK_RENDER,
  ASK_COMPLETION_IDS, /* a completion of one token, with the prompt's ids wanted */
  ASK_COMPLETION,     /* the same in nobody's dialect */
  ASK_NOBODY
};

/* What one server said to one question. */
struct parity_answer {
  enum parityask_step step; /* ASK_NOBODY: it could not be brought to answer */
  uint32_t *ids;            /* NULL: the count alone */
  size_t n;
  int64_t usage; /* a completion's usage.prompt_tokens; −1: not said */
  bool refused;  /* with a status of 4xx, whichever way it was asked */
  char *reason;  /* why there is no answer; NULL */
  char *odd; /* what another way of asking answered that is neither ids nor "no such way"; NULL */
};

struct parity_question {
  const struct parity_case *c;
  bool completion; /* only by a completion: what inference does, not what /tokenize says */
};

struct parity_server {
  const char *id, *url;          /* borrowed */
  struct parity_answer *answers; /* one for each question */
  unsigned unknown[2];           /* by form: steps (bits) that the server does not know */
  unsigned sent;                 /* requests made to it */
  char *gone;                    /* it does not answer at all: why; NULL */
};

/* Asks every server every question. `fleet` gives model, headers, TLS and proxy; `generate` lets
 * completions answer where nothing else does. Fills answers (allocated here; parityask_free). An
 * error when no request can be made; that a server does not answer is no error. */
NODISCARD int parityask_run(const struct fleet *fleet, struct parity_server *servers, size_t n,
                            const struct parity_question *questions, size_t n_questions,
                            bool generate, uint64_t timeout_ns, struct err *err);
void parityask_free(struct parity_server *servers, size_t n, size_t n_questions);
/* "tokenize", "render", "inference" (ids) or "usage"; NULL: none. */
const char *parityask_evidence(const struct parity_answer *a);

#endif

/* vu_options.h: the options of vu:http, by name. */
#ifndef BIND_VU_OPTIONS_H
#define BIND_VU_OPTIONS_H

#include "base/base.h"

/* In the order of their names. */
enum option {
  O_API,
  O_ASKED_TOKENS,
  O_BODY,
  O_BRANCH,
  O_CALLER,
  O_CHOSEN,
  O_COMPRESSED,
  O_FALLBACK,
  O_HARMONY,
  O_HASH_NS,
  O_HEADERS,
  O_JSON,
  O_MAX_BODY,
  O_METHOD,
  O_PARENT,
  O_PATH,
  O_POLICY,
  O_PROMPT_TOKENS,
  O_REDIRECTS,
  O_REFUSED,
  O_RENDER_NS,
  O_REPLICA,
  O_ROUTE_REASON,
  O_SCHED,
  O_STEP,
  O_STREAM,
  O_SURVIVED_TOKENS,
  O_TAGS,
  O_TIMEOUT,
  O_TOKENIZE_NS,
  O_TURN,
  O_URL,
  N_OPTIONS
};

extern const char *const vu_option_names[N_OPTIONS];

/* The option of that name; N_OPTIONS: it is none. */
unsigned vu_option_of(const char *name);

#endif

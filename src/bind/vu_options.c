/* vu_options.c: the options of vu:http. Each request names some, so they are found by their first
 * letter, which few share. */
#include "bind/vu_options.h"

#include <string.h>

const char *const vu_option_names[N_OPTIONS] = {"api",        "asked_tokens", "body",
                                                "branch",     "caller",       "chosen",
                                                "compressed", "fallback",     "harmony",
                                                "hash_ns",    "headers",      "json",
                                                "max_body",   "method",       "parent",
                                                "path",       "policy",       "prompt_tokens",
                                                "redirects",  "refused",      "render_ns",
                                                "replica",    "route_reason", "sched",
                                                "step",       "stream",       "survived_tokens",
                                                "tags",       "timeout",      "tokenize_ns",
                                                "turn",       "url"};

/* The first option that begins with a letter. */
static const uint8_t options_from['z' - 'a' + 1] = {
    ['a' - 'a'] = O_API,      ['b' - 'a'] = O_BODY,    ['c' - 'a'] = O_CALLER,
    ['f' - 'a'] = O_FALLBACK, ['h' - 'a'] = O_HARMONY, ['j' - 'a'] = O_JSON,
    ['m' - 'a'] = O_MAX_BODY, ['p' - 'a'] = O_PARENT,  ['r' - 'a'] = O_REDIRECTS,
    ['s' - 'a'] = O_SCHED,    ['t' - 'a'] = O_TAGS,    ['u' - 'a'] = O_URL};

unsigned vu_option_of(const char *name) {
  if (*name < 'a' || *name > 'z')
    return N_OPTIONS;
  for (unsigned i = options_from[*name - 'a']; i < N_OPTIONS && vu_option_names[i][0] == *name; i++)
    if (strcmp(vu_option_names[i], name) == 0)
      return i;
  return N_OPTIONS;
}

/* parity.h: token ids made here held against those a server made of the same request.
 *
 * A difference is said so that a person can act on it: the first token that differs with the text
 * around it, and causes. A cause is never guessed from the look of it: the request is rendered and
 * tokenized again as a server with that fault would, and only what then equals the server's ids (or
 * its count, where there are no ids) is named. Pure; the calling thread's encoder is used. */
#ifndef TEXT_PARITY_H
#define TEXT_PARITY_H

#include "text/chattemplate.h"
#include "text/tokens.h"
#include "text/value.h"

enum parity_form { PARITY_PROMPT, PARITY_MESSAGES };
const char *parity_form_name(enum parity_form form); /* "prompt", "messages" */

/* One request, as it is sent; values and texts are borrowed. */
struct parity_case {
  const char *name;
  enum parity_form form;
  const char *text; /* PARITY_PROMPT: len bytes of UTF-8; add_special_tokens is `chat`'s */
  size_t len;
  struct chattemplate_request chat; /* PARITY_MESSAGES; `now` is what our side renders with */
};

struct parity_local {
  struct tokens_encoder *encoder;
  const struct chattemplate *chat; /* NULL: prompts alone */
  /* Further templates that a server may render with; `chat` among them is passed over. */
  struct chattemplate *const *others;
  size_t n_others;
  /* Known from an earlier case: the server's ids are of another vocabulary. Then that is the cause
   * of every difference, and nothing else is tried. */
  bool other_vocabulary;
};

/* Appends our ids of a case. Errors of tokens_encode and chattemplate_encode; ERR_UNSUPPORTED for
 * messages without a template. */
NODISCARD int parity_encode(const struct parity_local *local, const struct parity_case *c,
                            struct tokens_list *out, struct err *err);

enum parity_verdict {
  PARITY_EQUAL,  /* the same ids */
  PARITY_COUNT,  /* as many ids; nobody saw which */
  PARITY_DIFFERS /* other ids, or another number of them */
};
const char *parity_verdict_name(enum parity_verdict verdict); /* "equal", "count", "differs" */

enum parity_strength {
  PARITY_EXACT,    /* with it our ids are the server's */
  PARITY_BY_COUNT, /* with it we have as many ids as the server: no ids to compare */
  PARITY_PARTIAL   /* with it the first difference moves further back, but one stays */
};
const char *parity_strength_name(enum parity_strength s); /* "exact", "count", "partial" */

#define PARITY_MAX_CAUSES 6

/* `name` is one of a closed list: double_bos, double_bos_here, bos_extra, bos_missing, eos_extra,
 * eos_missing, add_special_tokens, generation_prompt, date, tojson, tool_order, tool_keys,
 * tools_ignored, as_sent, kwargs, renderer, trailing_newline, special_text, truncated, vocabulary,
 * tokenizer, extra_text, missing_text, usage. */
struct parity_cause {
  const char *name;
  char *text; /* what the server does, for a person, and what to do about it */
  char *test; /* what was tried and came out equal */
  char *fix;  /* the option of the engine or of perigee that mends it; NULL: none is known */
  enum parity_strength strength;
};

struct parity_result {
  enum parity_verdict verdict;
  size_t local_n, server_n;
  /* With ids that differ: */
  bool has_difference;
  size_t index;                /* of the first token that differs, from 0 */
  int64_t local_id, server_id; /* −1: that side has ended */
  bool same_text;              /* other ids, but they stand for the same text */
  /* Texts as JSON strings ("…\n"): what both have in front of it, and how each goes on. */
  char *before, *local_text, *server_text;
  struct parity_cause causes[PARITY_MAX_CAUSES]; /* the likeliest first */
  size_t n_causes;
};

/* Judges `server_n` ids of the server's, or their number alone (`server` NULL), against ours (made
 * by parity_encode). Fills *out; free it with parity_result_free. Never fails: a variant that
 * cannot be rendered is no cause. For a difference some 40 renderings, and, where none of them
 * hits, pairs: 600 at most, fewer of long prompts; none for equal ids. */
void parity_compare(const struct parity_local *local, const struct parity_case *c,
                    const struct tokens_list *ours, const uint32_t *server, size_t server_n,
                    struct parity_result *out);
/* What the server counts (usage.prompt_tokens) of a request whose ids are known: of that very one
 * (`same_request`), else of the same asked otherwise. Another number than the server's ids makes
 * the verdict PARITY_DIFFERS with the cause "usage", behind those of a difference there was. */
void parity_judge_usage(struct parity_result *r, size_t usage, bool same_request);
void parity_result_free(struct parity_result *r);

/* {index, local_id, server_id (null: ended), same_text, before, local, server}, or null. */
struct value parity_difference_value(const struct parity_result *r);
/* [{name, text, fix (or null), test, strength}] */
struct value parity_causes_value(const struct parity_result *r);

#endif

/* genmodel.h: the model that the fleet plays: its name, tokenizer, chat template and words.
 *
 * One for the whole fleet, on the loop's thread: the tokenizer and the template are read only, the
 * encoder (the memory of pieces it has seen) is the fleet's own. */
#ifndef SIM_GENMODEL_H
#define SIM_GENMODEL_H

#include "sim/adapters.h"
#include "sim/gentools.h"
#include "sim/speech.h"
#include "text/chattemplate.h"
#include "text/pytime.h"

struct loop;

struct genmodel {
  const char *name;                   /* borrowed, as is the loop */
  uint32_t max_model_len, block_size; /* block_size: told to clients; 0: not known */
  uint32_t reasoning_tokens;          /* thoughts before an answer, of a model that has them */
  struct gentools tools;
  const struct adapters *adapters; /* borrowed; NULL: none */
  uint64_t seed;
  const struct tokens *tokenizer;
  char *family;                   /* of a rank file that was named by its path; NULL */
  struct tokens_encoder *encoder; /* NULL: each text with a passing one */
  struct chattemplate *chat;      /* NULL: the fleet's own, prompt.h */
  struct speech *speech;          /* NULL: `bytes`, babble.h */
  const struct loop *loop;        /* the clock; NULL: there is no present but a fixed one */
  bool has_now;
  struct pytime now; /* fixed, with has_now */
};

#define GENMODEL_OWN_TEMPLATE "sim"

struct genmodel_options {
  const char *tokenizer; /* tokens_open; NULL = "bytes" */
  const char *family;    /* of a rank file; NULL */
  const char *template;  /* chattemplate_load, or "sim" for the fleet's own; NULL: what comes with
                            the tokenizer, else the fleet's own */
  const char *now;       /* pytime_parse; NULL: the clock's */
  struct tokens_shared *shared; /* tokenizers that others of the process use; NULL */
};

/* Loads tokenizer, template and words into `m`, whose other fields stay as they are. Errors name
 * option and file. */
NODISCARD int genmodel_open(struct genmodel *m, const struct genmodel_options *o, struct err *err);
void genmodel_close(struct genmodel *m);

/* The template's name; "sim" for the fleet's own. */
const char *genmodel_template(const struct genmodel *m);
/* What a client needs to make the same prompts, as fields of `out`: tokenizer, tokenizer_family (of
 * a rank file), tokenizer_hash (16 hex digits of tokens.h's; not for bytes), template,
 * template_hash (not for the fleet's own), now (local time). */
void genmodel_describe(const struct genmodel *m, struct value *out);
/* Local time; false when there is none. */
bool genmodel_now(const struct genmodel *m, struct pytime *out);
/* tokens_encode with the fleet's encoder. */
NODISCARD int genmodel_encode(const struct genmodel *m, const char *text, size_t len,
                              const struct tokens_options *options, struct tokens_list *out,
                              struct err *err);

#endif

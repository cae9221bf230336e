/* speech.h: what a simulated model says in the vocabulary of a real tokenizer.
 *
 * Answers are drawn from words that stay themselves: at the start, every word is kept only if its
 * ids decode to it and if, before and after every other word that is kept, the tokenizer cuts the
 * text where the word ends. So encode(decode(ids)) == ids for every whole answer, and a client that
 * repeats an answer in its history sends the ids that were sampled: prefix caching across turns
 * works as with a real model. Whether the chat template lets an answer through is tried out as well
 * (speech_fit). One word in sixteen is not ASCII: its characters may take several tokens. */
#ifndef SIM_SPEECH_H
#define SIM_SPEECH_H

#include "base/err.h"
#include "text/tokens.h"
#include "text/value.h"

struct speech_word {
  char *text;
  uint32_t len, n; /* bytes, tokens */
  uint32_t *ids;
  uint32_t *ends; /* bytes of text that are whole characters after each token */
};

struct speech_words {
  struct speech_word *items;
  size_t n, cap;
};

struct speech {
  struct speech_words first;  /* what an answer may begin with */
  struct speech_words words;  /* common ones, a space in front; the last may be "." */
  struct speech_words rare;   /* not ASCII; may be empty */
  struct speech_word stop;    /* "."; n == 0: there is none */
  struct speech_word header;  /* what the model says before an answer; n == 0: nothing */
  struct speech_word think;   /* what it says before it thinks; n == 0: it never does */
  struct speech_word answer;  /* between its thoughts and the answer, the header included */
  struct tokens_list opening; /* a completion's prompt ends so: the header comes first */
  bool has_eos, repeats;      /* repeats: see speech_fit */
  uint32_t eos;
};

/* `header`, `think`, `answer` and `opening` are special tokens and text
 * ("<|channel|>final<|message|>"), `eos` one token; NULL: none; think and answer go together.
 * ERR_UNSUPPORTED when no words of the tokenizer stay themselves, ERR_INVALID when it does not know
 * eos as one token. */
struct speech_options {
  const char *header, *think, *answer, *opening, *eos;
};
NODISCARD int speech_init(struct speech *s, const struct tokens *t, struct tokens_encoder *e,
                          const struct speech_options *options, struct err *err);
void speech_free(struct speech *s);

/* The ids of a conversation with a generation prompt at its end; 0, or an error. */
typedef int speech_chat_fn(void *user, const struct value *messages, struct tokens_list *out);
/* Keeps the first words behind which a conversation goes on with the very ids of question and
 * answer (with a space in front, where the template wants that); none: all stay, and `repeats` is
 * false: this template writes past answers differently from how they were said. */
void speech_fit(struct speech *s, speech_chat_fn *chat, void *user);

struct speech_ask {
  uint64_t key;     /* babble_key */
  uint32_t natural; /* tokens after which the model ends by itself, when `ends` */
  uint32_t most;    /* tokens there is room for, >= 1 */
  bool ends;
  bool header;    /* begins with the header … */
  uint32_t think; /* … or, when not 0, with so many tokens of thought (its opening included), where
                     the model has thoughts */
  bool show_header; /* its text is shown, without special tokens unless show_special */
  bool show_special;
};

struct speech_answer {
  uint32_t *ids;   /* n of them */
  uint32_t *shown; /* bytes of the text that are shown after each token, whole characters */
  uint32_t n;
  uint32_t hidden;  /* leading tokens that are no answer: the header that is not shown */
  uint32_t thought; /* leading bytes of the text that are thoughts; 0 when headers are shown */
  uint32_t before;  /* leading bytes of a text with special tokens that come before the answer */
  bool ended;       /* by itself; else at `most` */
  char *text;       /* NUL-terminated */
};

/* The same for the same key and options, a longer answer beginning with a shorter one but for its
 * end. The caller frees ids, shown and text with mem_free. */
void speech_say(const struct speech *s, const struct speech_ask *ask, struct speech_answer *out);

#endif

/* harmony_grown.h: the Harmony prompt of a chat that grows: only what is new is rendered and
 * tokenized.
 *
 * Of the last prompt it is kept which ids are of which chat message, and where its analysis lies in
 * them. What is behind the first message that is another, or whose analysis comes or goes with a
 * final answer, is put together again: from the ids that are there where the message is the same,
 * else rendered, its texts remembered by content. The ids always equal those of harmony_from_chat,
 * harmony_render and harmony_encode of the whole (tests/unit/test_harmony_grown.c).
 *
 * What is kept, the prompt it is of, and their forks and memo belong to one thread. */
#ifndef TEXT_HARMONY_GROWN_H
#define TEXT_HARMONY_GROWN_H

#include "base/blob.h"
#include "text/harmony.h"
#include "text/promptids.h"

/* Texts by content for one tokenizer, which must outlive it; at most about `max_bytes`. */
struct harmony_memo;
struct harmony_memo *harmony_memo_new(struct tokens_encoder *e, size_t max_bytes);
void harmony_memo_delete(struct harmony_memo *m); /* NULL is allowed */
/* Messages that were rendered, and bytes that were tokenized, so far. */
void harmony_memo_stats(const struct harmony_memo *m, uint64_t *rendered, uint64_t *tokenized);

/* A chat as it is now. */
struct harmony_history {
  const void *of;
  /* Message i in JSON, with one byte (a comma) in front unless i is 0. */
  struct blob *(*message)(const void *of, size_t i);
  size_t n;
  size_t same;        /* leading ones known to be as the last time; 0 when nothing is known */
  struct blob *tools; /* JSON behind `tools_skip` bytes; NULL: none */
  size_t tools_skip;
  struct harmony_chat chat; /* its tools are not looked at */
};

struct harmony_place;

/* What the last prompt left. Zero-initialised: nothing. */
struct harmony_grown {
  uint64_t tokenizer; /* its hash */
  uint64_t changes;   /* of the prompt then: when they are others, it is somebody else's now */
  char *date, *effort, *identity, *content_type;
  struct blob *tools;
  bool leads;     /* the first message is in the head */
  size_t head;    /* ids of system and developer message */
  size_t n_final; /* messages up to the last one with a final answer */
  struct harmony_place *places;
  size_t n, cap;
};

void harmony_grown_free(struct harmony_grown *g);
/* *out, not initialised, becomes the same; with the prompt's fork it goes on by itself. */
void harmony_grown_fork(const struct harmony_grown *g, struct harmony_grown *out);

/* Renders what is new of the chat, with the beginning of the answer behind it, into `m`; the prompt
 * is `p`, and *g is what its last change left, if it was one of these. Errors: those of
 * harmony_from_chat; nothing has changed then. */
NODISCARD int harmony_grown_render(const struct harmony_grown *g, const struct promptids *p,
                                   struct harmony_memo *m, const struct harmony_history *h,
                                   struct err *err);
/* The prompt becomes what was just rendered from the same arguments. Errors: those of
 * harmony_encode; nothing has changed then. */
NODISCARD int harmony_grown_tokenize(struct harmony_grown *g, struct promptids *p,
                                     struct harmony_memo *m, const struct harmony_history *h,
                                     struct err *err);

#endif

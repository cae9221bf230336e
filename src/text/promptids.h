/* promptids.h: the token ids of a prompt that grows: only what is new is tokenized.
 *
 * A conversation's prompt is rendered anew for each request, and most of it is the text of the
 * request before. Ids up to the last special token inside the common beginning are kept; behind it
 * the text is cut at special tokens, and each section is tokenized once and remembered by its
 * content. The ids equal those of tokenizing the whole text, special tokens in it found, none
 * added. Ids and text lie in buffers that grow at their end and are shared by forks.
 *
 * A prompt, its forks and their memo belong to one thread. */
#ifndef TEXT_PROMPTIDS_H
#define TEXT_PROMPTIDS_H

#include "base/blob.h"
#include "text/tokens.h"

/* Sections by content, for one tokenizer. At most about `max_bytes`: the oldest half goes. */
struct promptids_memo;
struct promptids_memo *promptids_memo_new(struct tokens_encoder *e, size_t max_bytes); /* e: kept */
void promptids_memo_delete(struct promptids_memo *m); /* NULL is allowed */
/* Sections that were looked up and found, and tokenized, so far. */
void promptids_memo_stats(const struct promptids_memo *m, uint64_t *found, uint64_t *made);

struct promptids_part {
  struct blob *json; /* "1,2,3"; with a comma in front unless it is the first */
  size_t end;        /* ids up to here are in this part or before it */
};

/* The ids as they were when they were sent: the first `shared` are those there now, then `rest`. */
struct promptids_sent {
  size_t shared, n_rest;
  uint32_t *rest;
};

struct promptids_trunk;

struct promptids {
  struct promptids_trunk *ids, *text, *marks; /* NULL: empty */
  size_t n, len, n_marks;
  size_t kept;      /* ids that the last change left as they were */
  size_t firm;      /* the same, of the last change that changed some */
  uint64_t changes; /* counted: who keeps something of the ids sees whether they are still those */
  struct promptids_sent sent;
  struct promptids_part *parts;
  size_t n_parts, cap_parts;
};

void promptids_init(struct promptids *p); /* an empty prompt */
void promptids_free(struct promptids *p);
/* *out, not initialised, becomes the same prompt, which goes on by itself from here. */
void promptids_fork(const struct promptids *p, struct promptids *out);

/* The prompt becomes this text. On error (those of tokens_encode) it is as before. */
NODISCARD int promptids_set_text(struct promptids *p, struct promptids_memo *m, const char *text,
                                 size_t len, struct err *err);
/* The same where it is known how the text differs from the one that is there: its first `common`
 * bytes stay, which end where a character does, and `tail` comes behind them. */
NODISCARD int promptids_set_tail(struct promptids *p, struct promptids_memo *m, size_t common,
                                 const char *tail, size_t len, struct err *err);
/* The same where the first `keep` bytes are known to stay, and the text behind them may begin as it
 * does now: what both have in common is found. */
NODISCARD int promptids_set_from(struct promptids *p, struct promptids_memo *m, size_t keep,
                                 const char *text, size_t len, struct err *err);
/* The prompt becomes these ids (NULL: none), of no known text. */
void promptids_set_ids(struct promptids *p, const uint32_t *ids, size_t n);
/* The same where the first `keep` are known to be those that are there: n more follow. */
void promptids_set_behind(struct promptids *p, size_t keep, const uint32_t *ids, size_t n);

/* The p->n ids; they move with the next change. NULL when there are none. */
const uint32_t *promptids_ids(const struct promptids *p);
/* The p->len bytes of the text, until the next change; NULL when there is none. */
const char *promptids_text(const struct promptids *p);
/* The ids go out as they are now … */
void promptids_send(struct promptids *p);
/* … and this many of the leading ones are still there. 0 when none went out. */
size_t promptids_survived(const struct promptids *p);
/* How many ids come before the last `loose` special tokens: what the next turn hardly changes. Of
 * ids without a text, and texts with fewer special tokens: those that the last change left. */
size_t promptids_firm(const struct promptids *p, size_t loose);
/* Writes the ids in JSON into p->parts, which hold those that have not changed already. */
void promptids_write(struct promptids *p);

#endif

/* promptsteps.h: a prompt that somebody else renders, a few messages at a time.
 *
 * A renderer is asked for what the messages from some one on add: a text that stays, and an ending
 * that the next call replaces. What each call left is kept as a step: so many messages end at that
 * byte. A call begins behind the last step whose messages are as they were: an edit, a cut or a
 * fork goes back that far and no further. Whether a renderer keeps to the rule is found out by
 * comparing with the whole: which calls are to be compared is decided here.
 *
 * A conversation's, with its prompt: one thread. */
#ifndef TEXT_PROMPTSTEPS_H
#define TEXT_PROMPTSTEPS_H

#include "base/blob.h"
#include "text/promptids.h"

struct promptstep {
  size_t messages; /* so many of the leading ones … */
  size_t end;      /* … are in so many bytes (or ids), … */
  size_t seen;     /* … as long as so many are as they were: those the renderer could look at */
};

/* Zero-initialised: nothing. */
struct promptsteps {
  char *key; /* who rendered, with what; NULL: nobody */
  struct blob *tools;
  struct promptstep *steps;
  size_t n, cap;
  size_t made_for;  /* messages of the last call … */
  size_t same;      /* … of which so many leading ones are as they were: the owner lowers it */
  uint64_t changes; /* of the prompt, after it */
  bool ids;         /* it gave ids, not a text */
  /* what was compared with the whole since the key is this one */
  size_t compared, went_back, compared_at;
  struct promptsteps_call {
    size_t from;      /* messages that stay */
    size_t keep;      /* bytes (or ids) of the prompt that do */
    size_t n;         /* messages in all */
    uint64_t changes; /* of the prompt, before it */
    bool compare;     /* what comes is to be held against the whole */
  } call;             /* the one under way */
};

void promptsteps_free(struct promptsteps *s);
/* *out, not initialised, becomes the same; with the prompt's fork it goes on by itself. */
void promptsteps_fork(const struct promptsteps *s, struct promptsteps *out);
/* The next call starts over. */
void promptsteps_forget(struct promptsteps *s);

/* Begins a call: s->call says what to render. False: the prompt is what it has to be, there is
 * nothing to do. `key` is whatever the text depends on beside messages and tools: with another one
 * it starts over; `tools` may be NULL and is told apart by its bytes. */
bool promptsteps_begin(struct promptsteps *s, const struct promptids *p, const char *key,
                       struct blob *tools, size_t messages);

/* Whether the prompt would be another than the whole: *at is the first byte (or id) that differs,
 * from 0, or the length of the shorter one. `text` is what stays and the ending behind it. */
bool promptsteps_differs(const struct promptsteps *s, const struct promptids *p, const char *text,
                         size_t len, const char *whole, size_t whole_len, size_t *at);
bool promptsteps_ids_differ(const struct promptsteps *s, const struct promptids *p,
                            const uint32_t *ids, size_t n, const uint32_t *whole, size_t whole_n,
                            size_t *at);

/* Ends the call: the prompt becomes the text that stayed and this one, whose first `staying` bytes
 * are those of the messages up to number `upto`. ERR_INVALID: `upto` is not between call.from and
 * call.n, what stays belongs to no message, or the calls before gave ids (a head may stay before
 * message 1: as long as none of the messages does, the next call makes it again); other errors are
 * those of promptids_set_from. Nothing has changed then. */
NODISCARD int promptsteps_set_text(struct promptsteps *s, struct promptids *p,
                                   struct promptids_memo *m, const char *text, size_t len,
                                   size_t staying, size_t upto, struct err *err);
/* The same with ids. */
NODISCARD int promptsteps_set_ids(struct promptsteps *s, struct promptids *p, const uint32_t *ids,
                                  size_t n, size_t staying, size_t upto, struct err *err);

#endif

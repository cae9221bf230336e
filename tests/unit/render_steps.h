/* render_steps.h: prompts of renderers that give what is new, of chats that grow, fork, change and
 * are cut at random; each held against the whole. For the unit test and the fuzz target. */
#ifndef TESTS_UNIT_RENDER_STEPS_H
#define TESTS_UNIT_RENDER_STEPS_H

#include "harmony_steps.h"

#include "text/promptsteps.h"

#define STYLES 6
enum {
  STYLE_PLAIN,  /* all of a message stays */
  STYLE_BARE,   /* the same without special tokens */
  STYLE_LAST,   /* the last message is written otherwise */
  STYLE_HALVES, /* characters are cut where one message meets the next */
  STYLE_IDS,    /* token ids instead of a text */
  STYLE_BROKEN, /* what is said to stay does not */
};

struct talk {
  int messages[MOST_MESSAGES];
  size_t n;
  int style, kwarg;
  struct blob *tools;
  struct promptsteps steps;
  struct promptids prompt;
  struct buf text; /* of the prompt, as it was put together */
};

static inline void talk_init(struct talk *c) {
  *c = (struct talk){.n = 0};
  promptids_init(&c->prompt);
  buf_init(&c->text, BUF_MAX_OWN);
}

static inline void talk_free(struct talk *c) {
  promptsteps_free(&c->steps);
  promptids_free(&c->prompt);
  blob_unref(c->tools);
  buf_free(&c->text);
}

static inline void talk_put_message(const struct talk *c, size_t i, struct buf *b) {
  static const char *const texts[] = {"an an",     "x\nan",   "<|end|> an", "",         "an",
                                      "\xc3\xa9x", "an<|sta", "rt|>an",     " an  \n ", "\xff"};
  const char *text = texts[c->messages[i] % (int)ARRAY_LEN(texts)];
  switch (c->style) {
  case STYLE_BARE:
    buf_printf(b, "user: %s\n", text);
    break;
  case STYLE_HALVES:
    buf_printf(b, "\xa9%s\xc3", text);
    break;
  case STYLE_LAST:
    buf_printf(b, "<|start|>%s%s<|end|>", i + 1 == c->n ? "last" : "", text);
    break;
  case STYLE_BROKEN:
    buf_printf(b, "<|start|>%s%s", text, i + 1 == c->n ? "<|call|>" : "<|end|>");
    break;
  default:
    buf_printf(b, "<|start|>u<|message|>%s<|end|>", text);
  }
}

/* Messages from `from` on, with the head in front of the first; how many bytes stay, up to which.
 */
static inline size_t talk_render(const struct talk *c, size_t from, struct buf *b, size_t *upto) {
  size_t stay = 0;
  *upto = c->n - (c->style == STYLE_LAST && c->n > from);
  buf_put(b, "", 0);
  for (size_t i = from; i < c->n; i++) {
    if (i == 0 && c->tools)
      buf_printf(b, "%s<|end|>", c->tools->data);
    if (i == 0 && c->kwarg)
      buf_printf(b, "%d", c->kwarg);
    talk_put_message(c, i, b);
    if (i + 1 == *upto)
      stay = b->len;
  }
  if (c->style != STYLE_BARE || c->n % 2)
    buf_printf(b, "<|start|>an%zu", c->style == STYLE_PLAIN ? c->n : 0);
  return stay;
}

static inline void talk_expect(const struct talk *c, struct tokens_encoder *e,
                               const struct buf *whole) {
  static const struct tokens_options special = {.special = true};
  struct tokens_list ids = {0};
  struct err err;
  size_t n = whole->len;
  if (c->style == STYLE_IDS) {
    for (size_t i = 0; i < n; i++)
      steps_require(promptids_ids(&c->prompt)[i] == (unsigned char)whole->data[i], "an id differs");
  } else {
    steps_require(tokens_encoder_encode(e, whole->data, whole->len, &special, &ids, &err) == 0,
                  "encode");
    n = ids.n;
    steps_require(c->prompt.len == whole->len &&
                      memcmp(promptids_text(&c->prompt), whole->data, whole->len) == 0,
                  "the text is not the whole");
    steps_require(!n || (c->prompt.n == n &&
                         memcmp(promptids_ids(&c->prompt), ids.ids, n * sizeof *ids.ids) == 0),
                  "the ids are not those of the whole");
  }
  steps_require(c->prompt.n == n, "another number of ids");
  steps_require(promptids_firm(&c->prompt, 3) <= c->prompt.n, "more is firm than there is");
  tokens_list_free(&ids);
}

static inline uint32_t *talk_ids(const struct buf *text) {
  uint32_t *ids = mem_calloc(text->len + 1, sizeof *ids);
  for (size_t i = 0; i < text->len; i++)
    ids[i] = (unsigned char)text->data[i];
  return ids;
}

static inline int talk_set(struct talk *c, struct promptids_memo *m, const struct buf *made,
                           size_t stay, size_t upto, struct err *err) {
  if (c->style != STYLE_IDS)
    return promptsteps_set_text(&c->steps, &c->prompt, m, made->data, made->len, stay, upto, err);
  uint32_t *ids = talk_ids(made);
  int rc = promptsteps_set_ids(&c->steps, &c->prompt, ids, made->len, stay, upto, err);
  mem_free(ids);
  return rc;
}

static inline bool talk_differs(struct talk *c, const struct buf *made, const struct buf *whole,
                                size_t *at) {
  if (c->style != STYLE_IDS)
    return promptsteps_differs(&c->steps, &c->prompt, made->data, made->len, whole->data,
                               whole->len, at);
  uint32_t *a = talk_ids(made), *b = talk_ids(whole);
  bool other = promptsteps_ids_differ(&c->steps, &c->prompt, a, made->len, b, whole->len, at);
  mem_free(a);
  mem_free(b);
  return other;
}

/* One rendering: what is new, held against the whole. Returns how many messages were rendered. */
static inline size_t talk_check(struct talk *c, struct promptids_memo *m,
                                struct tokens_encoder *e) {
  struct buf made, whole, together;
  struct err err;
  char key[32];
  size_t upto, ignored, at, n = 0;
  buf_init(&made, BUF_MAX_OWN);
  buf_init(&whole, BUF_MAX_OWN);
  buf_init(&together, BUF_MAX_OWN);
  (void)talk_render(c, 0, &whole, &ignored);
  snprintf(key, sizeof key, "%d %d", c->style, c->kwarg);
  if (promptsteps_begin(&c->steps, &c->prompt, key, c->tools, c->n)) {
    struct promptsteps_call call = c->steps.call;
    n = c->n - call.from;
    size_t stay = talk_render(c, call.from, &made, &upto);
    buf_put(&together, "", 0);
    if (call.keep)
      buf_put(&together, c->text.data, call.keep);
    buf_put(&together, made.data, made.len);
    bool other = together.len != whole.len || memcmp(together.data, whole.data, whole.len) != 0;
    steps_require(talk_differs(c, &made, &whole, &at) == other, "what differs is not found");
    steps_require(!other || c->style == STYLE_BROKEN, "it differs");
    if (other && at < together.len && at < whole.len)
      steps_require(together.data[at] != whole.data[at] &&
                        memcmp(together.data, whole.data, at) == 0,
                    "it differs elsewhere");
    size_t ids = c->prompt.n;
    steps_require(talk_set(c, m, &made, stay, c->n + 1, &err) == ERR_INVALID, "too many");
    steps_require(c->prompt.n == ids, "an error changed the prompt");
    if (other) {
      steps_require(call.from > 0, "all of it differs from the whole");
      promptsteps_forget(&c->steps);
      promptids_set_ids(&c->prompt, NULL, 0);
    } else {
      steps_require(talk_set(c, m, &made, stay, upto, &err) == 0, err.text);
      buf_reset(&c->text);
      buf_put(&c->text, together.data, together.len);
    }
  }
  if (c->steps.key)
    talk_expect(c, e, &whole);
  buf_free(&made);
  buf_free(&whole);
  buf_free(&together);
  return n;
}

static inline void talk_changed(struct talk *c, size_t i) {
  c->steps.same = i < c->steps.same ? i : c->steps.same;
}

static inline void talk_change(struct talk *c, struct steps_source *r) {
  static const uint32_t others[] = {1, 2, 3};
  int64_t what = steps_int(r, 0, 23);
  if (what == 0) {
    c->style = (int)steps_int(r, 0, STYLES - 1);
  } else if (what == 1) {
    c->kwarg = (int)steps_int(r, 0, 2);
  } else if (what == 2) {
    blob_unref(c->tools);
    c->tools = steps_int(r, 0, 1) ? blob_new("tools", 5) : NULL;
  } else if (what == 3) {
    c->n = (size_t)steps_int(r, 0, (int64_t)c->n);
    talk_changed(c, c->n);
  } else if (what == 4 && c->n) {
    size_t i = (size_t)steps_int(r, 0, (int64_t)c->n - 1);
    c->messages[i] = (int)steps_int(r, 0, 9);
    talk_changed(c, i);
  } else if (what == 5) {
    promptids_set_ids(&c->prompt, others, (size_t)steps_int(r, 0, 3)); /* somebody else's */
  } else {
    if (c->n == MOST_MESSAGES) {
      c->n = (size_t)steps_int(r, 0, MOST_MESSAGES - 1);
      talk_changed(c, c->n);
    }
    for (int64_t n = steps_int(r, 0, 3); n > 0 && c->n < MOST_MESSAGES; n--) {
      talk_changed(c, c->n);
      c->messages[c->n++] = (int)steps_int(r, 0, 9);
    }
  }
}

static inline void talk_fork(const struct talk *c, struct talk *out) {
  talk_free(out);
  *out = *c;
  if (c->tools)
    (void)blob_ref(c->tools);
  promptsteps_fork(&c->steps, &out->steps);
  promptids_fork(&c->prompt, &out->prompt);
  buf_init(&out->text, BUF_MAX_OWN);
  buf_put(&out->text, c->text.len ? c->text.data : "", c->text.len);
}

/* At most so many steps, fewer where bytes end. Returns how many messages were rendered. */
static inline size_t talk_random(const struct tokens *t, struct steps_source r, int steps,
                                 size_t memo) {
  struct tokens_encoder *e = tokens_encoder_new(t);
  struct promptids_memo *m = promptids_memo_new(e, memo);
  struct talk talks[CHATS];
  size_t rendered = 0;
  for (size_t i = 0; i < CHATS; i++)
    talk_init(&talks[i]);
  for (int i = 0; i < steps && (!r.data || r.size); i++) {
    struct talk *c = &talks[steps_int(&r, 0, CHATS - 1)], *o = &talks[steps_int(&r, 0, CHATS - 1)];
    if (c != o && steps_int(&r, 0, 19) == 0)
      talk_fork(o, c);
    talk_change(c, &r);
    rendered += talk_check(c, m, e);
  }
  for (size_t i = 0; i < CHATS; i++)
    talk_free(&talks[i]);
  promptids_memo_delete(m);
  tokens_encoder_delete(e);
  return rendered;
}

#endif

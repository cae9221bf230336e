/* harmony_steps.h: chats that grow, fork, change and are cut at random, each prompt held against
 * the whole rendering; for the unit test and the fuzz target. */
#ifndef TESTS_UNIT_HARMONY_STEPS_H
#define TESTS_UNIT_HARMONY_STEPS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "text/harmony_grown.h"
#include "text/json.h"

#define CHATS 5
#define MOST_MESSAGES 24

struct chat {
  struct blob *messages[MOST_MESSAGES];
  size_t n, same;
  struct blob *tools;
  struct harmony_chat options;
  struct harmony_grown grown;
  struct promptids prompt;
};

/* Where choices come from: a generator, or bytes while there are some. */
struct steps_source {
  struct rng rng;
  const uint8_t *data; /* NULL: the generator */
  size_t size;
};

static inline struct steps_source steps_seeded(uint64_t seed) {
  struct steps_source s = {.data = NULL};
  rng_init(&s.rng, seed, 0);
  return s;
}

static inline int64_t steps_int(struct steps_source *s, int64_t lo, int64_t hi) {
  if (!s->data)
    return rng_int(&s->rng, lo, hi);
  if (!s->size)
    return lo;
  s->size--;
  return lo + *s->data++ % (hi - lo + 1);
}

static inline void steps_require(bool ok, const char *what) {
  if (ok)
    return;
  fprintf(stderr, "harmony: %s\n", what);
  abort();
}

/* Byte-level, a token a character but for a few merges, with Harmony's special tokens. */
static inline const struct tokens *steps_tokenizer(bool whole) {
  static const char *const marks[] = {"<|start|>", "<|message|>",   "<|channel|>",
                                      "<|end|>",   "<|constrain|>", "<|call|>"};
  struct buf b;
  const struct tokens *t;
  struct err err;
  int id = 0;
  buf_init(&b, BUF_MAX_OWN);
  buf_puts(&b, "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"\xc4\xa0\":0,\"\xc4\x8a\":1");
  for (id = 2; id < 96; id++) {
    char c[2] = {(char)('!' + id - 2), '\0'};
    buf_puts(&b, ",");
    json_write_string(&b, c, 1);
    buf_printf(&b, ":%d", id);
  }
  buf_puts(&b, ",\"an\":96,\"\xc4\xa0"
               "an\":97},\"merges\":[\"a n\",\"\xc4\xa0 an\"]},"
               "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
               "\"trim_offsets\":false,\"use_regex\":true},\"decoder\":{\"type\":\"ByteLevel\"},"
               "\"added_tokens\":[");
  for (size_t i = 0; i < ARRAY_LEN(marks) - (whole ? 0 : 1); i++)
    buf_printf(&b,
               "%s{\"id\":%d,\"content\":\"%s\",\"special\":true,\"normalized\":false,"
               "\"single_word\":false,\"lstrip\":false,\"rstrip\":false}",
               i ? "," : "", 98 + (int)i, marks[i]);
  buf_puts(&b, "]}");
  int rc = tokens_load_text("steps", b.data, b.len, NULL, &t, &err);
  steps_require(rc == 0, rc ? err.text : "");
  buf_free(&b);
  return t;
}

static inline struct blob *steps_message(const void *of, size_t i) {
  const struct chat *c = of;
  return c->messages[i];
}

static inline struct harmony_history steps_history(const struct chat *c) {
  return (struct harmony_history){.of = c,
                                  .message = steps_message,
                                  .n = c->n,
                                  .same = c->same,
                                  .tools = c->tools,
                                  .tools_skip = 2,
                                  .chat = c->options};
}

/* The whole rendering of it; 0 and the ids, or its error. */
static inline int steps_whole(const struct chat *c, struct tokens_encoder *e,
                              struct tokens_list *ids, struct err *err) {
  struct value list = value_array(), tools = value_null(), conversation;
  struct harmony_prompt p;
  struct harmony_chat options = c->options;
  for (size_t i = 0; i < c->n; i++) {
    const struct blob *m = c->messages[i];
    steps_require(json_parse(m->data + !!i, m->len - !!i, value_push(&list, value_null()), err) ==
                      0,
                  "a message is no JSON");
  }
  if (c->tools)
    steps_require(json_parse(c->tools->data + 2, c->tools->len - 2, &tools, err) == 0, "tools");
  options.tools = &tools;
  harmony_init(&p);
  int rc = harmony_from_chat(&list, &options, &conversation, err);
  if (!rc)
    rc = harmony_render(&p, &conversation, &HARMONY_DEFAULTS, err);
  if (!rc)
    rc = harmony_encode(&p, e, ids, err);
  value_free(&conversation);
  value_free(&list);
  value_free(&tools);
  harmony_free(&p);
  return rc;
}

/* Brings the prompt up to date and holds it against the whole. Returns whether it could be made. */
static inline bool steps_check(struct chat *c, struct harmony_memo *m, struct tokens_encoder *e) {
  struct harmony_history h = steps_history(c);
  struct tokens_list whole = {0};
  struct err err = {0}, other = {0};
  size_t n = c->prompt.n;
  int want = steps_whole(c, e, &whole, &other);
  int rc = harmony_grown_render(&c->grown, &c->prompt, m, &h, &err);
  if (!rc)
    rc = harmony_grown_tokenize(&c->grown, &c->prompt, m, &h, &err);
  steps_require(rc == want, rc ? err.text : "the whole is refused, what has grown is not");
  if (rc) {
    steps_require(strcmp(err.text, other.text) == 0, err.text);
    steps_require(c->prompt.n == n, "an error changed the prompt");
  } else {
    c->same = c->n;
    bool equal = whole.n == c->prompt.n &&
                 memcmp(whole.ids, promptids_ids(&c->prompt), whole.n * sizeof *whole.ids) == 0;
    steps_require(equal, "the ids are not those of the whole");
    steps_require(promptids_firm(&c->prompt, 3) <= c->prompt.n, "more is firm than there is");
  }
  tokens_list_free(&whole);
  return rc == 0;
}

static inline void steps_cut(struct chat *c, size_t keep) {
  while (c->n > keep)
    blob_unref(c->messages[--c->n]);
  c->same = c->same < keep ? c->same : keep;
}

static inline void steps_put(struct chat *c, size_t i, const char *json) {
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  buf_puts(&b, i ? "," : "");
  buf_puts(&b, json);
  if (i < c->n)
    blob_unref(c->messages[i]);
  else
    c->n++;
  c->messages[i] = blob_from_buf(&b);
  c->same = c->same < i ? c->same : i;
  buf_free(&b);
}

static inline const char *steps_any(struct steps_source *r, const char *const *list, int64_t n) {
  return list[steps_int(r, 0, n - 1)];
}

/* A message of any kind into `json`; most of them make sense. */
static inline void steps_draw(struct steps_source *r, bool first, char *json, size_t size) {
  static const char *const texts[] = {"\"\"",
                                      "\"an\"",
                                      "\"x an\\nan\"",
                                      "\"<|end|> an\"",
                                      "null",
                                      ("[{\"type\":\"text\",\"text\":\"an\"},"
                                       "{\"type\":\"text\",\"text\":\" an\"}]")};
  static const char *const ids[] = {"a", "b", "c"}, *const names[] = {"f", "g"};
  static const char *const why[] = {"", ",\"reasoning\":\"hm an\"", ",\"reasoning_content\":\"so\"",
                                    ",\"reasoning\":\"\""};
  const char *text = steps_any(r, texts, 6), *id = steps_any(r, ids, 3);
  int64_t kind = steps_int(r, 0, 39);
  if (first ? kind < 20 : kind < 2)
    snprintf(json, size, "{\"role\":\"%s\",\"content\":%s}", kind & 1 ? "system" : "developer",
             text);
  else if (kind < 12)
    snprintf(json, size, "{\"role\":\"user\",\"content\":%s}", text);
  else if (kind < 22)
    snprintf(json, size, "{\"role\":\"assistant\",\"content\":%s%s}", text, steps_any(r, why, 4));
  else if (kind < 31)
    snprintf(json, size,
             "{\"role\":\"assistant\",\"content\":%s,\"tool_calls\":[{\"id\":\"%s\",\"type\":"
             "\"function\",\"function\":{\"name\":\"%s\",\"arguments\":\"{}\"}}]%s}",
             text, id, steps_any(r, names, 2), steps_any(r, why, 4));
  else if (kind < 39)
    snprintf(json, size, "{\"role\":\"tool\",\"tool_call_id\":\"%s\",\"content\":%s%s}", id, text,
             kind < 36 ? ",\"name\":\"own\"" : "");
  else
    snprintf(json, size, "{\"role\":\"%s\",\"content\":7}", steps_int(r, 0, 1) ? "user" : "no");
}

/* What is not a message: tools, options, somebody else's prompt. */
static inline void steps_rest(struct chat *c, struct steps_source *r) {
  static const char *const tools[] = {
      ": []", ": [{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"F.\"}}]",
      ": "
      "[{\"type\":\"function\",\"function\":{\"name\":\"g\",\"description\":\"an\",\"parameters\":"
      "{\"type\":\"object\",\"properties\":{\"z\":{\"type\":\"string\"},\"a\":{}}}}}]",
      ": [{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"};
  static const char *const dates[] = {NULL, "2026-08-01", "2026-08-02"};
  static const char *const efforts[] = {NULL, "low", "high", "much"};
  static const uint32_t others[] = {1, 2, 3};
  switch (steps_int(r, 0, 5)) {
  case 0:
    blob_unref(c->tools);
    c->tools = NULL;
    break;
  case 1: {
    const char *text = tools[steps_int(r, 0, steps_int(r, 0, 5) ? 2 : 3)];
    blob_unref(c->tools);
    c->tools = blob_new(text, strlen(text));
    break;
  }
  case 2:
    c->options.date = steps_any(r, dates, 3);
    break;
  case 3:
    c->options.reasoning_effort = steps_any(r, efforts, steps_int(r, 0, 5) ? 3 : 4);
    break;
  case 4:
    c->options.call_content_type = steps_int(r, 0, 1) ? "<|constrain|>json" : NULL;
    break;
  default:
    promptids_set_ids(&c->prompt, others, (size_t)steps_int(r, 0, 3));
  }
}

static inline void steps_change(struct chat *c, struct steps_source *r) {
  char json[400];
  int64_t what = steps_int(r, 0, 19);
  if (what == 0) {
    steps_rest(c, r);
  } else if (what == 1) {
    steps_cut(c, (size_t)steps_int(r, 0, (int64_t)c->n));
  } else if (what == 2 && c->n) {
    size_t i = (size_t)steps_int(r, 0, (int64_t)c->n - 1);
    steps_draw(r, i == 0, json, sizeof json);
    steps_put(c, i, json);
  } else {
    if (c->n == MOST_MESSAGES)
      steps_cut(c, (size_t)steps_int(r, 0, MOST_MESSAGES - 1));
    for (int64_t n = steps_int(r, 1, 3); n > 0 && c->n < MOST_MESSAGES; n--) {
      steps_draw(r, c->n == 0, json, sizeof json);
      steps_put(c, c->n, json);
    }
  }
}

static inline void steps_free(struct chat *c) {
  steps_cut(c, 0);
  blob_unref(c->tools);
  harmony_grown_free(&c->grown);
  promptids_free(&c->prompt);
}

static inline void steps_fork(const struct chat *c, struct chat *out) {
  steps_free(out);
  *out = *c;
  for (size_t i = 0; i < c->n; i++)
    (void)blob_ref(c->messages[i]);
  if (c->tools)
    (void)blob_ref(c->tools);
  harmony_grown_fork(&c->grown, &out->grown);
  promptids_fork(&c->prompt, &out->prompt);
}

/* At most so many steps, fewer where bytes end. Returns how many of the prompts could be made. */
static inline int steps_random(const struct tokens *t, struct steps_source r, int steps,
                               size_t memo) {
  struct tokens_encoder *e = tokens_encoder_new(t);
  struct harmony_memo *m = harmony_memo_new(e, memo);
  struct chat chats[CHATS] = {{.n = 0}};
  int made = 0;
  for (int i = 0; i < steps && (!r.data || r.size); i++) {
    struct chat *c = &chats[steps_int(&r, 0, CHATS - 1)], *o = &chats[steps_int(&r, 0, CHATS - 1)];
    if (c != o && steps_int(&r, 0, 19) == 0)
      steps_fork(o, c);
    steps_change(c, &r);
    bool good = steps_check(c, m, e);
    made += good;
    if (!good && steps_int(&r, 0, 1)) /* a chat that is refused would stay so */
      steps_cut(c, c->same < c->n ? c->same : c->n / 2);
  }
  for (size_t i = 0; i < CHATS; i++)
    steps_free(&chats[i]);
  harmony_memo_delete(m);
  tokens_encoder_delete(e);
  return made;
}

#endif

/* speech.c: finding words that stay themselves, and saying them; see speech.h. */
#include "sim/speech.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "sim/babble.h"

static const char *const rare_words[] = {" café",   " naïve", " 日本",      " мир",
                                         " \u2192", " 🙂",  " \u00fcber", " 👩\u200d🚀"};

enum { ANSWER_SLACK = 80, FIT_TOKENS = 120 };

/* ---- words ---- */

static void word_free(struct speech_word *w) {
  mem_free(w->text);
  mem_free(w->ids);
  mem_free(w->ends);
  *w = (struct speech_word){0};
}

static void words_free(struct speech_words *list) {
  for (size_t i = 0; i < list->n; i++)
    word_free(&list->items[i]);
  mem_free(list->items);
  *list = (struct speech_words){0};
}

static void words_add(struct speech_words *list, struct speech_word w) {
  MEM_GROW(list->items, list->n, list->cap);
  list->items[list->n++] = w;
}

/* What words are tried with. */
struct trial {
  const struct tokens *tokens;
  struct tokens_encoder *encoder;
  struct tokens_list ids;
  struct buf text, decoded;
  const struct speech_word *anchor; /* stands before what does not begin an answer; NULL at first */
};

static bool encode(struct trial *t) {
  struct err err;
  t->ids.n = 0;
  return tokens_encoder_encode(t->encoder, t->text.data, t->text.len, NULL, &t->ids, &err) == 0;
}

static bool decode(struct trial *t, const uint32_t *ids, size_t n) {
  struct err err;
  buf_reset(&t->decoded);
  return tokens_decode(t->tokens, ids, n, &t->decoded, &err) == 0;
}

/* Bytes of `text` that the first k ids stand for, less those of a broken character at the end. */
static uint32_t whole_bytes(struct trial *t, size_t before, size_t k, const char *text,
                            uint32_t len) {
  uint32_t n = 0;
  if (!decode(t, t->ids.ids, k))
    return 0;
  while (n < len && before + n < t->decoded.len && t->decoded.data[before + n] == text[n])
    n++;
  while (n && n < len && ((unsigned char)text[n] & 0xc0) == 0x80)
    n--;
  return n;
}

/* The word behind the anchor (if any); false when it is not itself there. */
static bool make_word(struct trial *t, const char *text, struct speech_word *out) {
  const struct speech_word *a = t->anchor;
  size_t before = a ? a->len : 0, skip = a ? a->n : 0;
  buf_reset(&t->text);
  buf_put(&t->text, a ? a->text : "", before);
  buf_puts(&t->text, text);
  if (!encode(t) || t->ids.n <= skip ||
      (a && memcmp(t->ids.ids, a->ids, skip * sizeof *a->ids) != 0))
    return false;
  if (!decode(t, t->ids.ids, t->ids.n) || t->decoded.len != t->text.len ||
      memcmp(t->decoded.data, t->text.data, t->text.len) != 0)
    return false;
  struct speech_word w = {.text = mem_strdup(text), .len = (uint32_t)strlen(text)};
  w.n = (uint32_t)(t->ids.n - skip);
  w.ids = mem_calloc(w.n, sizeof *w.ids);
  w.ends = mem_calloc(w.n, sizeof *w.ends);
  memcpy(w.ids, t->ids.ids + skip, w.n * sizeof *w.ids);
  for (uint32_t i = 0; i < w.n; i++)
    w.ends[i] = whole_bytes(t, before, skip + i + 1, text, w.len);
  w.ends[w.n - 1] = w.len;
  *out = w;
  return true;
}

/* Whether the text of the words one behind the other has their ids. */
static bool stay_apart(struct trial *t, const struct speech_word *const *words, size_t n) {
  size_t at = 0;
  buf_reset(&t->text);
  for (size_t i = 0; i < n; i++)
    buf_put(&t->text, words[i]->text, words[i]->len);
  if (!encode(t))
    return false;
  for (size_t i = 0; i < n; at += words[i++]->n)
    if (t->ids.n - at < words[i]->n ||
        memcmp(t->ids.ids + at, words[i]->ids, words[i]->n * sizeof *words[i]->ids) != 0)
      return false;
  return at == t->ids.n;
}

static bool fits_behind(struct trial *t, const struct speech_word *a, const struct speech_word *b) {
  const struct speech_word *const words[] = {t->anchor, a, b};
  return stay_apart(t, words, 3);
}

/* Whether w can stand before and behind each of the list, itself included. */
static bool fits_all(struct trial *t, const struct speech_word *w,
                     const struct speech_words *list) {
  bool fits = fits_behind(t, w, w);
  for (size_t i = 0; fits && i < list->n; i++)
    fits = fits_behind(t, w, &list->items[i]) && fits_behind(t, &list->items[i], w);
  return fits;
}

static void try_word(struct speech *s, struct trial *t, const char *text,
                     struct speech_words *list) {
  struct speech_word w;
  if (!make_word(t, text, &w))
    return;
  if (fits_all(t, &w, &s->words) && fits_all(t, &w, &s->rare))
    words_add(list, w);
  else
    word_free(&w);
}

/* A full stop stands behind words and before words, never behind another. */
static void try_stop(struct speech *s, struct trial *t) {
  struct speech_word w;
  if (!make_word(t, ".", &w))
    return;
  const struct speech_words *const lists[] = {&s->words, &s->rare};
  bool fits = true;
  for (size_t k = 0; k < 2; k++)
    for (size_t i = 0; fits && i < lists[k]->n; i++)
      fits = fits_behind(t, &lists[k]->items[i], &w) && fits_behind(t, &w, &lists[k]->items[i]);
  if (fits)
    s->stop = w;
  else
    word_free(&w);
}

static bool begins_well(struct speech *s, struct trial *t, const struct speech_word *first) {
  const struct speech_words *const lists[] = {&s->words, &s->rare};
  bool fits = true;
  for (size_t k = 0; k < 2; k++)
    for (size_t i = 0; fits && i < lists[k]->n; i++) {
      const struct speech_word *const words[] = {first, &lists[k]->items[i]};
      fits = stay_apart(t, words, 2);
    }
  const struct speech_word *const words[] = {first, &s->stop};
  return fits && (!s->stop.n || stay_apart(t, words, 2));
}

static void find_words(struct speech *s, struct trial *t) {
  struct speech_word anchor;
  char text[32];
  size_t at = 0;
  while (at < BABBLE_WORDS && !make_word(t, babble_word(at), &anchor))
    at++;
  if (at == BABBLE_WORDS)
    return;
  t->anchor = &anchor;
  for (size_t i = 0; i < BABBLE_WORDS; i++) {
    snprintf(text, sizeof text, " %s", babble_word(i));
    try_word(s, t, text, &s->words);
  }
  for (size_t i = 0; i < ARRAY_LEN(rare_words); i++)
    try_word(s, t, rare_words[i], &s->rare);
  try_stop(s, t);
  t->anchor = NULL;
  for (size_t i = at; i < BABBLE_WORDS; i++) {
    struct speech_word w;
    if (!make_word(t, babble_word(i), &w))
      continue;
    if (begins_well(s, t, &w))
      words_add(&s->first, w);
    else
      word_free(&w);
  }
  word_free(&anchor);
}

/* ---- special tokens ---- */

static int encode_special(struct trial *t, const char *text, struct err *err) {
  struct tokens_options special = {.special = true};
  t->ids.n = 0;
  return tokens_encoder_encode(t->encoder, text, strlen(text), &special, &t->ids, err);
}

static int take_header(struct speech_word *w, struct trial *t, const char *text, struct err *err) {
  if (!text)
    return 0;
  int rc = encode_special(t, text, err);
  if (rc)
    return rc;
  w->text = mem_strdup(text);
  w->len = (uint32_t)strlen(text);
  w->n = (uint32_t)t->ids.n;
  w->ids = mem_calloc(w->n, sizeof *w->ids);
  w->ends = mem_calloc(w->n, sizeof *w->ends);
  memcpy(w->ids, t->ids.ids, w->n * sizeof *w->ids);
  for (uint32_t i = 0; i < w->n; i++)
    w->ends[i] = whole_bytes(t, 0, i + 1, text, w->len);
  return 0;
}

static int take_special(struct speech *s, struct trial *t, const struct speech_options *o,
                        struct err *err) {
  int rc = take_header(&s->header, t, o->header, err);
  if (!rc)
    rc = take_header(&s->think, t, o->think, err);
  if (!rc)
    rc = take_header(&s->answer, t, o->answer, err);
  if (!rc && o->opening) {
    rc = encode_special(t, o->opening, err);
    tokens_list_reserve(&s->opening, t->ids.n);
    memcpy(s->opening.ids, t->ids.ids, t->ids.n * sizeof *t->ids.ids);
    s->opening.n = t->ids.n;
  }
  if (!rc && o->eos) {
    rc = encode_special(t, o->eos, err);
    if (!rc && t->ids.n != 1)
      rc = err_set(err, ERR_INVALID,
                   "the model's last token %.60s is %zu tokens of the tokenizer %.200s: they do "
                   "not belong together",
                   o->eos, t->ids.n, t->tokens->name);
    else if (!rc)
      s->eos = t->ids.ids[0];
    s->has_eos = !rc;
  }
  return rc;
}

int speech_init(struct speech *s, const struct tokens *tokens, struct tokens_encoder *e,
                const struct speech_options *options, struct err *err) {
  struct trial t = {.tokens = tokens, .encoder = e};
  *s = (struct speech){0};
  buf_init(&t.text, BUF_MAX_OWN);
  buf_init(&t.decoded, BUF_MAX_OWN);
  find_words(s, &t);
  int rc = take_special(s, &t, options, err);
  if (!rc && (!s->words.n || !s->first.n))
    rc = err_set(err, ERR_UNSUPPORTED,
                 "tokenizer %.200s: none of the simulated model's words stays itself between "
                 "others, so there is nothing it could say",
                 tokens->name);
  tokens_list_free(&t.ids);
  buf_free(&t.text);
  buf_free(&t.decoded);
  if (rc)
    speech_free(s);
  return rc;
}

void speech_free(struct speech *s) {
  words_free(&s->first);
  words_free(&s->words);
  words_free(&s->rare);
  word_free(&s->stop);
  word_free(&s->header);
  word_free(&s->think);
  word_free(&s->answer);
  tokens_list_free(&s->opening);
  *s = (struct speech){0};
}

/* ---- answers ---- */

struct saying {
  struct speech_answer *out;
  struct buf text;
  uint32_t most;
};

static bool say_token(struct saying *y, uint32_t id, size_t shown) {
  if (y->out->n == y->most)
    return false;
  y->out->ids[y->out->n] = id;
  y->out->shown[y->out->n++] = (uint32_t)shown;
  return true;
}

/* As many tokens as there is room for; false when not all were. */
static bool say_word(struct saying *y, const struct speech_word *w) {
  size_t before = y->text.len;
  buf_put(&y->text, w->text, w->len);
  for (uint32_t i = 0; i < w->n; i++)
    if (!say_token(y, w->ids[i], before + w->ends[i]))
      return false;
  return true;
}

/* Special tokens, and the words between them; false when not all were said. */
static bool say_header(struct saying *y, const struct speech_word *h,
                       const struct speech_ask *ask) {
  uint32_t from = 0;
  bool room = true;
  for (uint32_t i = 0; i < h->n && room; from = h->ends[i++]) {
    bool special = h->text[from] == '<';
    if (ask->show_header && (!special || ask->show_special))
      buf_put(&y->text, h->text + from, h->ends[i] - from);
    room = say_token(y, h->ids[i], y->text.len);
  }
  return room;
}

static const struct speech_word *draw_word(const struct speech *s, uint64_t draw) {
  bool rare = (draw & 15) == 15 && s->rare.n;
  const struct speech_words *list = rare ? &s->rare : &s->words;
  return &list->items[(draw >> 16) % list->n];
}

static const struct speech_word *first_word(const struct speech *s, uint64_t draw) {
  return &s->first.items[(draw >> 16) % s->first.n];
}

/* Thoughts of ask->think tokens, and what leads from them to the answer; false when there was no
 * room for all. */
static bool say_thoughts(struct saying *y, const struct speech *s, const struct speech_ask *ask) {
  uint64_t key = babble_mix(ask->key ^ 0x7468696e6bu); /* "think" */
  bool room = say_header(y, &s->think, ask);
  if (!ask->show_header)
    y->out->hidden = y->out->n;
  room = room && say_word(y, first_word(s, babble_mix(key)));
  for (uint64_t i = 1; room && y->out->n < ask->think; i++)
    room = say_word(y, draw_word(s, babble_mix(key + i)));
  if (!ask->show_header)
    y->out->thought = (uint32_t)y->text.len;
  return room && say_header(y, &s->answer, ask);
}

void speech_say(const struct speech *s, const struct speech_ask *ask, struct speech_answer *out) {
  uint32_t room = ask->most, slack = ANSWER_SLACK + s->answer.n;
  uint32_t natural = ask->natural > ask->think ? ask->natural : ask->think;
  if (ask->ends && natural < room && room - natural > slack)
    room = natural + slack; /* the longest word, stop and end */
  *out = (struct speech_answer){.ids = mem_calloc(room, sizeof *out->ids),
                                .shown = mem_calloc(room, sizeof *out->shown)};
  struct saying y = {.out = out, .most = room};
  buf_init(&y.text, BUF_MAX_OWN);
  buf_puts(&y.text, "");
  bool room_left = true;
  if (ask->header && ask->think && s->think.n) {
    room_left = say_thoughts(&y, s, ask);
  } else if (ask->header) {
    room_left = say_header(&y, &s->header, ask);
    if (!ask->show_header)
      out->hidden = out->n;
  }
  if (ask->header && ask->show_header && ask->show_special)
    out->before = (uint32_t)y.text.len;
  uint64_t first = babble_mix(ask->key + 2);
  room_left = room_left && say_word(&y, first_word(s, first));
  for (uint64_t i = 3; room_left; i++) {
    if (ask->ends && out->n + s->has_eos >= ask->natural) {
      out->ended = !s->has_eos || say_token(&y, s->eos, y.text.len);
      break;
    }
    uint64_t draw = babble_mix(ask->key + i);
    room_left = say_word(&y, draw_word(s, draw));
    if (room_left && s->stop.n && (draw >> 6 & 15) == 0)
      room_left = say_word(&y, &s->stop);
  }
  out->text = buf_take(&y.text, NULL);
}

/* ---- the template ---- */

static void add_message(struct value *messages, const char *role, const char *text) {
  struct value *m = value_push(messages, value_object());
  value_set(m, "role", value_cstring(role));
  value_set(m, "content", value_cstring(text));
}

static bool begins_with(const struct tokens_list *all, const struct tokens_list *part) {
  return all->n >= part->n && memcmp(all->ids, part->ids, part->n * sizeof *part->ids) == 0;
}

static void append_ids(struct tokens_list *list, const uint32_t *ids, size_t n) {
  tokens_list_reserve(list, n);
  memcpy(list->ids + list->n, ids, n * sizeof *ids);
  list->n += n;
}

/* Whether the answer that begins with `first` comes back as it was said. */
static bool comes_back(struct speech *s, const struct speech_word *first, speech_chat_fn *chat,
                       void *user) {
  struct speech_words all = s->first;
  struct speech_answer answer;
  struct tokens_list said = {0}, again = {0};
  struct value messages = value_array();
  s->first = (struct speech_words){.items = (struct speech_word *)first, .n = 1};
  speech_say(s, &(struct speech_ask){.key = 1, .most = FIT_TOKENS, .header = true}, &answer);
  s->first = all;
  /* The last word may be cut: only its whole predecessors are compared. */
  answer.text[answer.shown[answer.n - 1]] = '\0';
  uint32_t whole = answer.n;
  while (whole > 1 && answer.text[answer.shown[whole - 1]] != ' ')
    whole--;
  answer.text[answer.shown[whole - 1]] = '\0';
  add_message(&messages, "user", "Hi");
  bool ok = chat(user, &messages, &said) == 0;
  add_message(&messages, "assistant", answer.text);
  add_message(&messages, "user", "Yes");
  ok = ok && chat(user, &messages, &again) == 0;
  append_ids(&said, answer.ids, whole);
  ok = ok && begins_with(&again, &said);
  mem_free(answer.ids);
  mem_free(answer.shown);
  mem_free(answer.text);
  tokens_list_free(&said);
  tokens_list_free(&again);
  value_free(&messages);
  return ok;
}

static struct speech_word word_copy(const struct speech_word *w) {
  struct speech_word copy = *w;
  copy.text = mem_strdup(w->text);
  copy.ids = mem_calloc(w->n, sizeof *copy.ids);
  copy.ends = mem_calloc(w->n, sizeof *copy.ends);
  memcpy(copy.ids, w->ids, w->n * sizeof *copy.ids);
  memcpy(copy.ends, w->ends, w->n * sizeof *copy.ends);
  return copy;
}

void speech_fit(struct speech *s, speech_chat_fn *chat, void *user) {
  const struct speech_words *const lists[] = {&s->first, &s->words};
  struct speech_words fit = {0};
  for (size_t k = 0; k < 2 && !fit.n; k++)
    for (size_t i = 0; i < lists[k]->n; i++)
      if (comes_back(s, &lists[k]->items[i], chat, user))
        words_add(&fit, word_copy(&lists[k]->items[i]));
  s->repeats = fit.n > 0;
  if (!s->repeats)
    return;
  words_free(&s->first);
  s->first = fit;
}

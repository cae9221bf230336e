/* genanswer.c: settling an answer before it is sampled; see genanswer.h. */
#include "sim/genanswer.h"

#include <string.h>

#include "base/mem.h"
#include "sim/babble.h"

static int check_stop(const struct value *stop, struct apierror *e) {
  size_t n = stop->kind == VALUE_ARRAY ? value_count(stop) : 1;
  for (size_t i = 0; i < n; i++) {
    const struct value *s = stop->kind == VALUE_ARRAY ? value_at(stop, i) : stop;
    if (s->kind != VALUE_STRING)
      return apierror_set(e, 400, "stop", "stop should be a string or a list of strings");
    if (!s->u.string.len)
      return apierror_set(e, 400, "stop", "stop cannot contain an empty string.");
  }
  return 0;
}

int genanswer_read(const struct value *body, struct genanswer_ask *out, struct apierror *e) {
  *out = (struct genanswer_ask){.skip_special = true};
  const struct value *stop = value_get(body, "stop");
  int rc = reqfield_bool(body, "ignore_eos", &out->ignore_eos, e);
  if (!rc)
    rc = reqfield_bool(body, "skip_special_tokens", &out->skip_special, e);
  if (!rc)
    rc = reqfield_int(body, "min_tokens", 0, &out->min_tokens, e);
  if (!rc)
    rc = reqfield_int(body, "seed", INT64_MIN, &out->seed, e);
  if (!rc && !reqfield_absent(stop)) {
    out->stop = stop;
    rc = check_stop(stop, e);
  }
  return rc;
}

/* Tokens after which the first `bytes` of the text are out. */
static uint32_t tokens_for(const struct genchoice *c, size_t bytes) {
  uint32_t n = 1;
  while (n < c->output_len && c->shown[n - 1] < bytes)
    n++;
  return n;
}

/* Cuts the answer at the first place where a stop string ends after `min` tokens. */
static void apply_stop(struct genchoice *c, const struct value *stop, uint32_t min) {
  size_t n = stop->kind == VALUE_ARRAY ? value_count(stop) : 1;
  for (size_t i = 0; i < n; i++) {
    const struct value *s = stop->kind == VALUE_ARRAY ? value_at(stop, i) : stop;
    size_t len = s->u.string.len;
    size_t after = min ? c->shown[(min < c->output_len ? min : c->output_len) - 1] : 0;
    size_t from = after >= len ? after - len + 1 : 0, to = c->shown[c->output_len - 1];
    if (from >= to)
      continue;
    const char *hit = memmem(c->text + from, to - from, s->u.string.data, len);
    if (!hit)
      continue;
    c->visible = (uint32_t)(hit - c->text);
    c->output_len = tokens_for(c, c->visible + len);
    c->finish = "stop";
    mem_free(c->stop);
    c->stop = mem_strndup(s->u.string.data, len);
  }
}

/* With `bytes` a token is a byte of the text. */
static void say_bytes(struct genchoice *c, uint64_t key, uint32_t n) {
  c->output_len = n;
  c->text = mem_alloc(n + 1u);
  c->output = mem_calloc(n, sizeof *c->output);
  c->shown = mem_calloc(n, sizeof *c->shown);
  babble_text(key, c->text, n);
  c->text[n] = '\0';
  for (uint32_t i = 0; i < n; i++) {
    c->output[i] = (unsigned char)c->text[i];
    c->shown[i] = i + 1;
  }
}

static bool ends_with(const struct genchoice *c, const struct tokens_list *tail) {
  return tail->n && c->prompt_len >= tail->n &&
         memcmp(c->tokens + c->prompt_len - tail->n, tail->ids, tail->n * sizeof *tail->ids) == 0;
}

/* Returns whether the model ended it by itself. */
static bool say_words(struct genchoice *c, enum gen_api api, const struct speech *s,
                      struct speech_ask *ask) {
  struct speech_answer a;
  bool chat = api != GEN_COMPLETION && api != GEN_NATIVE;
  ask->header = s->header.n && (chat || ends_with(c, &s->opening));
  ask->show_header = !chat;
  speech_say(s, ask, &a);
  c->output_len = a.n;
  c->output = a.ids;
  c->shown = a.shown;
  c->text = a.text;
  c->hidden = a.hidden;
  c->thought = a.thought;
  c->before = a.before;
  return a.ended;
}

uint64_t genanswer_key(const struct genchoice *c, uint32_t index, const struct genanswer_ask *ask,
                       const struct genmodel *model) {
  uint64_t key = babble_key(c->tokens, c->prompt_len, model->seed ^ (uint64_t)ask->seed);
  return index ? babble_mix(key + index) : key;
}

int genanswer_settle(struct genchoice *c, enum gen_api api, uint32_t index,
                     const struct genanswer_ask *ask, const struct genmodel *model,
                     struct apierror *e) {
  if (ask->min_tokens > c->max_tokens)
    return apierror_set(e, 400, "min_tokens",
                        "min_tokens must be less than or equal to max_tokens=%u, got %lld.",
                        c->max_tokens, (long long)ask->min_tokens);
  uint64_t key = genanswer_key(c, index, ask, model);
  uint32_t think = model->speech && model->speech->think.n ? model->reasoning_tokens : 0;
  int64_t natural = babble_length(key) + think;
  int64_t least = ask->min_tokens + (model->speech && model->speech->has_eos); /* the end counts */
  if (natural < least)
    natural = least;
  bool stops = !ask->ignore_eos && natural <= c->max_tokens;
  struct speech_ask say = {.key = key,
                           .natural = (uint32_t)natural,
                           .most = c->max_tokens,
                           .ends = stops,
                           .think = think,
                           .show_special = !ask->skip_special};
  if (model->speech)
    stops = say_words(c, api, model->speech, &say);
  else
    say_bytes(c, key, stops ? (uint32_t)natural : c->max_tokens);
  c->finish = stops ? "stop" : "length";
  c->visible = c->shown[c->output_len - 1];
  if (ask->stop)
    apply_stop(c, ask->stop, (uint32_t)ask->min_tokens);
  c->tokens = mem_resize(c->tokens, (size_t)c->prompt_len + c->output_len, sizeof *c->tokens);
  return 0;
}

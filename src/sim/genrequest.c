/* genrequest.c: reading a generation request, and settling what the model will answer. */
#include "sim/genrequest.h"

#include <string.h>

#include "base/mem.h"
#include "sim/babble.h"
#include "sim/genprompt.h"
#include "text/json.h"

enum { SALT_MAX = 1024 };

/* ---- fields ---- */

static bool is_absent(const struct value *v) {
  return !v || v->kind == VALUE_NULL;
}

int genrequest_object(const char *body, size_t len, struct value *out, struct apierror *e) {
  struct err err;
  if (json_parse(body, len, out, &err))
    return apierror_set(e, 400, NULL, "body is not valid JSON: %s", err.text);
  if (out->kind == VALUE_OBJECT)
    return 0;
  value_free(out);
  return apierror_set(e, 400, NULL, "body should be a JSON object");
}

int genrequest_check_model(const struct value *body, const struct genmodel *model,
                           struct apierror *e) {
  const struct value *v = value_get(body, "model");
  if (is_absent(v))
    return 0;
  if (v->kind != VALUE_STRING)
    return apierror_set(e, 400, "model", "model should be a string");
  if (strcmp(v->u.string.data, model->name) == 0)
    return 0;
  return apierror_set(e, 404, "model", "The model `%.200s` does not exist.", v->u.string.data);
}

int genrequest_bool(const struct value *body, const char *name, bool *out, struct apierror *e) {
  const struct value *v = value_get(body, name);
  if (is_absent(v))
    return 0;
  if (v->kind != VALUE_BOOL)
    return apierror_set(e, 400, name, "%s should be true or false", name);
  *out = v->u.boolean;
  return 0;
}

int genrequest_int(const struct value *body, const char *name, int64_t least, int64_t *out,
                   struct apierror *e) {
  const struct value *v = value_get(body, name);
  int64_t n;
  if (is_absent(v))
    return 0;
  if (!value_to_int(v, &n))
    return apierror_set(e, 400, name, "%s should be a whole number", name);
  if (n < least)
    return apierror_set(e, 400, name, "%s must be at least %lld, got %lld.", name, (long long)least,
                        (long long)n);
  *out = n;
  return 0;
}

static int get_string(const struct value *body, const char *name, char **out, struct apierror *e) {
  const struct value *v = value_get(body, name);
  if (is_absent(v))
    return 0;
  if (v->kind != VALUE_STRING)
    return apierror_set(e, 400, name, "%s should be a string", name);
  *out = mem_strndup(v->u.string.data, v->u.string.len);
  return 0;
}

int genrequest_tokens(const struct value *list, const char *name, const struct genmodel *model,
                      uint32_t **out, uint32_t *n, struct apierror *e) {
  size_t count = value_count(list);
  uint32_t *tokens = mem_calloc(count + 1, sizeof *tokens);
  for (size_t i = 0; i < count; i++) {
    int64_t id;
    int rc = 0;
    if (!value_to_int(value_at(list, i), &id) || id < 0)
      rc = apierror_set(e, 400, name, "%s[%zu] should be a token id", name, i);
    else if (id >= model->tokenizer->vocab_size)
      rc = apierror_set(e, 400, name, "Token id %lld is out of vocabulary", (long long)id);
    if (rc) {
      mem_free(tokens);
      return rc;
    }
    tokens[i] = (uint32_t)id;
  }
  *out = tokens;
  *n = (uint32_t)count;
  return 0;
}

/* Fields that would change the answer in ways a simulated replica does not follow. */
static int refuse_unsupported(const struct value *body, struct apierror *e) {
  static const char *const names[] = {
      "logprobs",      "prompt_logprobs",    "echo",      "suffix", "use_beam_search",
      "prompt_embeds", "structured_outputs", "logit_bias"};
  for (size_t i = 0; i < ARRAY_LEN(names); i++) {
    const struct value *v = value_get(body, names[i]);
    if (!is_absent(v) && !(v->kind == VALUE_BOOL && !v->u.boolean))
      return apierror_set(e, 400, names[i], "%s is not supported by this simulated replica",
                          names[i]);
  }
  const char *format = value_to_string(value_get(value_get(body, "response_format"), "type"));
  if (format && strcmp(format, "text") != 0)
    return apierror_set(e, 400, "response_format",
                        "response_format of type %.40s is not supported by this simulated replica",
                        format);
  return 0;
}

/* ---- the prompt ---- */

static void take_ids(struct genrequest *r, const struct tokens_list *list) {
  r->tokens = list->ids;
  r->prompt_len = (uint32_t)list->n;
}

static int read_messages(struct genrequest *r, const struct value *body,
                         const struct genmodel *model, struct apierror *e) {
  const struct value *choice = value_get(body, "tool_choice");
  if (!is_absent(choice) && choice->kind != VALUE_STRING && choice->kind != VALUE_OBJECT)
    return apierror_set(e, 400, "tool_choice", "tool_choice should be a string or an object");
  struct tokens_list list = {0};
  int rc = genprompt_chat(model, body, &list, e);
  take_ids(r, &list);
  if (!rc && !r->prompt_len)
    rc = apierror_set(e, 400, "messages", "the chat template made an empty prompt of the messages");
  return rc;
}

static int read_prompt(struct genrequest *r, const struct value *body, const struct genmodel *model,
                       struct apierror *e) {
  const struct value *p = value_get(body, "prompt");
  if (is_absent(p))
    return apierror_set(e, 400, "prompt", "prompt: field required");
  const struct value *first = value_at(p, 0);
  if (p->kind == VALUE_ARRAY && first &&
      (first->kind == VALUE_STRING || first->kind == VALUE_ARRAY)) {
    if (value_count(p) > 1)
      return apierror_set(e, 400, "prompt",
                          "prompt has %zu entries; this simulated replica takes one a request",
                          value_count(p));
    p = first;
  }
  int rc;
  if (p->kind == VALUE_STRING) {
    struct tokens_list list = {0};
    rc = genprompt_text(model, body, p, &list, e);
    take_ids(r, &list);
  } else if (p->kind == VALUE_ARRAY) {
    rc = genrequest_tokens(p, "prompt", model, &r->tokens, &r->prompt_len, e);
  } else {
    rc = apierror_set(e, 400, "prompt", "prompt should be a string or a list of token ids");
  }
  if (rc)
    return rc;
  if (!r->prompt_len)
    return apierror_set(e, 400, "prompt", "prompt should not be empty");
  return 0;
}

/* ---- options ---- */

static int read_stream(struct genrequest *r, const struct value *body, struct apierror *e) {
  int rc = genrequest_bool(body, "stream", &r->stream, e);
  const struct value *o = value_get(body, "stream_options");
  if (rc || is_absent(o))
    return rc;
  if (!r->stream)
    return apierror_set(e, 400, "stream_options",
                        "Stream options can only be defined when `stream=True`.");
  if (o->kind != VALUE_OBJECT)
    return apierror_set(e, 400, "stream_options", "stream_options should be an object");
  rc = genrequest_bool(o, "include_usage", &r->include_usage, e);
  if (!rc)
    rc = genrequest_bool(o, "continuous_usage_stats", &r->continuous_usage, e);
  r->continuous_usage = r->continuous_usage && r->include_usage;
  return rc;
}

static int read_salt(struct genrequest *r, const struct value *body, struct apierror *e) {
  int rc = get_string(body, "cache_salt", &r->salt, e);
  if (rc || !r->salt)
    return rc;
  size_t len = strlen(r->salt);
  if (!len || len > SALT_MAX || len != value_get(body, "cache_salt")->u.string.len)
    return apierror_set(e, 400, "cache_salt",
                        "cache_salt should have 1 to %d characters, without NUL", SALT_MAX);
  return 0;
}

static int read_limit(struct genrequest *r, const struct value *body, const struct genmodel *model,
                      struct apierror *e) {
  uint32_t longest = model->max_model_len;
  if (r->prompt_len >= longest)
    return apierror_set(e, 400, "input_tokens",
                        "This model's maximum context length is %u tokens. However, your request "
                        "has %u input tokens. Please reduce the length of the input messages.",
                        longest, r->prompt_len);
  int64_t wanted = r->api == GEN_COMPLETION ? 16 : -1;
  int rc = genrequest_int(body, "max_tokens", 1, &wanted, e);
  if (!rc && r->api == GEN_CHAT)
    rc = genrequest_int(body, "max_completion_tokens", 1, &wanted, e);
  if (rc)
    return rc;
  int64_t left = (int64_t)longest - r->prompt_len;
  /* The completions default of 16 is no wish: it gives way to the context. */
  if (r->api == GEN_COMPLETION && is_absent(value_get(body, "max_tokens")) && wanted > left)
    wanted = left;
  if (wanted > left)
    return apierror_set(e, 400, "max_tokens",
                        "'max_tokens' or 'max_completion_tokens' is too large: %lld. This model's "
                        "maximum context length is %u tokens and your request has %u input tokens "
                        "(%lld > %u - %u).",
                        (long long)wanted, longest, r->prompt_len, (long long)wanted, longest,
                        r->prompt_len);
  r->max_tokens = (uint32_t)(wanted < 0 ? left : wanted);
  return 0;
}

static int read_options(struct genrequest *r, const struct value *body, struct apierror *e) {
  int64_t n = 1, interval = 1;
  int rc = genrequest_int(body, "n", 1, &n, e);
  if (!rc && n != 1)
    rc = apierror_set(e, 400, "n", "n=%lld: this simulated replica gives one choice", (long long)n);
  if (!rc)
    rc = read_stream(r, body, e);
  if (!rc)
    rc = genrequest_int(body, "stream_interval", 1, &interval, e);
  if (!rc)
    rc = genrequest_bool(body, "return_token_ids", &r->return_token_ids, e);
  if (!rc)
    rc = get_string(body, "request_id", &r->request_id, e);
  if (!rc)
    rc = read_salt(r, body, e);
  r->stream_interval = (uint32_t)(interval < INT32_MAX ? interval : INT32_MAX);
  return rc;
}

/* ---- the answer ---- */

/* Tokens after which the first `bytes` of the text are out. */
static uint32_t tokens_for(const struct genrequest *r, size_t bytes) {
  uint32_t n = 1;
  while (n < r->output_len && r->shown[n - 1] < bytes)
    n++;
  return n;
}

/* Cuts the answer at the first place where a stop string ends after `min` tokens. */
static int apply_stop(struct genrequest *r, const struct value *stop, uint32_t min,
                      struct apierror *e) {
  size_t n = stop->kind == VALUE_ARRAY ? value_count(stop) : 1;
  for (size_t i = 0; i < n; i++) {
    const struct value *s = stop->kind == VALUE_ARRAY ? value_at(stop, i) : stop;
    if (s->kind != VALUE_STRING)
      return apierror_set(e, 400, "stop", "stop should be a string or a list of strings");
    size_t len = s->u.string.len;
    if (!len)
      return apierror_set(e, 400, "stop", "stop cannot contain an empty string.");
    size_t after = min ? r->shown[(min < r->output_len ? min : r->output_len) - 1] : 0;
    size_t from = after >= len ? after - len + 1 : 0, to = r->shown[r->output_len - 1];
    if (from >= to)
      continue;
    const char *hit = memmem(r->text + from, to - from, s->u.string.data, len);
    if (!hit)
      continue;
    r->visible = (uint32_t)(hit - r->text);
    r->output_len = tokens_for(r, r->visible + len);
    r->finish = "stop";
    mem_free(r->stop);
    r->stop = mem_strndup(s->u.string.data, len);
  }
  return 0;
}

/* With `bytes` a token is a byte of the text. */
static void say_bytes(struct genrequest *r, uint64_t key, uint32_t n) {
  r->output_len = n;
  r->text = mem_alloc(n + 1u);
  r->output = mem_calloc(n, sizeof *r->output);
  r->shown = mem_calloc(n, sizeof *r->shown);
  babble_text(key, r->text, n);
  r->text[n] = '\0';
  for (uint32_t i = 0; i < n; i++) {
    r->output[i] = (unsigned char)r->text[i];
    r->shown[i] = i + 1;
  }
}

static bool ends_with(const struct genrequest *r, const struct tokens_list *tail) {
  return tail->n && r->prompt_len >= tail->n &&
         memcmp(r->tokens + r->prompt_len - tail->n, tail->ids, tail->n * sizeof *tail->ids) == 0;
}

/* Returns whether the model ended it by itself. */
static bool say_words(struct genrequest *r, const struct speech *s, struct speech_ask *ask) {
  struct speech_answer a;
  bool chat = r->api == GEN_CHAT;
  ask->header = s->header.n && (chat || ends_with(r, &s->opening));
  ask->show_header = !chat;
  speech_say(s, ask, &a);
  r->output_len = a.n;
  r->output = a.ids;
  r->shown = a.shown;
  r->text = a.text;
  r->hidden = a.hidden;
  r->thought = a.thought;
  return a.ended;
}

static int settle_answer(struct genrequest *r, const struct value *body,
                         const struct genmodel *model, struct apierror *e) {
  bool ignore_eos = false, skip_special = true;
  int64_t min = 0, seed = 0;
  int rc = genrequest_bool(body, "ignore_eos", &ignore_eos, e);
  if (!rc)
    rc = genrequest_bool(body, "skip_special_tokens", &skip_special, e);
  if (!rc)
    rc = genrequest_int(body, "min_tokens", 0, &min, e);
  if (!rc)
    rc = genrequest_int(body, "seed", INT64_MIN, &seed, e);
  if (!rc && min > r->max_tokens)
    rc = apierror_set(e, 400, "min_tokens",
                      "min_tokens must be less than or equal to max_tokens=%u, got %lld.",
                      r->max_tokens, (long long)min);
  if (rc)
    return rc;
  uint64_t key = babble_key(r->tokens, r->prompt_len, model->seed ^ (uint64_t)seed);
  uint32_t think = model->speech && model->speech->think.n ? model->reasoning_tokens : 0;
  int64_t natural = babble_length(key) + think;
  int64_t least = min + (model->speech && model->speech->has_eos); /* the end counts as a token */
  if (natural < least)
    natural = least;
  bool stops = !ignore_eos && natural <= r->max_tokens;
  struct speech_ask ask = {.key = key,
                           .natural = (uint32_t)natural,
                           .most = r->max_tokens,
                           .ends = stops,
                           .think = think,
                           .show_special = !skip_special};
  if (model->speech)
    stops = say_words(r, model->speech, &ask);
  else
    say_bytes(r, key, stops ? (uint32_t)natural : r->max_tokens);
  r->finish = stops ? "stop" : "length";
  r->visible = r->shown[r->output_len - 1];
  const struct value *stop = value_get(body, "stop");
  if (!is_absent(stop))
    rc = apply_stop(r, stop, (uint32_t)min, e);
  r->tokens = mem_resize(r->tokens, (size_t)r->prompt_len + r->output_len, sizeof *r->tokens);
  return rc;
}

int genrequest_parse(enum gen_api api, const char *body, size_t len, const struct genmodel *model,
                     struct genrequest *out, struct apierror *e) {
  *out = (struct genrequest){.api = api, .stream_interval = 1};
  struct value v;
  int rc = genrequest_object(body, len, &v, e);
  if (rc)
    return rc;
  rc = genrequest_check_model(&v, model, e);
  if (!rc)
    rc = refuse_unsupported(&v, e);
  if (!rc)
    rc = read_options(out, &v, e);
  if (!rc)
    rc = api == GEN_CHAT ? read_messages(out, &v, model, e) : read_prompt(out, &v, model, e);
  if (!rc)
    rc = read_limit(out, &v, model, e);
  if (!rc)
    rc = settle_answer(out, &v, model, e);
  value_free(&v);
  if (rc)
    genrequest_free(out);
  return rc;
}

void genrequest_free(struct genrequest *r) {
  mem_free(r->tokens);
  mem_free(r->output);
  mem_free(r->shown);
  mem_free(r->text);
  mem_free(r->stop);
  mem_free(r->salt);
  mem_free(r->request_id);
  *r = (struct genrequest){0};
}

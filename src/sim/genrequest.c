/* genrequest.c: reading a generation request the way vLLM does. */
#include "sim/genrequest.h"

#include <string.h>

#include "base/mem.h"
#include "sim/genanswer.h"
#include "sim/gencall.h"
#include "sim/genprompt.h"
#include "sim/logprobs.h"
#include "text/json.h"

enum { SALT_MAX = 1024 };

static bool is_set(const struct value *body, const char *name) {
  const struct value *v = value_get(body, name);
  return !reqfield_absent(v) && !(v->kind == VALUE_BOOL && !v->u.boolean);
}

/* ---- what is refused ---- */

/* Fields that would change the answer in ways a simulated replica does not follow. */
static int refuse_unsupported(const struct value *body, struct apierror *e) {
  static const char *const names[] = {"suffix", "use_beam_search", "prompt_embeds",
                                      "structured_outputs", "logit_bias"};
  for (size_t i = 0; i < ARRAY_LEN(names); i++)
    if (is_set(body, names[i]))
      return apierror_set(e, 400, names[i], "%s is not supported by this simulated replica",
                          names[i]);
  const char *format = value_to_string(value_get(value_get(body, "response_format"), "type"));
  if (format && strcmp(format, "text") != 0)
    return apierror_set(e, 400, "response_format",
                        "response_format of type %.40s is not supported by this simulated replica",
                        format);
  return 0;
}

/* Sampling changes nothing here, but a value that vLLM refuses is refused. */
static int check_sampling(const struct value *body, struct apierror *e) {
  static const struct {
    const char *name;
    double least, most;
    bool above; /* the least itself is refused */
    const char *rule;
  } rows[] = {
      {"temperature", 0, 1e9, false, "must be non-negative"},
      {"top_p", 0, 1, true, "must be in (0, 1]"},
      {"min_p", 0, 1, false, "must be in [0, 1]"},
      {"presence_penalty", -2, 2, false, "must be in [-2, 2]"},
      {"frequency_penalty", -2, 2, false, "must be in [-2, 2]"},
      {"repetition_penalty", 0, 1e9, true, "must be greater than zero"},
  };
  for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
    const struct value *v = value_get(body, rows[i].name);
    double x;
    if (reqfield_absent(v))
      continue;
    if (!value_to_double(v, &x))
      return apierror_set(e, 400, rows[i].name, "%s should be a number", rows[i].name);
    if (x < rows[i].least || x > rows[i].most || (rows[i].above && x == rows[i].least))
      return apierror_set(e, 400, rows[i].name, "%s %s, got %g.", rows[i].name, rows[i].rule, x);
  }
  return 0;
}

/* ---- prompts ---- */

static int check_size(uint64_t tokens, struct apierror *e) {
  if (tokens <= GENREQUEST_MAX_TOKENS)
    return 0;
  return apierror_set(
      e, 400, "n",
      "The choices of this request have more than %llu tokens in all, which is more "
      "than this simulated replica takes at once. Please ask for shorter texts or a "
      "lower n.",
      (unsigned long long)GENREQUEST_MAX_TOKENS);
}

static void add_prompt(struct genrequest *r, uint32_t *ids, uint32_t n) {
  assert(ids && n);
  r->choices = mem_resize(r->choices, (size_t)r->n_choices + r->n, sizeof *r->choices);
  for (uint32_t i = 0; i < r->n; i++) {
    struct genchoice *c = &r->choices[r->n_choices++];
    *c = (struct genchoice){.tokens = ids, .prompt_len = n};
    if (i) { /* each choice has its own: the engine appends to it */
      c->tokens = mem_calloc(n + 1u, sizeof *c->tokens);
      memcpy(c->tokens, ids, n * sizeof *c->tokens);
    }
  }
}

static int read_messages(struct genrequest *r, const struct value *body,
                         const struct genmodel *model, struct apierror *e) {
  struct tokens_list list = {0};
  int rc = genprompt_chat(model, body, &list, e);
  if (!rc && !list.n)
    rc = apierror_set(e, 400, "messages", "the chat template made an empty prompt of the messages");
  if (!rc && r->n > 1)
    rc = check_size((uint64_t)list.n * r->n, e);
  if (rc)
    tokens_list_free(&list);
  else
    add_prompt(r, list.ids, (uint32_t)list.n);
  return rc;
}

/* The prompt's text as `echo` repeats it: none beside ids that the client asked for. */
static int set_echo(struct genrequest *r, uint32_t first, const struct value *p,
                    const struct genmodel *model, struct apierror *e) {
  struct buf text;
  struct err err;
  int rc = 0;
  buf_init(&text, BUF_MAX_OWN);
  const struct genchoice *c = &r->choices[first];
  if (p->kind == VALUE_STRING && !r->return_token_ids)
    buf_put(&text, p->u.string.data, p->u.string.len);
  else if (!r->return_token_ids &&
           tokens_decode(model->tokenizer, c->tokens, c->prompt_len, &text, &err))
    rc = apierror_set(e, 400, "prompt", "%s", err.text);
  for (uint32_t i = first; !rc && i < r->n_choices; i++) {
    r->choices[i].echo = mem_strndup(text.data ? text.data : "", text.len);
    r->choices[i].echo_len = text.len;
  }
  buf_free(&text);
  return rc;
}

static int read_one(struct genrequest *r, const struct value *body, const struct value *p,
                    const struct genmodel *model, struct apierror *e) {
  struct tokens_list list = {0};
  uint32_t *ids = NULL, n = 0;
  int rc;
  if (p->kind == VALUE_STRING) {
    rc = genprompt_text(model, body, p, &list, e);
    ids = list.ids;
    n = (uint32_t)list.n;
  } else if (p->kind == VALUE_ARRAY) {
    rc = reqfield_tokens(p, "prompt", model, &ids, &n, e);
  } else {
    rc = apierror_set(e, 400, "prompt",
                      "prompt should be a string, a list of strings, a list of token ids or a list "
                      "of such lists");
  }
  if (!rc && !n)
    rc = apierror_set(e, 400, "prompt", "prompt should not be empty");
  if (!rc && r->n > 1)
    rc = check_size((uint64_t)n * r->n, e); /* before they are copied */
  if (rc)
    mem_free(ids);
  else
    add_prompt(r, ids, n);
  return rc;
}

static int read_prompts(struct genrequest *r, const struct value *body,
                        const struct genmodel *model, struct apierror *e) {
  const struct value *p = value_get(body, "prompt");
  bool echo = false;
  if (reqfield_absent(p))
    return apierror_set(e, 400, "prompt", "prompt: field required");
  int rc = reqfield_bool(body, "echo", &echo, e);
  if (rc)
    return rc;
  const struct value *first = value_at(p, 0);
  bool list = p->kind == VALUE_ARRAY && first &&
              (first->kind == VALUE_STRING || first->kind == VALUE_ARRAY);
  size_t n = list ? value_count(p) : 1;
  if (n * r->n > GENREQUEST_MAX_CHOICES)
    return apierror_set(e, 400, "prompt",
                        "%zu prompts with n=%u are %zu choices; this simulated replica gives at "
                        "most %d a request",
                        n, r->n, n * r->n, GENREQUEST_MAX_CHOICES);
  for (size_t i = 0; !rc && i < n; i++) {
    uint32_t at = r->n_choices;
    const struct value *one = list ? value_at(p, i) : p;
    rc = read_one(r, body, one, model, e);
    if (!rc && echo)
      rc = set_echo(r, at, one, model, e);
  }
  return rc;
}

/* truncate_prompt_tokens keeps the last of them; −1: as many as the context takes. */
static int truncate(struct genrequest *r, const struct value *body, const struct genmodel *model,
                    struct apierror *e) {
  int64_t most = 0;
  int rc = reqfield_int(body, "truncate_prompt_tokens", -1, &most, e);
  if (rc || reqfield_absent(value_get(body, "truncate_prompt_tokens")))
    return rc;
  if (most > model->max_model_len)
    return apierror_set(e, 400, "truncate_prompt_tokens",
                        "truncate_prompt_tokens value (%lld) is greater than max_model_len (%u). "
                        "Please, select a smaller truncation size.",
                        (long long)most, model->max_model_len);
  if (most == 0)
    return apierror_set(e, 400, "truncate_prompt_tokens",
                        "truncate_prompt_tokens should be -1 or at least 1");
  for (uint32_t i = 0; i < r->n_choices; i++) {
    struct genchoice *c = &r->choices[i];
    uint32_t keep = most < 0 ? model->max_model_len - 1 : (uint32_t)most;
    if (c->prompt_len <= keep)
      continue;
    memmove(c->tokens, c->tokens + c->prompt_len - keep, keep * sizeof *c->tokens);
    c->prompt_len = keep;
  }
  return 0;
}

/* ---- options ---- */

static int read_stream(struct genrequest *r, const struct value *body, struct apierror *e) {
  int rc = reqfield_bool(body, "stream", &r->stream, e);
  const struct value *o = value_get(body, "stream_options");
  if (rc || reqfield_absent(o))
    return rc;
  if (!r->stream)
    return apierror_set(e, 400, "stream_options",
                        "Stream options can only be defined when `stream=True`.");
  if (o->kind != VALUE_OBJECT)
    return apierror_set(e, 400, "stream_options", "stream_options should be an object");
  rc = reqfield_bool(o, "include_usage", &r->include_usage, e);
  if (!rc)
    rc = reqfield_bool(o, "continuous_usage_stats", &r->continuous_usage, e);
  r->continuous_usage = r->continuous_usage && r->include_usage;
  return rc;
}

static int read_salt(struct genrequest *r, const struct value *body, struct apierror *e) {
  int rc = reqfield_string(body, "cache_salt", &r->salt, e);
  if (rc || !r->salt)
    return rc;
  size_t len = strlen(r->salt), characters = 0;
  for (size_t i = 0; i < len; i++)
    characters += ((unsigned char)r->salt[i] & 0xc0) != 0x80;
  if (!len || characters > SALT_MAX || len != value_get(body, "cache_salt")->u.string.len)
    return apierror_set(e, 400, "cache_salt",
                        "cache_salt should have 1 to %d characters, without NUL", SALT_MAX);
  return 0;
}

static int read_transfer(struct genrequest *r, const struct value *body, struct apierror *e) {
  const struct value *v = value_get(body, "kv_transfer_params");
  int64_t tokens = 0;
  if (reqfield_absent(v))
    return 0;
  if (v->kind != VALUE_OBJECT)
    return apierror_set(e, 400, "kv_transfer_params", "kv_transfer_params should be an object");
  int rc = reqfield_bool(v, "do_remote_decode", &r->remote_decode, e);
  if (!rc)
    rc = reqfield_bool(v, "do_remote_prefill", &r->remote_prefill, e);
  if (!rc)
    rc = reqfield_string(v, "remote_engine_id", &r->remote_engine, e);
  if (!rc)
    rc = reqfield_string(v, "remote_request_id", &r->remote_request, e);
  if (!rc)
    rc = reqfield_int(v, "remote_num_tokens", 0, &tokens, e);
  r->remote_tokens = (uint32_t)(tokens < UINT32_MAX ? tokens : UINT32_MAX);
  r->remote_prefill = r->remote_prefill && r->remote_engine && r->remote_request;
  return rc;
}

static int read_n(struct genrequest *r, const struct value *body, struct apierror *e) {
  int64_t n = 1;
  double temperature = 1;
  int rc = reqfield_int(body, "n", 1, &n, e);
  (void)value_to_double(value_get(body, "temperature"), &temperature);
  if (!rc && n > GENREQUEST_MAX_CHOICES)
    rc = apierror_set(e, 400, "n", "n must be at most %d, got %lld.", GENREQUEST_MAX_CHOICES,
                      (long long)n);
  if (!rc && n > 1 && temperature < 1e-5)
    rc = apierror_set(e, 400, "n", "n must be 1 when using greedy sampling, got %lld.",
                      (long long)n);
  if (!rc)
    r->n = (uint32_t)n;
  return rc;
}

static bool is_text(enum gen_api api) {
  return api == GEN_COMPLETION || api == GEN_NATIVE;
}

static int read_options(struct genrequest *r, const struct value *body,
                        const struct genmodel *model, struct apierror *e) {
  int64_t interval = 0;
  int rc = read_n(r, body, e);
  if (!rc)
    rc = read_stream(r, body, e);
  bool echo = false;
  if (!rc && is_text(r->api))
    rc = reqfield_bool(body, "echo", &echo, e);
  if (!rc)
    rc = logprobs_read(body, r->api, r->stream, echo, model, &r->logprobs, e);
  if (!rc)
    rc = reqfield_int(body, "stream_interval", 1, &interval, e);
  if (!rc)
    rc = reqfield_bool(body, "return_token_ids", &r->return_token_ids, e);
  if (!rc)
    rc = reqfield_bool(body, "return_progress", &r->progress, e);
  r->ping_s = GENREQUEST_NO_PING;
  if (!rc)
    rc = reqfield_int(body, "sse_ping_interval", -1, &r->ping_s, e);
  if (!rc)
    rc = reqfield_string(body, "request_id", &r->request_id, e);
  if (!rc)
    rc = read_salt(r, body, e);
  if (!rc)
    rc = read_transfer(r, body, e);
  r->stream_interval = (uint32_t)(interval < INT32_MAX ? interval : INT32_MAX);
  return rc;
}

/* ---- lengths ---- */

/* What the request asks for; −1: all that the context leaves. */
static int read_wanted(struct genrequest *r, const struct value *body, int64_t *wanted,
                       struct apierror *e) {
  bool alone = r->choices[0].echo != NULL; /* then 0 will do: the prompt is the answer */
  *wanted = r->api == GEN_COMPLETION ? 16 : -1;
  int rc = reqfield_int(body, "max_tokens", alone ? 0 : 1, wanted, e);
  if (!rc && !is_text(r->api))
    rc = reqfield_int(body, "max_completion_tokens", 1, wanted, e);
  r->echo_alone = *wanted == 0;
  if (*wanted == 0)
    *wanted = 1; /* vLLM samples one, and shows it to nobody */
  return rc;
}

static int set_limit(struct genchoice *c, int64_t wanted, bool gives_way, uint32_t longest,
                     struct apierror *e) {
  if (c->prompt_len >= longest)
    return apierror_set(e, 400, "input_tokens",
                        "This model's maximum context length is %u tokens. However, your request "
                        "has %u input tokens. Please reduce the length of the input messages.",
                        longest, c->prompt_len);
  int64_t left = (int64_t)longest - c->prompt_len;
  if (gives_way && wanted > left)
    wanted = left;
  if (wanted > left)
    return apierror_set(e, 400, "max_tokens",
                        "'max_tokens' or 'max_completion_tokens' is too large: %lld. This model's "
                        "maximum context length is %u tokens and your request has %u input tokens "
                        "(%lld > %u - %u).",
                        (long long)wanted, longest, c->prompt_len, (long long)wanted, longest,
                        c->prompt_len);
  c->max_tokens = (uint32_t)(wanted < 0 ? left : wanted);
  return 0;
}

/* Choices from number `first` on. */
static int settle(struct genrequest *r, uint32_t first, const struct value *body,
                  const struct genmodel *model, struct apierror *e) {
  struct genanswer_ask ask;
  struct gencall_ask calls = {0};
  int64_t wanted = -1;
  int rc = truncate(r, body, model, e);
  if (!rc)
    rc = read_wanted(r, body, &wanted, e);
  if (!rc)
    rc = genanswer_read(body, &ask, e);
  if (!rc && !is_text(r->api))
    rc = gencall_read(body, model, &calls, e);
  /* The completions default of 16 is no wish: it gives way to the context. So do the other APIs'.
   */
  bool gives_way = r->api == GEN_NATIVE ||
                   (r->api == GEN_COMPLETION && reqfield_absent(value_get(body, "max_tokens")));
  uint64_t tokens = 0;
  for (uint32_t i = first; !rc && i < r->n_choices; i++) {
    struct genchoice *c = &r->choices[i];
    rc = set_limit(c, wanted, gives_way, model->max_model_len, e);
    uint64_t key = rc ? 0 : genanswer_key(c, i % r->n, &ask, model);
    const struct value *tool = rc ? NULL : gencall_tool(&calls, model, key);
    if (!rc && tool)
      rc = gencall_settle(c, body, tool, key, model, e);
    else if (!rc)
      rc = genanswer_settle(c, r->api, i % r->n, &ask, model, e);
    if (!rc)
      rc = check_size(tokens += (uint64_t)c->prompt_len + c->output_len, e);
    if (!rc && r->echo_alone)
      c->visible = 0;
  }
  return rc ? rc : logprobs_check(r, e);
}

int genrequest_read(enum gen_api api, const struct value *body, const struct genmodel *model,
                    struct genrequest *out, struct apierror *e) {
  *out = (struct genrequest){.api = api, .n = 1};
  int rc = reqfield_model(body, model, e);
  const char *adapter = rc ? NULL : reqfield_adapter(body, model);
  out->adapter = adapter ? mem_strdup(adapter) : NULL;
  if (!rc)
    rc = refuse_unsupported(body, e);
  if (!rc)
    rc = check_sampling(body, e);
  if (!rc)
    rc = read_options(out, body, model, e);
  if (!rc)
    rc = is_text(api) ? read_prompts(out, body, model, e) : read_messages(out, body, model, e);
  if (!rc)
    rc = settle(out, 0, body, model, e);
  if (rc)
    genrequest_free(out);
  return rc;
}

int genrequest_parse(enum gen_api api, const char *body, size_t len, const struct genmodel *model,
                     struct genrequest *out, struct apierror *e) {
  struct value v;
  *out = (struct genrequest){.api = api};
  int rc = reqfield_object(body, len, &v, e);
  if (rc)
    return rc;
  rc = genrequest_read(api, &v, model, out, e);
  value_free(&v);
  return rc;
}

static void choice_free(struct genchoice *c) {
  mem_free(c->tokens);
  mem_free(c->output);
  mem_free(c->shown);
  mem_free(c->text);
  mem_free(c->stop);
  mem_free(c->echo);
  mem_free(c->call_name);
  mem_free(c->call_id);
  mem_free(c->call_result);
}

int genrequest_next(struct genrequest *r, const struct value *body, const struct genmodel *model,
                    struct apierror *e) {
  uint32_t before = r->n_choices;
  int rc = read_messages(r, body, model, e);
  if (!rc)
    rc = settle(r, before, body, model, e);
  while (rc && r->n_choices > before)
    choice_free(&r->choices[--r->n_choices]);
  return rc;
}

void genrequest_free(struct genrequest *r) {
  for (uint32_t i = 0; i < r->n_choices; i++)
    choice_free(&r->choices[i]);
  mem_free(r->choices);
  mem_free(r->salt);
  mem_free(r->adapter);
  mem_free(r->request_id);
  mem_free(r->remote_engine);
  mem_free(r->remote_request);
  *r = (struct genrequest){0};
}

void genrequest_cut(struct genchoice *c, uint32_t n, const char *finish) {
  c->output_len = n;
  c->visible = n && c->visible ? (c->shown[n - 1] < c->visible ? c->shown[n - 1] : c->visible) : 0;
  c->finish = finish;
  mem_free(c->stop);
  c->stop = NULL;
}

uint32_t genrequest_prompt_tokens(const struct genrequest *r) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < r->n_choices; i += r->n)
    n += r->choices[i].prompt_len;
  return n;
}

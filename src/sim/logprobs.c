/* logprobs.c: see logprobs.h. */
#include "sim/logprobs.h"

#include <string.h>

#include "sim/babble.h"
#include "text/json.h"

enum { MOST = 20 };

/* ---- what is asked for ---- */

static int check_most(int64_t n, const char *what, const char *field, struct apierror *e) {
  if (n <= MOST)
    return 0;
  return apierror_set(e, 400, field,
                      "Requested %s logprobs of %lld, which is greater than max allowed: %d", what,
                      (long long)n, MOST);
}

static int read_number(const struct value *body, const char *name, int64_t *out,
                       struct apierror *e) {
  *out = -1;
  return reqfield_int(body, name, INT64_MIN, out, e);
}

static int read_prompt(const struct value *body, bool stream, const struct genmodel *model,
                       struct logprobs_ask *out, struct apierror *e) {
  static const char name[] = "prompt_logprobs";
  int64_t n;
  if (reqfield_absent(value_get(body, name)))
    return 0;
  if (read_number(body, name, &n, e))
    return ERR_INVALID;
  if (stream && (n > 0 || n == -1))
    return apierror_set(e, 400, name, "`prompt_logprobs` are not available when `stream=True`.");
  if (n < -1)
    return apierror_set(e, 400, name, "`prompt_logprobs` must be a positive value or -1.");
  if (check_most(n == -1 ? (int64_t)model->tokenizer->vocab_size : n, "prompt", name, e))
    return ERR_INVALID;
  out->prompt = stream ? -1 : (int)n;
  return 0;
}

static int read_chat(const struct value *body, struct logprobs_ask *out, struct apierror *e) {
  int64_t n = 0;
  bool on = false;
  int rc = reqfield_bool(body, "logprobs", &on, e);
  if (!rc && !reqfield_absent(value_get(body, "top_logprobs")))
    rc = read_number(body, "top_logprobs", &n, e);
  if (rc)
    return rc;
  if (n < 0)
    return apierror_set(e, 400, "top_logprobs", "`top_logprobs` must be a positive value.");
  if (n > 0 && !on)
    return apierror_set(e, 400, "top_logprobs",
                        "when using `top_logprobs`, `logprobs` must be set to true.");
  out->output = on ? (int)(n <= MOST ? n : 0) : -1;
  return check_most(n, "sample", "top_logprobs", e);
}

bool logprobs_included(const struct value *body) {
  const struct value *include = value_get(body, "include");
  for (size_t i = 0; i < value_count(include); i++) {
    const char *what = value_to_string(value_at(include, i));
    if (what && strcmp(what, "message.output_text.logprobs") == 0)
      return true;
  }
  return false;
}

static int read_responses(const struct value *body, struct logprobs_ask *out, struct apierror *e) {
  int64_t n = 0;
  int rc = reqfield_int(body, "top_logprobs", 0, &n, e);
  if (!rc)
    rc = check_most(n, "sample", "top_logprobs", e);
  out->output = !rc && logprobs_included(body) ? (int)n : -1;
  return rc;
}

static int read_completion(const struct value *body, struct logprobs_ask *out, struct apierror *e) {
  int64_t n;
  if (reqfield_absent(value_get(body, "logprobs")))
    return 0;
  int rc = read_number(body, "logprobs", &n, e);
  if (!rc && n < 0)
    rc = apierror_set(e, 400, "logprobs", "`logprobs` must be a positive value.");
  if (!rc)
    rc = check_most(n, "sample", "logprobs", e);
  out->output = rc ? -1 : (int)n;
  return rc;
}

int logprobs_read(const struct value *body, enum gen_api api, bool stream, bool echo,
                  const struct genmodel *model, struct logprobs_ask *out, struct apierror *e) {
  *out = (struct logprobs_ask){.output = -1, .prompt = -1};
  int rc = reqfield_bool(body, "return_tokens_as_token_ids", &out->as_ids, e);
  if (!rc)
    rc = read_prompt(body, stream, model, out, e);
  if (!rc && api == GEN_COMPLETION)
    rc = read_completion(body, out, e);
  else if (!rc && api == GEN_CHAT)
    rc = read_chat(body, out, e);
  else if (!rc)
    rc = read_responses(body, out, e);
  if (!rc && echo && out->prompt < 0)
    out->prompt = out->output;
  out->echo = echo;
  return rc;
}

/* What one place of a list costs: the token itself and the likeliest ones; 0: there is no list. */
static uint64_t cost(int likeliest) {
  return likeliest < 0 ? 0 : (uint64_t)likeliest + 1;
}

/* A stream's output is told step by step (interval 0: the server's, which is short), but that of
 * Responses ends with all of it. Of chat the prompt's list is there once. */
int logprobs_check(const struct genrequest *r, struct apierror *e) {
  const struct logprobs_ask *ask = &r->logprobs;
  bool by_steps = r->stream && r->api != GEN_RESPONSES;
  uint64_t n = 0;
  for (uint32_t i = 0; i < r->n_choices; i++) {
    const struct genchoice *c = &r->choices[i];
    if (r->api == GEN_COMPLETION || !i)
      n += c->prompt_len * cost(ask->prompt);
    if (ask->echo)
      n += c->prompt_len * cost(ask->output);
    uint32_t at_once =
        by_steps && r->stream_interval < c->output_len ? r->stream_interval : c->output_len;
    n += at_once * cost(ask->output);
  }
  if (n <= LOGPROBS_MOST)
    return 0;
  return apierror_set(e, 400, "logprobs",
                      "This reply would hold %llu log-probabilities; this simulated replica gives "
                      "at most %llu in one. Please ask for a shorter text, a lower n or fewer "
                      "logprobs.",
                      (unsigned long long)n, (unsigned long long)LOGPROBS_MOST);
}

/* ---- what is told ---- */

/* The tokens at a place, from the likeliest on: number 0 is the token itself, the others are the
 * ids behind it, each less likely than the one before. */
struct ladder {
  uint32_t id, vocab;
  uint32_t first, place; /* what the distances are drawn from */
  uint32_t milli;        /* thousandths below 0 */
};

static void ladder_down(struct ladder *l) {
  l->milli += (uint32_t)(1 + babble_mix((uint64_t)l->first << 32 ^ l->place++) % 1500);
}

static struct ladder ladder_at(const struct reply *r, uint32_t id, uint32_t place) {
  uint32_t vocab = (uint32_t)r->o.model_of->tokenizer->vocab_size;
  struct ladder l = {.id = id % vocab, .vocab = vocab, .first = id, .place = place};
  ladder_down(&l);
  return l;
}

static void ladder_next(struct ladder *l) {
  l->id = l->id + 1 < l->vocab ? l->id + 1 : 0;
  ladder_down(l);
}

/* By hand: there are millions of them. */
static void put_logprob(const struct ladder *l, struct buf *out) {
  uint32_t rest = l->milli % 1000;
  char part[4] = {'.', (char)('0' + rest / 100), (char)('0' + rest / 10 % 10),
                  (char)('0' + rest % 10)};
  buf_putc(out, '-');
  buf_put_uint(out, l->milli / 1000);
  buf_put(out, part, sizeof part);
}

static void token_text(const struct reply *r, uint32_t id, bool as_id, struct buf *out) {
  struct err err;
  buf_reset(out);
  if (as_id) {
    buf_printf(out, "token_id:%u", id);
    return;
  }
  int rc = tokens_decode(r->o.model_of->tokenizer, &id, 1, out, &err);
  if (rc || json_utf8_valid(out->data ? out->data : "", out->len) != out->len) {
    buf_reset(out);
    buf_puts(out, "\xef\xbf\xbd"); /* U+FFFD: no character by itself */
  }
}

static void put_text(struct buf *text, struct buf *out) {
  json_write_string(out, text->data ? text->data : "", text->len);
}

/* `{"token":…,"logprob":…,"bytes":[…]`, open. */
static void put_entry(const struct reply *r, const struct ladder *l, bool bytes, struct buf *text,
                      struct buf *out) {
  token_text(r, l->id, r->request->logprobs.as_ids, text);
  buf_puts(out, "{\"token\":");
  put_text(text, out);
  buf_puts(out, ",\"logprob\":");
  put_logprob(l, out);
  if (!bytes)
    return;
  buf_puts(out, ",\"bytes\":[");
  token_text(r, l->id, false, text);
  for (size_t i = 0; i < text->len; i++) {
    buf_puts(out, i ? "," : "");
    buf_put_uint(out, (unsigned char)text->data[i]);
  }
  buf_putc(out, ']');
}

static void put_entries(const struct reply *r, const struct genchoice *c, uint32_t from,
                        uint32_t to, bool bytes, struct buf *text, struct buf *out) {
  for (uint32_t i = from; i < to; i++) {
    struct ladder l = ladder_at(r, c->output[i], i);
    buf_puts(out, i > from ? "," : "");
    put_entry(r, &l, bytes, text, out);
    buf_puts(out, ",\"top_logprobs\":[");
    for (int k = 0; k < r->request->logprobs.output; k++, ladder_next(&l)) {
      buf_puts(out, k ? "," : "");
      put_entry(r, &l, bytes, text, out);
      buf_putc(out, '}');
    }
    buf_puts(out, "]}");
  }
}

static void put_chat(const struct reply *r, const struct genchoice *c, uint32_t from, uint32_t to,
                     struct buf *text, struct buf *out) {
  buf_puts(out, "{\"content\":[");
  put_entries(r, c, from, to, true, text, out);
  buf_puts(out, "]}");
}

void logprobs_put_list(const struct reply *r, const struct genchoice *c, uint32_t from, uint32_t to,
                       bool bytes, struct buf *out) {
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  buf_putc(out, '[');
  if (r->request->logprobs.output >= 0 && !r->o.hide)
    put_entries(r, c, from, to, bytes, &text, out);
  buf_putc(out, ']');
  buf_free(&text);
}

/* The tokens of a completion's lists: an echoed prompt, then the output. */
struct span {
  const struct genchoice *c;
  uint32_t prompt, from, n; /* n: of both */
};

static uint32_t id_at(const struct span *s, uint32_t i) {
  return i < s->prompt ? s->c->tokens[i] : s->c->output[s->from + i - s->prompt];
}

static void put_top(const struct reply *r, uint32_t id, uint32_t place, struct buf *text,
                    struct buf *out) {
  int n = r->request->logprobs.output;
  struct ladder l = ladder_at(r, id, place);
  buf_putc(out, '{');
  for (int k = 0; k < (n > 0 ? n : 1); k++, ladder_next(&l)) {
    token_text(r, l.id, r->request->logprobs.as_ids, text);
    buf_puts(out, k ? "," : "");
    put_text(text, out);
    buf_putc(out, ':');
    put_logprob(&l, out);
  }
  buf_putc(out, '}');
}

/* The first token of a prompt has none: null. */
static void put_lists(const struct reply *r, const struct span *s, struct buf *text,
                      struct buf *out) {
  size_t at = s->from ? s->c->shown[s->from - 1] + s->c->echo_len : 0;
  buf_puts(out, "{\"text_offset\":[");
  for (uint32_t i = 0; i < s->n; i++) {
    buf_puts(out, i ? "," : "");
    buf_put_uint(out, at);
    token_text(r, id_at(s, i), false, text);
    at += text->len;
  }
  buf_puts(out, "],\"token_logprobs\":[");
  for (uint32_t i = 0; i < s->n; i++) {
    struct ladder l = ladder_at(r, id_at(s, i), s->from + i);
    buf_puts(out, i ? "," : "");
    if (s->prompt && !i)
      buf_puts(out, "null");
    else
      put_logprob(&l, out);
  }
  buf_puts(out, "],\"tokens\":[");
  for (uint32_t i = 0; i < s->n; i++) {
    buf_puts(out, i ? "," : "");
    token_text(r, id_at(s, i), r->request->logprobs.as_ids, text);
    put_text(text, out);
  }
  buf_puts(out, "],\"top_logprobs\":[");
  for (uint32_t i = 0; i < s->n; i++) {
    buf_puts(out, i ? "," : "");
    if (s->prompt && !i)
      buf_puts(out, "null");
    else
      put_top(r, id_at(s, i), s->from + i, text, out);
  }
  buf_puts(out, "]}");
}

void logprobs_put(const struct reply *r, const struct genchoice *c, uint32_t from, uint32_t to,
                  struct buf *out) {
  const struct logprobs_ask *ask = &r->request->logprobs;
  struct span s = {.c = c, .from = from};
  struct buf text;
  buf_puts(out, ",\"logprobs\":");
  s.prompt = ask->echo && !from ? c->prompt_len : 0;
  s.n = s.prompt + (r->request->echo_alone ? 0 : to - from);
  if (ask->output < 0 || r->o.hide || !s.n) {
    buf_puts(out, "null");
    return;
  }
  buf_init(&text, BUF_MAX_OWN);
  if (r->request->api == GEN_CHAT)
    put_chat(r, c, from, to, &text, out);
  else
    put_lists(r, &s, &text, out);
  buf_free(&text);
}

void logprobs_put_prompt(const struct reply *r, const struct genchoice *c, struct buf *out) {
  int n = r->request->logprobs.prompt;
  struct buf text;
  buf_puts(out, ",\"prompt_logprobs\":");
  if (n < 0 || r->o.hide) {
    buf_puts(out, "null");
    return;
  }
  buf_init(&text, BUF_MAX_OWN);
  buf_puts(out, "[null");
  for (uint32_t i = 1; i < c->prompt_len; i++) {
    struct ladder l = ladder_at(r, c->tokens[i], i);
    buf_puts(out, ",{");
    for (int k = 0; k < (n > 0 ? n : 1); k++, ladder_next(&l)) {
      token_text(r, l.id, false, &text);
      buf_puts(out, k ? ",\"" : "\"");
      buf_put_uint(out, l.id);
      buf_puts(out, "\":{\"logprob\":");
      put_logprob(&l, out);
      buf_puts(out, ",\"rank\":");
      buf_put_int(out, k + 1);
      buf_puts(out, ",\"decoded_token\":");
      put_text(&text, out);
      buf_putc(out, '}');
    }
    buf_putc(out, '}');
  }
  buf_putc(out, ']');
  buf_free(&text);
}

/* reply_native.c: SGLang's /generate and llama.cpp's /completion (native.h).
 *
 * SGLang's events have all of the text so far, and its ids; llama.cpp's have what is new, the last
 * one the whole request's figures and no end marker behind it. */
#include <string.h>

#include "sim/face.h"
#include "sim/native.h"
#include "text/json.h"

static uint32_t shown(const struct reply *r, const struct genchoice *c, uint32_t n) {
  return r->o.hide ? 0 : reply_shown(c, n);
}

static void end_event(enum truth_kind kind, struct events *ev) {
  buf_puts(&ev->bytes, "\n\n");
  events_end(ev, kind);
}

/* ---- SGLang ---- */

static void put_finish(const struct genchoice *c, struct buf *out) {
  buf_printf(out, "{\"type\":\"%s\"", c->finish);
  if (strcmp(c->finish, "length") == 0)
    buf_printf(out, ",\"length\":%u", c->output_len);
  else if (strcmp(c->finish, "abort") == 0)
    buf_puts(out, ",\"message\":\"Aborted\"");
  else if (c->stop) {
    buf_puts(out, ",\"matched\":");
    json_write_string(out, c->stop, strlen(c->stop));
  } else { /* the token that ended it */
    buf_printf(out, ",\"matched\":%u", c->output[c->output_len - 1]);
  }
  buf_putc(out, '}');
}

/* A choice after n of its tokens. */
static void put_generated(const struct reply *r, uint32_t i, uint32_t n, bool last,
                          const struct reply_facts *f, struct buf *out) {
  const struct genchoice *c = &r->request->choices[i];
  buf_puts(out, "{\"text\":");
  reply_put_part(c, 0, shown(r, c, n), false, out);
  buf_puts(out, ",\"output_ids\":");
  reply_put_ids(c->output, r->o.hide ? 0 : n, out);
  buf_puts(out, ",\"meta_info\":{");
  reply_put_string("id", r->o.id, out);
  buf_puts(out, ",\"finish_reason\":");
  if (last)
    put_finish(c, out);
  else
    buf_puts(out, "null");
  if (!r->o.no_usage)
    buf_printf(out,
               ",\"prompt_tokens\":%u,\"weight_version\":\"default\",\"total_retractions\":0,"
               "\"completion_tokens\":%u,\"cached_tokens\":%u",
               c->prompt_len, n, c->cached);
  if (last)
    buf_printf(out, ",\"e2e_latency\":%.6f",
               (double)(f->queue_ns + f->prefill_ns + f->decode_ns) / 1e9);
  buf_putc(out, '}');
  if (r->request->list)
    buf_printf(out, ",\"index\":%u", i);
  buf_putc(out, '}');
}

static void generate_tokens(struct reply *r, uint32_t choice, uint32_t from, uint32_t to, bool last,
                            const struct reply_facts *f, struct events *ev) {
  const struct genchoice *c = &r->request->choices[choice];
  buf_puts(&ev->bytes, "data: ");
  put_generated(r, choice, to, last, f, &ev->bytes);
  reply_say(c, shown(r, c, from), shown(r, c, to), !r->o.hide && to > from, ev);
  end_event(last ? TRUTH_FINISH : TRUTH_CONTENT, ev);
}

static void generate_end(struct reply *r, const struct reply_facts *f, struct events *ev) {
  (void)r;
  (void)f;
  buf_puts(&ev->bytes, "data: [DONE]");
  end_event(TRUTH_DONE, ev);
}

static void generate_error(struct reply *r, const struct apierror *e, struct events *ev) {
  buf_puts(&ev->bytes, "data: ");
  native_refusal(FACE_SGLANG, e, &ev->bytes);
  end_event(TRUTH_ERROR, ev);
  generate_end(r, NULL, ev);
}

static void generate_whole(struct reply *r, const struct reply_facts *f, struct buf *out) {
  const struct genrequest *q = r->request;
  buf_puts(out, q->list ? "[" : "");
  for (uint32_t i = 0; i < q->n_choices; i++) {
    buf_puts(out, i ? "," : "");
    put_generated(r, i, q->choices[i].output_len, true, f, out);
  }
  buf_puts(out, q->list ? "]" : "");
}

const struct reply_form reply_generate = {.name = "generate",
                                          .kind = FACE_SGLANG,
                                          .tokens = generate_tokens,
                                          .end = generate_end,
                                          .error = generate_error,
                                          .whole = generate_whole};

/* ---- llama.cpp ---- */

static const char *stop_type(const struct genchoice *c) {
  return c->stop                            ? "word"
         : strcmp(c->finish, "stop") == 0   ? "eos"
         : strcmp(c->finish, "length") == 0 ? "limit"
                                            : "none";
}

static void put_prompt(const struct reply *r, const struct genchoice *c, struct buf *out) {
  struct buf text;
  struct err err;
  buf_init(&text, BUF_MAX_OWN);
  if (tokens_decode(r->o.model_of->tokenizer, c->tokens, c->prompt_len, &text, &err))
    buf_reset(&text);
  json_write_string(out, text.data ? text.data : "", text.len);
  buf_free(&text);
}

/* The figures of a choice: behind its text and tokens. */
static void put_summary(const struct reply *r, const struct genchoice *c,
                        const struct reply_facts *f, struct buf *out) {
  buf_puts(out, ",\"id_slot\":0,\"stop\":true,");
  reply_put_string("model", r->o.model, out);
  buf_printf(out,
             ",\"tokens_predicted\":%u,\"tokens_evaluated\":%u,\"generation_settings\":{"
             "\"n_predict\":%u,\"stream\":%s},\"prompt\":",
             c->output_len, c->prompt_len, c->max_tokens, r->request->stream ? "true" : "false");
  put_prompt(r, c, out);
  buf_printf(out, ",\"has_new_line\":%s,\"truncated\":false,\"stop_type\":\"%s\",",
             memchr(c->text, '\n', c->visible) ? "true" : "false", stop_type(c));
  reply_put_string("stopping_word", c->stop ? c->stop : "", out);
  /* the last token has no KV */
  buf_printf(out, ",\"tokens_cached\":%u", c->prompt_len + c->output_len - 1);
  reply_put_timings(r, f, out);
  buf_putc(out, '}');
}

static void put_new(const struct reply *r, uint32_t choice, uint32_t from, uint32_t to,
                    const struct reply_progress *progress, struct events *ev) {
  const struct genchoice *c = &r->request->choices[choice];
  struct buf *out = &ev->bytes;
  buf_printf(out, "data: {\"index\":%u,\"content\":", choice);
  reply_put_part(c, shown(r, c, from), shown(r, c, to), false, out);
  buf_puts(out, ",\"tokens\":");
  reply_put_ids(c->output + from, r->o.hide ? 0 : to - from, out);
  buf_printf(out, ",\"stop\":false,\"id_slot\":0,\"tokens_predicted\":%u,\"tokens_evaluated\":%u",
             to, c->prompt_len);
  if (progress)
    reply_put_progress(progress, out);
  buf_putc(out, '}');
  reply_say(c, shown(r, c, from), shown(r, c, to), !r->o.hide && to > from, ev);
  end_event(progress ? TRUTH_ROLE : TRUTH_CONTENT, ev);
}

static void completion_progress(struct reply *r, uint32_t choice, const struct reply_progress *p,
                                struct events *ev) {
  put_new(r, choice, 0, 0, p, ev);
}

static void completion_tokens(struct reply *r, uint32_t choice, uint32_t from, uint32_t to,
                              bool last, const struct reply_facts *f, struct events *ev) {
  if (to > from && !r->o.hide)
    put_new(r, choice, from, to, NULL, ev);
  if (!last)
    return;
  buf_printf(&ev->bytes, "data: {\"index\":%u,\"content\":\"\",\"tokens\":[]", choice);
  put_summary(r, &r->request->choices[choice], f, &ev->bytes);
  end_event(TRUTH_FINISH, ev);
}

/* No end marker on this route. */
static void completion_end(struct reply *r, const struct reply_facts *f, struct events *ev) {
  (void)r;
  (void)f;
  (void)ev;
}

static void completion_error(struct reply *r, const struct apierror *e, struct events *ev) {
  (void)r;
  buf_puts(&ev->bytes, "data: ");
  native_refusal(FACE_LLAMACPP, e, &ev->bytes);
  end_event(TRUTH_ERROR, ev);
}

static void completion_whole(struct reply *r, const struct reply_facts *f, struct buf *out) {
  const struct genrequest *q = r->request;
  buf_puts(out, q->list ? "[" : "");
  for (uint32_t i = 0; i < q->n_choices; i++) {
    const struct genchoice *c = &q->choices[i];
    buf_printf(out, "%s{\"index\":%u,\"content\":", i ? "," : "", i);
    reply_put_part(c, 0, shown(r, c, c->output_len), false, out);
    buf_puts(out, ",\"tokens\":");
    reply_put_ids(c->output, q->return_token_ids && !r->o.hide ? c->output_len : 0, out);
    put_summary(r, c, f, out);
  }
  buf_puts(out, q->list ? "]" : "");
}

const struct reply_form reply_completion = {.name = "completion",
                                            .kind = FACE_LLAMACPP,
                                            .progress = completion_progress,
                                            .tokens = completion_tokens,
                                            .end = completion_end,
                                            .error = completion_error,
                                            .whole = completion_whole};

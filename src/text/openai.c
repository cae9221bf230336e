/* openai.c: streams and replies of OpenAI-style servers; see openai.h.
 *
 * bytes → sse.c → one event → openai_frame.c (views of its fields, checked) → openai_apply.c or
 * openai_responses.c → the result. A broken event is not applied at all, so the result cannot
 * depend on how the bytes were cut. Errors, and what ends a stream, are decided here. */
#include "text/openai.h"

#include "base/mem.h"
#include "text/openai_impl.h"

#include <string.h>

#define MAX_BYTES_DEFAULT ((size_t)64 << 20)
/* Of a body without framing: enough for its error's message. */
#define RAW_KEPT ((size_t)64 << 10)
/* The handler's answer to [DONE]. */
#define STOP_DONE 1

enum openai_api openai_api_from(const char *name) {
  if (strcmp(name, "chat") == 0)
    return OPENAI_CHAT;
  if (strcmp(name, "completions") == 0)
    return OPENAI_COMPLETIONS;
  return strcmp(name, "responses") == 0 ? OPENAI_RESPONSES : OPENAI_NONE;
}

/* {"message", "type", "code"} without an object around them: old vLLM, Dynamo, Responses. */
static void record_flat_error(struct openai_result *r, enum openai_error_kind kind,
                              const struct frame *f) {
  struct frame_error e = {.message = f->message, .type = f->type, .code = f->code, .raw = f->whole};
  if (f->code_text.there && scan_equals(&f->type, "error"))
    e.type = f->code_text; /* says more than the event's own name */
  openai_result_error_frame(r, kind, &e);
}

static int fail_limit(struct openai_stream *s, struct err *err, const char *what, size_t len) {
  s->priv->failed = ERR_LIMIT;
  openai_result_error_text(&s->result, OPENAI_ERROR_LIMIT, what, len);
  return err_set(err, ERR_LIMIT, "%s", what);
}

static int fail_output_limit(struct openai_stream *s, struct err *err) {
  struct err e;
  err_set(&e, ERR_LIMIT,
          "response: more than %zu bytes of output, or %d choices, tool calls or items",
          s->priv->options.max_bytes, FRAME_MAX_ENTRIES);
  return fail_limit(s, err, e.text, strlen(e.text));
}

static int failed_before(const struct openai_stream *s, struct err *err) {
  return err_set(err, s->priv->failed, "response: a limit was reached before");
}

/* ---- events ---- */

/* What a checked event says. `name`: its event field. */
static int apply_frame(struct openai_stream *s, const struct frame *f,
                       const struct scan_str *name) {
  struct openai_result *r = &s->result;
  if (f->top.usage.present)
    openai_set_usage(s, &f->top.usage);
  if (f->top.error.there)
    openai_result_error_frame(r, OPENAI_ERROR_IN_BAND, &f->top.error);
  else if (scan_equals(&f->object, "error") || scan_equals(&f->type, "error") ||
           scan_equals(name, "error"))
    record_flat_error(r, OPENAI_ERROR_IN_BAND, f);
  if (r->api == OPENAI_RESPONSES)
    return openai_apply_responses_event(s, f, f->type.there ? &f->type : name);
  return openai_apply_choices(s, f, false);
}

/* An event without data: a comment under `event: error`, or an `error:` line. */
static void apply_bare_error(struct openai_stream *s, const struct sse_event *e) {
  struct openai_result *r = &s->result;
  if (!e->error_field) {
    if (!e->len)
      openai_result_error_text(r, OPENAI_ERROR_EVENT_COMMENT, e->comment_len ? e->comment : "",
                               e->comment_len);
    return;
  }
  struct frame *f = &s->priv->frame;
  if (!frame_read(f, e->error_field, e->error_field_len, false))
    openai_result_error_text(r, OPENAI_ERROR_FIELD, e->error_field, e->error_field_len);
  else if (f->top.error.there)
    openai_result_error_frame(r, OPENAI_ERROR_FIELD, &f->top.error);
  else
    record_flat_error(r, OPENAI_ERROR_FIELD, f);
}

/* Data that is not JSON. */
static void apply_broken(struct openai_stream *s, const struct sse_event *e,
                         const struct scan_str *name) {
  struct openai_result *r = &s->result;
  struct err text;
  if (scan_equals(name, "error")) {
    openai_result_error_text(r, OPENAI_ERROR_IN_BAND, e->data, e->len);
  } else if (e->at_eof) {
    err_set(&text, ERR_INVALID, "the stream ends inside the JSON of event %llu",
            (unsigned long long)r->sse_events);
    openai_result_error_text(r, OPENAI_ERROR_TRUNCATED, text.text, strlen(text.text));
    return;
  } else {
    err_set(&text, ERR_INVALID, "the data of event %llu is not JSON",
            (unsigned long long)r->sse_events);
    openai_result_error_text(r, OPENAI_ERROR_BAD_JSON, text.text, strlen(text.text));
  }
  r->sse_events++;
}

static bool is_done(const char *p, size_t len) {
  while (len && (p[len - 1] == ' ' || p[len - 1] == '\n' || p[len - 1] == '\t'))
    len--;
  while (len && (*p == ' ' || *p == '\n' || *p == '\t'))
    p++, len--;
  return len == 6 && memcmp(p, "[DONE]", 6) == 0;
}

static int on_event(void *user, const struct sse_event *e) {
  struct openai_stream *s = user;
  struct openai_result *r = &s->result;
  struct frame *f = &s->priv->frame;
  const struct scan_str name = {.p = e->type, .len = e->type_len, .there = e->type_len > 0};
  if (!e->len || e->error_field)
    apply_bare_error(s, e);
  r->eof_flush = e->at_eof;
  if (!e->len)
    return 0;
  if (is_done(e->data, e->len)) {
    r->sse_events++;
    r->done_marker = true;
    return STOP_DONE;
  }
  bool chunk = r->api != OPENAI_RESPONSES && !e->type_len && !s->priv->in_full;
  struct scan_str text;
  s->priv->event_bytes = 0;
  if (chunk && repeat_match(&s->priv->repeat, e->data, e->len, &text)) {
    int rc = openai_apply_text(s, s->priv->repeat.choice, s->priv->repeat.visible, &text);
    r->sse_events++;
    return rc;
  }
  if (!frame_read(f, e->data, e->len, false)) {
    if (f->full)
      return ERR_LIMIT;
    apply_broken(s, e, &name);
    return 0;
  }
  if (chunk)
    repeat_learn(&s->priv->repeat, f);
  int rc = apply_frame(s, f, &name);
  r->sse_events++;
  return rc;
}

static void on_comment(void *user, const char *text, size_t len) {
  struct openai_stream *s = user;
  (void)text, (void)len;
  s->result.comments++;
}

/* ---- the stream ---- */

void openai_stream_init(struct openai_stream *s, const struct openai_options *options) {
  static const struct sse_handler handler = {.on_event = on_event, .on_comment = on_comment};
  openai_result_init(&s->result, options->api);
  sse_init(&s->sse, &handler, options->max_event);
  s->priv = MEM_NEW(struct openai_priv);
  s->priv->options = *options;
  if (!options->max_bytes)
    s->priv->options.max_bytes = MAX_BYTES_DEFAULT;
  s->priv->running = true;
  frame_init(&s->priv->frame);
  repeat_init(&s->priv->repeat);
  buf_init(&s->priv->raw, RAW_KEPT);
}

void openai_stream_free(struct openai_stream *s) {
  if (!s->priv)
    return;
  openai_result_free(&s->result);
  sse_free(&s->sse);
  frame_free(&s->priv->frame);
  repeat_free(&s->priv->repeat);
  buf_free(&s->priv->raw);
  mem_free(s->priv);
  s->priv = NULL;
}

void openai_stream_reset(struct openai_stream *s) {
  struct openai_priv *priv = s->priv;
  openai_result_reset(&s->result);
  sse_reset(&s->sse);
  buf_reset(&priv->raw);
  repeat_reset(&priv->repeat);
  *priv = (struct openai_priv){.options = priv->options,
                               .frame = priv->frame,
                               .repeat = priv->repeat,
                               .in_full = priv->in_full,
                               .raw = priv->raw,
                               .running = true};
}

/* A body whose first character opens a JSON value has no framing. Returns where it starts. */
static const char *probe_start(struct openai_priv *priv, const char *p, const char *end) {
  for (; p < end; p++) {
    if (*p == '{' || *p == '[') {
      priv->probe = OPENAI_PROBE_RAW;
      break;
    }
    /* White space and a byte order mark decide nothing. */
    if (!*p || !strchr(" \t\r\n\xef\xbb\xbf", *p)) {
      priv->probe = OPENAI_PROBE_EVENTS;
      break;
    }
  }
  return p;
}

static void keep_raw(struct openai_priv *priv, const char *p, size_t len) {
  size_t room = RAW_KEPT - priv->raw.len;
  int rc = buf_add(&priv->raw, p, len < room ? len : room);
  assert(rc == 0);
}

void openai_settle(struct openai_result *r) {
  r->complete = r->error_kind == OPENAI_ERROR_NONE && (r->done_marker || r->terminal_event);
}

/* What sse_feed or sse_finish returned, in our terms. */
static int conclude(struct openai_stream *s, int rc, const struct err *sse_err, struct err *err) {
  struct openai_priv *priv = s->priv;
  if (rc == STOP_DONE) {
    priv->ended = true;
    rc = 0;
  } else if (rc && sse_err->text[0]) {
    rc = fail_limit(s, err, sse_err->text, strlen(sse_err->text));
  } else if (rc) {
    rc = fail_output_limit(s, err);
  }
  openai_settle(&s->result);
  return rc;
}

int openai_stream_feed(struct openai_stream *s, const char *bytes, size_t len, uint64_t stamp_ns,
                       struct err *err) {
  struct openai_priv *priv = s->priv;
  if (priv->failed)
    return failed_before(s, err);
  if (priv->ended || !len)
    return 0;
  struct openai_result *r = &s->result;
  if (!r->any_bytes)
    r->first_byte_ns = stamp_ns;
  r->any_bytes = true;
  r->end_ns = priv->stamp_ns = stamp_ns;
  priv->feed++;
  const char *start = bytes;
  if (priv->probe == OPENAI_PROBE_START)
    start = probe_start(priv, bytes, bytes + len);
  if (priv->probe == OPENAI_PROBE_RAW) {
    keep_raw(priv, start, len - (size_t)(start - bytes));
    return 0;
  }
  struct err e;
  e.text[0] = '\0';
  s->sse.handler.user = s;
  return conclude(s, sse_feed(&s->sse, bytes, len, &e), &e, err);
}

static void finish_raw(struct openai_stream *s) {
  struct openai_result *r = &s->result;
  struct frame *f = &s->priv->frame;
  frame_read(f, s->priv->raw.data, s->priv->raw.len, false);
  if (f->top.error.there)
    openai_result_error_frame(r, OPENAI_ERROR_RAW_JSON, &f->top.error);
  else if (f->message.len)
    record_flat_error(r, OPENAI_ERROR_RAW_JSON, f);
  static const char text[] = "the body is plain JSON, not an event stream";
  openai_result_error_text(r, OPENAI_ERROR_RAW_JSON, text, sizeof text - 1);
}

int openai_stream_finish(struct openai_stream *s, struct err *err) {
  struct openai_priv *priv = s->priv;
  if (priv->failed)
    return failed_before(s, err);
  if (priv->ended)
    return 0;
  priv->ended = true;
  if (priv->probe == OPENAI_PROBE_RAW) {
    finish_raw(s);
    return 0;
  }
  struct err e;
  e.text[0] = '\0';
  s->sse.handler.user = s;
  return conclude(s, sse_finish(&s->sse, &e), &e, err);
}

/* ---- whole replies ---- */

static int apply_reply(struct openai_stream *s, const struct frame *f) {
  struct openai_result *r = &s->result;
  if (f->top.usage.present)
    openai_set_usage(s, &f->top.usage);
  if (f->top.error.there)
    openai_result_error_frame(r, OPENAI_ERROR_IN_BAND, &f->top.error);
  else if (scan_equals(&f->object, "error") || scan_equals(&f->type, "error"))
    record_flat_error(r, OPENAI_ERROR_IN_BAND, f);
  return r->api == OPENAI_RESPONSES ? openai_apply_responses_reply(s, f)
                                    : openai_apply_choices(s, f, true);
}

int openai_parse_reply(struct openai_stream *s, const char *body, size_t len, uint64_t stamp_ns,
                       struct err *err) {
  struct openai_priv *priv = s->priv;
  struct openai_result *r = &s->result;
  priv->ended = true;
  priv->stamp_ns = r->end_ns = stamp_ns;
  priv->feed++;
  if (!len)
    return 0;
  r->any_bytes = true;
  r->first_byte_ns = stamp_ns;
  int rc = 0;
  if (frame_read(&priv->frame, body, len, true)) {
    rc = apply_reply(s, &priv->frame);
  } else if (priv->frame.full) {
    rc = ERR_LIMIT;
  } else {
    bool cut = priv->frame.cut;
    const char *text = cut ? "the reply ends inside its JSON" : "the reply is not JSON";
    openai_result_error_text(r, cut ? OPENAI_ERROR_TRUNCATED : OPENAI_ERROR_BAD_JSON, text,
                             strlen(text));
  }
  if (rc)
    return fail_output_limit(s, err);
  r->complete = r->error_kind == OPENAI_ERROR_NONE;
  return 0;
}

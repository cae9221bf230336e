/* outcome.c: the class of a reply, and what to tell a person about it.
 *
 * The classes are DESIGN.md's closed list; what is asked here is asked in its order, and the first
 * that holds is taken. Texts name the URL without its query, say what happened and what may help.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "net/client.h"
#include "text/json.h"

#define MESSAGE_BYTES 200

/* What a server said may hold anything: no control characters, no bytes that are not UTF-8 (they
 * become '?'). Returns the length. */
static size_t clean(char *s, size_t len) {
  for (size_t i = 0; i < len; i++)
    if ((unsigned char)s[i] < ' ' || s[i] == 127)
      s[i] = ' ';
  for (size_t good; (good = json_utf8_valid(s, len)) < len;)
    s[good] = '?';
  return len;
}

void http_outcome_text(struct http_exchange *x, const char *text) {
  struct http_request *r = x->request;
  char line[1024];
  snprintf(line, sizeof line, "%s", text);
  size_t len = clean(line, strlen(line));
  if (len >= sizeof r->detail)
    len = json_utf8_valid(line, sizeof r->detail - 1);
  memcpy(r->detail, line, len);
  r->detail[len] = '\0';
}

void http_outcome_detail(struct http_exchange *x, bool whole_url, const char *fmt, ...) {
  struct http_request *r = x->request;
  const struct http_target *t = x->target;
  char text[512];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  char line[1024];
  if (whole_url)
    snprintf(line, sizeof line, "%s %.200s%.*s: %s", r->method, t->base,
             (int)(strcspn(r->path, "?") < 100 ? strcspn(r->path, "?") : 100), r->path, text);
  else
    snprintf(line, sizeof line, "%.*s: %s", (int)(t->origin_len < 200 ? t->origin_len : 200),
             t->base, text);
  http_outcome_text(x, line);
}

static void set(struct http_exchange *x, enum sample_error error, const char *text) {
  x->request->error = error;
  http_outcome_detail(x, true, "%s", text);
}

/* Up to MESSAGE_BYTES of s as one line of clean text. out: MESSAGE_BYTES + 4. */
static void one_line(const char *s, size_t len, char *out) {
  while (len && (unsigned char)*s <= ' ') {
    s++;
    len--;
  }
  size_t n = len < MESSAGE_BYTES ? len : MESSAGE_BYTES;
  while (n && n < len && ((unsigned char)s[n] & 0xC0) == 0x80) /* not inside a character */
    n--;
  memcpy(out, s, n);
  n = clean(out, n);
  while (n && out[n - 1] == ' ')
    n--;
  out[n] = '\0';
  if (n && len > MESSAGE_BYTES)
    memcpy(out + n, "…", sizeof "…");
}

/* What an error object says, in the shapes that servers use: {"error": {"message"}}, {"error":
 * "text"}, {"message"}, {"detail"}. False: v is none of them. */
static bool error_message(const struct value *v, char *out) {
  const struct value *error = value_get(v, "error"), *text = NULL;
  if (error && error->kind == VALUE_OBJECT)
    text = value_get(error, "message");
  else if (error && error->kind == VALUE_STRING)
    text = error;
  if (!text)
    text = value_get(v, "message");
  if (!text)
    text = value_get(v, "detail");
  if (!text || text->kind != VALUE_STRING)
    return false;
  one_line(text->u.string.data, text->u.string.len, out);
  return true;
}

static bool has_error(const struct value *v) {
  const struct value *error = value_get(v, "error");
  return error && (error->kind == VALUE_OBJECT || error->kind == VALUE_STRING);
}

/* The body's own words: an error object's message, else its first bytes. */
static void body_message(const struct http_request *r, char *out) {
  struct value v = value_null();
  out[0] = '\0';
  if (!r->body.len)
    return;
  bool found = json_parse(r->body.data, r->body.len, &v, NULL) == 0 && error_message(&v, out);
  value_free(&v);
  if (!found)
    one_line(r->body.data, r->body.len, out);
}

static void http_error(struct http_exchange *x) {
  struct http_request *r = x->request;
  char message[MESSAGE_BYTES + 4];
  body_message(r, message);
  const char *colon = message[0] ? ": " : "", *hint = "";
  char after[80] = "";
  if (r->status == 429) {
    size_t len = 0;
    const char *value = http_response_header(r, "retry-after", &len);
    if (value)
      snprintf(after, sizeof after, " (Retry-After: %.*s)", (int)(len < 40 ? len : 40), value);
    r->error = SAMPLE_HTTP_429;
  } else {
    r->error = r->status < 500 ? SAMPLE_HTTP_4XX : SAMPLE_HTTP_5XX;
    if (r->status == 401 || r->status == 403)
      hint = "; is the API key right?";
  }
  http_outcome_detail(x, true, "HTTP %d%s%s%s%s", r->status, after, colon, message, hint);
}

/* A redirect where an answer was expected. */
static void redirected(struct http_exchange *x) {
  struct http_request *r = x->request;
  size_t len = 0;
  const char *where = http_response_header(r, "location", &len);
  r->error = SAMPLE_NOT_SSE;
  http_outcome_detail(x, true, "HTTP %d, a redirect%s%.*s: name the final address, or follow it",
                      r->status, where ? " to " : "", where ? (int)(len < 120 ? len : 120) : 0,
                      where ? where : "");
}

/* A 200 that should have been an event stream and says that it is something else. */
static void not_a_stream(struct http_exchange *x) {
  struct http_request *r = x->request;
  char message[MESSAGE_BYTES + 4];
  struct value v = value_null();
  size_t len = 0;
  const char *type = http_response_header(r, "content-type", &len);
  bool json = r->body.len && json_parse(r->body.data, r->body.len, &v, NULL) == 0;
  if (json && has_error(&v)) {
    body_message(r, message);
    r->error = SAMPLE_STREAM_ERROR;
    http_outcome_detail(x, true, "an error under status %d: %s", r->status, message);
  } else if (!type && !x->received_body) {
    r->error = SAMPLE_EMPTY_STREAM;
    http_outcome_detail(x, true, "an empty reply under status %d", r->status);
  } else {
    body_message(r, message);
    r->error = SAMPLE_NOT_SSE;
    http_outcome_detail(x, true, "an event stream was expected, the reply is %.*s%s%s",
                        type ? (int)(len < 60 ? len : 60) : 20,
                        type ? type : "without content type", message[0] ? ": " : "", message);
  }
  value_free(&v);
}

/* The class of an openai_error_kind; OK when there is none. */
static enum sample_error class_of(const struct openai_result *result) {
  switch (result->error_kind) {
  case OPENAI_ERROR_NONE:
    return SAMPLE_OK;
  case OPENAI_ERROR_IN_BAND:
  case OPENAI_ERROR_FIELD:
  case OPENAI_ERROR_EVENT_COMMENT:
  case OPENAI_ERROR_LIMIT:
    return SAMPLE_STREAM_ERROR;
  case OPENAI_ERROR_TRUNCATED:
    return SAMPLE_TRUNCATED;
  case OPENAI_ERROR_RAW_JSON:
    return SAMPLE_NOT_SSE;
  case OPENAI_ERROR_BAD_JSON:
    return SAMPLE_BAD_JSON;
  }
  return SAMPLE_OK;
}

/* True when the parser found something wrong, and it has been put into the request. */
static bool parser_error(struct http_exchange *x, const char *where) {
  const struct openai_result *result = &x->request->stream.result;
  enum sample_error error = class_of(result);
  if (error == SAMPLE_OK)
    return false;
  char message[MESSAGE_BYTES + 4] = "";
  if (result->error_message.len)
    one_line(result->error_message.data, result->error_message.len, message);
  x->request->error = error;
  static const char *const words[] = {[SAMPLE_STREAM_ERROR] = "an error",
                                      [SAMPLE_TRUNCATED] = "cut off inside an event",
                                      [SAMPLE_NOT_SSE] = "not an event stream",
                                      [SAMPLE_BAD_JSON] = "data that is not JSON"};
  http_outcome_detail(x, true, "%s in the %s%s%s", words[error], where, message[0] ? ": " : "",
                      message);
  return true;
}

/* A compressed body where text was expected. */
static void squeezed(struct http_exchange *x, enum sample_error error) {
  size_t len = 0;
  const char *coding = http_response_header(x->request, "content-encoding", &len);
  x->request->error = error;
  http_outcome_detail(x, true,
                      "the reply is compressed (Content-Encoding: %.*s), and nobody asked "
                      "for that",
                      (int)(len < 40 ? len : 40), coding);
}

/* The stream cannot be read on, so its end marker never comes: truncated, with the reason. */
static void broken_framing(struct http_exchange *x, const char *why) {
  x->request->error = SAMPLE_TRUNCATED;
  http_outcome_detail(x, true, "the stream's framing is broken after %llu bytes: %s",
                      (unsigned long long)x->received_body, why);
}

static void stream_outcome(struct http_exchange *x, int broken, const char *why) {
  struct http_request *r = x->request;
  const struct openai_result *result = &r->stream.result;
  int rc = openai_stream_finish(&r->stream, NULL);
  if (x->over_limit || rc) {
    char limit[MESSAGE_BYTES + 4] = "";
    if (result->error_kind == OPENAI_ERROR_LIMIT)
      one_line(result->error_message.data, result->error_message.len, limit);
    r->error = SAMPLE_STREAM_ERROR;
    http_outcome_detail(x, true, "the stream is longer than the client accepts; it was cut off%s%s",
                        limit[0] ? ": " : "", limit);
    return;
  }
  if (broken == HTTP_BREAK_GARBLED && result->error_kind != OPENAI_ERROR_IN_BAND) {
    broken_framing(x, why);
    return;
  }
  if (parser_error(x, "stream"))
    return;
  uint64_t markers = result->done_marker ? 1 : 0;
  if (result->sse_events <= markers && r->stream.sse.strange_lines > 0) {
    r->error = SAMPLE_NOT_SSE;
    http_outcome_detail(x, true,
                        "not an event stream, whatever its content type says: not one event "
                        "in %llu bytes",
                        (unsigned long long)x->received_body);
  } else if (result->sse_events <= markers)
    set(x, SAMPLE_EMPTY_STREAM,
        markers ? "the stream holds nothing but its end marker" : "the stream is empty");
  else if (!result->complete)
    set(x, SAMPLE_TRUNCATED, "the stream ended without its end marker");
  else if (result->output_events == 0)
    set(x, SAMPLE_NO_VISIBLE_OUTPUT, "the stream ended well and carried no output");
}

/* A whole JSON reply to a generation request that did not ask for a stream. */
static void reply_outcome(struct http_exchange *x) {
  struct http_request *r = x->request;
  if (!r->body.len) {
    set(x, SAMPLE_EMPTY_STREAM, "the reply is empty");
    return;
  }
  if (x->squeezed) {
    squeezed(x, SAMPLE_BAD_JSON);
    return;
  }
  int rc = openai_parse_reply(&r->stream, r->body.data, r->body.len, r->stamp_ns[STAMP_DONE], NULL);
  if (rc)
    set(x, SAMPLE_STREAM_ERROR, "the reply is longer than the client accepts");
  else if (!parser_error(x, "reply") && r->stream.result.output_events == 0)
    set(x, SAMPLE_NO_VISIBLE_OUTPUT, "the reply carries no output");
}

static bool stream_is_complete(const struct http_exchange *x) {
  const struct openai_result *result = &x->request->stream.result;
  return x->body == HTTP_BODY_STREAM && (result->done_marker || result->terminal_event);
}

static void no_reply(struct http_exchange *x, int broken, const char *why) {
  if (broken == HTTP_BREAK_GARBLED)
    http_outcome_detail(x, false, "the reply is not HTTP/1.1 (%s); is this the right port?", why);
  else
    http_outcome_detail(x, true, "the connection was %s before the reply%s%s%s",
                        broken == HTTP_BREAK_RESET ? "reset" : "closed",
                        x->bytes_received ? "'s headers were complete" : "", why ? ": " : "",
                        why ? why : "");
  x->request->error = SAMPLE_RESET;
}

void http_outcome_set(struct http_exchange *x, int broken, const char *why) {
  struct http_request *r = x->request;
  if (broken >= 0 && !x->headers_done) {
    no_reply(x, broken, why);
    return;
  }
  if (stream_is_complete(x))
    broken = -1; /* the stream said its last word; how the transport ended changes nothing */
  if (broken == HTTP_BREAK_RESET) {
    r->error = SAMPLE_RESET;
    http_outcome_detail(x, true, "the connection was reset after %llu bytes of the reply%s%s",
                        (unsigned long long)x->received_body, why ? ": " : "", why ? why : "");
  } else if (r->status >= 400) {
    http_error(x);
  } else if (x->body == HTTP_BODY_STREAM) {
    stream_outcome(x, broken, why);
  } else if (r->api != OPENAI_NONE && r->status >= 300) {
    redirected(x);
  } else if (r->api != OPENAI_NONE && x->squeezed && (r->expect_stream || x->event_stream)) {
    squeezed(x, SAMPLE_NOT_SSE);
  } else if (r->api != OPENAI_NONE && r->expect_stream && broken == HTTP_BREAK_GARBLED &&
             !x->received_body) {
    broken_framing(x, why);
  } else if (r->api != OPENAI_NONE && r->expect_stream) {
    not_a_stream(x);
  } else if (x->over_limit) {
    set(x, SAMPLE_STREAM_ERROR, "the reply is longer than max_body; it was cut off");
  } else if (broken >= 0) {
    r->error = SAMPLE_TRUNCATED;
    http_outcome_detail(x, true, "the reply ends early, after %llu bytes%s%s",
                        (unsigned long long)x->received_body, why ? ": " : "", why ? why : "");
  } else if (r->api != OPENAI_NONE) {
    reply_outcome(x);
  }
}

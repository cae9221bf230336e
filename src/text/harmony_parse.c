/* harmony_parse.c: what gpt-oss said, taken apart into channels and calls; see harmony.h.
 *
 * An answer is messages: a header, <|message|>, a body, and <|end|>, <|call|> or <|return|> (which
 * servers leave out at the end). A header is "<|start|>assistant" (left out of the first, whose
 * prompt ends with it), then in any order " to=RECIPIENT" and "<|channel|>CHANNEL", then perhaps
 * " <|constrain|>TYPE" or a bare type. */
#include <string.h>

#include "text/harmony.h"

#define AT_START "<|start|>"
#define AT_CHANNEL "<|channel|>"
#define AT_CONSTRAIN "<|constrain|>"
#define AT_MESSAGE "<|message|>"

struct span {
  const char *at;
  size_t len;
};

struct head {
  struct span channel, recipient;
};

static const char *find(const char *p, const char *end, const char *what) {
  const char *hit = memmem(p, (size_t)(end - p), what, strlen(what));
  return hit ? hit : end;
}

static bool begins(const char *p, const char *end, const char *what) {
  size_t n = strlen(what);
  return (size_t)(end - p) >= n && memcmp(p, what, n) == 0;
}

static bool is(struct span s, const char *text) {
  return s.len == strlen(text) && memcmp(s.at, text, s.len) == 0;
}

/* The first end of a body at or behind p: it is not part of it. */
static const char *body_end(const char *p, const char *end) {
  static const char *const marks[] = {"<|end|>", "<|call|>", "<|return|>", AT_START};
  for (size_t i = 0; i < ARRAY_LEN(marks); i++)
    end = find(p, end, marks[i]); /* never behind the one before */
  return end;
}

static struct span word(const char *p, const char *end) {
  const char *q = p;
  while (q < end && *q != ' ' && *q != '<' && *q != '\n' && *q != '\t')
    q++;
  return (struct span){p, (size_t)(q - p)};
}

/* Reads p..end, a header without <|message|>. */
static int read_head(const char *p, const char *end, struct head *h, struct err *err) {
  const char *from = p;
  *h = (struct head){0};
  if (begins(p, end, AT_START))
    p += strlen(AT_START);
  if (begins(p, end, "assistant"))
    p += strlen("assistant");
  while (p < end) {
    struct span w;
    if (*p == ' ' || *p == '\n' || *p == '\t') {
      p++;
      continue;
    }
    if (begins(p, end, AT_CHANNEL)) {
      w = h->channel = word(p + strlen(AT_CHANNEL), end);
    } else if (begins(p, end, "to=")) {
      w = h->recipient = word(p + strlen("to="), end);
    } else if (begins(p, end, AT_CONSTRAIN)) {
      w = word(p + strlen(AT_CONSTRAIN), end);
    } else { /* a bare type of content, "json" */
      w = word(p, end);
      if (!w.len || !h->channel.len)
        return err_set(err, ERR_INVALID, "\"%.*s\" is no header of a Harmony message",
                       (int)(end - from < 60 ? end - from : 60), from);
    }
    p = w.at + w.len;
  }
  return 0;
}

/* Adds the text to a field that may have some already. */
static void join(struct value *out, const char *field, struct span text) {
  struct value *v = value_get(out, field);
  if (v->kind == VALUE_NULL) {
    *v = value_string(text.at, text.len);
    return;
  }
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  buf_put(&b, v->u.string.data, v->u.string.len);
  buf_putc(&b, '\n');
  buf_put(&b, text.at, text.len);
  value_set(out, field, value_string(b.data, b.len));
  buf_free(&b);
}

static void add_call(struct value *out, struct span recipient, struct span arguments) {
  static const char space[] = "functions.";
  struct value *call = value_push(value_get(out, "tool_calls"), value_object());
  size_t skip =
      recipient.len > sizeof space - 1 && begins(recipient.at, recipient.at + recipient.len, space)
          ? sizeof space - 1
          : 0;
  value_set(call, "name", value_string(recipient.at + skip, recipient.len - skip));
  value_set(call, "arguments", value_string(arguments.at, arguments.len));
}

static bool is_call(const struct head *h) {
  return h->recipient.len && !is(h->recipient, "user") && !is(h->recipient, "all");
}

static bool is_analysis(const struct head *h) {
  return is(h->channel, "analysis");
}

static void add_message(struct value *out, const struct head *h, struct span body) {
  if (is_call(h))
    add_call(out, h->recipient, body);
  else
    join(out, is_analysis(h) ? "reasoning" : "content", body);
}

/* From what ended a body to the next header, or the end. */
static int next_message(const char **at, const char *end, struct err *err) {
  const char *p = *at;
  if (p < end && !begins(p, end, AT_START))
    p = find(p, end, "|>") + strlen("|>");
  if (p < end && !begins(p, end, AT_START))
    return err_set(err, ERR_INVALID, "\"%.*s\" comes behind a Harmony message, and is none",
                   (int)(end - p < 60 ? end - p : 60), p);
  *at = p;
  return 0;
}

/* Whether it is a text without any header. */
static bool is_bare(const char *p, const char *end) {
  return find(p, end, AT_MESSAGE) == end && find(p, end, AT_CHANNEL) == end && p < end &&
         !begins(p, end, " to=");
}

bool harmony_answer_at(const char *text, size_t len, size_t *at) {
  const char *p = text, *end = text + len;
  struct err err;
  *at = 0;
  if (is_bare(p, end))
    return body_end(p, end) > p;
  while (p < end) {
    struct head h;
    const char *body = find(p, end, AT_MESSAGE);
    if (body == end)
      return false;
    if (read_head(p, body, &h, &err))
      return true;
    body += strlen(AT_MESSAGE);
    p = body_end(body, end);
    if (p > body && !is_call(&h) && !is_analysis(&h)) {
      *at = (size_t)(body - text);
      return true;
    }
    if (next_message(&p, end, &err))
      return true;
  }
  return false;
}

int harmony_parse(const char *text, size_t len, struct value *out, struct err *err) {
  const char *p = text, *end = text + len;
  *out = value_object();
  value_set(out, "reasoning", value_null());
  value_set(out, "content", value_null());
  value_set(out, "tool_calls", value_array());
  if (is_bare(p, end)) {
    join(out, "content", (struct span){p, (size_t)(body_end(p, end) - p)});
    return 0;
  }
  while (p < end) {
    struct head h;
    const char *body = find(p, end, AT_MESSAGE);
    if (body == end) /* cut off in a header */
      return 0;
    int rc = read_head(p, body, &h, err);
    if (!rc) {
      body += strlen(AT_MESSAGE);
      p = body_end(body, end);
      add_message(out, &h, (struct span){body, (size_t)(p - body)});
      rc = next_message(&p, end, err);
    }
    if (rc) {
      value_free(out);
      *out = value_null();
      return rc;
    }
  }
  return 0;
}

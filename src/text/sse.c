/* sse.c: the event-stream parser of sse.h.
 *
 * Lines that lie whole in the caller's piece are used where they are; so is the data of an event
 * with one data line (`view`), which is nearly every event. Only what a piece cuts in two is
 * copied: the open line into `line`, the pending event's data into `data`. The next LF and the next
 * CR are each looked up once, so a piece is read twice by memchr whatever it holds. */
#include "text/sse.h"

#include <string.h>

void sse_init(struct sse *p, const struct sse_handler *handler, size_t max_event) {
  if (!max_event)
    max_event = SSE_MAX_EVENT_DEFAULT;
  *p = (struct sse){.handler = *handler, .max_event = max_event};
  buf_init(&p->line, max_event);
  buf_init(&p->data, max_event);
  buf_init(&p->type, max_event);
  buf_init(&p->error_field, max_event);
  buf_init(&p->comment, max_event);
}

void sse_free(struct sse *p) {
  buf_free(&p->line);
  buf_free(&p->data);
  buf_free(&p->type);
  buf_free(&p->error_field);
  buf_free(&p->comment);
}

static void forget_event(struct sse *p) {
  p->view = NULL;
  p->has_data = p->has_error = p->has_comment = false;
  buf_reset(&p->data);
  buf_reset(&p->type);
}

void sse_reset(struct sse *p) {
  forget_event(p);
  buf_reset(&p->line);
  p->events = p->comments = p->strange_lines = 0;
  p->seen_bytes = p->pending_cr = false;
  p->bom_bytes = 0;
  p->stopped = 0;
}

static int limit(struct sse *p, const char *what, struct err *err) {
  p->stopped = ERR_LIMIT;
  return err_set(err, ERR_LIMIT, "event stream: %s is longer than %zu bytes", what, p->max_event);
}

static int stopped_before(const struct sse *p, struct err *err) {
  err_set(err, p->stopped < 0 ? p->stopped : ERR_CLOSED, "event stream: fed after it was stopped");
  return p->stopped;
}

static bool is_blank(const char *s, size_t len) {
  for (size_t i = 0; i < len; i++)
    if (s[i] != ' ' && s[i] != '\n' && s[i] != '\t' && s[i] != '\r')
      return false;
  return true;
}

/* A blank line, or the end of the stream. */
static int dispatch(struct sse *p, bool at_eof) {
  struct sse_event e = {.data = p->view ? p->view : p->data.data,
                        .len = p->view ? p->view_len : p->data.len,
                        .type = p->type.len ? p->type.data : "",
                        .type_len = p->type.len,
                        .at_eof = at_eof};
  bool with_data = p->has_data && !is_blank(e.data, e.len);
  bool is_error = p->has_error || (e.type_len == 5 && memcmp(e.type, "error", 5) == 0);
  int rc = 0;
  if (with_data || is_error) {
    if (!with_data) {
      e.data = "";
      e.len = 0;
    }
    if (p->has_error) {
      e.error_field = p->error_field.data;
      e.error_field_len = p->error_field.len;
    }
    if (p->has_comment) {
      e.comment = p->comment.data;
      e.comment_len = p->comment.len;
    }
    p->events += with_data;
    rc = p->handler.on_event(p->handler.user, &e);
  }
  forget_event(p);
  return rc;
}

/* The view's bytes are about to go away, or another line is to be joined: own them. */
static int own_data(struct sse *p) {
  if (!p->view)
    return 0;
  int rc = buf_add(&p->data, p->view, p->view_len);
  p->view = NULL;
  return rc;
}

static int add_data(struct sse *p, const char *value, size_t len) {
  if (!p->has_data) {
    p->has_data = true;
    p->view = value;
    p->view_len = len;
    return 0;
  }
  int rc = own_data(p);
  if (rc == 0)
    rc = buf_add_byte(&p->data, '\n');
  return rc ? rc : buf_add(&p->data, value, len);
}

static int replace(struct buf *b, const char *value, size_t len) {
  buf_reset(b);
  return buf_add(b, value, len);
}

static int take_comment(struct sse *p, const char *text, size_t len) {
  p->comments++;
  if (p->handler.on_comment)
    p->handler.on_comment(p->handler.user, text, len);
  p->has_comment = true;
  return replace(&p->comment, text, len);
}

static int take_field(struct sse *p, const char *name, size_t name_len, const char *value,
                      size_t len) {
  if (name_len == 4 && memcmp(name, "data", 4) == 0)
    return add_data(p, value, len);
  if (name_len == 5 && memcmp(name, "event", 5) == 0)
    return replace(&p->type, value, len);
  if (name_len == 5 && memcmp(name, "error", 5) == 0 && !p->has_error) {
    p->has_error = true;
    return replace(&p->error_field, value, len);
  }
  bool known = (name_len == 2 && memcmp(name, "id", 2) == 0) ||
               (name_len == 5 && memcmp(name, "retry", 5) == 0) ||
               (name_len == 5 && memcmp(name, "error", 5) == 0);
  p->strange_lines += !known;
  return 0; /* what it says, says nothing about this stream */
}

/* One whole line without its end. Returns what the handler said, or ERR_LIMIT. */
static int take_line(struct sse *p, const char *line, size_t len, struct err *err) {
  if (len > p->max_event)
    return limit(p, "a line", err);
  if (!len)
    return p->stopped = dispatch(p, false);
  if (len > 5 && memcmp(line, "data:", 5) == 0) { /* nearly every line: not searched for ':' */
    size_t skip = 5 + (line[5] == ' ');
    return add_data(p, line + skip, len - skip) ? limit(p, "an event", err) : 0;
  }
  const char *colon = memchr(line, ':', len), *end = line + len;
  const char *value = colon ? colon + 1 : end;
  if (value < end && *value == ' ')
    value++;
  size_t value_len = (size_t)(end - value);
  int rc = colon == line
               ? take_comment(p, value, value_len)
               : take_field(p, line, (size_t)((colon ? colon : end) - line), value, value_len);
  return rc ? limit(p, "an event", err) : 0;
}

/* The three bytes of a byte order mark at the very start, also cut apart. */
static const char *skip_bom(struct sse *p, const char *cur, const char *end, int *rc) {
  static const char bom[] = "\xef\xbb\xbf";
  while (p->bom_bytes < 3 && cur < end) {
    if (*cur == bom[p->bom_bytes]) {
      p->bom_bytes++;
      cur++;
      continue;
    }
    *rc = buf_add(&p->line, bom, p->bom_bytes); /* it was something else: give it back */
    p->bom_bytes = 3;
  }
  return cur;
}

/* The next c at or after cur, given the last answer; `end` when there is none. */
static const char *next_byte(const char *known, const char *cur, const char *end, char c) {
  if (known >= cur)
    return known;
  const char *at = memchr(cur, c, (size_t)(end - cur));
  return at ? at : end;
}

/* Takes every whole line of [cur, end); returns the start of the open one through *rest. */
static int take_lines(struct sse *p, const char *cur, const char *end, const char **rest,
                      struct err *err) {
  const char *lf = next_byte(NULL, cur, end, '\n'), *cr = next_byte(NULL, cur, end, '\r');
  int rc = 0;
  while (cur < end && rc == 0) {
    lf = next_byte(lf, cur, end, '\n');
    cr = next_byte(cr, cur, end, '\r');
    const char *line = cur, *eol = lf < cr ? lf : cr;
    if (eol == end)
      break;
    size_t len = (size_t)(eol - cur);
    cur = eol + 1;
    if (*eol == '\r') {
      p->pending_cr = cur == end;
      if (cur < end && *cur == '\n')
        cur++;
    }
    if (p->line.len) {
      if (buf_add(&p->line, line, len))
        return limit(p, "a line", err);
      line = p->line.data;
      len = p->line.len;
      p->line.len = 0; /* its bytes stay readable until the open line is put there */
    }
    rc = take_line(p, line, len, err);
  }
  *rest = cur;
  return rc;
}

int sse_feed(struct sse *p, const char *bytes, size_t len, struct err *err) {
  if (p->stopped)
    return stopped_before(p, err);
  if (!len)
    return 0;
  p->seen_bytes = true;
  const char *cur = bytes, *end = bytes + len;
  int rc = 0;
  if (p->bom_bytes < 3)
    cur = skip_bom(p, cur, end, &rc);
  if (rc)
    return limit(p, "a line", err);
  if (p->pending_cr && cur < end) {
    p->pending_cr = false;
    cur += *cur == '\n';
  }
  rc = take_lines(p, cur, end, &cur, err);
  if (rc)
    return rc;
  if (own_data(p))
    return limit(p, "an event", err);
  if (buf_add(&p->line, cur, (size_t)(end - cur)))
    return limit(p, "a line", err);
  return 0;
}

int sse_finish(struct sse *p, struct err *err) {
  if (p->stopped)
    return stopped_before(p, err);
  size_t len = p->line.len;
  p->line.len = 0;
  if (len) {
    int rc = take_line(p, p->line.data, len, err);
    if (rc)
      return rc;
  }
  p->stopped = dispatch(p, true);
  return p->stopped;
}

/* prom.c: reading a /metrics page line by line; see prom.h. */
#include "text/prom.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"

/* The rest of one line. */
struct cursor {
  const char *at, *end;
};

struct reader {
  const struct prom_handler *handler;
  bool openmetrics, over; /* over: `# EOF` was read */
  struct buf words;       /* names and values of the present line, a NUL behind each */
  size_t starts[2 * PROM_MAX_LABELS + 2], lengths[2 * PROM_MAX_LABELS + 2], n_words;
  struct prom_label labels[PROM_MAX_LABELS];
};

static void skip_blanks(struct cursor *c) {
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\t'))
    c->at++;
}

static bool take(struct cursor *c, char want) {
  if (c->at == c->end || *c->at != want)
    return false;
  c->at++;
  return true;
}

static void word_begin(struct reader *r) {
  r->starts[r->n_words] = r->words.len;
}

static void word_end(struct reader *r) {
  r->lengths[r->n_words] = r->words.len - r->starts[r->n_words];
  r->n_words++;
  buf_putc(&r->words, '\0');
}

static bool is_name_byte(char ch, bool first) {
  bool letter = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '_' || ch == ':';
  return letter || (!first && ch >= '0' && ch <= '9');
}

/* A bare name; false when there is none. */
static bool read_name(struct reader *r, struct cursor *c) {
  const char *from = c->at;
  while (c->at < c->end && is_name_byte(*c->at, c->at == from))
    c->at++;
  if (c->at == from)
    return false;
  word_begin(r);
  buf_put(&r->words, from, (size_t)(c->at - from));
  word_end(r);
  return true;
}

/* "text" with \\ \" and \n; another letter behind a backslash stays with it, as Go's reader has it.
 */
static bool read_quoted(struct reader *r, struct cursor *c) {
  if (!take(c, '"'))
    return false;
  word_begin(r);
  while (c->at < c->end && *c->at != '"') {
    if (*c->at != '\\' || c->at + 1 == c->end) {
      buf_putc(&r->words, *c->at++);
      continue;
    }
    char escaped = c->at[1];
    if (escaped == 'n')
      buf_putc(&r->words, '\n');
    else if (escaped == '"' || escaped == '\\')
      buf_putc(&r->words, escaped);
    else
      buf_put(&r->words, c->at, 2);
    c->at += 2;
  }
  word_end(r);
  return take(c, '"');
}

/* {a="b",…}; a quoted text without "=" is the series' own name (UTF-8 names). The words alternate
 * name, value; *name gets the index of the word that is the series' name, if it is in there. */
static bool read_labels(struct reader *r, struct cursor *c, size_t *name, size_t *n_labels) {
  size_t pairs[PROM_MAX_LABELS], n = 0;
  for (skip_blanks(c); !take(c, '}'); skip_blanks(c)) {
    size_t word = r->n_words;
    bool quoted = c->at < c->end && *c->at == '"';
    if (n == PROM_MAX_LABELS || !(quoted ? read_quoted(r, c) : read_name(r, c)))
      return false;
    skip_blanks(c);
    if (take(c, '=')) {
      skip_blanks(c);
      if (!read_quoted(r, c))
        return false;
      pairs[n++] = word;
    } else if (quoted && *name == SIZE_MAX && n == 0) {
      *name = word;
    } else {
      return false;
    }
    skip_blanks(c);
    if (!take(c, ',') && (c->at == c->end || *c->at != '}'))
      return false;
  }
  *n_labels = n;
  for (size_t i = 0; i < n; i++) { /* addresses once nothing is added any more */
    const char *words = r->words.data;
    size_t w = pairs[i];
    r->labels[i].name = (struct prom_text){words + r->starts[w], r->lengths[w]};
    r->labels[i].value = (struct prom_text){words + r->starts[w + 1], r->lengths[w + 1]};
  }
  return true;
}

/* Bytes up to the next blank, at most size − 1 of them, as text. */
static bool read_token(struct cursor *c, char *out, size_t size) {
  const char *from = c->at;
  while (c->at < c->end && *c->at != ' ' && *c->at != '\t')
    c->at++;
  size_t len = (size_t)(c->at - from);
  if (!len || len >= size || memchr(from, '\0', len))
    return false;
  memcpy(out, from, len);
  out[len] = '\0';
  return true;
}

/* Go's float syntax: decimal, or NaN and Inf in any case; strtod takes more (hex, "infinity"). */
static bool to_number(const char *s, double *out) {
  const char *word = s + (*s == '+' || *s == '-');
  char *end = NULL;
  bool sign = *s == '-';
  if (strcasecmp(word, "inf") == 0 || strcasecmp(word, "infinity") == 0) {
    *out = sign ? -HUGE_VAL : HUGE_VAL;
    return true;
  }
  if (strcasecmp(s, "nan") == 0) {
    *out = (double)NAN;
    return true;
  }
  if (!*word || strspn(word, "0123456789.eE+-") != strlen(word))
    return false;
  *out = strtod(s, &end);
  return end && !*end;
}

static bool to_time(const struct reader *r, const char *s, int64_t *out) {
  double number;
  if (!to_number(s, &number) || !isfinite(number))
    return false;
  if (!r->openmetrics &&
      strspn(s + (*s == '-' || *s == '+'), "0123456789") != strlen(s + (*s == '-' || *s == '+')))
    return false;
  double ms = r->openmetrics ? number * 1e3 : number;
  if (fabs(ms) > 9e18)
    return false;
  *out = (int64_t)ms;
  return true;
}

/* NAME {labels} VALUE [TIME] [# exemplar] */
static bool read_sample(struct reader *r, struct cursor *c, struct prom_sample *s) {
  size_t name = SIZE_MAX;
  char number[64];
  if (c->at < c->end && *c->at != '{') {
    if (!read_name(r, c))
      return false;
    name = 0;
  }
  skip_blanks(c);
  if (take(c, '{') && !read_labels(r, c, &name, &s->n_labels))
    return false;
  if (name == SIZE_MAX)
    return false;
  s->name = (struct prom_text){r->words.data + r->starts[name], r->lengths[name]};
  s->labels = r->labels;
  skip_blanks(c);
  if (!read_token(c, number, sizeof number) || !to_number(number, &s->value))
    return false;
  skip_blanks(c);
  if (c->at == c->end || (r->openmetrics && *c->at == '#'))
    return true;
  if (!read_token(c, number, sizeof number) || !to_time(r, number, &s->time_ms))
    return false;
  s->has_time = true;
  skip_blanks(c);
  return c->at == c->end || (r->openmetrics && *c->at == '#');
}

/* A line behind its "#": TYPE is told, HELP, UNIT and what is just a comment is not. */
static bool read_comment(struct reader *r, struct cursor *c) {
  char keyword[8], type[24];
  if (c->at == c->end || (*c->at != ' ' && *c->at != '\t'))
    return true;
  skip_blanks(c);
  if (!read_token(c, keyword, sizeof keyword))
    return true;
  if (r->openmetrics && strcmp(keyword, "EOF") == 0)
    r->over = true;
  if (strcmp(keyword, "TYPE") != 0)
    return true;
  skip_blanks(c);
  if (!(c->at < c->end && *c->at == '"' ? read_quoted(r, c) : read_name(r, c)))
    return false;
  skip_blanks(c);
  if (!read_token(c, type, sizeof type))
    return false;
  skip_blanks(c);
  if (c->at < c->end)
    return false;
  struct prom_text family = {r->words.data + r->starts[0], r->lengths[0]};
  struct prom_text what = {type, strlen(type)};
  if (r->handler->on_type)
    r->handler->on_type(r->handler->user, &family, &what);
  return true;
}

static bool read_line(struct reader *r, struct cursor c, size_t *samples) {
  buf_reset(&r->words);
  r->n_words = 0;
  if (c.end > c.at && c.end[-1] == '\r')
    c.end--;
  skip_blanks(&c);
  if (c.at == c.end)
    return true;
  if (take(&c, '#'))
    return read_comment(r, &c);
  struct prom_sample sample = {0};
  if (!read_sample(r, &c, &sample))
    return false;
  ++*samples;
  if (r->handler->on_sample)
    r->handler->on_sample(r->handler->user, &sample);
  return true;
}

struct prom_counts prom_parse(const char *text, size_t len, bool openmetrics,
                              const struct prom_handler *handler) {
  struct prom_counts counts = {0};
  struct reader r = {.handler = handler, .openmetrics = openmetrics};
  const char *end = text + len;
  size_t line = 0;
  buf_init(&r.words, BUF_MAX_OWN);
  for (const char *at = text; at < end && !r.over;) {
    const char *feed = memchr(at, '\n', (size_t)(end - at));
    const char *stop = feed ? feed : end;
    line++;
    if (!read_line(&r, (struct cursor){at, stop}, &counts.samples)) {
      counts.error_lines++;
      counts.first_error = counts.first_error ? counts.first_error : line;
    }
    at = stop + 1;
    if (!feed)
      break;
  }
  buf_free(&r.words);
  return counts;
}

const char *prom_label_value(const struct prom_sample *s, const char *name) {
  for (size_t i = 0; i < s->n_labels; i++)
    if (strcmp(s->labels[i].name.data, name) == 0)
      return s->labels[i].value.data;
  return NULL;
}

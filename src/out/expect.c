/* expect.c: parsing expectations. Recursive descent over the text; every error knows its column. */
#include "out/expect.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define MAX_TEXT 2000

struct parser {
  const char *text;
  size_t at;
  const struct metrics *metrics;
  const char *const *arms;
  size_t n_arms;
  struct err *err;
};

static const struct stat_name {
  const char *name;
  enum statistic stat;
  double p;
} stats[] = {
    {"mean", STAT_MEAN, 0},       {"min", STAT_MIN, 0},         {"max", STAT_MAX, 0},
    {"sum", STAT_SUM, 0},         {"count", STAT_COUNT, 0},     {"share", STAT_SHARE, 0},
    {"rate", STAT_RATE, 0},       {"p50", STAT_QUANTILE, 0.5},  {"p90", STAT_QUANTILE, 0.9},
    {"p95", STAT_QUANTILE, 0.95}, {"p99", STAT_QUANTILE, 0.99}, {"p99.9", STAT_QUANTILE, 0.999},
};

/* What others call them. */
static const struct {
  const char *word, *name;
} other_names[] = {
    {"median", "p50"},  {"avg", "mean"},  {"average", "mean"}, {"maximum", "max"},
    {"minimum", "min"}, {"total", "sum"}, {"p999", "p99.9"},   {"n", "count"},
};

/* ---- errors ---- */

/* Column of a byte position, in characters from 1. */
static size_t column_of(const char *text, size_t at) {
  size_t column = 1;
  for (size_t i = 0; i < at; i++)
    column += ((unsigned char)text[i] & 0xC0) != 0x80;
  return column;
}

static int shown(const char *text) {
  size_t n = strlen(text);
  return n > 120 ? 120 : (int)n;
}

static int fail_at(struct parser *p, size_t at) {
  err_prefix(p->err, "expectation \"%.*s\", column %zu", shown(p->text), p->text,
             column_of(p->text, at));
  return ERR_INVALID;
}

#define FAIL(p, at, ...) (err_set((p)->err, ERR_INVALID, __VA_ARGS__), fail_at((p), (at)))

/* ---- words ---- */

static void skip_spaces(struct parser *p) {
  while (isspace((unsigned char)p->text[p->at]))
    p->at++;
}

static bool is_word_byte(char c) {
  return isalnum((unsigned char)c) || c == '_';
}

/* What stands at `at`, cut short, for "found …". */
static const char *found(const struct parser *p, char out[40]) {
  const char *s = p->text + p->at;
  size_t n = 0;
  if (!*s)
    return "the end";
  if (is_word_byte(*s))
    while (n < 30 && is_word_byte(s[n]))
      n++;
  else
    for (n = 1; n < 4 && ((unsigned char)s[n] & 0xC0) == 0x80; n++)
      ;
  out[0] = '"';
  memcpy(out + 1, s, n);
  out[n + 1] = '"';
  out[n + 2] = '\0';
  return out;
}

/* Reads [A-Za-z_][A-Za-z0-9_]*, and with `dashes` also "-" inside; NULL when there is none. */
static char *read_word(struct parser *p, bool dashes) {
  size_t start = p->at, i = start;
  if (!isalpha((unsigned char)p->text[i]) && p->text[i] != '_')
    return NULL;
  while (is_word_byte(p->text[i]) || (dashes && p->text[i] == '-' && is_word_byte(p->text[i + 1])))
    i++;
  p->at = i;
  return mem_strndup(p->text + start, i - start);
}

/* ---- term ---- */

static int read_arm_and_metric(struct parser *p, struct expect_term *term) {
  char seen[40];
  size_t start = p->at;
  char *word = read_word(p, true);
  if (!word)
    return FAIL(p, start, "expected a metric such as ttft, found %s", found(p, seen));
  int rc = 0;
  if (p->text[p->at] == '.') {
    bool known = false;
    for (size_t i = 0; i < p->n_arms; i++)
      known = known || strcmp(p->arms[i], word) == 0;
    const char *near = known ? NULL : err_nearest(word, p->arms, p->n_arms);
    if (!known && metrics_find(p->metrics, word))
      rc = FAIL(p, p->at, "%s is a metric: a space and a statistic follow it, as in \"%s p95\"",
                word, word);
    else if (!known && !p->n_arms)
      rc = FAIL(p, start,
                "unknown arm \"%s\": this version compares no arms; tag what differs, "
                "vu:tag(\"variant\", "
                "\"%s\"), and write ttft{variant=%s} p50",
                word, word, word);
    else if (!known)
      rc = FAIL(p, start, "unknown arm \"%s\" (did you mean \"%s\"?)", word,
                near ? near : p->arms[0]);
    mem_free(term->filter.arm);
    term->filter.arm = word;
    if (rc)
      return rc;
    start = ++p->at;
    word = read_word(p, false);
    if (!word)
      return FAIL(p, start, "expected a metric after \"%s.\", found %s", term->filter.arm,
                  found(p, seen));
  }
  if (metrics_require(p->metrics, word, &term->metric, p->err) ||
      metrics_available(term->metric, p->err))
    rc = fail_at(p, start);
  else if (term->metric->id == METRIC_GOODPUT && !p->metrics->n_slos)
    rc = FAIL(p, start,
              "goodput is the share of requests that keep the plan's objectives, and it has none: "
              "add slo = { ttft = \"500ms\" }");
  mem_free(word);
  return rc;
}

/* A tag's value: "quoted", or everything up to the next comma or brace. */
static int read_tag_value(struct parser *p, char **out) {
  size_t start = p->at;
  if (p->text[p->at] == '"') {
    const char *close = strchr(p->text + start + 1, '"');
    if (!close)
      return FAIL(p, start, "this quote has no end");
    *out = mem_strndup(p->text + start + 1, (size_t)(close - p->text) - start - 1);
    p->at = (size_t)(close - p->text) + 1;
    return 0;
  }
  size_t end = start + strcspn(p->text + start, ",{}");
  p->at = end;
  while (end > start && isspace((unsigned char)p->text[end - 1]))
    end--;
  if (end == start)
    return FAIL(p, start, "expected the tag's value, such as turn=2 or turn=2..8");
  *out = mem_strndup(p->text + start, end - start);
  return 0;
}

static int read_tag(struct parser *p, struct expect_term *term) {
  char seen[40];
  skip_spaces(p);
  size_t start = p->at;
  char *tag = read_word(p, true), *value = NULL;
  if (!tag)
    return FAIL(p, start, "expected a tag such as turn=2, found %s", found(p, seen));
  skip_spaces(p);
  int rc = 0;
  if (p->text[p->at] != '=')
    rc = FAIL(p, p->at, "expected \"=\" after the tag \"%s\", found %s", tag, found(p, seen));
  if (!rc) {
    p->at++;
    skip_spaces(p);
    start = p->at;
    rc = read_tag_value(p, &value);
  }
  if (!rc && strcmp(tag, "arm") == 0)
    rc = FAIL(p, start, "write the arm in front: %s.%s", value, term->metric->name);
  if (!rc && filter_add(&term->filter, tag, value, p->err))
    rc = fail_at(p, start);
  if (!rc && term->metric->id == METRIC_CHECKS)
    filter_note_check(&term->filter);
  mem_free(tag);
  mem_free(value);
  return rc;
}

static int read_tags(struct parser *p, struct expect_term *term) {
  char seen[40];
  size_t open = p->at++;
  for (;;) {
    int rc = read_tag(p, term);
    if (rc)
      return rc;
    skip_spaces(p);
    char c = p->text[p->at];
    if (c != ',' && c != '}')
      return c ? FAIL(p, p->at, "expected \",\" or \"}\", found %s", found(p, seen))
               : FAIL(p, open, "this brace has no end");
    p->at++;
    if (c == '}')
      return 0;
  }
}

static int read_stat(struct parser *p, struct expect_term *term) {
  size_t start = p->at, n = 0;
  const char *s = p->text + start;
  while (is_word_byte(s[n]) || (s[n] == '.' && isdigit((unsigned char)s[n + 1])))
    n++;
  const char *names[ARRAY_LEN(stats)];
  for (size_t i = 0; i < ARRAY_LEN(stats); i++) {
    names[i] = stats[i].name;
    if (strlen(names[i]) == n && memcmp(names[i], s, n) == 0) {
      term->stat = stats[i].stat;
      term->p = stats[i].p;
      p->at += n;
      return metrics_check_stat(term->metric, term->stat, p->err) ? fail_at(p, start) : 0;
    }
  }
  static const char all[] = "mean min max sum count share rate p50 p90 p95 p99 p99.9";
  if (!n) {
    char seen[40];
    return FAIL(p, start, "expected a statistic after \"%s\" (%s), found %s", term->metric->name,
                all, found(p, seen));
  }
  char *word = mem_strndup(s, n);
  const char *near = NULL;
  for (size_t i = 0; i < ARRAY_LEN(other_names); i++)
    if (strcmp(word, other_names[i].word) == 0)
      near = other_names[i].name;
  if (!near)
    near = err_nearest(word, names, ARRAY_LEN(names));
  int rc = near ? FAIL(p, start, "unknown statistic \"%.40s\" (did you mean \"%s\"?)", word, near)
                : FAIL(p, start, "unknown statistic \"%.40s\": it is one of %s", word, all);
  mem_free(word);
  return rc;
}

/* Metrics of the client as a whole, and of replicas, know no sessions: say so before the run. */
static int check_filter(struct parser *p, const struct expect_term *term) {
  const struct filter *f = &term->filter;
  if (term->metric->domain == METRIC_OF_CLIENT && (f->arm || f->n))
    return FAIL(p, term->column, "%s is measured for the whole client: it takes no arm and no tag",
                term->metric->name);
  for (size_t i = 0; i < f->n; i++)
    if (term->metric->domain == METRIC_OF_SESSION && f->conds[i].kind != FILTER_ERROR &&
        f->conds[i].kind != FILTER_BLOCK)
      return FAIL(p, term->column,
                  "%s has one value per session, which has no %s: it takes error and trial_block",
                  term->metric->name, f->conds[i].tag);
  return 0;
}

/* "e2e p50{tier=paid}": the braces belong to the metric. */
static int check_tags_place(struct parser *p, const struct expect_term *term) {
  size_t at = p->at;
  while (isspace((unsigned char)p->text[at]))
    at++;
  const char *close = p->text[at] == '{' ? strchr(p->text + at, '}') : NULL;
  if (p->text[at] != '{')
    return 0;
  if (!close)
    return FAIL(p, at, "tags go after the metric: %s{tag=value}", term->metric->name);
  size_t name = term->column;
  while (is_word_byte(p->text[name]) || p->text[name] == '.' || p->text[name] == '-')
    name++;
  size_t stat = term->end;
  while (stat > name && !isspace((unsigned char)p->text[stat - 1]) && p->text[stat - 1] != '}')
    stat--;
  return FAIL(p, at, "tags go after the metric: %.*s%.*s %.*s", (int)(name - term->column),
              p->text + term->column, (int)(close + 1 - (p->text + at)), p->text + at,
              (int)(term->end - stat), p->text + stat);
}

static int read_term(struct parser *p, struct expect_term *term) {
  skip_spaces(p);
  term->column = p->at;
  int rc = read_arm_and_metric(p, term);
  if (rc)
    return rc;
  skip_spaces(p);
  if (p->text[p->at] == '{' && (rc = read_tags(p, term)))
    return rc;
  skip_spaces(p);
  rc = read_stat(p, term);
  term->end = p->at;
  if (!rc)
    rc = check_tags_place(p, term);
  return rc ? rc : check_filter(p, term);
}

/* ---- quantities ---- */

static bool at_number(const struct parser *p) {
  const char *s = p->text + p->at;
  if (*s == '+' || *s == '-')
    s++;
  return isdigit((unsigned char)*s) || *s == '.';
}

/* From `at` to the end or to " within": where a quantity must end. */
static size_t quantity_end(const struct parser *p) {
  const char *within = strstr(p->text + p->at, "within");
  size_t end = within ? (size_t)(within - p->text) : strlen(p->text);
  while (end > p->at && isspace((unsigned char)p->text[end - 1]))
    end--;
  return end;
}

/* "100 tokens" and "20 tokens/s", as reports write them, without the word: it is the metric's own.
 * The quantity may then be parsed at `out`; its length. */
static size_t drop_unit(const char *text, size_t len, const struct metric *metric,
                        enum units_kind kind, char *out, size_t size) {
  const char *unit = metric->unit, *per = kind == UNITS_RATE ? memchr(text, '/', len) : NULL;
  size_t n = strlen(unit), head = per ? (size_t)(per - text) : len;
  if (n > 2 && strcmp(unit + n - 2, "/s") == 0)
    n -= 2;
  if (len >= size || (kind != UNITS_NONE && !per))
    return 0;
  bool is_one = n > 1 && unit[n - 1] == 's' && head >= n - 1 &&
                memcmp(text + head - (n - 1), unit, n - 1) == 0; /* "1 token" */
  size_t word = is_one ? n - 1 : n;
  if (head <= word || memcmp(text + head - word, unit, word) != 0)
    return 0;
  head -= word;
  while (head > 0 && isspace((unsigned char)text[head - 1]))
    head--;
  if (!head || !isdigit((unsigned char)text[head - 1]))
    return 0;
  size_t tail = per ? len - (size_t)(per - text) : 0;
  memcpy(out, text, head);
  if (per)
    memcpy(out + head, per, tail);
  return head + tail;
}

/* Reads a quantity that may be a bound on `what`, a figure of that metric. *relative: it was a
 * percentage of something that is no ratio; only where `may_relate`. */
static int read_quantity(struct parser *p, const char *what, const struct metric *metric,
                         enum units_kind kind, bool may_relate, double *out, bool *relative) {
  char seen[40], plain[64];
  skip_spaces(p);
  size_t end = quantity_end(p), len = end - p->at;
  if (!len)
    return FAIL(p, p->at, "expected a quantity such as 400ms, found %s", found(p, seen));
  bool percent = p->text[end - 1] == '%';
  *relative = may_relate && percent && kind != UNITS_RATIO;
  size_t bare = drop_unit(p->text + p->at, len, metric, kind, plain, sizeof plain);
  const char *text = bare ? plain : p->text + p->at;
  if (units_parse_bound(text, bare ? bare : len, *relative ? UNITS_RATIO : kind, out, p->err)) {
    err_prefix(p->err, "bound on %s", what);
    return fail_at(p, p->at);
  }
  p->at = end;
  return 0;
}

/* "0.8 *": reads the factor and the star, or leaves everything as it was. */
static bool read_factor(struct parser *p, double *factor) {
  if (!at_number(p))
    return false;
  char *end;
  double x = strtod(p->text + p->at, &end);
  while (isspace((unsigned char)*end))
    end++;
  if (*end != '*' || !isfinite(x))
    return false;
  *factor = x;
  p->at = (size_t)(end - p->text) + 1;
  return true;
}

static void name_term(const struct parser *p, const struct expect_term *term, char out[80]) {
  size_t n = term->end - term->column;
  if (n > 79)
    n = 79;
  memcpy(out, p->text + term->column, n);
  out[n] = '\0';
}

static const char *kind_name(enum units_kind kind) {
  switch (kind) {
  case UNITS_TIME:
    return "a time";
  case UNITS_BYTES:
    return "a size";
  case UNITS_RATIO:
    return "a ratio";
  case UNITS_RATE:
    return "a rate";
  case UNITS_NONE:
  case UNITS_ANY:
    break;
  }
  return "a plain number";
}

/* The other term, with its factor and what is added. */
static int read_other(struct parser *p, struct expect *e) {
  char name[80];
  int rc = read_term(p, &e->right);
  if (rc)
    return rc;
  e->has_right = true;
  enum units_kind kind = metrics_stat_kind(e->right.metric, e->right.stat);
  if (kind != e->kind)
    return FAIL(p, e->right.column, "the left side is %s, this is %s: they cannot be compared",
                kind_name(e->kind), kind_name(kind));
  skip_spaces(p);
  char sign = p->text[p->at];
  if (sign != '+' && sign != '-')
    return 0;
  p->at++;
  name_term(p, &e->left, name);
  rc = read_quantity(p, name, e->left.metric, e->kind, true, &e->bound, &e->bound_relative);
  if (!rc && sign == '-')
    e->bound = -e->bound;
  return rc;
}

static int read_bound(struct parser *p, struct expect *e) {
  char name[80];
  bool ignored;
  skip_spaces(p);
  if (read_factor(p, &e->factor) || !at_number(p))
    return read_other(p, e);
  name_term(p, &e->left, name);
  return read_quantity(p, name, e->left.metric, e->kind, false, &e->bound, &ignored);
}

static int check_equivalence(struct parser *p, const struct expect_term *term) {
  bool ok = term->stat == STAT_MEAN || term->stat == STAT_SHARE || term->stat == STAT_QUANTILE;
  if (term->metric->domain == METRIC_OF_CLIENT || term->metric->domain == METRIC_OF_REPLICA)
    ok = false;
  return ok ? 0
            : FAIL(p, term->column,
                   "an equivalence claim is judged on intervals, which there are for mean, share "
                   "and percentiles of requests and sessions");
}

static int read_equivalence(struct parser *p, struct expect *e) {
  char seen[40];
  size_t start = p->at;
  int rc = check_equivalence(p, &e->left);
  if (!rc)
    rc = read_bound(p, e);
  if (rc)
    return rc;
  if (e->has_right && (e->factor < 1 || e->factor > 1 || e->bound < 0 || e->bound > 0))
    return FAIL(p, start, "an equivalence claim compares two plain terms: A = B within 2%%");
  if (e->has_right && (rc = check_equivalence(p, &e->right)))
    return rc;
  skip_spaces(p);
  if (strncmp(p->text + p->at, "within", 6) != 0)
    return FAIL(p, p->at, "\"=\" needs a margin: A = B within 2%%; found %s", found(p, seen));
  p->at += 6;
  skip_spaces(p);
  start = p->at;
  rc = read_quantity(p, "the margin", e->left.metric, e->kind, true, &e->margin,
                     &e->margin_relative);
  if (!rc && e->margin <= 0)
    return FAIL(p, start, "the margin must be above 0");
  return rc;
}

/* ---- whole ---- */

static int read_op(struct parser *p, enum expect_op *op) {
  char seen[40];
  const char *s = p->text + p->at;
  bool equal = s[0] && s[1] == '=';
  switch (s[0]) {
  case '<':
    *op = equal ? EXPECT_LE : EXPECT_LT;
    break;
  case '>':
    *op = equal ? EXPECT_GE : EXPECT_GT;
    break;
  case '=':
    if (equal)
      return FAIL(p, p->at,
                  "\"==\" is no comparison here: write < <= > >=, or a claim of equivalence, A = B "
                  "within 2%%");
    *op = EXPECT_EQUIVALENT;
    break;
  default:
    return FAIL(p, p->at, "expected < <= > >= or =, found %s", found(p, seen));
  }
  p->at += equal ? 2 : 1;
  return 0;
}

static int parse(struct parser *p, struct expect *e) {
  char seen[40];
  int rc = read_term(p, &e->left);
  if (rc)
    return rc;
  e->kind = metrics_stat_kind(e->left.metric, e->left.stat);
  skip_spaces(p);
  rc = read_op(p, &e->op);
  if (!rc)
    rc = e->op == EXPECT_EQUIVALENT ? read_equivalence(p, e) : read_bound(p, e);
  if (rc)
    return rc;
  skip_spaces(p);
  return p->text[p->at] ? FAIL(p, p->at, "expected the end, found %s", found(p, seen)) : 0;
}

int expect_parse(const char *text, const struct metrics *metrics, const char *const *arms,
                 size_t n_arms, struct expect *out, struct err *err) {
  *out = (struct expect){.factor = 1};
  while (isspace((unsigned char)*text))
    text++;
  size_t len = strlen(text);
  while (len > 0 && isspace((unsigned char)text[len - 1]))
    len--;
  if (len > MAX_TEXT)
    return err_set(err, ERR_INVALID, "expectation \"%.60s…\" is longer than %d characters", text,
                   MAX_TEXT);
  out->text = mem_strndup(text, len);
  struct err own = {0};
  struct parser p = {.text = out->text,
                     .metrics = metrics,
                     .arms = arms,
                     .n_arms = n_arms,
                     .err = err ? err : &own};
  int rc = len ? parse(&p, out)
               : err_set(err, ERR_INVALID,
                         "an expectation is empty: write one such as \"ttft p95 < 400ms\"");
  if (rc)
    expect_free(out);
  return rc;
}

void expect_free(struct expect *e) {
  mem_free(e->text);
  filter_free(&e->left.filter);
  filter_free(&e->right.filter);
  *e = (struct expect){0};
}

/* paritydate.c: finds the date that a text holds at some place, in the forms templates print. */
#include <string.h>

#include "text/parity_impl.h"

#define LONGEST 18 /* "September 30, 2026" */

static const char *const months[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};

/* What is being read; NULL once something did not fit. */
struct cursor {
  const char *p, *end;
};

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/* `least` to `most` digits, no digit behind them. */
static int number(struct cursor *c, int least, int most) {
  int n = 0, digits = 0;
  while (c->p && c->p < c->end && is_digit(*c->p) && digits < most) {
    n = n * 10 + (*c->p++ - '0');
    digits++;
  }
  if (digits < least || (c->p && c->p < c->end && is_digit(*c->p)))
    c->p = NULL;
  return n;
}

static void expect(struct cursor *c, const char *text) {
  size_t n = strlen(text);
  if (c->p && (size_t)(c->end - c->p) >= n && memcmp(c->p, text, n) == 0)
    c->p += n;
  else
    c->p = NULL;
}

/* A month's name, whole or its first three letters; 0 and NULL for none. */
static int month(struct cursor *c) {
  for (int i = 0; c->p && i < 12; i++) {
    size_t left = (size_t)(c->end - c->p), n = strlen(months[i]);
    if (left >= 3 && memcmp(c->p, months[i], 3) == 0) {
      c->p += left >= n && memcmp(c->p, months[i], n) == 0 ? n : 3;
      return i + 1;
    }
  }
  c->p = NULL;
  return 0;
}

/* Reads a date that begins at p in one form; its end, or NULL. */
static const char *read_form(int form, const char *p, const char *end, struct pytime *t) {
  struct cursor c = {p, end};
  *t = (struct pytime){0};
  if (form == 0) { /* 2026-08-01 */
    t->year = number(&c, 4, 4);
    expect(&c, "-");
    t->month = number(&c, 2, 2);
    expect(&c, "-");
    t->day = number(&c, 2, 2);
  } else if (form == 1) { /* 01 Aug 2026, 1 August 2026 */
    t->day = number(&c, 1, 2);
    expect(&c, " ");
    t->month = month(&c);
    expect(&c, " ");
    t->year = number(&c, 4, 4);
  } else { /* August 1, 2026 */
    t->month = month(&c);
    expect(&c, " ");
    t->day = number(&c, 1, 2);
    expect(&c, ", ");
    t->year = number(&c, 4, 4);
  }
  bool sound = t->year >= 1970 && t->month >= 1 && t->month <= 12 && t->day >= 1 && t->day <= 31;
  return sound ? c.p : NULL;
}

bool paritydate_find(const char *text, size_t len, size_t near, struct paritydate *out) {
  size_t from = near > LONGEST ? near - LONGEST : 0;
  for (size_t at = from; at <= near && at < len; at++) {
    if (at && is_digit(text[at - 1]) && is_digit(text[at]))
      continue; /* within a number */
    for (int form = 0; form < 3; form++) {
      const char *end = read_form(form, text + at, text + len, &out->time);
      if (!end || (size_t)(end - text) < near)
        continue;
      out->start = at;
      out->len = (size_t)(end - text) - at;
      return true;
    }
  }
  return false;
}

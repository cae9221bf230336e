/* pytime.c: dates of the proleptic Gregorian calendar and strftime; see pytime.h. */
#include "text/pytime.h"

#include <stdio.h>
#include <string.h>

static const char *const DAYS[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                   "Thursday", "Friday", "Saturday"};
static const char *const MONTHS[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};

static bool is_leap(int year) {
  return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int days_of_month(int year, int month) {
  static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return days[month - 1] + (month == 2 && is_leap(year));
}

/* 0 for the first of January. */
static int day_of_year(const struct pytime *t) {
  int days = t->day - 1;
  for (int m = 1; m < t->month; m++)
    days += days_of_month(t->year, m);
  return days;
}

/* Days since 1970-01-01. */
static int64_t epoch_days(const struct pytime *t) {
  int64_t y = t->year - 1;
  return y * 365 + y / 4 - y / 100 + y / 400 - 719162 + day_of_year(t);
}

/* 0 is Sunday. */
static int day_of_week(const struct pytime *t) {
  return (int)((epoch_days(t) % 7 + 11) % 7);
}

static bool read_digits(const char **p, const char *end, int n, int *out) {
  *out = 0;
  for (int i = 0; i < n; i++) {
    if (*p == end || **p < '0' || **p > '9')
      return false;
    *out = *out * 10 + (*(*p)++ - '0');
  }
  return true;
}

static bool skip(const char **p, const char *end, char c) {
  if (*p == end || **p != c)
    return false;
  (*p)++;
  return true;
}

static bool read_clock(const char **p, const char *end, struct pytime *t) {
  if (!read_digits(p, end, 2, &t->hour) || !skip(p, end, ':') ||
      !read_digits(p, end, 2, &t->minute))
    return false;
  if (skip(p, end, ':') && !read_digits(p, end, 2, &t->second))
    return false;
  if (skip(p, end, '.')) {
    int scale = 100000, digit;
    do {
      if (!read_digits(p, end, 1, &digit))
        return false;
      t->microsecond += digit * scale;
      scale /= 10;
    } while (*p != end);
  }
  return t->hour < 24 && t->minute < 60 && t->second < 60;
}

int pytime_parse(const char *text, size_t len, struct pytime *out, struct err *err) {
  const char *p = text, *end = text + len;
  struct pytime t = {0};
  bool ok = read_digits(&p, end, 4, &t.year) && skip(&p, end, '-') &&
            read_digits(&p, end, 2, &t.month) && skip(&p, end, '-') &&
            read_digits(&p, end, 2, &t.day);
  ok = ok && t.year >= 1970 && t.month >= 1 && t.month <= 12 && t.day >= 1 &&
       t.day <= days_of_month(t.year, t.month);
  if (ok && p != end)
    ok = (skip(&p, end, 'T') || skip(&p, end, ' ')) && read_clock(&p, end, &t) && p == end;
  if (!ok)
    return err_set(err, ERR_INVALID,
                   "\"%.*s\" is no local time; write it as 2026-08-22 or 2026-08-22T12:34:56",
                   (int)(len > 64 ? 64 : len), text);
  *out = t;
  return 0;
}

struct pytime pytime_from_epoch(int64_t seconds, int offset_seconds) {
  int64_t local = seconds + offset_seconds;
  if (local < 0)
    local = 0;
  int64_t days = local / 86400;
  int rest = (int)(local % 86400);
  struct pytime t = {1970, 1, 1, rest / 3600, rest / 60 % 60, rest % 60, 0};
  while (days >= (is_leap(t.year) ? 366 : 365) && t.year < 9999) {
    days -= is_leap(t.year) ? 366 : 365;
    t.year++;
  }
  while (t.month < 12 && days >= days_of_month(t.year, t.month))
    days -= days_of_month(t.year, t.month++);
  t.day = (int)days + 1;
  return t;
}

/* ISO 8601's week and the year it belongs to. */
static int iso_week(const struct pytime *t, int *year) {
  int weekday = (day_of_week(t) + 6) % 7; /* 0 is Monday */
  int week = (day_of_year(t) - weekday + 10) / 7;
  *year = t->year;
  if (week < 1) {
    struct pytime last = {.year = t->year - 1, .month = 12, .day = 31};
    int unused;
    week = iso_week(&last, &unused);
    *year = t->year - 1;
  } else if (week == 53) {
    struct pytime next = {.year = t->year + 1, .month = 1, .day = 1};
    if ((day_of_week(&next) + 6) % 7 <= 3) {
      week = 1;
      *year = t->year + 1;
    }
  }
  return week;
}

/* One directive's flag and least width, as glibc reads them between % and the letter. */
struct directive {
  char flag; /* '-' no padding, '_' spaces, '0' zeros, '^' upper, '#' swap, 0 none */
  int width;
};

static void put_number(struct buf *out, struct directive d, int64_t n, int width, char pad) {
  if (d.flag == '-')
    width = 0;
  else if (d.flag == '_')
    pad = ' ';
  else if (d.flag == '0')
    pad = '0';
  if (d.width > width)
    width = d.width;
  char digits[24];
  int len = snprintf(digits, sizeof digits, "%lld", (long long)n);
  for (int i = len; i < width; i++)
    buf_putc(out, pad);
  buf_put(out, digits, (size_t)len);
}

static void put_name(struct buf *out, struct directive d, const char *name, size_t len) {
  for (size_t i = len; i < (size_t)d.width; i++)
    buf_putc(out, d.flag == '0' ? '0' : ' ');
  for (size_t i = 0; i < len; i++) {
    char c = name[i];
    bool lower = c >= 'a' && c <= 'z';
    buf_putc(out, (d.flag == '^' || d.flag == '#') && lower ? (char)(c - 32) : c);
  }
}

static void put_half(struct buf *out, struct directive d, int hour, bool lower) {
  const char *name = hour < 12 ? "AM" : "PM";
  char text[2] = {name[0], name[1]};
  if (lower || d.flag == '#')
    for (int i = 0; i < 2; i++)
      text[i] = (char)(text[i] + 32);
  d.flag = d.flag == '#' ? 0 : d.flag;
  put_name(out, d, text, 2);
}

/* The composite directives, by their parts; NULL for the others. */
static const char *composite(char c) {
  switch (c) {
  case 'c':
    return "%a %b %e %H:%M:%S %Y";
  case 'D':
  case 'x':
    return "%m/%d/%y";
  case 'F':
    return "%Y-%m-%d";
  case 'r':
    return "%I:%M:%S %p";
  case 'R':
    return "%H:%M";
  case 'T':
  case 'X':
    return "%H:%M:%S";
  default:
    return NULL;
  }
}

static bool put_time_part(struct buf *out, const struct pytime *t, struct directive d, char c) {
  int half = t->hour % 12 ? t->hour % 12 : 12;
  switch (c) {
  case 'H':
    return put_number(out, d, t->hour, 2, '0'), true;
  case 'I':
    return put_number(out, d, half, 2, '0'), true;
  case 'k':
    return put_number(out, d, t->hour, 2, ' '), true;
  case 'l':
    return put_number(out, d, half, 2, ' '), true;
  case 'M':
    return put_number(out, d, t->minute, 2, '0'), true;
  case 'S':
    return put_number(out, d, t->second, 2, '0'), true;
  case 'f':
    return put_number(out, d, t->microsecond, 6, '0'), true;
  case 's':
    return put_number(out, d,
                      epoch_days(t) * 86400 + INT64_C(3600) * t->hour + INT64_C(60) * t->minute +
                          t->second,
                      0, '0'),
           true;
  case 'p':
    return put_half(out, d, t->hour, false), true;
  case 'P':
    return put_half(out, d, t->hour, true), true;
  default:
    return false;
  }
}

static bool put_date_part(struct buf *out, const struct pytime *t, struct directive d, char c) {
  int week_day = day_of_week(t), year_day = day_of_year(t), iso_year, week = iso_week(t, &iso_year);
  switch (c) {
  case 'A':
    return put_name(out, d, DAYS[week_day], strlen(DAYS[week_day])), true;
  case 'a':
    return put_name(out, d, DAYS[week_day], 3), true;
  case 'B':
    return put_name(out, d, MONTHS[t->month - 1], strlen(MONTHS[t->month - 1])), true;
  case 'b':
  case 'h':
    return put_name(out, d, MONTHS[t->month - 1], 3), true;
  case 'C':
    return put_number(out, d, t->year / 100, 2, '0'), true;
  case 'd':
    return put_number(out, d, t->day, 2, '0'), true;
  case 'e':
    return put_number(out, d, t->day, 2, ' '), true;
  case 'G':
    return put_number(out, d, iso_year, 4, '0'), true;
  case 'g':
    return put_number(out, d, iso_year % 100, 2, '0'), true;
  case 'j':
    return put_number(out, d, year_day + 1, 3, '0'), true;
  case 'm':
    return put_number(out, d, t->month, 2, '0'), true;
  case 'U':
    return put_number(out, d, (year_day + 7 - week_day) / 7, 2, '0'), true;
  case 'u':
    return put_number(out, d, week_day ? week_day : 7, 1, '0'), true;
  case 'V':
    return put_number(out, d, week, 2, '0'), true;
  case 'W':
    return put_number(out, d, (year_day + 7 - (week_day + 6) % 7) / 7, 2, '0'), true;
  case 'w':
    return put_number(out, d, week_day, 1, '0'), true;
  case 'Y':
    return put_number(out, d, t->year, 4, '0'), true;
  case 'y':
    return put_number(out, d, t->year % 100, 2, '0'), true;
  default:
    return false;
  }
}

/* Whether `c` is a directive that was written. */
static bool put_directive(struct buf *out, const struct pytime *t, struct directive d, char c) {
  const char *parts = composite(c);
  if (parts) {
    pytime_format(out, t, parts, strlen(parts));
    return true;
  }
  switch (c) {
  case '%':
    buf_putc(out, '%');
    return true;
  case 'n':
    buf_putc(out, '\n');
    return true;
  case 't':
    buf_putc(out, '\t');
    return true;
  case 'z':
  case 'Z':
    return true; /* no zone is known: Python prints nothing */
  default:
    return put_time_part(out, t, d, c) || put_date_part(out, t, d, c);
  }
}

void pytime_format(struct buf *out, const struct pytime *t, const char *format, size_t len) {
  for (size_t i = 0; i < len; i++) {
    if (format[i] != '%') {
      buf_putc(out, format[i]);
      continue;
    }
    size_t start = i++;
    struct directive d = {0};
    while (i < len && format[i] && strchr("-_0^#", format[i]))
      d.flag = format[i++];
    while (i < len && format[i] >= '0' && format[i] <= '9' && d.width < 1000)
      d.width = d.width * 10 + (format[i++] - '0');
    if (i + 1 < len && (format[i] == 'E' || format[i] == 'O')) /* the C locale has no other forms */
      i++;
    if (i >= len) {
      buf_put(out, format + start, len - start);
      return;
    }
    if (!put_directive(out, t, d, format[i]))
      buf_put(out, format + start, i - start + 1);
  }
}

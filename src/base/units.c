/* units.c: parsing and printing quantities. */
#include "base/units.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct unit {
  const char *name;
  enum units_kind kind;
  double scale;
};

static const struct unit units[] = {
    {"ns", UNITS_TIME, 1e-9},       {"us", UNITS_TIME, 1e-6},
    {"µs", UNITS_TIME, 1e-6},       {"ms", UNITS_TIME, 1e-3},
    {"s", UNITS_TIME, 1},           {"m", UNITS_TIME, 60},
    {"min", UNITS_TIME, 60},        {"h", UNITS_TIME, 3600},
    {"d", UNITS_TIME, 86400},       {"B", UNITS_BYTES, 1},
    {"kB", UNITS_BYTES, 1e3},       {"MB", UNITS_BYTES, 1e6},
    {"GB", UNITS_BYTES, 1e9},       {"KiB", UNITS_BYTES, 1024},
    {"MiB", UNITS_BYTES, 1048576},  {"GiB", UNITS_BYTES, 1073741824},
    {"%", UNITS_RATIO, 0.01},       {"/s", UNITS_RATE, 1},
    {"/m", UNITS_RATE, 1.0 / 60},   {"/min", UNITS_RATE, 1.0 / 60},
    {"/h", UNITS_RATE, 1.0 / 3600},
};

static const char *expected(enum units_kind want) {
  switch (want) {
  case UNITS_TIME:
    return "a time such as \"50ms\", \"2s\", \"3m\" or a number of seconds";
  case UNITS_BYTES:
    return "a size such as \"64KiB\", \"2MB\" or a number of bytes";
  case UNITS_RATIO:
    return "a share such as \"5%\" or a number from 0 to 1";
  case UNITS_RATE:
    return "a rate such as \"5/s\", \"300/m\" or a number per second";
  case UNITS_NONE:
    return "a plain number";
  case UNITS_ANY:
    break;
  }
  return "a number with an optional unit (ms s m h, KiB MB, %, /s)";
}

/* The length of the decimal number at the start of text; 0 when there is none. No hex, inf or nan.
 */
static size_t number_length(const char *t, size_t len) {
  size_t i = 0, digits = 0;
  if (i < len && (t[i] == '+' || t[i] == '-'))
    i++;
  for (; i < len && t[i] >= '0' && t[i] <= '9'; i++)
    digits++;
  if (i < len && t[i] == '.')
    for (i++; i < len && t[i] >= '0' && t[i] <= '9'; i++)
      digits++;
  if (!digits)
    return 0;
  if (i < len && (t[i] == 'e' || t[i] == 'E')) {
    size_t j = i + 1;
    if (j < len && (t[j] == '+' || t[j] == '-'))
      j++;
    size_t start = j;
    while (j < len && t[j] >= '0' && t[j] <= '9')
      j++;
    if (j > start)
      i = j;
  }
  return i;
}

int units_parse(const char *text, size_t len, enum units_kind want, double *value,
                enum units_kind *unit, struct err *err) {
  int shown = len > 60 ? 60 : (int)len;
  size_t n = number_length(text, len);
  if (!n || n > 60)
    return err_set(err, ERR_INVALID, "\"%.*s\" is not %s", shown, text, expected(want));
  char digits[64];
  memcpy(digits, text, n);
  digits[n] = '\0';
  double x = strtod(digits, NULL);
  size_t u = n;
  while (u < len && text[u] == ' ')
    u++;
  enum units_kind kind = UNITS_NONE;
  if (u < len) {
    const struct unit *found = NULL;
    for (size_t i = 0; i < ARRAY_LEN(units) && !found; i++)
      if (strlen(units[i].name) == len - u && memcmp(units[i].name, text + u, len - u) == 0)
        found = &units[i];
    if (!found || (want != UNITS_ANY && found->kind != want))
      return err_set(err, ERR_INVALID, "\"%.*s\" is not %s", shown, text, expected(want));
    kind = found->kind;
    x = found->scale < 1 ? x / (1 / found->scale) : x * found->scale;
  }
  if (!isfinite(x))
    return err_set(err, ERR_INVALID, "\"%.*s\" is too large", shown, text);
  *value = x;
  if (unit)
    *unit = kind;
  return 0;
}

int units_parse_bound(const char *text, size_t len, enum units_kind want, double *value,
                      struct err *err) {
  enum units_kind unit = want;
  int rc = units_parse(text, len, want, value, &unit, err);
  if (rc || unit != UNITS_NONE || (*value >= 0 && *value <= 0))
    return rc;
  double x = *value;
  if (want == UNITS_TIME)
    return err_set(err, ERR_INVALID, "%g what? write %gms or %gs", x, x, x);
  if (want == UNITS_BYTES)
    return err_set(err, ERR_INVALID, "%g what? write %gB or %gKiB", x, x, x);
  if (want == UNITS_RATIO && (x > 1 || x < -1))
    return err_set(err, ERR_INVALID, "%g of what? a ratio is at most 1: write %g%% or %g", x, x,
                   x / 100);
  return 0;
}

void units_format_seconds(double s, char *out, size_t size) {
  double a = fabs(s);
  if (a < 0.9995e-3)
    snprintf(out, size,
             a > 0 && a < 9.995e-6   ? "%.2f µs"
             : a > 0 && a < 99.95e-6 ? "%.1f µs"
                                     : "%.0f µs",
             s * 1e6);
  else if (a < 0.9995)
    snprintf(out, size, a < 0.00995 ? "%.2f ms" : a < 0.0995 ? "%.1f ms" : "%.0f ms", s * 1e3);
  else if (a < 119.5)
    snprintf(out, size, a < 9.995 ? "%.2f s" : a < 99.95 ? "%.1f s" : "%.0f s", s);
  else if (a < 7170) {
    long total = lround(s);
    snprintf(out, size, "%ldm %02lds", total / 60, labs(total % 60));
  } else {
    long total = lround(s / 60);
    snprintf(out, size, "%ldh %02ldm", total / 60, labs(total % 60));
  }
}

void units_format_bytes(double bytes, char *out, size_t size) {
  static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t i = 0;
  while (fabs(bytes) >= 1024 && i + 1 < ARRAY_LEN(names)) {
    bytes /= 1024;
    i++;
  }
  snprintf(out, size, i == 0 ? "%.0f %s" : "%.1f %s", bytes, names[i]);
}

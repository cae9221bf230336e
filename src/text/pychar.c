/* pychar.c: looking characters up; see pychar.h. */
#include "text/pychar.h"

#include "text/pychar_table.h"

unsigned pychar_classes(uint32_t c) {
  size_t low = 0, high = pychar_n_ranges;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (c > pychar_ranges[mid].last)
      low = mid + 1;
    else
      high = mid;
  }
  return low < pychar_n_ranges && c >= pychar_ranges[low].first ? pychar_ranges[low].classes : 0;
}

size_t pychar_map(uint32_t c, enum pychar_case how, uint32_t out[3]) {
  out[0] = c;
  if (c < 128) {
    bool lower = c >= 'a' && c <= 'z', upper = c >= 'A' && c <= 'Z';
    if (upper && (how == PYCHAR_TO_LOWER || how == PYCHAR_TO_FOLD))
      out[0] = c + 32;
    else if (lower && (how == PYCHAR_TO_UPPER || how == PYCHAR_TO_TITLE))
      out[0] = c - 32;
    return 1;
  }
  size_t low = 0, high = pychar_n_mappings;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (c > pychar_mappings[mid].c)
      low = mid + 1;
    else
      high = mid;
  }
  if (low == pychar_n_mappings || pychar_mappings[low].c != c)
    return 1;
  uint32_t to = pychar_mappings[low].to[how];
  if (!(to & 0x80000000u)) {
    out[0] = to;
    return 1;
  }
  const uint32_t *many = pychar_multi[to & 0x7fffffffu];
  size_t n = 0;
  while (n < 3 && (many[n] || n == 0)) {
    out[n] = many[n];
    n++;
  }
  return n;
}

int pychar_decimal(uint32_t c) {
  if (c < 128)
    return c >= '0' && c <= '9' ? (int)(c - '0') : -1;
  size_t low = 0, high = pychar_n_zeros;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (c >= pychar_zeros[mid] + 10)
      low = mid + 1;
    else
      high = mid;
  }
  return low < pychar_n_zeros && c >= pychar_zeros[low] ? (int)(c - pychar_zeros[low]) : -1;
}

static bool is_tail(const char *s, size_t len, size_t i) {
  return i < len && ((unsigned char)s[i] & 0xc0) == 0x80;
}

uint32_t pychar_read(const char *s, size_t len, size_t *size) {
  unsigned char a = (unsigned char)s[0];
  *size = 1;
  if (a < 0x80)
    return a;
  uint32_t c = 0;
  size_t n = a >= 0xf0 && a <= 0xf4 ? 4 : a >= 0xe0 && a < 0xf0 ? 3 : a >= 0xc2 && a < 0xe0 ? 2 : 0;
  if (!n)
    return 0xfffd;
  c = a & (0xffu >> (n + 1));
  for (size_t i = 1; i < n; i++) {
    if (!is_tail(s, len, i))
      return 0xfffd;
    c = c << 6 | ((unsigned char)s[i] & 0x3f);
  }
  if (c > 0x10ffff || (n == 3 && c < 0x800) || (n == 4 && c < 0x10000))
    return 0xfffd;
  *size = n;
  return c;
}

size_t pychar_write(char out[4], uint32_t c) {
  if (c < 0x80) {
    out[0] = (char)c;
    return 1;
  }
  if (c < 0x800) {
    out[0] = (char)(0xc0 | c >> 6);
    out[1] = (char)(0x80 | (c & 0x3f));
    return 2;
  }
  if (c < 0x10000) {
    out[0] = (char)(0xe0 | c >> 12);
    out[1] = (char)(0x80 | (c >> 6 & 0x3f));
    out[2] = (char)(0x80 | (c & 0x3f));
    return 3;
  }
  out[0] = (char)(0xf0 | c >> 18);
  out[1] = (char)(0x80 | (c >> 12 & 0x3f));
  out[2] = (char)(0x80 | (c >> 6 & 0x3f));
  out[3] = (char)(0x80 | (c & 0x3f));
  return 4;
}

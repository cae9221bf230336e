/* printable.c: one pass over the bytes. */
#include "base/printable.h"

#include <string.h>

/* Length of the UTF-8 sequence at s, 1 to 4; 0 when there is none. */
static size_t sequence(const unsigned char *s, size_t left) {
  if (s[0] < 0x80)
    return 1;
  size_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
  if (s[0] < 0xc2 || s[0] > 0xf4 || n > left)
    return 0;
  for (size_t i = 1; i < n; i++)
    if ((s[i] & 0xc0) != 0x80)
      return 0;
  bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90);
  bool beyond = (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf4 && s[1] > 0x8f);
  return overlong || beyond ? 0 : n;
}

static bool obeyed(const unsigned char *s, size_t n) {
  switch (n) {
  case 1:
    return (s[0] < 0x20 && s[0] != '\t' && s[0] != '\n') || s[0] == 0x7f;
  case 2:
    return s[0] == 0xc2 && s[1] < 0xa0; /* U+0080 to U+009F */
  case 3:
    /* U+200B to U+200F, U+2028 to U+202E, U+2060 to U+206F, U+FEFF */
    return (s[0] == 0xe2 && s[1] == 0x80 &&
            ((s[2] >= 0x8b && s[2] <= 0x8f) || (s[2] >= 0xa8 && s[2] <= 0xae))) ||
           (s[0] == 0xe2 && s[1] == 0x81 && s[2] >= 0xa0 && s[2] <= 0xaf) ||
           (s[0] == 0xef && s[1] == 0xbb && s[2] == 0xbf);
  default:
    return false;
  }
}

void printable_make(char *s, size_t len) {
  for (size_t i = 0; i < len;) {
    unsigned char *at = (unsigned char *)s + i;
    size_t n = sequence(at, len - i);
    if (!n)
      *at = '?';
    else if (obeyed(at, n))
      memset(at, ' ', n);
    i += n ? n : 1;
  }
}

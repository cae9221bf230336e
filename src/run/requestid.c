/* requestid.c: see requestid.h. Written by hand: it is made once per request. */
#include "run/requestid.h"

#include <string.h>

#include "base/rng.h"

uint64_t requestid_run(uint64_t wall_ns, uint64_t zero_ns) {
  struct rng r;
  rng_init(&r, wall_ns, zero_ns);
  return rng_u64(&r) >> 16;
}

/* At least `least` digits. */
static char *put_hex(char *p, uint64_t v, int least) {
  int digits = 1;
  for (uint64_t rest = v >> 4; rest; rest >>= 4)
    digits++;
  for (int i = digits > least ? digits : least; i > 0; i--)
    *p++ = "0123456789abcdef"[i > 16 ? 0 : v >> 4 * (i - 1) & 15];
  return p;
}

size_t requestid_write(uint64_t run, uint32_t worker, uint64_t number, char out[REQUESTID_MAX]) {
  static const char name[] = "perigee-";
  memcpy(out, name, sizeof name - 1);
  char *p = put_hex(out + sizeof name - 1, run, 12);
  *p++ = '-';
  p = put_hex(p, worker, 1);
  *p++ = '-';
  p = put_hex(p, number, 1);
  *p = '\0';
  return (size_t)(p - out);
}

/* names.h: small integers for strings that repeat: arms, replicas, tag sets, metric names. */
#ifndef OUT_NAMES_H
#define OUT_NAMES_H

#include "text/value.h"

struct names {
  char **items; /* owned; items[i] belongs to number i */
  size_t n, cap, max;
  struct value index; /* object: string -> number */
};

/* At most `max` different names; what comes after shares the last number, "(other)". Outside text
 * (a replica's name in a response header) can therefore not fill the memory. */
void names_init(struct names *s, size_t max);
void names_free(struct names *s);
/* The number of `text`, new when it was not there. */
uint32_t names_intern(struct names *s, const char *text);
/* −1 when it is not there. */
int64_t names_find(const struct names *s, const char *text);

#endif

/* readfile.h: a whole file for a benchmark; without it there is nothing to measure. */
#ifndef TESTS_BENCH_READFILE_H
#define TESTS_BENCH_READFILE_H

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"

/* The bytes with a NUL behind them, the caller's to free (mem_free). */
static inline char *read_file(const char *path, size_t *len) {
  FILE *f = fopen(path, "rb");
  struct buf b;
  char part[65536];
  buf_init(&b, BUF_MAX_OWN);
  if (!f) {
    perror(path);
    exit(1);
  }
  for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;)
    buf_put(&b, part, n);
  fclose(f);
  return buf_take(&b, len);
}

#endif

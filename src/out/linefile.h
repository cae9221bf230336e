/* linefile.h: a file of JSON lines in memory, read-only, and small readers of a line's fields.
 *
 * For passes over files that a run has written (samples.jsonl, the fleet's truth log): lines stay
 * where they are, fields are slices of them (text/jsonwalk.h). */
#ifndef OUT_LINEFILE_H
#define OUT_LINEFILE_H

#include "base/err.h"
#include "text/jsonwalk.h"

struct linefile {
  const char *data; /* never NULL once open */
  size_t len;
  void *map; /* NULL: the file is empty */
};

/* ERR_IO names the file. */
NODISCARD int linefile_open(struct linefile *f, const char *path, struct err *err);
void linefile_close(struct linefile *f);
/* The next line that ends with a line feed, without it, from *at on, which moves behind it; false
 * at the end. What stands behind the last line feed is a line that was not finished: left out. */
bool linefile_next(const struct linefile *f, size_t *at, struct jsonslice *line);
/* Whether there is such a line: the file was cut, or its writer was ended in the middle of it. */
bool linefile_is_cut(const struct linefile *f);

/* A whole number; `absent` for null, absent, or anything else. */
int64_t linefile_int(struct jsonslice s, int64_t absent);
/* The same for stamps, which may be beyond int64. */
uint64_t linefile_stamp(struct jsonslice s, uint64_t absent);
bool linefile_true(struct jsonslice s);
/* A string's bytes as they stand in the file, without quotes; p NULL for null. Two strings of one
 * writer are equal when these are. */
struct jsonslice linefile_string(struct jsonslice s);
bool linefile_same(struct jsonslice a, struct jsonslice b);

#endif

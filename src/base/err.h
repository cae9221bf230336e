/* err.h: how a function says that it failed.
 *
 * A function that can fail returns int: 0, or a negative `enum err_code`. What went wrong, for a
 * person, goes into the caller's `struct err`, which is plain memory: nothing to free. The text
 * names the thing that is wrong (file, line, option, URL) and the way out. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "base/base.h"

enum err_code {
  ERR_OK = 0,
  ERR_INVALID = -1,     /* bad input: syntax, type, range, unknown name */
  ERR_NOT_FOUND = -2,   /* a file, a module, a key that must exist does not */
  ERR_IO = -3,          /* the system refused a read, write, open, fork */
  ERR_LIMIT = -4,       /* a stated bound was reached */
  ERR_CLOSED = -5,      /* the other side ended it */
  ERR_CANCELLED = -6,   /* we ended it */
  ERR_TIMEOUT = -7,     /* a deadline passed */
  ERR_RESOLVE = -8,     /* a host name has no address */
  ERR_CONNECT = -9,     /* no connection could be made */
  ERR_TLS = -10,        /* handshake or certificate */
  ERR_UNSUPPORTED = -11 /* known, and refused on purpose */
};

struct err {
  int code;        /* the same value the function returned */
  char text[1024]; /* NUL-terminated; too long: words of more than 160 bytes lose their middle, then
                      it is cut, both at UTF-8 boundaries */
};

/* Fills *err (which may be NULL) and returns `code`, so that `return err_set(err, ERR_IO, …)` reads
 * as one sentence. */
COLD int err_set(struct err *err, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Puts "`prefix`: " in front of the text that is already there; returns err->code. */
COLD int err_prefix(struct err *err, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* The code's name in lower case, for logs and tests: "invalid", "timeout". */
const char *err_name(int code);

/* Of `names` (n of them) the one nearest to `word` by edits, for "did you mean"; NULL when none is
 * near enough to be a likely slip. */
const char *err_nearest(const char *word, const char *const *names, size_t n);

#endif

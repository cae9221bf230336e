/* rowfile.h: a file of rows that grows while a run goes on: one JSON object a line, whole rows
 * only.
 *
 * When the disk refuses, the file is cut back to its last whole row, the error is kept and logged
 * once, and later rows are counted as lost. One thread's. */
#ifndef OUT_ROWFILE_H
#define OUT_ROWFILE_H

#include "base/buf.h"
#include "base/err.h"

struct rowfile {
  char *path; /* NULL: there is no file, rows go nowhere */
  int fd;     /* −1: no file, or it failed */
  struct buf rows;
  uint64_t pending, written, lost, good_bytes;
  struct err error; /* code 0: none */
};

void rowfile_init(struct rowfile *f);
/* Makes (empties) folder/name. ERR_IO names the path and the way out. */
NODISCARD int rowfile_open(struct rowfile *f, const char *folder, const char *name,
                           struct err *err);
/* The row that the caller appended to f->rows is done: ends its line, and writes when much is
 * ready. Not when !rowfile_takes. */
void rowfile_row(struct rowfile *f);
/* Whether rows are to be made; when not, the row counts as lost if there was a file. */
bool rowfile_takes(struct rowfile *f);
/* Writes what is ready, with one call. */
void rowfile_write(struct rowfile *f);
void rowfile_close(struct rowfile *f);
/* 0, or ERR_IO: what went wrong, and how many rows are missing. */
NODISCARD int rowfile_result(const struct rowfile *f, struct err *err);
void rowfile_free(struct rowfile *f);

#endif

/* rowfile.c: writing rows, and what happens when that fails. There is no buffer that could lose
 * rows: what was handed over is written before the thread sleeps. */
#include "out/rowfile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

#define WRITE_AT (1u << 20) /* rows are written at the latest when this many bytes are ready */

void rowfile_init(struct rowfile *f) {
  *f = (struct rowfile){.fd = -1};
  buf_init(&f->rows, BUF_MAX_OWN);
}

int rowfile_open(struct rowfile *f, const char *folder, const char *name, struct err *err) {
  struct buf path;
  buf_init(&path, BUF_MAX_OWN);
  buf_printf(&path, "%s/%s", folder, name);
  f->path = buf_take(&path, NULL);
  f->fd = open(f->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  return f->fd >= 0 ? 0
                    : err_set(err, ERR_IO, "cannot create %s: %s (--out DIR chooses another place)",
                              f->path, strerror(errno));
}

static uint64_t count_rows(const char *data, size_t len) {
  uint64_t n = 0;
  for (const char *p = data; (p = memchr(p, '\n', len - (size_t)(p - data))); p++)
    n++;
  return n;
}

/* `done` bytes of the rows reached the file before `error`: cut it back to whole rows and give up
 * on it. */
static void give_up(struct rowfile *f, size_t done, int error) {
  size_t whole = done;
  while (whole > 0 && f->rows.data[whole - 1] != '\n')
    whole--;
  uint64_t rows = count_rows(f->rows.data, whole);
  f->written += rows;
  f->lost += f->pending - rows;
  f->good_bytes += whole;
  if (ftruncate(f->fd, (off_t)f->good_bytes))
    log_warn("a file may end in half a row path=%s", f->path);
  close(f->fd);
  f->fd = -1;
  err_set(&f->error, ERR_IO, "cannot write %s: %s", f->path, strerror(error));
  log_error("cannot write %s: %s; the run goes on, its rows are kept in memory only", f->path,
            strerror(error));
}

void rowfile_write(struct rowfile *f) {
  size_t done = 0;
  while (f->fd >= 0 && done < f->rows.len) {
    ssize_t n = write(f->fd, f->rows.data + done, f->rows.len - done);
    if (n > 0)
      done += (size_t)n;
    else if (n < 0 && errno != EINTR)
      give_up(f, done, errno);
    else if (n == 0)
      give_up(f, done, ENOSPC);
  }
  if (f->fd >= 0) {
    f->good_bytes += done;
    f->written += f->pending;
  }
  f->pending = 0;
  buf_reset(&f->rows);
}

bool rowfile_takes(struct rowfile *f) {
  if (f->fd >= 0)
    return true;
  f->lost += f->path != NULL;
  return false;
}

void rowfile_row(struct rowfile *f) {
  buf_putc(&f->rows, '\n');
  f->pending++;
  if (f->rows.len >= WRITE_AT)
    rowfile_write(f);
}

void rowfile_close(struct rowfile *f) {
  if (f->fd >= 0 && close(f->fd))
    err_set(&f->error, ERR_IO, "cannot write %s: %s", f->path, strerror(errno));
  f->fd = -1;
}

int rowfile_result(const struct rowfile *f, struct err *err) {
  if (!f->error.code)
    return 0;
  return err_set(
      err, ERR_IO,
      "%s; %llu of %llu rows are missing from the file, the figures are made from all of "
      "them. Free space there or choose another place with --out DIR, and run again",
      f->error.text, (unsigned long long)f->lost, (unsigned long long)f->lost + f->written);
}

void rowfile_free(struct rowfile *f) {
  if (f->fd >= 0)
    close(f->fd);
  buf_free(&f->rows);
  mem_free(f->path);
  *f = (struct rowfile){.fd = -1};
}

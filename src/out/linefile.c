/* linefile.c: see linefile.h. */
#include "out/linefile.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int linefile_open(struct linefile *f, const char *path, struct err *err) {
  struct stat st;
  /* a FIFO would wait for its writer: what it is, is seen below */
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = 0;
  *f = (struct linefile){.data = ""};
  if (fd < 0 || fstat(fd, &st) != 0) {
    rc = err_set(err, ERR_IO, "cannot read %s: %s", path, strerror(errno));
  } else if (!S_ISREG(st.st_mode)) {
    rc = err_set(err, ERR_IO, "cannot read %s: it is no regular file", path);
  } else if (st.st_size) {
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
      rc = err_set(err, ERR_IO, "cannot read %s: %s", path, strerror(errno));
    else
      *f = (struct linefile){.data = map, .map = map, .len = (size_t)st.st_size};
  }
  if (fd >= 0)
    close(fd);
  return rc;
}

void linefile_close(struct linefile *f) {
  if (f->map)
    munmap(f->map, f->len);
  *f = (struct linefile){.data = ""};
}

bool linefile_next(const struct linefile *f, size_t *at, struct jsonslice *line) {
  const char *from = f->data + *at;
  const char *end = memchr(from, '\n', f->len - *at);
  if (!end)
    return false;
  *line = (struct jsonslice){from, end};
  *at = (size_t)(end - f->data) + 1;
  return true;
}

bool linefile_is_cut(const struct linefile *f) {
  return f->len && f->data[f->len - 1] != '\n';
}

uint64_t linefile_stamp(struct jsonslice s, uint64_t absent) {
  uint64_t v = 0;
  if (!s.p || s.p == s.end)
    return absent;
  for (const char *p = s.p; p < s.end; p++) {
    uint64_t digit = (uint64_t)(*p - '0');
    if (*p < '0' || *p > '9' || v > (UINT64_MAX - digit) / 10)
      return absent;
    v = v * 10 + digit;
  }
  return v;
}

int64_t linefile_int(struct jsonslice s, int64_t absent) {
  bool minus = s.p && s.p < s.end && *s.p == '-';
  struct jsonslice digits = {minus ? s.p + 1 : s.p, s.end};
  uint64_t v = linefile_stamp(digits, UINT64_MAX);
  if (v > INT64_MAX)
    return absent;
  return minus ? -(int64_t)v : (int64_t)v;
}

bool linefile_true(struct jsonslice s) {
  return s.p && s.end - s.p == 4 && memcmp(s.p, "true", 4) == 0;
}

struct jsonslice linefile_string(struct jsonslice s) {
  if (!s.p || s.end - s.p < 2 || *s.p != '"')
    return (struct jsonslice){0};
  return (struct jsonslice){s.p + 1, s.end - 1};
}

bool linefile_same(struct jsonslice a, struct jsonslice b) {
  return a.p && b.p && a.end - a.p == b.end - b.p && memcmp(a.p, b.p, (size_t)(a.end - a.p)) == 0;
}

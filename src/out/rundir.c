/* rundir.c: making the folder, writing files whole. */
#include "out/rundir.h"

#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "text/json.h"

#define MAX_SAME_NAME 1000

static int fail_io(struct err *err, const char *what, const char *path, int error) {
  const char *hint = error == ENOSPC || error == EDQUOT || error == EFBIG
                         ? "; free space there, or choose another place with --out DIR"
                     : error == EACCES || error == EROFS || error == EPERM || error == ENOTDIR
                         ? "; choose another place with --out DIR"
                         : "";
  return err_set(err, ERR_IO, "cannot %s %s: %s%s", what, path, strerror(error), hint);
}

/* Makes every folder of `path` up to its last slash, or all of it. */
static int make_folders(const char *path, bool last_too, struct err *err) {
  char *copy = mem_strdup(path);
  int rc = 0;
  for (char *p = copy + 1; !rc && *copy; p++) {
    bool end = *p == '\0';
    if (*p != '/' && !end)
      continue;
    if (end && !last_too)
      break;
    *p = '\0';
    if (mkdir(copy, 0755) && errno != EEXIST)
      rc = fail_io(err, "make the folder", copy, errno);
    if (end)
      break;
    *p = '/';
  }
  mem_free(copy);
  return rc;
}

static void clean_label(const char *label, struct buf *out) {
  for (const char *s = label && *label ? label : "run"; *s; s++) {
    bool plain = isalnum((unsigned char)*s) || *s == '_' || *s == '-' || *s == '.';
    /* A leading dot would hide the folder, or leave it (".."). */
    buf_putc(out, plain && !(*s == '.' && out->len == 0) ? *s : '-');
  }
}

int rundir_create(const char *parent, const char *label, uint64_t wall_ns, struct rundir *out,
                  struct err *err) {
  *out = (struct rundir){0};
  int rc = make_folders(parent, true, err);
  if (rc)
    return rc;
  char stamp[32];
  time_t seconds = (time_t)(wall_ns / NS_PER_S);
  struct tm tm;
  gmtime_r(&seconds, &tm);
  strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &tm);
  struct buf name, path;
  buf_init(&name, BUF_MAX_OWN);
  buf_init(&path, BUF_MAX_OWN);
  clean_label(label, &name);
  buf_printf(&name, "-%s", stamp);
  size_t plain = name.len;
  for (int i = 1;; i++) {
    if (i > 1) {
      name.len = plain;
      buf_printf(&name, "-%d", i);
    }
    buf_reset(&path);
    buf_printf(&path, "%s/%s", parent, name.data);
    if (mkdir(path.data, 0755) == 0)
      break;
    if (errno != EEXIST || i == MAX_SAME_NAME) {
      rc = fail_io(err, "make the folder", path.data, errno);
      break;
    }
  }
  if (!rc) {
    out->path = buf_take(&path, NULL);
    out->id = buf_take(&name, NULL);
  }
  buf_free(&path);
  buf_free(&name);
  return rc;
}

static int open_nameless(const char *folder) {
  int fd = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (fd >= 0)
    return fd;
  struct buf path;
  buf_init(&path, BUF_MAX_OWN);
  buf_printf(&path, "%s/room.part", folder);
  fd = open(path.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd >= 0)
    unlink(path.data);
  buf_free(&path);
  return fd;
}

int rundir_reserve(struct rundir *d, uint64_t bytes, struct err *err) {
  assert(!d->has_room);
  int fd = open_nameless(d->path);
  int error = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)bytes);
  if (fd >= 0 && !error) {
    d->room_fd = fd;
    d->has_room = true;
    return 0;
  }
  if (fd >= 0)
    close(fd);
  if (error != ENOSPC && error != EDQUOT)
    return 0;
  char what[96];
  snprintf(what, sizeof what, "keep %.1f MB for the summary and the report in",
           (double)bytes / 1e6);
  int rc = fail_io(err, what, d->path, error);
  rmdir(d->path);
  return rc;
}

void rundir_release(struct rundir *d) {
  if (d->has_room)
    close(d->room_fd);
  d->has_room = false;
}

void rundir_free(struct rundir *d) {
  rundir_release(d);
  mem_free(d->path);
  mem_free(d->id);
  *d = (struct rundir){0};
}

static int write_all(int fd, const char *data, size_t len) {
  while (len > 0) {
    ssize_t n = write(fd, data, len);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return n < 0 ? errno : ENOSPC;
    data += n;
    len -= (size_t)n;
  }
  return 0;
}

int rundir_write(const struct rundir *d, const char *name, const void *data, size_t len,
                 struct err *err) {
  struct buf path, part;
  buf_init(&path, BUF_MAX_OWN);
  buf_init(&part, BUF_MAX_OWN);
  buf_printf(&path, "%s/%s", d->path, name);
  buf_printf(&part, "%s.part", path.data);
  int rc = make_folders(path.data, false, err);
  int fd = -1;
  if (!rc) {
    fd = open(part.data, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
      rc = fail_io(err, "create", part.data, errno);
  }
  if (!rc) {
    int error = write_all(fd, data, len);
    /* Before the rename, or a crash of the machine could leave an empty file under the name. */
    if (!error && fsync(fd) && errno != EINVAL)
      error = errno;
    if (close(fd) && !error)
      error = errno;
    if (!error && rename(part.data, path.data))
      error = errno;
    if (error) {
      unlink(part.data);
      rc = fail_io(err, "write", path.data, error);
    }
  }
  buf_free(&path);
  buf_free(&part);
  return rc;
}

int rundir_write_value(const struct rundir *d, const char *name, const struct value *v,
                       struct err *err) {
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  json_write_pretty(&b, v);
  buf_putc(&b, '\n');
  int rc = rundir_write(d, name, b.data, b.len, err);
  buf_free(&b);
  return rc;
}

struct value rundir_names(const struct rundir *d) {
  struct value names = value_array();
  DIR *dir = opendir(d->path);
  for (struct dirent *entry; dir && (entry = readdir(dir));) {
    char name[sizeof entry->d_name + 1];
    if (entry->d_name[0] == '.')
      continue;
    snprintf(name, sizeof name, "%s%s", entry->d_name, entry->d_type == DT_DIR ? "/" : "");
    value_push(&names, value_cstring(name));
  }
  if (dir)
    closedir(dir);
  return names;
}

int rundir_open_log(const struct rundir *d, int *fd, struct err *err) {
  struct buf path;
  buf_init(&path, BUF_MAX_OWN);
  buf_printf(&path, "%s/log.txt", d->path);
  *fd = open(path.data, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  int rc = *fd < 0 ? err_set(err, ERR_IO, "cannot write %s: %s", path.data, strerror(errno)) : 0;
  buf_free(&path);
  return rc;
}

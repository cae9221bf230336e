/* tokenfile.c: a tokenizer from a path: which file, and of which kind. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "text/json_scan.h"
#include "text/tokenizer.h"

#define FILE_MAX ((size_t)512 << 20)

static int failed(struct err *err, const char *path, const char *what) {
  int code = errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : ERR_IO;
  return err_set(err, code, "%s: cannot %s: %s", path, what, strerror(errno));
}

static int read_all(const char *path, struct buf *out, struct err *err) {
  int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
  ssize_t n = 1;
  if (fd < 0)
    return failed(err, path, "open");
  while (n > 0 && !rc) {
    rc = buf_reserve(out, 1 << 20);
    if (rc) {
      err_set(err, rc, "%s: larger than %zu MiB", path, FILE_MAX >> 20);
      break;
    }
    do
      n = read(fd, out->data + out->len, 1 << 20);
    while (n < 0 && errno == EINTR);
    if (n < 0)
      rc = failed(err, path, "read");
    else
      out->len += (size_t)n;
  }
  close(fd);
  return rc;
}

static int load_text(const char *path, const struct buf *text, const char *family,
                     const struct tokens **out, struct err *err) {
  const char *end = text->data + text->len, *first = json_skip_space(text->data, end);
  bool json = first < end && *first == '{';
  if (json && family)
    return err_set(err, ERR_INVALID,
                   "%s: is a JSON file; only rank files have a family (leave out \"%s\")", path,
                   family);
  if (!json && !family)
    return err_set(err, ERR_INVALID,
                   "%s: not a tokenizer.json; when it is a tiktoken rank file, say its family (%s)",
                   path, rankfile_families());
  return tokens_load_text(path, text->data, text->len, family, out, err);
}

int tokens_load(const char *path, const struct tokens_load_options *options,
                const struct tokens **out, struct err *err) {
  struct stat st;
  struct buf name, text;
  int rc = 0;
  *out = NULL;
  if (stat(path, &st))
    return failed(err, path, "open");
  buf_init(&name, 1 << 16);
  buf_init(&text, FILE_MAX);
  if (buf_add(&name, path, strlen(path)))
    rc = err_set(err, ERR_INVALID, "a path of more than 64 KiB");
  else if (S_ISDIR(st.st_mode) && buf_add(&name, "/tokenizer.json", 15))
    rc = err_set(err, ERR_INVALID, "a path of more than 64 KiB");
  if (!rc)
    rc = read_all(name.data, &text, err);
  if (!rc)
    rc = load_text(name.data, &text, options ? options->family : NULL, out, err);
  buf_free(&name);
  buf_free(&text);
  return rc;
}

/* tokenfile.c: a tokenizer from a path or a name: which file, and of which kind.
 *
 * A name is looked for where `make deps` and `make install` put tokenizers: NAME/tokenizer.json, or
 * the rank file of a family of that name in ranks/. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
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

int tokenfile_read(const char *path, struct buf *out, struct err *err) {
  int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
  ssize_t n = 1;
  if (fd < 0)
    return failed(err, path, "open");
  while (n > 0 && !rc) {
    rc = buf_reserve(out, 1 << 20);
    if (rc) {
      err_set(err, rc, "%s: larger than %zu MiB", path, out->max >> 20);
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
                     struct tokens_shared *shared, const struct tokens **out, struct err *err) {
  const char *end = text->data + text->len, *first = json_skip_space(text->data, end);
  bool json = first < end && *first == '{';
  if (text->len >= 3 && memcmp(text->data, "\xef\xbb\xbf", 3) == 0)
    return err_set(err, ERR_INVALID,
                   "%s: begins with a byte order mark (EF BB BF), which is no part of JSON or of a "
                   "rank file: take these three bytes away",
                   path);
  if (json && family)
    return err_set(err, ERR_INVALID,
                   "%s: is a JSON file; only rank files have a family (leave out \"%s\")", path,
                   family);
  if (!json && !family)
    return err_set(err, ERR_INVALID,
                   "%s: not a tokenizer.json; when it is a tiktoken rank file, say its family (%s)",
                   path, rankfile_families());
  return tokens_share_text(shared, path, text->data, text->len, family, out, err);
}

bool tokenfile_folder(int i, struct buf *b) {
  const char *own = getenv("PERIGEE_TOKENIZERS"), *cache = getenv("PERIGEE_CACHE"),
             *home = getenv("HOME");
  char exe[4096];
  buf_reset(b);
  if (own && *own) {
    buf_puts(b, own);
    return i == 0;
  }
  if (i == 0 && cache && *cache)
    buf_printf(b, "%s/tokenizers", cache);
  else if (i == 0)
    buf_printf(b, "%s/.cache/perigee/tokenizers", home ? home : "");
  if (i != 1)
    return i == 0;
  ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
  exe[n > 0 ? n : 0] = '\0';
  for (int up = 0; up < 2; up++) { /* bin/perigee -> share beside bin */
    char *slash = strrchr(exe, '/');
    if (slash)
      *slash = '\0';
  }
  buf_printf(b, "%s/share/perigee/tokenizers", exe);
  return true;
}

/* The file for a name into `path`; false when there is none. *family is set for a rank file's. */
static bool find_named(const char *name, struct buf *path, const char **family) {
  for (int i = 0; tokenfile_folder(i, path); i++) {
    size_t folder = path->len;
    buf_printf(path, "/%s/tokenizer.json", name);
    if (access(path->data, R_OK) == 0)
      return true;
    const char *ranks = rankfile_file(name);
    if (!ranks)
      continue;
    path->len = folder;
    buf_printf(path, "/ranks/%s.tiktoken", ranks);
    if (access(path->data, R_OK) == 0) {
      *family = name;
      return true;
    }
  }
  return false;
}

bool tokenfile_find(const char *name, const char *file, struct buf *path) {
  for (int i = 0; !strpbrk(name, "/.") && tokenfile_folder(i, path); i++) {
    buf_printf(path, "/%s/%s", name, file);
    if (access(path->data, R_OK) == 0)
      return true;
  }
  return false;
}

static int not_found(const char *name, struct err *err) {
  struct buf all, one;
  buf_init(&all, BUF_MAX_OWN);
  buf_init(&one, BUF_MAX_OWN);
  for (int i = 0; tokenfile_folder(i, &one); i++)
    buf_printf(&all, "%s%s", i ? " and " : "", one.data);
  int rc =
      err_set(err, ERR_NOT_FOUND,
              "tokenizer \"%s\": neither a file or folder, nor \"bytes\", nor in %s (`make deps` "
              "fetches qwen3, o200k_base, o200k_harmony and cl100k_base)",
              name, all.data);
  buf_free(&all);
  buf_free(&one);
  return rc;
}

/* `given`: the family the caller says, or NULL; a fetched file's own is known. */
static int load_named(const char *name, const char *given, struct tokens_shared *shared,
                      struct err *err, const struct tokens **out) {
  struct buf path, text;
  const char *family = NULL;
  int rc = 0;
  buf_init(&path, BUF_MAX_OWN);
  buf_init(&text, FILE_MAX);
  if (!find_named(name, &path, &family))
    rc = not_found(name, err);
  if (!rc && given && (!family || strcmp(family, given) != 0))
    rc = err_set(err, ERR_INVALID, "tokenizer \"%s\" is %s%s: leave out the family \"%.60s\"", name,
                 family ? "the rank file of the family " : "a tokenizer.json, which has no family",
                 family ? family : "", given);
  if (!rc)
    rc = tokenfile_read(path.data, &text, err);
  if (!rc)
    rc = tokens_share_text(shared, name, text.data, text.len, family, out, err);
  buf_free(&path);
  buf_free(&text);
  return rc;
}

/* Whatever else can be opened may never end. */
static int check_regular(const char *path, struct err *err) {
  struct stat st;
  if (stat(path, &st))
    return failed(err, path, "open");
  if (S_ISREG(st.st_mode))
    return 0;
  return err_set(err, ERR_INVALID,
                 "%s: is no regular file: name a tokenizer.json, its folder or a "
                 "rank file",
                 path);
}

int tokens_load(const char *path, const struct tokens_load_options *options,
                const struct tokens **out, struct err *err) {
  struct stat st;
  struct buf name, text;
  const char *family = options ? options->family : NULL;
  struct tokens_shared *shared = options ? options->shared : NULL;
  int rc = 0;
  *out = NULL;
  if (stat(path, &st)) {
    if (family && strcmp(path, "bytes") == 0)
      return err_set(err, ERR_INVALID, "tokenizer \"bytes\" has no family: leave out \"%.60s\"",
                     family);
    if (errno == ENOENT && *path && !strpbrk(path, "/."))
      return load_named(path, family, shared, err, out);
    return failed(err, path, "open");
  }
  buf_init(&name, 1 << 16);
  buf_init(&text, FILE_MAX);
  if (buf_add(&name, path, strlen(path)) ||
      (S_ISDIR(st.st_mode) && buf_add(&name, "/tokenizer.json", 15)))
    rc = err_set(err, ERR_INVALID, "a path of more than 64 KiB");
  if (!rc)
    rc = check_regular(name.data, err);
  if (!rc)
    rc = tokenfile_read(name.data, &text, err);
  if (!rc)
    rc = load_text(name.data, &text, family, shared, out, err);
  buf_free(&name);
  buf_free(&text);
  return rc;
}

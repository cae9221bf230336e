/* reach.c: looking for the module that was meant: the names are those that perigee documents, and
 * of the files in the folders of package.path. A name with dots is looked for in the folder that
 * its front names. */
#include "bind/reach.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"

struct names {
  char **items;
  size_t n, cap;
};

static void add(struct names *names, char *taken) {
  MEM_GROW(names->items, names->n, names->cap);
  names->items[names->n++] = taken;
}

/* "front" + "." + the first `len` bytes of `last`; without a front the bytes alone. */
static void add_joined(struct names *names, const char *front, const char *last, size_t len) {
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  if (*front)
    buf_printf(&b, "%s.", front);
  buf_put(&b, last, len);
  add(names, buf_take(&b, NULL));
}

/* Those that lua/README.md documents; the others are nobody's to require. */
static void add_built_in(struct names *names) {
  static const char *const known[] = {"cjson",
                                      "perigee",
                                      "perigee.blockhash",
                                      "perigee.chat",
                                      "perigee.completions",
                                      "perigee.gen",
                                      "perigee.harmony",
                                      "perigee.json",
                                      "perigee.openai",
                                      "perigee.route",
                                      "perigee.stats",
                                      "perigee.template",
                                      "perigee.test",
                                      "perigee.tokenizer",
                                      "perigee.tool"};
  for (size_t i = 0; i < ARRAY_LEN(known); i++)
    add(names, mem_strdup(known[i]));
}

/* What `tail` ("?.lua" or "?/init.lua" without the ?) makes modules in a folder. */
static void add_folder(struct names *names, const char *folder, const char *front,
                       const char *tail) {
  DIR *dir = opendir(folder);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    size_t len = strlen(e->d_name), n = strlen(tail);
    char file[4096];
    if (e->d_name[0] == '.')
      continue;
    if (*tail == '/') {
      snprintf(file, sizeof file, "%s/%s%s", folder, e->d_name, tail);
      if (access(file, F_OK) == 0)
        add_joined(names, front, e->d_name, len);
    } else if (len > n && strcmp(e->d_name + len - n, tail) == 0) {
      add_joined(names, front, e->d_name, len - n);
    }
  }
  if (dir)
    closedir(dir);
}

/* One template: "DIR/?.lua". With a front "a.b" the folder is DIR/a/b. */
static void add_template(struct names *names, const char *text, size_t len, const char *front) {
  const char *mark = memchr(text, '?', len);
  if (!mark || mark == text || mark[-1] != '/')
    return;
  struct buf folder;
  buf_init(&folder, BUF_MAX_OWN);
  buf_put(&folder, text, (size_t)(mark - text));
  for (const char *p = front; *p; p++)
    buf_putc(&folder, *p == '.' ? '/' : *p);
  char *tail = mem_strndup(mark + 1, len - (size_t)(mark + 1 - text));
  add_folder(names, folder.data, front, tail);
  mem_free(tail);
  buf_free(&folder);
}

void reach_nearest(const char *name, const char *path, struct buf *out) {
  struct names names = {0};
  const char *dot = strrchr(name, '.');
  char *front = mem_strndup(name, dot ? (size_t)(dot - name) : 0);
  add_built_in(&names);
  while (path && *path) {
    size_t len = strcspn(path, ";");
    add_template(&names, path, len, front);
    path += len + (path[len] != '\0');
  }
  const char *near = err_nearest(name, (const char *const *)names.items, names.n);
  if (near)
    buf_puts(out, near);
  mem_free(front);
  for (size_t i = 0; i < names.n; i++)
    mem_free(names.items[i]);
  mem_free(names.items);
}

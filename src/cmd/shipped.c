/* shipped.c: looking for a scenario by its name, and for the one that may have been meant. */
#include "cmd/shipped.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

struct names {
  char **items;
  size_t n, cap;
};

static void add(struct names *names, char *taken) {
  MEM_GROW(names->items, names->n, names->cap);
  names->items[names->n++] = taken;
}

static void names_free(struct names *names) {
  for (size_t i = 0; i < names->n; i++)
    mem_free(names->items[i]);
  mem_free(names->items);
}

/* $PERIGEE_PATH: folders, or templates such as DIR/?.lua, with : or ; between. */
static void add_environment(struct names *places, const char *list) {
  while (list && *list) {
    size_t n = strcspn(list, ";:"), len = n;
    if (n > 6 && strncmp(list + n - 6, "/?.lua", 6) == 0)
      len = n - 6;
    if (len)
      add(places, mem_strndup(list, len));
    list += n + (list[n] != '\0');
  }
}

/* The folders that are looked in: those of the working directory, the user's, then beside the
 * binary: of a build tree, and where `make install` put them. `perigee list` has the same. */
static void list_places(struct names *places) {
  static const char *const beside[] = {"scenarios", "share/perigee", "share/perigee/scenarios"};
  add(places, mem_strdup("."));
  add(places, mem_strdup("scenarios"));
  add_environment(places, getenv("PERIGEE_PATH"));
  char exe[PATH_MAX], path[PATH_MAX + 32];
  ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
  exe[n > 0 ? n : 0] = '\0';
  char *slash = NULL;
  for (int up = 0; up < 2 && (slash = strrchr(exe, '/')); up++)
    *slash = '\0'; /* the binary's name, then its folder's */
  for (size_t i = 0; slash && i < ARRAY_LEN(beside); i++) {
    snprintf(path, sizeof path, "%s/%s", exe, beside[i]);
    add(places, mem_strdup(path));
  }
}

/* The Lua files of a folder, as they may be called. */
static void add_names(struct names *names, const char *folder) {
  DIR *dir = opendir(folder);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    size_t len = strlen(e->d_name);
    if (len <= 4 || strcmp(e->d_name + len - 4, ".lua") != 0)
      continue;
    add(names, mem_strndup(e->d_name, len - 4));
  }
  if (dir)
    closedir(dir);
}

static int refuse(const struct names *places, const char *script, struct err *err) {
  struct names names = {0};
  for (size_t i = 0; i < places->n; i++)
    add_names(&names, places->items[i]);
  const char *slash = strrchr(script, '/');
  char *word = mem_strdup(slash ? slash + 1 : script);
  size_t len = strlen(word);
  if (len > 4 && strcmp(word + len - 4, ".lua") == 0)
    word[len - 4] = '\0';
  const char *near = err_nearest(word, (const char *const *)names.items, names.n);
  struct buf looked;
  buf_init(&looked, BUF_MAX_OWN);
  for (size_t i = 0; i < places->n; i++)
    buf_printf(&looked, "%s%s", i ? ", " : "", places->items[i]);
  int rc = near
               ? err_set(err, ERR_NOT_FOUND,
                         "there is no file %s and no scenario of that name (did you mean %s?); see "
                         "`perigee list`",
                         script, near)
               : err_set(err, ERR_NOT_FOUND,
                         "there is no file %s and no scenario of that name in %s; PERIGEE_PATH=DIR "
                         "names further folders, and `perigee list` shows what is in reach",
                         script, looked.data);
  buf_free(&looked);
  mem_free(word);
  names_free(&names);
  return rc;
}

int shipped_find(const char **script, char *found, size_t size, struct err *err) {
  struct stat st;
  if (stat(*script, &st) == 0 && S_ISDIR(st.st_mode))
    return err_set(err, ERR_INVALID,
                   "%s is a folder: name one scenario of it, as in %s/FILE.lua; `perigee list` "
                   "shows those in reach",
                   *script, *script);
  if (access(*script, F_OK) == 0 || errno != ENOENT)
    return 0; /* there, or there is more to say about it than that it is missing */
  struct names places = {0};
  list_places(&places);
  bool there = false;
  for (size_t i = 0; i < places.n && !there; i++)
    for (int lua = 0; lua < 2 && !there; lua++) {
      snprintf(found, size, "%s/%s%s", places.items[i], *script, lua ? ".lua" : "");
      there = access(found, F_OK) == 0;
    }
  int rc = there ? 0 : refuse(&places, *script, err);
  names_free(&places);
  if (there)
    *script = found;
  return rc;
}

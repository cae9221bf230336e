/* shipped.c: looking for a scenario by its name, and for the one that may have been meant. */
#include "cmd/shipped.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

#define N_PLACES 4

/* The folders that are looked in: two of the working directory, two beside the binary. */
struct places {
  char path[N_PLACES][PATH_MAX + 32];
};

static void list_places(struct places *p) {
  static const char *const places[N_PLACES] = {".", "scenarios", "../share/perigee",
                                               "../share/perigee/scenarios"};
  char exe[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
  exe[n > 0 ? n : 0] = '\0';
  char *slash = strrchr(exe, '/');
  if (slash)
    *slash = '\0';
  for (size_t i = 0; i < N_PLACES; i++)
    snprintf(p->path[i], sizeof p->path[i], "%s%s%s", i < 2 ? "" : exe, i < 2 ? "" : "/",
             places[i]);
}

struct names {
  char **items;
  size_t n, cap;
};

/* The Lua files of a folder, as they may be called. */
static void add_names(struct names *names, const char *folder) {
  DIR *dir = opendir(folder);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    size_t len = strlen(e->d_name);
    if (len <= 4 || strcmp(e->d_name + len - 4, ".lua") != 0)
      continue;
    MEM_GROW(names->items, names->n, names->cap);
    names->items[names->n++] = mem_strndup(e->d_name, len - 4);
  }
  if (dir)
    closedir(dir);
}

static int refuse(const struct places *p, const char *script, struct err *err) {
  struct names names = {0};
  for (size_t i = 0; i < N_PLACES; i++)
    add_names(&names, p->path[i]);
  const char *slash = strrchr(script, '/');
  char *word = mem_strdup(slash ? slash + 1 : script);
  size_t len = strlen(word);
  if (len > 4 && strcmp(word + len - 4, ".lua") == 0)
    word[len - 4] = '\0';
  const char *near = err_nearest(word, (const char *const *)names.items, names.n);
  int rc = err_set(err, ERR_NOT_FOUND,
                   "there is no file %s and no scenario of that name%s%s%s; see `perigee list`",
                   script, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
  mem_free(word);
  for (size_t i = 0; i < names.n; i++)
    mem_free(names.items[i]);
  mem_free(names.items);
  return rc;
}

int shipped_find(const char **script, char *found, size_t size, struct err *err) {
  if (access(*script, F_OK) == 0 || errno != ENOENT)
    return 0; /* there, or there is more to say about it than that it is missing */
  struct places p;
  list_places(&p);
  for (size_t i = 0; i < N_PLACES; i++)
    for (int lua = 0; lua < 2; lua++) {
      snprintf(found, size, "%s/%s%s", p.path[i], *script, lua ? ".lua" : "");
      if (access(found, F_OK) == 0) {
        *script = found;
        return 0;
      }
    }
  return refuse(&p, *script, err);
}

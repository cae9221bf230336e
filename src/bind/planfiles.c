/* planfiles.c: which files a script's plan is made of: whatever was read as Lua source. What a run
 * leaves holds copies and hashes of them, so that a result says what it was made with. */
#include "bind/planfiles.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

void bind_plan_files(const struct plan_source *source, struct plan_info *info) {
  const char *path;
  for (size_t i = 0; (path = store_source_path(source->store, i)) != NULL; i++) {
    if (strcmp(path, source->script) == 0)
      continue;
    info->files = mem_resize(info->files, info->n_files + 1, sizeof *info->files);
    info->files[info->n_files++] = mem_strdup(path);
  }
  if (info->n_files)
    qsort(info->files, info->n_files, sizeof *info->files, by_name);
}

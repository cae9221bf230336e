/* adapters.c: see adapters.h. */
#include "sim/adapters.h"

#include <string.h>

#include "base/mem.h"
#include "text/json.h"

void adapters_put(struct adapters *a, const char *name, const char *path) {
  MEM_GROW(a->items, a->n, a->cap);
  a->items[a->n++] =
      (struct adapter){.name = mem_strdup(name), .path = mem_strdup(path), .id = ++a->last_id};
}

bool adapters_name_ok(const char *name, size_t len) {
  if (json_utf8_valid(name, len) != len)
    return false;
  for (size_t i = 0; i < len; i++)
    if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
      return false;
  return true;
}

int adapters_add(struct adapters *a, const char *text, struct err *err) {
  size_t len = strcspn(text, "=");
  char *name = mem_strndup(text, len);
  bool plain = adapters_name_ok(text, strlen(text)), good = plain && len && !adapters_find(a, name);
  if (good)
    adapters_put(a, name, text[len] && text[len + 1] ? text + len + 1 : name);
  int rc = good ? 0
           : !plain
               ? err_set(err, ERR_INVALID, "a name and a path are UTF-8 without control characters")
           : len ? err_set(err, ERR_INVALID, "there are two adapters %.100s", name)
                 : err_set(err, ERR_INVALID, "\"%.100s\" should be NAME or NAME=PATH", text);
  mem_free(name);
  return rc;
}

bool adapters_remove(struct adapters *a, const char *name) {
  for (size_t i = 0; i < a->n; i++) {
    if (strcmp(a->items[i].name, name) != 0)
      continue;
    mem_free(a->items[i].name);
    mem_free(a->items[i].path);
    a->n--;
    memmove(a->items + i, a->items + i + 1, (a->n - i) * sizeof *a->items);
    return true;
  }
  return false;
}

const struct adapter *adapters_find(const struct adapters *a, const char *name) {
  for (size_t i = 0; i < a->n; i++)
    if (strcmp(a->items[i].name, name) == 0)
      return &a->items[i];
  return NULL;
}

void adapters_copy(struct adapters *to, const struct adapters *from) {
  for (size_t i = 0; i < from->n; i++)
    adapters_put(to, from->items[i].name, from->items[i].path);
}

void adapters_free(struct adapters *a) {
  for (size_t i = 0; i < a->n; i++) {
    mem_free(a->items[i].name);
    mem_free(a->items[i].path);
  }
  mem_free(a->items);
  *a = (struct adapters){0};
}

/* names.c: the hash index is the one of an ordered JSON object. */
#include "out/names.h"

#include "base/mem.h"

void names_init(struct names *s, size_t max) {
  assert(max > 0);
  *s = (struct names){.max = max, .index = value_object()};
}

void names_free(struct names *s) {
  for (size_t i = 0; i < s->n; i++)
    mem_free(s->items[i]);
  mem_free(s->items);
  value_free(&s->index);
  s->n = s->cap = 0;
  s->items = NULL;
}

int64_t names_find(const struct names *s, const char *text) {
  const struct value *v = value_get(&s->index, text);
  return v ? v->u.integer : -1;
}

uint32_t names_intern(struct names *s, const char *text) {
  int64_t found = names_find(s, text);
  if (found >= 0)
    return (uint32_t)found;
  if (s->n + 1 >= s->max) {
    text = "(other)";
    if (s->n == s->max)
      return (uint32_t)(s->max - 1);
  }
  MEM_GROW(s->items, s->n, s->cap);
  s->items[s->n] = mem_strdup(text);
  value_set(&s->index, text, value_int((int64_t)s->n));
  return (uint32_t)s->n++;
}

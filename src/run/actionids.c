/* actionids.c: see actionids.h. */
#include "run/actionids.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

struct pair {
  char *ours, *theirs;
};

struct actionids {
  struct pair *pairs;
  size_t n, cap;
  size_t n_file; /* the first of them are the file's */
};

static void add(struct actionids *ids, const char *ours, const char *theirs) {
  MEM_GROW(ids->pairs, ids->n, ids->cap);
  ids->pairs[ids->n++] = (struct pair){mem_strdup(ours), mem_strdup(theirs)};
}

struct actionids *actionids_new(const struct fleet *f) {
  struct actionids *ids = MEM_NEW(struct actionids);
  for (size_t i = 0; f && i < f->n_replicas; i++)
    if (f->replicas[i].admin_id)
      add(ids, f->replicas[i].id, f->replicas[i].admin_id);
  ids->n_file = ids->n;
  return ids;
}

void actionids_free(struct actionids *ids) {
  if (!ids)
    return;
  for (size_t i = 0; i < ids->n; i++) {
    mem_free(ids->pairs[i].ours);
    mem_free(ids->pairs[i].theirs);
  }
  mem_free(ids->pairs);
  mem_free(ids);
}

static const struct pair *find(const struct actionids *ids, const char *name, bool theirs) {
  for (size_t i = 0; i < ids->n; i++)
    if (strcmp(theirs ? ids->pairs[i].theirs : ids->pairs[i].ours, name) == 0)
      return &ids->pairs[i];
  return NULL;
}

int actionids_ask(const struct actionids *ids, struct value *action, struct err *err) {
  const char *name = value_to_string(value_get(action, "replica"));
  if (!ids->n_file || !name || strcmp(name, "*") == 0)
    return 0;
  const struct pair *pair = find(ids, name, false);
  if (pair) {
    value_set(action, "replica", value_cstring(pair->theirs));
    return 0;
  }
  struct buf list;
  buf_init(&list, BUF_MAX_OWN);
  for (size_t i = 0; i < ids->n && i < 8; i++)
    buf_printf(&list, "%s%.60s", i ? ", " : "", ids->pairs[i].ours);
  if (ids->n > 8)
    buf_printf(&list, " and %zu more", ids->n - 8);
  int rc = err_set(err, ERR_NOT_FOUND, "no replica \"%.60s\"; there are %s", name, list.data);
  buf_free(&list);
  return rc;
}

/* What a replica of theirs is called here; `url` of one that may be new, or NULL. */
static const char *ours_of(struct actionids *ids, const char *theirs, const char *url) {
  const struct pair *pair = find(ids, theirs, true);
  if (pair)
    return pair->ours;
  char other[FLEET_ID_MAX + 32];
  const char *ours = theirs;
  if (find(ids, theirs, false)) {
    snprintf(other, sizeof other, "%.*s of its own fleet", FLEET_ID_MAX, theirs);
    ours = url ? url : other;
  }
  add(ids, ours, theirs);
  return ids->pairs[ids->n - 1].ours;
}

static void rename_list(struct actionids *ids, struct value *list, const char *url) {
  for (size_t i = 0; list->kind == VALUE_ARRAY && i < value_count(list); i++) {
    struct value *item = value_at(list, i);
    const char *theirs = value_to_string(item);
    if (!theirs)
      continue;
    struct value ours = value_cstring(ours_of(ids, theirs, url));
    value_free(item);
    *item = ours;
  }
}

static void rename_keys(struct actionids *ids, struct value *object) {
  struct value renamed = value_object();
  for (size_t i = 0; i < value_count(object); i++) {
    struct value_pair *pair = &object->u.object.pairs[i];
    value_set(&renamed, ours_of(ids, pair->key, NULL), pair->value);
    pair->value = value_null();
  }
  value_free(object);
  *object = renamed;
}

void actionids_answer(struct actionids *ids, struct value *answer) {
  const char *url = value_to_string(value_get(answer, "url"));
  for (size_t i = 0; ids->n_file && i < value_count(answer); i++) {
    struct value *v = &answer->u.object.pairs[i].value;
    if (v->kind == VALUE_OBJECT)
      rename_keys(ids, v);
    else
      rename_list(ids, v, url);
  }
}

void actionids_error(struct actionids *ids, struct err *err) {
  static const char word[] = "replica ";
  if (!ids->n_file)
    return;
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  for (const char *p = err->text; *p;) {
    if (strncmp(p, word, sizeof word - 1) != 0) {
      buf_putc(&text, *p++);
      continue;
    }
    char name[32];
    size_t len = 0;
    buf_puts(&text, word);
    p += sizeof word - 1;
    while (isalnum((unsigned char)p[len]) && len + 1 < sizeof name)
      len++;
    snprintf(name, sizeof name, "%.*s", (int)len, p);
    const struct pair *pair = find(ids, name, true);
    buf_puts(&text, pair ? pair->ours : name);
    p += len;
  }
  err_set(err, err->code, "%s", text.data);
  buf_free(&text);
}

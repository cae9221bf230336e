/* promptsteps.c: which part of a prompt is rendered again; see promptsteps.h. */
#include "text/promptsteps.h"

#include <string.h>

#include "base/mem.h"

/* A conversation's first calls are compared with the whole, the first ones that go back, and one
 * each time it has doubled: what that costs is a share of what the conversation cost anyway. */
#define FIRST_CALLS 4
#define FIRST_BACK 2

static void drop_key(struct promptsteps *s) {
  mem_free(s->key);
  blob_unref(s->tools);
  s->key = NULL;
  s->tools = NULL;
}

void promptsteps_free(struct promptsteps *s) {
  drop_key(s);
  mem_free(s->steps);
  *s = (struct promptsteps){0};
}

void promptsteps_fork(const struct promptsteps *s, struct promptsteps *out) {
  *out = *s;
  out->key = s->key ? mem_strdup(s->key) : NULL;
  out->tools = s->tools ? blob_ref(s->tools) : NULL;
  out->cap = out->n;
  out->steps = s->n ? mem_dup(s->steps, s->n * sizeof *s->steps) : NULL;
}

void promptsteps_forget(struct promptsteps *s) {
  drop_key(s);
  s->n = s->compared = s->went_back = s->compared_at = 0;
}

static bool same_tools(const struct blob *a, const struct blob *b) {
  if (a == b || !a || !b)
    return a == b;
  return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

static bool to_compare(const struct promptsteps *s, size_t messages, bool back) {
  return s->compared < FIRST_CALLS || (back && s->went_back < FIRST_BACK) ||
         messages / 2 >= s->compared_at;
}

bool promptsteps_begin(struct promptsteps *s, const struct promptids *p, const char *key,
                       struct blob *tools, size_t messages) {
  if (!s->key || strcmp(s->key, key) != 0) {
    promptsteps_forget(s);
    s->key = mem_strdup(key);
  }
  if (!same_tools(s->tools, tools) || s->changes != p->changes)
    s->n = s->made_for = s->same = 0;
  if (s->tools != tools) {
    blob_unref(s->tools);
    s->tools = tools ? blob_ref(tools) : NULL;
  }
  size_t same = s->same < messages ? s->same : messages, n = s->n;
  if (n && same == messages && s->made_for == messages)
    return false;
  while (n && s->steps[n - 1].seen > same)
    n--;
  s->call = (struct promptsteps_call){
      .from = n ? s->steps[n - 1].messages : 0,
      .keep = n ? s->steps[n - 1].end : 0,
      .n = messages,
      .changes = p->changes,
      .compare = to_compare(s, messages, n < s->n),
  };
  return true;
}

bool promptsteps_differs(const struct promptsteps *s, const struct promptids *p, const char *text,
                         size_t len, const char *whole, size_t whole_len, size_t *at) {
  size_t keep = s->call.keep, i = 0, most = keep < whole_len ? keep : whole_len;
  const char *old = promptids_text(p);
  while (i < most && old[i] == whole[i])
    i++;
  *at = i;
  if (i < keep)
    return true;
  while (i < whole_len && i - keep < len && text[i - keep] == whole[i])
    i++;
  *at = i;
  return i < whole_len || i - keep < len;
}

bool promptsteps_ids_differ(const struct promptsteps *s, const struct promptids *p,
                            const uint32_t *ids, size_t n, const uint32_t *whole, size_t whole_n,
                            size_t *at) {
  size_t keep = s->call.keep, i = 0;
  const uint32_t *old = promptids_ids(p);
  while (i < keep && i < whole_n && old[i] == whole[i])
    i++;
  *at = i;
  if (i < keep)
    return true;
  while (i < whole_n && i - keep < n && ids[i - keep] == whole[i])
    i++;
  *at = i;
  return i < whole_n || i - keep < n;
}

static int check(const struct promptsteps *s, const struct promptids *p, bool ids, size_t staying,
                 size_t upto, struct err *err) {
  const struct promptsteps_call *c = &s->call;
  if (c->changes != p->changes)
    return err_set(err, ERR_INVALID, "the conversation was rendered anew meanwhile");
  if (upto < c->from || upto > c->n)
    return err_set(err, ERR_INVALID, "what stays is said to be of messages %zu to %zu of %zu",
                   c->from + 1, upto, c->n);
  if (upto == c->from && staying &&
      c->from) /* before message 1 it is what the next call begins with */
    return err_set(err, ERR_INVALID, "%zu %s stay that belong to no message of %zu to %zu", staying,
                   ids ? "ids" : "bytes", c->from + 1, c->n);
  if (c->keep && ids != s->ids)
    return err_set(err, ERR_INVALID, "it gave %s before and gives %s now", s->ids ? "ids" : "text",
                   ids ? "ids" : "text");
  return 0;
}

/* The prompt is what it has to be. */
static void commit(struct promptsteps *s, const struct promptids *p, bool ids, size_t staying,
                   size_t upto) {
  const struct promptsteps_call *c = &s->call;
  if (c->compare) {
    s->went_back += s->n && s->steps[s->n - 1].messages > c->from;
    s->compared++;
    s->compared_at = c->n;
  }
  while (s->n && s->steps[s->n - 1].messages > c->from)
    s->n--;
  if (upto > c->from) {
    MEM_GROW(s->steps, s->n, s->cap);
    s->steps[s->n++] = (struct promptstep){upto, c->keep + staying, c->n};
  }
  s->ids = ids;
  s->made_for = s->same = c->n;
  s->changes = p->changes;
}

int promptsteps_set_text(struct promptsteps *s, struct promptids *p, struct promptids_memo *m,
                         const char *text, size_t len, size_t staying, size_t upto,
                         struct err *err) {
  assert(staying <= len);
  int rc = check(s, p, false, staying, upto, err);
  if (!rc)
    rc = promptids_set_from(p, m, s->call.keep, text, len, err);
  if (!rc)
    commit(s, p, false, staying, upto);
  return rc;
}

int promptsteps_set_ids(struct promptsteps *s, struct promptids *p, const uint32_t *ids, size_t n,
                        size_t staying, size_t upto, struct err *err) {
  assert(staying <= n);
  int rc = check(s, p, true, staying, upto, err);
  if (rc)
    return rc;
  promptids_set_behind(p, s->call.keep, ids, n);
  commit(s, p, true, staying, upto);
  return 0;
}

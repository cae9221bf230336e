/* truthlog.c: see truthlog.h. */
#include "out/truthlog.h"

#include <string.h>

#include "base/mem.h"

static void read_count(struct truthlog_line *l, struct jsonslice key, struct jsonslice value) {
  const struct {
    const char *name;
    int64_t *to;
  } counts[] = {{"prompts", &l->prompts},
                {"prompt_tokens", &l->prompt_tokens},
                {"output_tokens", &l->output_tokens},
                {"cached_tokens", &l->cached_tokens},
                {"offload_tokens", &l->offload_tokens},
                {"shared_tokens", &l->shared_tokens},
                {"transfer_tokens", &l->transfer_tokens},
                {"block_size", &l->block_size},
                {"captured_tokens", &l->captured_tokens},
                {"available_tokens", &l->available_tokens}};
  for (size_t i = 0; i < ARRAY_LEN(counts); i++)
    if (jsonwalk_is(key, counts[i].name))
      *counts[i].to = linefile_int(value, -1);
}

bool truthlog_read(struct jsonslice line, struct truthlog_line *l) {
  struct jsonwalk w;
  struct jsonslice key, value;
  int more;
  *l = (struct truthlog_line){.prompts = -1,
                              .prompt_tokens = -1,
                              .output_tokens = -1,
                              .cached_tokens = -1,
                              .offload_tokens = -1,
                              .shared_tokens = -1,
                              .transfer_tokens = -1,
                              .block_size = -1,
                              .captured_tokens = -1,
                              .available_tokens = -1};
  if (!jsonwalk_begin(&w, line, '{'))
    return false;
  while ((more = jsonwalk_next(&w, &key, &value)) > 0) {
    if (jsonwalk_is(key, "request_id"))
      l->request_id = linefile_string(value);
    else if (jsonwalk_is(key, "replica"))
      l->replica = linefile_string(value);
    else if (jsonwalk_is(key, "fault"))
      l->fault = linefile_string(value);
    else if (jsonwalk_is(key, "received_ns"))
      l->received_ns = linefile_stamp(value, 0);
    else if (jsonwalk_is(key, "scheduled_ns"))
      l->scheduled_ns = linefile_stamp(value, 0);
    else if (jsonwalk_is(key, "first_visible_ns"))
      l->first_visible_ns = linefile_stamp(value, 0);
    else if (jsonwalk_is(key, "stream"))
      l->stream = linefile_true(value);
    else if (jsonwalk_is(key, "chains"))
      l->chains = value;
    else if (jsonwalk_is(key, "writes"))
      l->writes = value;
    else
      read_count(l, key, value);
  }
  return more == 0 && l->replica.p && l->writes.p && l->chains.p && l->block_size > 0;
}

static bool read_write(struct jsonslice item, struct truthlog_writes *out) {
  struct jsonwalk w;
  struct jsonslice key, value, kind = {0};
  uint64_t ns = 0;
  int64_t outputs = -1;
  int more;
  if (!jsonwalk_begin(&w, item, '{'))
    return false;
  while ((more = jsonwalk_next(&w, &key, &value)) > 0) {
    if (jsonwalk_is(key, "ns"))
      ns = linefile_stamp(value, 0);
    else if (jsonwalk_is(key, "kind"))
      kind = value;
    else if (jsonwalk_is(key, "outputs"))
      outputs = linefile_int(value, -1);
  }
  if (more || !ns)
    return false;
  if (outputs < 0)
    outputs = jsonwalk_is(kind, "content") || jsonwalk_is(kind, "finish");
  out->pieces = out->pieces || jsonwalk_is(kind, "piece");
  if (!out->first_body_ns && !jsonwalk_is(kind, "headers"))
    out->first_body_ns = ns;
  out->last_ns = ns;
  for (; outputs > 0; outputs--) {
    MEM_GROW(out->outputs, out->n, out->cap);
    out->outputs[out->n++] = ns;
  }
  return true;
}

bool truthlog_read_writes(const struct truthlog_line *line, struct truthlog_writes *out) {
  struct jsonwalk w;
  struct jsonslice key, value;
  int more;
  out->n = 0;
  out->first_body_ns = out->last_ns = 0;
  out->pieces = false;
  if (!jsonwalk_begin(&w, line->writes, '['))
    return false;
  while ((more = jsonwalk_next(&w, &key, &value)) > 0)
    if (!read_write(value, out))
      return false;
  return more == 0;
}

/* ---- the whole log ---- */

static void add_block(struct truthlog *t, uint32_t parent) {
  if (t->n_blocks == t->cap_blocks) {
    t->cap_blocks = t->cap_blocks ? t->cap_blocks * 2 : 1024;
    t->parent = mem_resize(t->parent, t->cap_blocks, sizeof *t->parent);
    t->depth = mem_resize(t->depth, t->cap_blocks, sizeof *t->depth);
  }
  t->parent[t->n_blocks] = parent;
  t->depth[t->n_blocks] = t->n_blocks ? t->depth[parent] + 1 : 0;
  t->n_blocks++;
}

/* [after, fresh]: new blocks one behind the other. */
static bool read_chain(struct truthlog *t, struct jsonslice chain) {
  struct jsonwalk w;
  struct jsonslice key, value;
  uint64_t pair[2] = {UINT64_MAX, UINT64_MAX};
  size_t n = 0;
  if (!jsonwalk_begin(&w, chain, '['))
    return false;
  for (; n < 2 && jsonwalk_next(&w, &key, &value) > 0; n++)
    pair[n] = linefile_stamp(value, UINT64_MAX);
  if (pair[0] >= t->n_blocks || pair[1] > UINT32_MAX - t->n_blocks)
    return false;
  uint32_t leaf = (uint32_t)pair[0];
  for (uint64_t i = 0; i < pair[1]; i++) {
    add_block(t, leaf);
    leaf = (uint32_t)t->n_blocks - 1;
  }
  MEM_GROW(t->leaves, t->n_leaves, t->cap_leaves);
  t->leaves[t->n_leaves++] = leaf;
  return true;
}

static bool add_entry(struct truthlog *t, struct jsonslice line) {
  struct truthlog_line l;
  struct jsonwalk w;
  struct jsonslice key, value;
  int more;
  if (!truthlog_read(line, &l) || !jsonwalk_begin(&w, l.chains, '['))
    return false;
  struct truthlog_entry e = {.line = l, .first_leaf = (uint32_t)t->n_leaves};
  while ((more = jsonwalk_next(&w, &key, &value)) > 0) {
    if (!read_chain(t, value))
      return false;
    e.n_leaves++;
  }
  MEM_GROW(t->entries, t->n, t->cap);
  t->entries[t->n++] = e;
  return more == 0;
}

int truthlog_open(struct truthlog *t, const char *path, struct err *err) {
  struct jsonslice line;
  size_t at = 0, number = 0;
  *t = (struct truthlog){0};
  int rc = linefile_open(&t->file, path, err);
  if (rc)
    return rc;
  add_block(t, 0);
  while (linefile_next(&t->file, &at, &line)) {
    number++;
    if (add_entry(t, line))
      continue;
    truthlog_close(t);
    return err_set(err, ERR_INVALID,
                   "%s, line %zu: not a line of a truth log of this version (perigee sim --truth)",
                   path, number);
  }
  return 0;
}

void truthlog_close(struct truthlog *t) {
  linefile_close(&t->file);
  mem_free(t->entries);
  mem_free(t->leaves);
  mem_free(t->parent);
  mem_free(t->depth);
  *t = (struct truthlog){0};
}

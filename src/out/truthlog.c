/* truthlog.c: see truthlog.h. */
#include "out/truthlog.h"

#include <string.h>

#include "base/mem.h"
#include "text/jsonfields.h"

/* ---- writes ---- */

struct write {
  uint64_t ns;
  int64_t outputs;
  struct jsonslice kind;
};

static bool is(struct jsonslice s, const char *word) {
  size_t len = strlen(word);
  return s.p && (size_t)(s.end - s.p) == len && memcmp(s.p, word, len) == 0;
}

/* A choice may have an event of its own besides those of its tokens (a call's head, an echo), and
 * one write may hold many. */
static uint64_t most_outputs(const struct truthlog_line *l) {
  uint64_t tokens = l->output_tokens > 0 ? (uint64_t)l->output_tokens : 0;
  return 2 * (tokens + l->n_leaves) + 2;
}

static const char *read_write(const char *p, const char *end, void *arg) {
  static const struct jsonfield fields[] = {
      JSONFIELD("ns", JSONFIELD_STAMP, struct write, ns),
      JSONFIELD("kind", JSONFIELD_STRING, struct write, kind),
      JSONFIELD("outputs", JSONFIELD_INT, struct write, outputs),
  };
  struct truthlog *t = arg;
  struct truthlog_writes *out = &t->line.writes;
  struct write w = {.outputs = -1};
  p = jsonfields_read(fields, ARRAY_LEN(fields), p, end, &w);
  if (!p || !w.ns || w.outputs > UINT16_MAX)
    return NULL;
  if (w.outputs < 0)
    w.outputs = is(w.kind, "content") || is(w.kind, "finish");
  if (w.outputs > 1 && out->n + (uint64_t)w.outputs > most_outputs(&t->line)) {
    t->odd = "its writes hold more output events than its output_tokens make";
    return NULL;
  }
  out->pieces = out->pieces || is(w.kind, "piece");
  if (!out->first_body_ns && !is(w.kind, "headers"))
    out->first_body_ns = w.ns;
  out->last_ns = w.ns;
  for (; w.outputs > 0; w.outputs--) {
    MEM_GROW(out->outputs, out->n, out->cap);
    out->outputs[out->n++] = w.ns;
  }
  return p;
}

static const char *read_writes(const char *p, const char *end, void *arg) {
  ((struct truthlog *)arg)->has_writes = true;
  return jsonfields_array(p, end, read_write, arg);
}

/* ---- blocks ---- */

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

struct pair {
  uint64_t of[2];
  size_t n;
};

static const char *read_number(const char *p, const char *end, void *arg) {
  struct pair *pair = arg;
  return pair->n < 2 ? jsonfields_digits(p, end, &pair->of[pair->n++]) : NULL;
}

/* More than any prompt: 2^28 tokens in blocks of 16. */
#define MOST_FRESH ((uint64_t)1 << 24)

/* Whether the line's tokens can fill so many new blocks more. Choices of one prompt share its
 * blocks; the last one of each holds its end and some output. */
static bool fits(struct truthlog *t, uint64_t fresh) {
  const struct truthlog_line *l = &t->line;
  uint64_t prompt = l->prompt_tokens > 0 ? (uint64_t)l->prompt_tokens : 0;
  uint64_t output = l->output_tokens > 0 ? (uint64_t)l->output_tokens : 0;
  if (l->block_size <= 0 || fresh > MOST_FRESH)
    return false;
  t->fresh += fresh;
  return t->fresh <= (prompt + output) / (uint64_t)l->block_size + l->n_leaves + 1;
}

/* [after, fresh]: new blocks one behind the other. */
static const char *read_chain(const char *p, const char *end, void *arg) {
  struct truthlog *t = arg;
  struct truthlog_line *l = &t->line;
  struct pair pair = {.n = 0};
  p = jsonfields_array(p, end, read_number, &pair);
  if (!p || pair.n != 2 || pair.of[0] >= t->n_blocks || pair.of[1] > UINT32_MAX - t->n_blocks)
    return NULL;
  if (!fits(t, pair.of[1])) {
    t->odd = "its chains hold more blocks than its prompt_tokens and output_tokens fill";
    return NULL;
  }
  uint32_t leaf = (uint32_t)pair.of[0];
  for (uint64_t i = 0; i < pair.of[1]; i++) {
    add_block(t, leaf);
    leaf = (uint32_t)t->n_blocks - 1;
  }
  MEM_GROW(l->leaves, l->n_leaves, l->cap_leaves);
  l->leaves[l->n_leaves++] = leaf;
  return p;
}

static const char *read_chains(const char *p, const char *end, void *arg) {
  ((struct truthlog *)arg)->has_chains = true;
  return jsonfields_array(p, end, read_chain, arg);
}

/* ---- lines ---- */

bool truthlog_head(struct jsonslice line, struct truthlog_head *out) {
  static const struct jsonfield fields[] = {
      JSONFIELD("request_id", JSONFIELD_STRING, struct truthlog_head, request_id),
      JSONFIELD("received_ns", JSONFIELD_STAMP, struct truthlog_head, received_ns),
  };
  *out = (struct truthlog_head){0};
  return jsonfields_head(fields, ARRAY_LEN(fields), line.p, line.end, out);
}

static void begin(struct truthlog *t) {
  struct truthlog_line *l = &t->line;
  struct truthlog_writes *w = &l->writes;
  *l = (struct truthlog_line){.prompts = -1,
                              .prompt_tokens = -1,
                              .output_tokens = -1,
                              .cached_tokens = -1,
                              .offload_tokens = -1,
                              .shared_tokens = -1,
                              .transfer_tokens = -1,
                              .block_size = -1,
                              .captured_tokens = -1,
                              .available_tokens = -1,
                              .leaves = l->leaves,
                              .cap_leaves = l->cap_leaves,
                              .writes = {.outputs = w->outputs, .cap = w->cap}};
  t->has_chains = t->has_writes = false;
  t->odd = NULL;
  t->fresh = 0;
}

bool truthlog_read(struct truthlog *t, struct jsonslice line) {
#define FIELD(key, kind, member) JSONFIELD(key, JSONFIELD_##kind, struct truthlog, line.member)
#define COUNT(name) FIELD(#name, INT, name)
  static const struct jsonfield fields[] = {
      FIELD("replica", STRING, replica),
      FIELD("request_id", STRING, request_id),
      FIELD("stream", TRUE, stream),
      FIELD("fault", STRING, fault),
      FIELD("received_ns", STAMP, received_ns),
      FIELD("scheduled_ns", STAMP, scheduled_ns),
      COUNT(prompts),
      COUNT(prompt_tokens),
      COUNT(output_tokens),
      COUNT(cached_tokens),
      COUNT(offload_tokens),
      COUNT(shared_tokens),
      COUNT(transfer_tokens),
      COUNT(block_size),
      COUNT(captured_tokens),
      COUNT(available_tokens),
      JSONFIELD_BY("chains", read_chains),
      FIELD("first_visible_ns", STAMP, first_visible_ns),
      JSONFIELD_BY("writes", read_writes),
  };
#undef COUNT
#undef FIELD
  begin(t);
  return jsonfields_read(fields, ARRAY_LEN(fields), line.p, line.end, t) == line.end &&
         t->has_chains && t->has_writes && t->line.replica.p && t->line.block_size > 0;
}

int truthlog_open(struct truthlog *t, const char *path, struct err *err) {
  *t = (struct truthlog){0};
  int rc = linefile_open(&t->file, path, err);
  if (!rc)
    add_block(t, 0);
  return rc;
}

void truthlog_close(struct truthlog *t) {
  linefile_close(&t->file);
  mem_free(t->line.leaves);
  mem_free(t->line.writes.outputs);
  mem_free(t->parent);
  mem_free(t->depth);
  *t = (struct truthlog){0};
}

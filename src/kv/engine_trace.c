/* engine_trace.c: reads and checks a trace (tests/data/engine/README.md, section 1).
 *
 * Unknown keys in config, requests and resets are refused: a trace that sets what the model does
 * not have must not run as if it had not. */
#include "kv/engine_trace.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/json.h"

#define TOKEN_MAX INT32_MAX
#define REQUIRED INT64_MIN /* as a value for absent keys */

static int check_keys(const struct value *object, const char *const *known, size_t n,
                      struct err *err) {
  if (object->kind != VALUE_OBJECT)
    return err_set(err, ERR_INVALID, "not an object");
  for (size_t i = 0; i < object->u.object.n; i++) {
    const char *key = object->u.object.pairs[i].key;
    bool found = false;
    for (size_t k = 0; k < n && !found; k++)
      found = strcmp(known[k], key) == 0;
    if (found)
      continue;
    const char *near = err_nearest(key, known, n);
    return err_set(err, ERR_INVALID, "unknown key \"%.60s\"%s%s%s", key,
                   near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
  }
  return 0;
}

/* A whole number lo..hi. Absent or null gives `absent`, unless that is REQUIRED. */
static int get_int(const struct value *object, const char *key, int64_t lo, int64_t hi,
                   int64_t absent, int64_t *out, struct err *err) {
  const struct value *v = value_get(object, key);
  *out = absent;
  if (!v || v->kind == VALUE_NULL)
    return absent != REQUIRED ? 0 : err_set(err, ERR_INVALID, "%s is missing", key);
  if (v->kind != VALUE_INT || v->u.integer < lo || v->u.integer > hi)
    return err_set(err, ERR_INVALID, "%s must be an integer from %lld to %lld", key, (long long)lo,
                   (long long)hi);
  *out = v->u.integer;
  return 0;
}

static int get_u32(const struct value *object, const char *key, int64_t absent, uint32_t *out,
                   struct err *err) {
  int64_t i;
  int rc = get_int(object, key, 0, UINT32_MAX, absent, &i, err);
  *out = rc ? 0 : (uint32_t)i;
  return rc;
}

/* true or false; absent: `absent`, where −1 means that it must be there. */
static int get_bool(const struct value *object, const char *key, int absent, bool *out,
                    struct err *err) {
  const struct value *v = value_get(object, key);
  *out = absent > 0;
  if (!v && absent < 0)
    return err_set(err, ERR_INVALID, "%s is missing", key);
  if (v && v->kind != VALUE_BOOL)
    return err_set(err, ERR_INVALID, "%s must be true or false", key);
  if (v)
    *out = v->u.boolean;
  return 0;
}

static int read_config(const struct value *v, struct engine_config *c, struct err *err) {
  static const char *const keys[] = {"num_blocks",
                                     "block_size",
                                     "max_num_batched_tokens",
                                     "max_num_seqs",
                                     "enable_prefix_caching",
                                     "long_prefill_token_threshold",
                                     "enable_chunked_prefill",
                                     "max_model_len",
                                     "reserve_full_isl",
                                     "watermark_blocks"};
  if (!v)
    return err_set(err, ERR_INVALID, "missing");
  bool chunked = true;
  int rc = check_keys(v, keys, ARRAY_LEN(keys), err);
  if (rc || (rc = get_u32(v, "num_blocks", REQUIRED, &c->num_blocks, err)) ||
      (rc = get_u32(v, "block_size", REQUIRED, &c->block_size, err)) ||
      (rc = get_u32(v, "max_num_batched_tokens", REQUIRED, &c->max_num_batched_tokens, err)) ||
      (rc = get_u32(v, "max_num_seqs", REQUIRED, &c->max_num_seqs, err)) ||
      (rc = get_u32(v, "max_model_len", REQUIRED, &c->max_model_len, err)) ||
      (rc = get_u32(v, "long_prefill_token_threshold", 0, &c->long_prefill_token_threshold, err)) ||
      (rc = get_u32(v, "watermark_blocks", 0, &c->watermark_blocks, err)) ||
      (rc = get_bool(v, "enable_prefix_caching", -1, &c->enable_prefix_caching, err)) ||
      (rc = get_bool(v, "reserve_full_isl", true, &c->reserve_full_isl, err)) ||
      (rc = get_bool(v, "enable_chunked_prefill", true, &chunked, err)))
    return rc;
  if (!chunked)
    return err_set(err, ERR_UNSUPPORTED,
                   "enable_chunked_prefill is false: the model always splits prefills; leave it "
                   "out or set it to true");
  return 0;
}

static const struct value *get_tokens(const struct value *object, const char *key,
                                      struct err *err) {
  const struct value *v = value_get(object, key);
  if (!v || v->kind != VALUE_ARRAY || !v->u.array.n || v->u.array.n > TOKEN_MAX) {
    err_set(err, ERR_INVALID, "%s must be an array of at least one token id", key);
    return NULL;
  }
  for (size_t i = 0; i < v->u.array.n; i++) {
    const struct value *id = &v->u.array.items[i];
    if (id->kind != VALUE_INT || id->u.integer < 0 || id->u.integer > TOKEN_MAX) {
      err_set(err, ERR_INVALID, "%s[%zu] must be an integer from 0 to %d", key, i, TOKEN_MAX);
      return NULL;
    }
  }
  return v;
}

static uint32_t sample_output(void *user, const struct engine_request *req, uint32_t index) {
  (void)req;
  return ((const struct engine_trace_request *)user)->output[index];
}

/* One allocation holds the growing tokens (prompt, then room) and behind them the output. */
static void fill_tokens(struct engine_trace_request *r, const struct value *prompt,
                        const struct value *output) {
  size_t n = prompt->u.array.n, m = output->u.array.n;
  uint32_t *tokens = mem_calloc(n + 2 * m, sizeof *tokens);
  for (size_t i = 0; i < n; i++)
    tokens[i] = (uint32_t)prompt->u.array.items[i].u.integer;
  for (size_t i = 0; i < m; i++)
    tokens[n + m + i] = (uint32_t)output->u.array.items[i].u.integer;
  r->req.tokens = tokens;
  r->req.prompt_len = (uint32_t)n;
  r->req.max_output = (uint32_t)m;
  r->output = tokens + n + m;
}

/* A string, or null for none. */
static int get_name(const struct value *v, const char *key, const char **out, struct err *err) {
  const struct value *name = value_get(v, key);
  if (!name || name->kind == VALUE_NULL)
    return 0;
  if (name->kind != VALUE_STRING)
    return err_set(err, ERR_INVALID, "%s must be a string or null", key);
  *out = name->u.string.data;
  if (!name->u.string.len || strlen(*out) != name->u.string.len)
    return err_set(err, ERR_INVALID, "%s must not be empty or hold a NUL; null means none", key);
  return 0;
}

static void add_input(struct engine_trace *t, int64_t step, enum engine_trace_kind kind,
                      size_t index, bool reset_running) {
  t->inputs[t->n_inputs++] = (struct engine_trace_input){
      .step = (uint32_t)step, .kind = kind, .index = index, .reset_running = reset_running};
}

static int read_request(struct engine_trace *t, const struct value *v, size_t index,
                        struct err *err) {
  static const char *const keys[] = {"id",   "arrival_step",  "prompt", "output",
                                     "salt", "abort_at_step", "adapter"};
  struct engine_trace_request *r = &t->requests[index];
  int64_t arrival, abort_at;
  int rc = check_keys(v, keys, ARRAY_LEN(keys), err);
  if (rc || (rc = get_int(v, "arrival_step", 0, ENGINE_TRACE_MAX_STEP, REQUIRED, &arrival, err)) ||
      (rc = get_int(v, "abort_at_step", arrival, ENGINE_TRACE_MAX_STEP, -1, &abort_at, err)))
    return rc;
  r->id = value_get(v, "id");
  if (!r->id || r->id->kind != VALUE_STRING)
    return err_set(err, ERR_INVALID, "id must be a string");
  if (get_name(v, "salt", &r->req.salt, err) || get_name(v, "adapter", &r->req.adapter, err))
    return ERR_INVALID;
  const struct value *prompt = get_tokens(v, "prompt", err);
  const struct value *output = prompt ? get_tokens(v, "output", err) : NULL;
  if (!output)
    return ERR_INVALID;
  if (prompt->u.array.n >= t->config.max_model_len)
    return err_set(err, ERR_INVALID, "prompt has %zu tokens; with max_model_len %u it can have %u",
                   prompt->u.array.n, t->config.max_model_len, t->config.max_model_len - 1);
  fill_tokens(r, prompt, output);
  r->req.user = r;
  r->req.sample = sample_output;
  r->admitted_step = r->first_token_step = r->end_step = -1;
  add_input(t, arrival, ENGINE_TRACE_ARRIVAL, index, false);
  if (abort_at >= 0)
    add_input(t, abort_at, ENGINE_TRACE_ABORT, index, false);
  return 0;
}

static int read_reset(struct engine_trace *t, const struct value *v, size_t index,
                      struct err *err) {
  static const char *const keys[] = {"step", "reset_running"};
  int64_t step;
  bool running;
  int rc = check_keys(v, keys, ARRAY_LEN(keys), err);
  if (rc || (rc = get_int(v, "step", 0, ENGINE_TRACE_MAX_STEP, REQUIRED, &step, err)) ||
      (rc = get_bool(v, "reset_running", false, &running, err)))
    return rc;
  add_input(t, step, ENGINE_TRACE_RESET, index, running);
  return 0;
}

static int compare_inputs(const void *pa, const void *pb) {
  const struct engine_trace_input *a = pa, *b = pb;
  if (a->step != b->step)
    return a->step < b->step ? -1 : 1;
  if (a->kind != b->kind)
    return a->kind < b->kind ? -1 : 1;
  return a->index < b->index ? -1 : a->index > b->index;
}

static int compare_ids(const void *pa, const void *pb) {
  const struct value *a = *(const struct value *const *)pa, *b = *(const struct value *const *)pb;
  if (a->u.string.len != b->u.string.len)
    return a->u.string.len < b->u.string.len ? -1 : 1;
  return memcmp(a->u.string.data, b->u.string.data, a->u.string.len);
}

static int check_ids_unique(const struct engine_trace *t, struct err *err) {
  const struct value **ids = mem_calloc(t->n_requests, sizeof *ids);
  for (size_t i = 0; i < t->n_requests; i++)
    ids[i] = t->requests[i].id;
  qsort(ids, t->n_requests, sizeof *ids, compare_ids);
  int rc = 0;
  for (size_t i = 1; i < t->n_requests && !rc; i++)
    if (!compare_ids(&ids[i - 1], &ids[i]))
      rc =
          err_set(err, ERR_INVALID, "requests: id \"%.60s\" is there twice", ids[i]->u.string.data);
  mem_free(ids);
  return rc;
}

static int read_trace(struct engine_trace *t, struct err *err) {
  const struct value *requests = value_get(&t->root, "requests");
  const struct value *resets = value_get(&t->root, "resets");
  if (t->root.kind != VALUE_OBJECT)
    return err_set(err, ERR_INVALID, "not an object");
  if (read_config(value_get(&t->root, "config"), &t->config, err))
    return err_prefix(err, "config");
  if (!requests || requests->kind != VALUE_ARRAY)
    return err_set(err, ERR_INVALID, "requests must be an array");
  if (resets && resets->kind != VALUE_ARRAY)
    return err_set(err, ERR_INVALID, "resets must be an array");
  t->n_requests = requests->u.array.n;
  t->requests = mem_calloc(t->n_requests, sizeof *t->requests);
  t->inputs = mem_calloc(2 * t->n_requests + value_count(resets), sizeof *t->inputs);
  for (size_t i = 0; i < t->n_requests; i++)
    if (read_request(t, value_at(requests, i), i, err))
      return err_prefix(err, "requests[%zu]", i);
  for (size_t i = 0; i < value_count(resets); i++)
    if (read_reset(t, value_at(resets, i), i, err))
      return err_prefix(err, "resets[%zu]", i);
  qsort(t->inputs, t->n_inputs, sizeof *t->inputs, compare_inputs);
  return check_ids_unique(t, err);
}

int engine_trace_read(const char *json, size_t len, struct engine_trace *t, struct err *err) {
  struct err own = {0};
  err = err ? err : &own; /* codes travel in it */
  *t = (struct engine_trace){0};
  int rc = json_parse(json, len, &t->root, err);
  if (!rc)
    rc = read_trace(t, err);
  if (rc) {
    engine_trace_free(t);
    err_prefix(err, "trace");
  }
  return rc;
}

void engine_trace_free(struct engine_trace *t) {
  for (size_t i = 0; i < t->n_requests; i++)
    mem_free(t->requests[i].req.tokens);
  mem_free(t->requests);
  mem_free(t->inputs);
  value_free(&t->root);
  *t = (struct engine_trace){0};
}

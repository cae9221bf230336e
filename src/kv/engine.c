/* engine.c: the step scheduler of one replica (rules S2 to S5, giving up, reset).
 *
 * One step: running requests first, in order, each with as many tokens as budget and threshold
 * allow; when blocks run out the last running request is preempted. Then waiting requests from the
 * head, unless something was preempted. Then the forward pass: whoever has all tokens computed
 * samples one. Rule names are those of shared/fixtures/engine/README.md. */
#include "kv/engine.h"

#include "base/mem.h"
#include "kv/engine_impl.h"

/* ------------------------------------------------------------------------------------- lists */

static void list_append(struct engine_list *l, struct engine_request *r) {
  r->prev = l->tail;
  r->next = NULL;
  if (l->tail)
    l->tail->next = r;
  else
    l->head = r;
  l->tail = r;
  l->n++;
}

static void list_prepend(struct engine_list *l, struct engine_request *r) {
  r->prev = NULL;
  r->next = l->head;
  if (l->head)
    l->head->prev = r;
  else
    l->tail = r;
  l->head = r;
  l->n++;
}

static void list_remove(struct engine_list *l, struct engine_request *r) {
  if (r->prev)
    r->prev->next = r->next;
  else
    l->head = r->next;
  if (r->next)
    r->next->prev = r->prev;
  else
    l->tail = r->prev;
  r->prev = r->next = NULL;
  l->n--;
}

/* ----------------------------------------------------------------------------- making, adding */

static int check_config(const struct engine_config *c, struct err *err) {
  if (c->num_blocks < 2 || c->num_blocks > POOL_MAX_BLOCKS)
    return err_set(err, ERR_INVALID,
                   "num_blocks is %u: give 2 to %u (block 0 is the null block, never used)",
                   c->num_blocks, POOL_MAX_BLOCKS);
  if (!c->block_size)
    return err_set(err, ERR_INVALID, "block_size is 0: give tokens per block, 1 or more");
  if (!c->max_num_seqs)
    return err_set(err, ERR_INVALID, "max_num_seqs is 0: nothing could ever run");
  if (c->max_num_batched_tokens < c->max_num_seqs)
    return err_set(err, ERR_INVALID,
                   "max_num_batched_tokens is %u, less than max_num_seqs (%u): every running "
                   "request needs a token per step",
                   c->max_num_batched_tokens, c->max_num_seqs);
  if (c->max_model_len < 2)
    return err_set(err, ERR_INVALID,
                   "max_model_len is %u: give 2 or more, for one prompt token and one of output",
                   c->max_model_len);
  uint64_t usable = (uint64_t)(c->num_blocks - 1) * c->block_size;
  if (c->max_model_len > usable)
    return err_set(err, ERR_INVALID,
                   "max_model_len is %u, but num_blocks %u of block_size %u hold %llu tokens "
                   "(block 0 is never used): a full-length request could wait for ever",
                   c->max_model_len, c->num_blocks, c->block_size, (unsigned long long)usable);
  return 0;
}

struct engine *engine_new(const struct engine_config *config, struct err *err) {
  if (check_config(config, err))
    return NULL;
  struct engine *e = MEM_NEW(struct engine);
  e->config = *config;
  pool_init(&e->pool, config->num_blocks);
  return e;
}

void engine_delete(struct engine *e) {
  if (!e)
    return;
  for (size_t i = 0; i < e->n_blocks; i++) {
    mem_free(e->all_blocks[i]->ids);
    mem_free(e->all_blocks[i]->names);
    mem_free(e->all_blocks[i]);
  }
  mem_free(e->all_blocks);
  mem_free(e->scheduled);
  mem_free(e->admitted);
  mem_free(e->preempted);
  mem_free(e->sampled);
  mem_free(e->finished);
  mem_free(e->events);
  pool_free(&e->pool);
  mem_free(e);
}

static struct engine_blocks *blocks_get(struct engine *e, uint32_t cap) {
  struct engine_blocks *b = e->unused;
  if (b) {
    e->unused = b->next_unused;
  } else {
    b = MEM_NEW(struct engine_blocks);
    MEM_GROW(e->all_blocks, e->n_blocks, e->cap_blocks);
    e->all_blocks[e->n_blocks++] = b;
  }
  if (b->cap < cap) {
    b->ids = mem_resize(b->ids, cap, sizeof *b->ids);
    b->names = mem_resize(b->names, cap, sizeof *b->names);
    b->cap = cap;
  }
  b->n = b->n_names = b->registered = 0;
  b->running = false;
  return b;
}

static void blocks_put(struct engine *e, struct engine_request *r) {
  r->blocks->next_unused = e->unused;
  e->unused = r->blocks;
  r->blocks = NULL;
}

int engine_add(struct engine *e, struct engine_request *req, struct err *err) {
  if (!req->prompt_len)
    return err_set(err, ERR_INVALID, "the prompt is empty: give at least one token");
  if (!req->max_output)
    return err_set(err, ERR_INVALID, "max_output is 0: a request samples at least one token");
  if (req->prompt_len >= e->config.max_model_len)
    return err_set(err, ERR_LIMIT,
                   "the prompt has %u tokens; with max_model_len %u it can have %u, so that one "
                   "of output fits",
                   req->prompt_len, e->config.max_model_len, e->config.max_model_len - 1);
  assert((!req->salt || req->salt[0]) && (!req->adapter || req->adapter[0]));
  uint64_t most = (uint64_t)req->prompt_len + req->max_output;
  if (most > e->config.max_model_len)
    most = e->config.max_model_len;
  uint32_t block_size = e->config.block_size;
  req->num_tokens = req->prompt_len;
  req->num_computed = req->num_output = req->num_preemptions = 0;
  req->num_cached = -1;
  req->finish = ENGINE_RUNNING;
  req->blocks = blocks_get(e, (uint32_t)((most + block_size - 1) / block_size));
  list_append(&e->waiting, req);
  return 0;
}

/* ---------------------------------------------------------------------------------- giving up */

/* Starts a new list of happenings once the old one was handed out. */
static void step_open(struct engine *e) {
  if (!e->published)
    return;
  e->n_scheduled = e->n_admitted = e->n_preempted = e->n_sampled = e->n_finished = 0;
  e->n_events = 0;
  e->published = e->cleared = false;
}

/* The last running request gives up its blocks and becomes the head of waiting. */
static struct engine_request *preempt_last(struct engine *e) {
  struct engine_request *r = e->running.tail;
  list_remove(&e->running, r);
  engine_release(e, r);
  r->num_computed = 0;
  r->num_preemptions++;
  r->blocks->running = false;
  list_prepend(&e->waiting, r);
  e->totals.preemptions++;
  MEM_GROW(e->preempted, e->n_preempted, e->cap_preempted);
  e->preempted[e->n_preempted++] = r;
  return r;
}

bool engine_abort(struct engine *e, struct engine_request *req) {
  if (req->finish != ENGINE_RUNNING || !req->blocks)
    return false;
  list_remove(req->blocks->running ? &e->running : &e->waiting, req);
  engine_release(e, req);
  blocks_put(e, req);
  req->finish = ENGINE_ABORT;
  e->totals.aborted++;
  return true;
}

bool engine_reset_cache(struct engine *e, bool reset_running) {
  step_open(e);
  if (reset_running)
    while (e->running.n)
      preempt_last(e);
  if (!pool_clear(&e->pool))
    return false;
  engine_event_add(e, ENGINE_CLEARED);
  if (!e->cleared)
    e->totals.cleared++;
  e->cleared = true;
  return true;
}

/* ------------------------------------------------------------------------------------ one step */

/* S3.1: how many of `open` tokens this request may compute now. */
static uint32_t chunk_size(const struct engine *e, uint32_t open, uint32_t budget) {
  uint32_t threshold = e->config.long_prefill_token_threshold;
  if (threshold && open > threshold)
    open = threshold;
  return open < budget ? open : budget;
}

static void note_scheduled(struct engine *e, struct engine_request *r, uint32_t tokens) {
  MEM_GROW(e->scheduled, e->n_scheduled, e->cap_scheduled);
  e->scheduled[e->n_scheduled++] = (struct engine_scheduled){.req = r, .tokens = tokens};
  e->totals.scheduled_tokens += tokens;
}

/* S3. True when something was preempted. */
static bool schedule_running(struct engine *e, uint32_t *budget) {
  bool preempted = false;
  for (struct engine_request *r = e->running.head; r && *budget; r = r->next) {
    uint32_t n = chunk_size(e, r->num_tokens - r->num_computed, *budget);
    while (!engine_place(e, r, n, 0, false)) {
      preempted = true;
      if (preempt_last(e) == r)
        return true;
    }
    note_scheduled(e, r, n);
    *budget -= n;
  }
  return preempted;
}

static void note_admitted(struct engine *e, struct engine_request *r, uint32_t cached) {
  MEM_GROW(e->admitted, e->n_admitted, e->cap_admitted);
  e->admitted[e->n_admitted++] = (struct engine_admitted){.req = r, .cached = cached};
  if (r->num_cached < 0)
    r->num_cached = cached;
  if (!e->config.enable_prefix_caching)
    return;
  if (r->num_preemptions) {
    e->totals.preempted_queries += r->num_tokens;
    e->totals.preempted_hits += cached;
  } else {
    e->totals.prefix_queries += r->num_tokens;
    e->totals.prefix_hits += cached;
  }
}

/* S4. */
static void schedule_waiting(struct engine *e, uint32_t budget) {
  while (e->waiting.n && budget && e->running.n < e->config.max_num_seqs) {
    struct engine_request *r = e->waiting.head;
    uint32_t hits = engine_lookup(e, r);
    uint32_t cached = hits * e->config.block_size;
    uint32_t n = chunk_size(e, r->num_tokens - cached, budget);
    if (!engine_place(e, r, n, hits, true))
      return; /* nothing behind the head is looked at */
    list_remove(&e->waiting, r);
    list_append(&e->running, r);
    r->blocks->running = true;
    r->num_computed = cached;
    note_scheduled(e, r, n);
    note_admitted(e, r, cached);
    budget -= n;
  }
}

/* What the pass consists of, for the step-time model: a decode computes the one token sampled
 * last, everything else is prefill, recomputed output after a preemption included. */
static void count_pass(const struct engine *e, struct engine_step *out) {
  for (size_t i = 0; i < e->n_scheduled; i++) {
    const struct engine_request *r = e->scheduled[i].req;
    if (r->num_output && r->num_tokens - r->num_computed == 1) {
      out->decode_tokens++;
      out->decode_context += r->num_computed;
    } else {
      out->prefill_tokens += e->scheduled[i].tokens;
    }
  }
}

/* S5. */
static void forward(struct engine *e) {
  for (size_t i = 0; i < e->n_scheduled; i++) {
    struct engine_request *r = e->scheduled[i].req;
    r->num_computed += e->scheduled[i].tokens;
    if (r->num_computed < r->num_tokens)
      continue;
    r->tokens[r->num_tokens++] = r->sample(r->user, r, r->num_output);
    r->num_output++;
    MEM_GROW(e->sampled, e->n_sampled, e->cap_sampled);
    e->sampled[e->n_sampled++] = r;
    if (r->num_output < r->max_output && r->num_tokens < e->config.max_model_len)
      continue;
    engine_release(e, r); /* at once: the order of the free queue depends on it */
    r->finish = ENGINE_LENGTH;
    MEM_GROW(e->finished, e->n_finished, e->cap_finished);
    e->finished[e->n_finished++] = r;
  }
  for (size_t i = 0; i < e->n_finished; i++) {
    list_remove(&e->running, e->finished[i]);
    blocks_put(e, e->finished[i]);
  }
  e->totals.generated_tokens += e->n_sampled;
  e->totals.finished += e->n_finished;
}

static void publish(struct engine *e, struct engine_step *out) {
  for (size_t i = 0; i < e->n_events; i++)
    if (e->events[i].kind == ENGINE_REMOVED)
      e->events[i].hashes = &e->events[i].parent;
  out->scheduled = e->scheduled;
  out->n_scheduled = e->n_scheduled;
  out->admitted = e->admitted;
  out->n_admitted = e->n_admitted;
  out->preempted = e->preempted;
  out->n_preempted = e->n_preempted;
  out->sampled = e->sampled;
  out->n_sampled = e->n_sampled;
  out->finished = e->finished;
  out->n_finished = e->n_finished;
  out->events = e->events;
  out->n_events = e->n_events;
  e->published = true;
}

void engine_step_run(struct engine *e, struct engine_step *out) {
  step_open(e);
  *out = (struct engine_step){0};
  if (engine_has_work(e)) { /* S2 */
    uint32_t budget = e->config.max_num_batched_tokens;
    if (!schedule_running(e, &budget))
      schedule_waiting(e, budget);
    count_pass(e, out);
    forward(e);
  }
  e->totals.steps++;
  publish(e, out);
}

/* ----------------------------------------------------------------------------------- questions */

bool engine_has_work(const struct engine *e) {
  return e->running.n || e->waiting.n;
}

uint32_t engine_running(const struct engine *e) {
  return e->running.n;
}

uint32_t engine_waiting(const struct engine *e) {
  return e->waiting.n;
}

uint32_t engine_free_blocks(const struct engine *e) {
  return e->pool.num_free;
}

double engine_usage(const struct engine *e) {
  return 1.0 - (double)e->pool.num_free / (double)(e->pool.num_blocks - 1);
}

void engine_get_totals(const struct engine *e, struct engine_totals *out) {
  *out = e->totals;
}

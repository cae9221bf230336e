/* engine.c: the step scheduler of one replica (rules S2 to S5, giving up, reset, loads).
 *
 * One step: running requests first, in order, each with as many tokens as budget and threshold
 * allow; when blocks run out the last running request is preempted. Then waiting requests from the
 * head, unless something was preempted. Then the forward pass: whoever has all tokens computed
 * samples one. Rule names are those of shared/fixtures/engine/README.md. */
#include "kv/engine.h"

#include <string.h>

#include "base/mem.h"
#include "kv/engine_impl.h"

/* ---------------------------------------------------------------------------------- giving up */

void engine_step_open(struct engine *e) {
  if (!e->published)
    return;
  engine_fills_told(e, false);
  e->n_scheduled = e->n_admitted = e->n_preempted = e->n_sampled = e->n_finished = 0;
  e->n_events = e->n_loads = 0;
  e->published = e->cleared = false;
}

/* The last request of running (or of loading) gives up its blocks and becomes the head of waiting.
 */
static struct engine_request *preempt_last(struct engine *e, struct engine_list *from) {
  struct engine_request *r = from->tail;
  engine_leave_list(e, r);
  engine_release(e, r);
  r->num_computed = 0;
  r->num_preemptions++;
  r->blocks->where = ENGINE_IN_WAITING;
  engine_list_prepend(&e->waiting, r);
  e->totals.preemptions++;
  MEM_GROW(e->preempted, e->n_preempted, e->cap_preempted);
  e->preempted[e->n_preempted++] = r;
  return r;
}

bool engine_abort(struct engine *e, struct engine_request *req) {
  if (req->finish != ENGINE_RUNNING || !req->blocks)
    return false;
  engine_leave_list(e, req);
  engine_forget_pending(e, req);
  engine_release(e, req);
  engine_blocks_put(e, req->blocks);
  req->blocks = NULL;
  req->finish = ENGINE_ABORT;
  e->totals.aborted++;
  return true;
}

bool engine_reset_cache(struct engine *e, bool reset_running) {
  engine_step_open(e);
  if (reset_running)
    while (e->running.n)
      engine_forget_pending(e, preempt_last(e, &e->running));
  if (!pool_clear(&e->pool))
    return false;
  if (e->life)
    blocklife_forget(e->life);
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

static inline void note_scheduled(struct engine *e, struct engine_request *r, uint32_t tokens) {
  MEM_GROW(e->scheduled, e->n_scheduled, e->cap_scheduled);
  e->scheduled[e->n_scheduled++] = (struct engine_scheduled){.req = r, .tokens = tokens};
  e->totals.scheduled_tokens += tokens;
}

/* Most decodes write into a block that they have and do not fill it: engine_place would find
 * nothing to do. */
static inline bool fits_in_block(const struct engine *e, const struct engine_request *r,
                                 uint32_t n) {
  const struct engine_blocks *b = r->blocks;
  uint64_t end = (uint64_t)r->num_computed + n, size = e->config.block_size;
  return end <= b->n * size && end < ((uint64_t)b->registered + 1) * size;
}

/* S3. True when something was preempted. */
static bool schedule_running(struct engine *e, uint32_t *budget) {
  bool preempted = false;
  for (struct engine_request *r = e->running.head; r && *budget; r = r->next) {
    if (r->num_computed + 1 == r->num_tokens && !r->num_pending && fits_in_block(e, r, 1)) {
      note_scheduled(e, r, 1);
      --*budget;
      continue;
    }
    if (engine_ends_with_pending(e, r))
      continue;
    uint32_t n = chunk_size(e, r->num_tokens + r->num_pending - r->num_computed, *budget);
    while (!fits_in_block(e, r, n) && !engine_place(e, r, n, 0, ENGINE_PLACE_RUNNING)) {
      preempted = true;
      if (preempt_last(e, &e->running) == r)
        return true;
    }
    note_scheduled(e, r, n);
    *budget -= n;
  }
  return preempted;
}

/* What was found for an admission, in the pool (`hits`) and behind it. */
static void count_found(struct engine *e, const struct engine_request *r, uint32_t hits) {
  struct engine_totals *t = &e->totals;
  if (r->num_preemptions) {
    t->preempted_queries += r->num_tokens;
    t->preempted_hits += hits;
    return;
  }
  t->prefix_queries += r->num_tokens;
  t->prefix_hits += hits;
  if (!engine_has_external(e, r))
    return;
  t->external_queries += r->num_tokens - hits;
  for (int i = 0; i < ENGINE_SOURCES; i++)
    t->external_hits[i] += r->blocks->load[i];
}

/* `cached` of its tokens have KV, loaded ones included. */
static void admit(struct engine *e, struct engine_request *r, uint32_t cached, uint32_t n) {
  struct engine_blocks *b = r->blocks;
  engine_leave_list(e, r);
  engine_list_append(&e->running, r);
  b->where = ENGINE_IN_RUNNING;
  r->num_computed = cached;
  note_scheduled(e, r, n);
  MEM_GROW(e->admitted, e->n_admitted, e->cap_admitted);
  e->admitted[e->n_admitted++] = (struct engine_admitted){.req = r, .cached = cached};
  uint32_t loaded = 0;
  for (int i = 0; i < ENGINE_SOURCES; i++)
    loaded += b->load[i];
  if (r->num_cached < 0) {
    r->num_cached = cached;
    memcpy(r->num_loaded, b->load, sizeof r->num_loaded);
  }
  if (e->config.enable_prefix_caching)
    count_found(e, r, cached - loaded);
}

/* S4 for requests that have blocks and wait for KV: the ready ones, before all that wait. False
 * when one does not fit: then nothing behind it is looked at. */
static bool schedule_loading(struct engine *e, uint64_t now_ns, uint32_t *budget) {
  struct engine_request *next;
  for (struct engine_request *r = e->loading.head; r; r = next) {
    next = r->next;
    if (!*budget || e->running.n >= e->config.max_num_seqs)
      return true;
    if (!engine_load_arrived(e, r, now_ns))
      continue;
    uint32_t n = chunk_size(e, r->num_tokens - r->num_computed, *budget);
    if (!engine_place(e, r, n, 0, ENGINE_PLACE_ADMISSION))
      return false;
    admit(e, r, r->num_computed, n);
    *budget -= n;
  }
  return true;
}

/* The head of waiting has `cached` tokens in the pool and more behind it: it gets blocks for both
 * and waits until they have arrived. False when the blocks are not there. */
static bool start_load(struct engine *e, struct engine_request *r, uint32_t hits, uint32_t more,
                       uint64_t now_ns) {
  if (!engine_place(e, r, more, hits, ENGINE_PLACE_LOAD))
    return false;
  engine_leave_list(e, r);
  engine_list_append(&e->loading, r);
  r->blocks->where = ENGINE_IN_LOADING;
  r->num_computed = hits * e->config.block_size + more;
  engine_begin_load(e, r, now_ns);
  return true;
}

/* S4. */
static void schedule_waiting(struct engine *e, uint64_t now_ns, uint32_t *budget) {
  while (e->waiting.n && *budget && e->running.n < e->config.max_num_seqs) {
    struct engine_request *r = e->waiting.head;
    uint32_t hits = engine_lookup(e, r);
    uint32_t cached = hits * e->config.block_size;
    uint32_t more = engine_find_load(e, r, cached);
    if (more) {
      if (!start_load(e, r, hits, more, now_ns))
        return;
      continue;
    }
    uint32_t n = chunk_size(e, r->num_tokens - cached, *budget);
    if (!engine_place(e, r, n, hits, ENGINE_PLACE_ADMISSION))
      return; /* nothing behind the head is looked at */
    admit(e, r, cached, n);
    *budget -= n;
  }
}

/* Nothing runs, and requests whose loads are complete hold the blocks that they need from each
 * other. vLLM would stand still for ever; here the last of them gives its blocks up. */
static bool stands_still(struct engine *e, uint64_t now_ns) {
  if (e->running.n || e->n_scheduled || e->loading.n < 2)
    return false;
  for (struct engine_request *r = e->loading.head; r; r = r->next)
    if (!engine_load_arrived(e, r, now_ns))
      return false;
  return true;
}

static void find_work(struct engine *e, uint64_t now_ns) {
  uint32_t budget = e->config.max_num_batched_tokens;
  if (schedule_running(e, &budget))
    return;
  while (!schedule_loading(e, now_ns, &budget)) {
    if (!stands_still(e, now_ns))
      return;
    preempt_last(e, &e->loading);
  }
  schedule_waiting(e, now_ns, &budget);
}

uint64_t engine_next_arrival(const struct engine *e) {
  uint64_t next = 0;
  for (const struct engine_request *r = e->loading.head; r; r = r->next)
    if (!r->blocks->arrived && (!next || r->blocks->ready_ns < next))
      next = r->blocks->ready_ns;
  return next;
}

/* What the pass consists of, for the step-time model: a decode computes the one token sampled
 * last, everything else is prefill, recomputed output after a preemption included. */
static void count_pass(const struct engine *e, struct engine_step *out) {
  for (size_t i = 0; i < e->n_scheduled; i++) {
    const struct engine_request *r = e->scheduled[i].req;
    if (r->num_output + r->num_pending && r->num_tokens + r->num_pending - r->num_computed == 1) {
      out->decode_tokens++;
      out->decode_context += r->num_computed;
    } else {
      uint64_t n = e->scheduled[i].tokens;
      out->prefill_tokens += (uint32_t)n;
      out->prefill_context += n * r->num_computed + n * (n - 1) / 2;
    }
  }
}

/* The blocks of a request that has ended: released at once, since the order of the free queue
 * depends on it, or held for the replica that will fetch their KV. */
static void end_blocks(struct engine *e, struct engine_request *r) {
  if (!r->hold) {
    engine_release(e, r);
    return;
  }
  struct engine_blocks *b = r->blocks;
  r->hold_id = b->hold_id = ++e->last_hold;
  b->next = e->held;
  e->held = b;
}

bool engine_release_hold(struct engine *e, uint64_t hold_id) {
  for (struct engine_blocks **at = &e->held; *at; at = &(*at)->next) {
    struct engine_blocks *b = *at;
    if (b->hold_id != hold_id)
      continue;
    *at = b->next;
    pool_release(&e->pool, b->ids, b->n);
    engine_blocks_put(e, b);
    return true;
  }
  return false;
}

const uint32_t *engine_hold_blocks(const struct engine *e, uint64_t hold_id, uint32_t *n) {
  for (const struct engine_blocks *b = e->held; b; b = b->next)
    if (b->hold_id == hold_id) {
      *n = b->n;
      return b->ids;
    }
  return NULL;
}

static void end_request(struct engine *e, struct engine_request *r) {
  end_blocks(e, r);
  r->finish = ENGINE_LENGTH;
  MEM_GROW(e->finished, e->n_finished, e->cap_finished);
  e->finished[e->n_finished++] = r;
}

static inline void sample(struct engine *e, struct engine_request *r) {
  if (r->sample)
    r->tokens[r->num_tokens] = r->sample(r->user, r, r->num_output);
  r->num_tokens++;
  r->num_output++;
  MEM_GROW(e->sampled, e->n_sampled, e->cap_sampled);
  e->sampled[e->n_sampled++] = r;
  if (r->num_output >= r->max_output || r->num_tokens >= e->config.max_model_len)
    end_request(e, r);
}

void engine_sample(struct engine *e, struct engine_request *r) {
  sample(e, r);
}

/* S5. */
static void forward(struct engine *e) {
  bool tiers = engine_has_tiers(e);
  for (size_t i = 0; i < e->n_scheduled; i++) {
    struct engine_request *r = e->scheduled[i].req;
    r->num_computed += e->scheduled[i].tokens;
    if (tiers)
      engine_store_chunks(e, r, r->num_computed);
    if (r->num_computed == r->num_tokens)
      sample(e, r);
  }
  for (size_t i = 0; i < e->n_finished; i++) {
    engine_leave_list(e, e->finished[i]);
    if (!e->finished[i]->hold)
      engine_blocks_put(e, e->finished[i]->blocks);
    e->finished[i]->blocks = NULL;
  }
}

void engine_step_publish(struct engine *e, struct engine_step *out) {
  for (size_t i = 0; i < e->n_events; i++)
    if (e->events[i].kind == ENGINE_REMOVED)
      e->events[i].hashes = &e->events[i].parent;
  out->scheduled = e->scheduled;
  out->n_scheduled = e->n_scheduled;
  out->admitted = e->admitted;
  out->n_admitted = e->n_admitted;
  out->loads = e->loads;
  out->n_loads = e->n_loads;
  out->preempted = e->preempted;
  out->n_preempted = e->n_preempted;
  out->sampled = e->sampled;
  out->n_sampled = e->n_sampled;
  out->finished = e->finished;
  out->n_finished = e->n_finished;
  out->events = e->events;
  out->n_events = e->n_events;
  e->totals.generated_tokens += e->n_sampled;
  e->totals.finished += e->n_finished;
  e->published = true;
}

void engine_schedule(struct engine *e, uint64_t now_ns, struct engine_step *out) {
  find_work(e, now_ns); /* S2 */
  count_pass(e, out);
}

void engine_step_run(struct engine *e, uint64_t now_ns, struct engine_step *out) {
  engine_step_open(e);
  *out = (struct engine_step){0};
  if (engine_has_work(e)) {
    engine_schedule(e, now_ns, out);
    forward(e);
    out->wake_ns = engine_next_arrival(e);
  }
  e->totals.steps++;
  engine_step_publish(e, out);
}

/* ----------------------------------------------------------------------------------- questions */

bool engine_has_work(const struct engine *e) {
  return e->running.n || e->waiting.n || e->loading.n;
}

uint32_t engine_running(const struct engine *e) {
  return e->running.n;
}

uint32_t engine_waiting(const struct engine *e) {
  return e->waiting.n + e->loading.n;
}

uint32_t engine_loading(const struct engine *e) {
  return e->loading.n;
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

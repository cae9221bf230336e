/* replica.c: stepping the engine in time. */
#include "sim/replica.h"

#include "base/mem.h"
#include "kv/blocklife.h"

struct gauges {
  uint32_t running, waiting, loading;
  double usage;
};

struct replica {
  struct engine *engine;
  struct engine_config config;
  struct steptime_profile profile;
  struct meters meters;
  struct gauges now; /* published */
  /* The step under way. */
  bool in_step;
  bool chained;      /* the last step ended just now */
  uint64_t due_ns;   /* when the step under way, or the last one, is to end */
  uint64_t wake_ns;  /* nothing is under way until then but loads; 0 = not so */
  bool ahead;        /* asynchronous scheduling: the step behind it is scheduled already */
  uint64_t ahead_ns; /* and takes so long */
  struct gauges after;
  struct replica_seq **batch; /* who sampled */
  size_t n_batch, cap_batch;
  struct replica_seq **prefilling; /* who did not, and wants to know how far the prompt is */
  size_t n_prefilling, cap_prefilling;
  struct blocklife life; /* of blocks; without `blocks`: nobody looks at them */
  struct replica_listener listener;
  bool unpublished; /* events of the step under way */
};

struct replica *replica_new(const struct engine_config *config,
                            const struct steptime_profile *profile, enum meters_style style,
                            double created_s, struct err *err) {
  struct engine *engine = engine_new(config, err);
  if (!engine)
    return NULL;
  struct replica *r = MEM_NEW(struct replica);
  r->engine = engine;
  r->config = *config;
  r->profile = *profile;
  meters_init(&r->meters, style, config->max_model_len, created_s);
  return r;
}

void replica_delete(struct replica *r) {
  if (!r)
    return;
  engine_delete(r->engine);
  blocklife_free(&r->life);
  meters_free(&r->meters);
  mem_free(r->batch);
  mem_free(r->prefilling);
  mem_free(r);
}

static struct gauges read_gauges(const struct replica *r) {
  return (struct gauges){engine_running(r->engine), engine_waiting(r->engine),
                         engine_loading(r->engine), engine_usage(r->engine)};
}

static void show_gauges(struct replica *r) {
  *(r->in_step ? &r->after : &r->now) = read_gauges(r);
}

int replica_add(struct replica *r, struct replica_seq *seq, struct err *err) {
  seq->in_step = seq->gone = false;
  seq->scheduled_ns = seq->first_ns = seq->last_ns = 0;
  return engine_add(r->engine, &seq->engine, err);
}

void replica_abort(struct replica *r, struct replica_seq *seq) {
  assert(!seq->gone);
  engine_abort(r->engine, &seq->engine);
  r->meters.finished[METER_ABORT]++;
  seq->gone = true;
  show_gauges(r);
  if (!seq->in_step)
    seq->on_gone(seq);
}

static void count_block(void *user, const struct blocklife_end *end) {
  struct replica *r = user;
  meters_observe(&r->meters, METER_BLOCK_LIFETIME, (double)end->lifetime_ns / 1e9);
  meters_observe(&r->meters, METER_BLOCK_IDLE, (double)end->idle_ns / 1e9);
  for (uint32_t i = 0; i < end->n_gaps; i++)
    meters_observe(&r->meters, METER_BLOCK_GAP, (double)end->gaps_ns[i] / 1e9);
}

void replica_measure_blocks(struct replica *r, double share, uint64_t seed) {
  blocklife_init(&r->life, r->config.num_blocks, share, seed);
  r->life.on_end = count_block;
  r->life.user = r;
  engine_follow_blocks(r->engine, &r->life);
}

void replica_listen(struct replica *r, struct replica_listener listener) {
  r->listener = listener;
}

bool replica_reset_cache(struct replica *r, bool reset_running) {
  return engine_reset_cache(r->engine, reset_running);
}

/* ---- a step ---- */

static struct replica_seq *seq_of(struct engine_request *req) {
  return CONTAINER_OF(req, struct replica_seq, engine);
}

static void take_batch(struct replica *r, const struct engine_step *step) {
  r->n_batch = 0;
  for (size_t i = 0; i < step->n_sampled; i++) {
    struct replica_seq *seq = seq_of(step->sampled[i]);
    seq->in_step = true;
    MEM_GROW(r->batch, r->n_batch, r->cap_batch);
    r->batch[r->n_batch++] = seq;
  }
  r->n_prefilling = 0;
  if (step->n_sampled == step->n_scheduled) /* none was left out */
    return;
  for (size_t i = 0; i < step->n_scheduled; i++) {
    struct replica_seq *seq = seq_of(step->scheduled[i].req);
    if (seq->in_step || seq->first_ns || !seq->on_progress)
      continue;
    seq->in_step = true;
    MEM_GROW(r->prefilling, r->n_prefilling, r->cap_prefilling);
    r->prefilling[r->n_prefilling++] = seq;
  }
}

/* First scheduling only: a preempted request keeps its first stamp. */
static void stamp_admitted(const struct engine_step *step, uint64_t now_ns) {
  for (size_t i = 0; i < step->n_admitted; i++) {
    struct replica_seq *seq = seq_of(step->admitted[i].req);
    if (!seq->scheduled_ns)
      seq->scheduled_ns = now_ns > seq->queued_ns ? now_ns : seq->queued_ns;
  }
}

static void publish(struct replica *r, uint64_t now_ns) {
  if (r->unpublished)
    r->listener.publish(r->listener.user, now_ns);
  r->unpublished = false;
}

/* What SGLang's page says of batches. */
static void count_batch(struct replica *r, const struct engine_step *step) {
  uint64_t hits = 0;
  for (size_t i = 0; i < step->n_preempted; i++)
    r->meters.retracted_tokens += step->preempted[i]->prompt_len;
  for (size_t i = 0; i < step->n_admitted; i++)
    hits += step->admitted[i].cached;
  if (step->n_admitted && hits + step->prefill_tokens)
    r->meters.batch_hit_rate = (double)hits / (double)(hits + step->prefill_tokens);
}

static void tell(struct replica *r, const struct engine_step *step) {
  if (!step->n_events || !r->listener.events)
    return;
  r->listener.events(r->listener.user, step->events, step->n_events);
  r->unpublished = true;
}

static void run_step(struct replica *r, uint64_t now_ns, struct engine_step *step) {
  r->life.now_ns = now_ns;
  if (r->config.async_scheduling)
    engine_step_ahead(r->engine, now_ns, step);
  else
    engine_step_run(r->engine, now_ns, step);
  count_batch(r, step);
  stamp_admitted(step, now_ns);
  tell(r, step);
}

/* Schedules a step where none is under way. False: there is nothing to do. */
static bool schedule(struct replica *r, uint64_t now_ns, uint64_t begin_ns) {
  struct engine_step step;
  do { /* a step in which everyone was preempted takes no time */
    publish(r, now_ns);
    run_step(r, begin_ns, &step);
  } while (!step.n_scheduled && step.n_preempted);
  if (!step.n_scheduled) {
    publish(r, now_ns);
    r->now = read_gauges(r);
    r->wake_ns = step.wake_ns;
    return false;
  }
  if (!r->config.async_scheduling) /* else who sampled is not known before its end */
    take_batch(r, &step);
  r->ahead_ns = steptime_engine_ns(&r->profile, &step);
  return true;
}

/* Schedules the step behind the one that begins. */
static void look_ahead(struct replica *r, uint64_t begin_ns) {
  struct engine_step step = {0};
  if (engine_has_work(r->engine))
    run_step(r, begin_ns, &step);
  r->ahead = step.n_scheduled > 0;
  r->ahead_ns = steptime_engine_ns(&r->profile, &step);
}

bool replica_begin(struct replica *r, uint64_t now_ns, uint64_t *due_ns) {
  if (r->in_step)
    return false;
  bool on_time = r->chained && now_ns - r->due_ns < REPLICA_CATCH_UP_NS;
  uint64_t begin_ns = on_time ? r->due_ns : now_ns;
  r->chained = false;
  r->wake_ns = 0;
  if (!r->ahead && (!engine_has_work(r->engine) || !schedule(r, now_ns, begin_ns)))
    return false;
  r->in_step = true;
  *due_ns = r->due_ns = begin_ns + r->ahead_ns;
  if (r->config.async_scheduling)
    look_ahead(r, begin_ns);
  r->after = read_gauges(r);
  return true;
}

/* What the step under way sampled, where that is known only at its end. */
static void land(struct replica *r, uint64_t now_ns) {
  struct engine_step step;
  r->life.now_ns = now_ns;
  engine_step_done(r->engine, &step);
  tell(r, &step);
  take_batch(r, &step);
  r->after = read_gauges(r);
}

static double seconds(uint64_t from, uint64_t to) {
  return to > from ? (double)(to - from) / 1e9 : 0;
}

static void count_first(struct replica *r, const struct replica_seq *seq) {
  uint64_t cached = seq->engine.num_cached > 0 ? (uint64_t)seq->engine.num_cached : 0;
  r->meters.prompt_tokens += seq->engine.prompt_len;
  r->meters.cached_tokens += cached;
  for (int i = 0; i < ENGINE_SOURCES; i++)
    r->meters.external_tokens += seq->engine.num_loaded[i];
  r->meters.host_tokens += seq->engine.num_loaded[ENGINE_OFFLOAD];
  r->meters.storage_tokens += seq->engine.num_loaded[ENGINE_SHARED];
  meters_observe(&r->meters, METER_TTFT, seconds(seq->received_ns, seq->first_ns));
}

/* vLLM's is of the tokens after the first, 0 where there is none of them (v1/metrics/stats.py),
 * TGI's of all tokens, from the request's start. Both observe every request that ended by itself.
 */
static double per_token(const struct replica *r, const struct replica_seq *seq, uint32_t n) {
  if (r->meters.style == METERS_TGI)
    return seconds(seq->scheduled_ns, seq->last_ns) / n;
  return n > 1 ? seconds(seq->first_ns, seq->last_ns) / (n - 1) : 0;
}

static void count_finished(struct replica *r, const struct replica_seq *seq) {
  struct meters *m = &r->meters;
  uint32_t n = seq->engine.num_output, prompt = seq->engine.prompt_len;
  int64_t cached = seq->engine.num_cached;
  m->finished[seq->finish]++;
  meters_observe(m, METER_E2E, seconds(seq->received_ns, seq->last_ns));
  meters_observe(m, METER_QUEUE, seconds(seq->queued_ns, seq->scheduled_ns));
  meters_observe(m, METER_INFERENCE, seconds(seq->scheduled_ns, seq->last_ns));
  meters_observe(m, METER_PREFILL, seconds(seq->scheduled_ns, seq->first_ns));
  meters_observe(m, METER_DECODE, seconds(seq->first_ns, seq->last_ns));
  meters_observe(m, METER_PROMPT_TOKENS, prompt);
  meters_observe(m, METER_PREFILL_COMPUTED, prompt - (cached > 0 ? (double)cached : 0));
  meters_observe(m, METER_GENERATION_TOKENS, n);
  meters_observe(m, METER_MAX_TOKENS, seq->max_tokens);
  meters_observe(m, METER_TPOT, per_token(r, seq, n));
}

/* Gaps of the step that are equal, which most are: n tokens follow one of `since_ns`. */
struct gaps {
  uint64_t since_ns;
  uint32_t n;
};

static void count_gaps(struct replica *r, const struct gaps *g, uint64_t now_ns) {
  if (g->n)
    meters_observe_times(&r->meters, METER_ITL, seconds(g->since_ns, now_ns), g->n);
}

/* Counts what the step sampled. Whether anybody is to be told of it, or has left. */
static bool count_batch_end(struct replica *r, uint64_t now_ns) {
  struct gaps gaps = {0};
  uint64_t output = 0, prompts = 0;
  bool told = r->n_prefilling > 0;
  for (size_t i = 0; i < r->n_batch; i++) {
    struct replica_seq *seq = r->batch[i];
    bool last = seq->engine.finish == ENGINE_LENGTH;
    told = told || last || seq->gone || !seq->quiet || seq->engine.num_output == 1;
    if (seq->gone)
      continue;
    output++;
    if (!seq->first_ns) {
      seq->first_ns = now_ns;
      prompts += seq->engine.prompt_len; /* all of a prompt at once */
      count_first(r, seq);
    } else if (gaps.n && seq->last_ns == gaps.since_ns) {
      gaps.n++;
    } else {
      count_gaps(r, &gaps, now_ns);
      gaps = (struct gaps){seq->last_ns, 1};
    }
    seq->last_ns = now_ns;
    if (last)
      count_finished(r, seq);
  }
  count_gaps(r, &gaps, now_ns);
  r->meters.generation_tokens += output;
  r->meters.steps++;
  meters_output(&r->meters, now_ns, output);
  if (output) /* vLLM has no statistics of a step without (v1/engine/async_llm.py) */
    meters_observe(&r->meters, METER_ITERATION_TOKENS, (double)(output + prompts));
  return told;
}

static void end_prefilling(struct replica *r, uint64_t now_ns) {
  for (size_t i = 0; i < r->n_prefilling; i++) {
    struct replica_seq *seq = r->prefilling[i];
    seq->in_step = false;
    if (seq->gone)
      seq->on_gone(seq);
    else
      seq->on_progress(seq, now_ns);
  }
  r->n_prefilling = 0;
}

static inline void stamp(struct replica_seq *seq, uint64_t now_ns) {
  if (seq->stamps)
    seq->stamps[seq->n_stamps++] = now_ns;
}

void replica_end(struct replica *r, uint64_t now_ns) {
  assert(r->in_step);
  r->in_step = false;
  r->chained = true;
  if (r->config.async_scheduling)
    land(r, now_ns);
  r->now = r->after;
  publish(r, now_ns);
  bool told = count_batch_end(r, now_ns);
  end_prefilling(r, now_ns);
  for (size_t i = 0; !told && i < r->n_batch; i++) {
    r->batch[i]->in_step = false;
    stamp(r->batch[i], now_ns);
  }
  /* Counted first, handed out after: an on_token may abort others of this batch. */
  for (size_t i = 0; told && i < r->n_batch; i++) {
    struct replica_seq *seq = r->batch[i];
    bool last = seq->engine.finish == ENGINE_LENGTH;
    seq->in_step = false;
    if (!seq->gone && seq->on_progress && seq->engine.num_output == 1)
      seq->on_progress(seq, now_ns);
    if (seq->gone) {
      seq->on_gone(seq);
      continue;
    }
    stamp(seq, now_ns);
    if (!seq->quiet || last || seq->engine.num_output == 1)
      seq->on_token(seq, last, now_ns);
  }
  r->n_batch = 0;
}

uint64_t replica_wake_ns(const struct replica *r) {
  return r->wake_ns;
}

bool replica_release_hold(struct replica *r, uint64_t hold_id) {
  return engine_release_hold(r->engine, hold_id);
}

uint32_t replica_fill(struct replica *r, uint32_t blocks, uint64_t now_ns, uint64_t *hold_id) {
  r->life.now_ns = now_ns;
  uint32_t n = engine_fill(r->engine, blocks, hold_id);
  show_gauges(r);
  return n;
}

bool replica_release_fill(struct replica *r, uint64_t hold_id) {
  bool held = engine_release_fill(r->engine, hold_id);
  show_gauges(r);
  return held;
}

bool replica_in_step(const struct replica *r) {
  return r->in_step;
}

/* ---- what it shows ---- */

const struct engine_config *replica_config(const struct replica *r) {
  return &r->config;
}

struct engine *replica_engine(struct replica *r) {
  return r->engine;
}

void replica_gauges(const struct replica *r, uint32_t *running, uint32_t *waiting, double *usage) {
  *running = r->now.running;
  *waiting = r->now.waiting;
  *usage = r->now.usage;
}

void replica_count_request(struct replica *r, uint32_t n, uint32_t longest) {
  meters_observe(&r->meters, METER_PARAMS_N, n);
  meters_observe(&r->meters, METER_MAX_GENERATION, longest);
}

void replica_count_rejection(struct replica *r, bool requests) {
  r->meters.rejected[requests]++;
}

void replica_write_metrics(const struct replica *r, const struct replica_state *state,
                           struct buf *out) {
  struct engine_totals t;
  engine_get_totals(r->engine, &t);
  struct meters_now now = {.model = state->model,
                           .blocks = r->life.blocks != NULL,
                           .storage = r->config.tiers.shared != NULL,
                           .stored_tokens = t.chunks_shared * r->config.tiers.chunk_tokens,
                           .asleep = state->asleep,
                           .limits = state->limits,
                           .adapters = state->adapters,
                           .running_adapters = state->running_adapters,
                           .waiting_adapters = state->waiting_adapters,
                           .now_s = state->now_s,
                           .running = r->now.running,
                           .waiting = r->now.waiting,
                           .loading = r->now.loading,
                           .kv_usage = r->now.usage,
                           .block_size = r->config.block_size,
                           .num_blocks = r->config.num_blocks,
                           .prefix_caching = r->config.enable_prefix_caching,
                           .prefix_queries = t.prefix_queries,
                           .prefix_hits = t.prefix_hits,
                           .external_queries = t.external_queries,
                           .recomputed = t.loaded_recomputed,
                           .preemptions = t.preemptions};
  for (int i = 0; i < ENGINE_SOURCES; i++)
    now.external_hits += t.external_hits[i];
  meters_write(&r->meters, &now, out);
}

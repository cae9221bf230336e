/* engine_walk.h: random operations on two engines that share storage, each held against the model
 * of engine_model.h after every step. The seed of a walk decides everything in it. */
#ifndef TESTS_UNIT_ENGINE_WALK_H
#define TESTS_UNIT_ENGINE_WALK_H

#include "base/rng.h"
#include "engine_model.h"
#include "kv/engine_impl.h"
#include "kv/tierstore.h"

enum { W_REPLICAS = 2, W_REQUESTS = 24, W_STEPS = 400 };

struct w_slot {
  struct engine_request real;
  struct m_request model;
  uint32_t tokens[M_TOKENS];
  bool used;
};
struct w_replica {
  struct engine *engine;
  struct model model;
  struct w_slot slots[W_REQUESTS];
  uint64_t evicted; /* by requests that are no more in a slot, and by pressure */
};
struct walk {
  uint64_t seed, now_ns, next_id;
  struct rng rng;
  struct engine_config c;
  struct m_world world;
  struct tierstore *shared;
  uint64_t hash_of[M_CONTENTS]; /* the engine's name of a content; has_hash: it was seen */
  bool has_hash[M_CONTENTS];
  struct w_replica replicas[W_REPLICAS];
  int step;
};

static inline uint32_t w_draw(struct walk *w, uint32_t least, uint32_t most) {
  return (uint32_t)rng_int(&w->rng, least, most);
}
static inline bool w_chance(struct walk *w, uint32_t percent) {
  return w_draw(w, 0, 99) < percent;
}

#define W_SAME(what, got, want)                                                                    \
  do {                                                                                             \
    unsigned long long got_ = (unsigned long long)(got), want_ = (unsigned long long)(want);       \
    if (got_ != want_)                                                                             \
      fail_msg("seed %llu, step %d: %s is %llu, the model has %llu", (unsigned long long)w->seed,  \
               w->step, (what), got_, want_);                                                      \
  } while (0)

/* ---- comparing ---- */

/* Equal contents have equal names and others have not, for ever. */
static inline void w_same_name(struct walk *w, uint64_t hash, int name) {
  if (!w->has_hash[name]) {
    for (int i = 0; i < w->world.n_contents; i++)
      if (w->has_hash[i] && w->hash_of[i] == hash &&
          w->world.contents[i].chunk == w->world.contents[name].chunk)
        W_SAME("the content of a name", i, name);
    w->has_hash[name] = true;
    w->hash_of[name] = hash;
  }
  W_SAME("a name", hash, w->hash_of[name]);
}

static inline void w_same_list(struct walk *w, const char *what, struct engine_request *const *got,
                               size_t n, const struct m_list *want) {
  W_SAME(what, n, want->n);
  for (size_t i = 0; i < n; i++)
    if (got[i] != want->at[i]->real)
      W_SAME(what, (uintptr_t)got[i]->user, (uintptr_t)want->at[i]->real->user);
}

static inline void w_same_events(struct walk *w, const struct engine_step *s,
                                 const struct model *m) {
  W_SAME("the number of events", s->n_events, m->n_events);
  for (size_t i = 0; i < s->n_events; i++) {
    const struct engine_event *got = &s->events[i];
    const struct m_event *want = &m->events[i];
    W_SAME("an event's kind", got->kind, want->kind);
    W_SAME("an event's medium", got->medium, want->medium);
    W_SAME("an event's blocks", got->n, want->n);
    for (uint32_t k = 0; k < got->n; k++)
      w_same_name(w, got->hashes[k], want->names[k]);
    if (got->kind != ENGINE_STORED)
      continue;
    W_SAME("an event's having a parent", got->has_parent, want->parent >= 0);
    if (got->has_parent)
      w_same_name(w, got->parent, want->parent);
  }
}

static inline void w_same_tier(struct walk *w, const char *what, const struct tierstore *got,
                               const struct m_tier *want) {
  W_SAME(what, got ? tierstore_count(got) : 0, want->n);
  for (int i = 0; i < want->n; i++)
    w_same_name(w, tierstore_at(got, (uint32_t)i), want->names[i]);
}

static inline void w_same_pool(struct walk *w, const struct w_replica *p) {
  const struct pool *pool = &p->engine->pool;
  const struct model *m = &p->model;
  uint32_t id = 0;
  W_SAME("free blocks", engine_free_blocks(p->engine), m->n_free);
  for (uint32_t i = 0; i < m->n_free; i++) {
    id = pool_next(pool, id);
    W_SAME("a block of the free queue", id, m->queue[i]);
  }
  W_SAME("the end of the free queue", pool_next(pool, id), 0);
  for (id = 1; id < m->c.num_blocks; id++) {
    W_SAME("a block's holders", pool->blocks[id].refs, m->refs[id]);
    W_SAME("a block's having a name", pool->blocks[id].named, m->name[id] >= 0);
    if (m->name[id] >= 0)
      w_same_name(w, pool->blocks[id].name, m->name[id]);
  }
}

static inline void w_same_requests(struct walk *w, const struct w_replica *p) {
  for (int i = 0; i < W_REQUESTS; i++) {
    const struct engine_request *got = &p->slots[i].real;
    const struct m_request *want = &p->slots[i].model;
    if (!p->slots[i].used)
      continue;
    W_SAME("tokens of a request", got->num_tokens, want->n_tokens);
    W_SAME("its last token", got->tokens[got->num_tokens - 1], want->tokens[want->n_tokens - 1]);
    W_SAME("its computed tokens", got->num_computed, want->n_computed);
    W_SAME("its pending tokens", got->num_pending, want->n_pending);
    W_SAME("its outputs", got->num_output, want->n_output);
    W_SAME("its preemptions", got->num_preemptions, want->preemptions);
    W_SAME("its cached tokens", got->num_cached, want->cached);
    for (int k = 0; k < ENGINE_SOURCES; k++)
      W_SAME("its loaded tokens", got->num_loaded[k], want->first_load[k]);
    W_SAME("its end", got->finish != ENGINE_RUNNING, want->ended);
  }
}

/* Every removal of the pool was made by one request, and each has its own count of them. */
static inline void w_same_evictions(struct walk *w, const struct w_replica *p) {
  struct engine_totals totals;
  uint64_t sum = p->evicted;
  for (int i = 0; i < W_REQUESTS; i++)
    sum += p->slots[i].used ? p->slots[i].real.num_evicted : 0;
  engine_get_totals(p->engine, &totals);
  W_SAME("what requests evicted", sum, totals.removed);
}

static inline void w_same_holds(struct walk *w, const struct w_replica *p) {
  for (int i = 0; i < p->model.holds.n; i++) {
    const struct m_hold *want = &p->model.holds.at[i];
    uint32_t n = 0;
    const uint32_t *got = engine_hold_blocks(p->engine, want->id, &n);
    W_SAME("the number of held blocks", n, want->n);
    for (uint32_t k = 0; k < n; k++)
      W_SAME("a held block", got[k], want->blocks[k]);
  }
}

/* Several engines are asked with names made once: as one is with the tokens. */
static inline void w_same_prefix(struct walk *w, const struct w_replica *p) {
  const struct w_slot *s = &p->slots[(uint32_t)w->step % W_REQUESTS];
  struct engine_prefix prefix;
  if (!s->used)
    return;
  for (uint32_t n = 0; n <= s->real.num_tokens; n += 1 + s->real.num_tokens / 3) {
    engine_prefix_init(&prefix, &w->c, s->tokens, n, s->real.salt, s->real.adapter);
    for (int i = 0; i < W_REPLICAS; i++) {
      const struct engine *e = w->replicas[i].engine;
      uint32_t pool = m_peek(&w->replicas[i].model, &s->model, n, false);
      uint32_t all = m_peek(&w->replicas[i].model, &s->model, n, true);
      W_SAME("what the pool has", engine_peek(e, s->tokens, n, s->real.salt, s->real.adapter),
             pool);
      W_SAME("what the pool and the tiers have",
             engine_peek_tiers(e, s->tokens, n, s->real.salt, s->real.adapter), all);
      W_SAME("what is resident", engine_peek_prefix(e, &prefix, false), pool);
      W_SAME("what is resident, with tiers", engine_peek_prefix(e, &prefix, true), all);
    }
    engine_prefix_free(&prefix);
  }
}

static inline void w_same_step(struct walk *w, const struct w_replica *p,
                               const struct engine_step *s) {
  const struct model *m = &p->model;
  struct engine_totals totals;
  W_SAME("the number of scheduled", s->n_scheduled, m->scheduled.n);
  for (size_t i = 0; i < s->n_scheduled; i++) {
    W_SAME("a scheduled request", (uintptr_t)s->scheduled[i].req,
           (uintptr_t)m->scheduled.at[i]->real);
    W_SAME("its tokens", s->scheduled[i].tokens, m->tokens_of[i]);
  }
  W_SAME("the number of admitted", s->n_admitted, m->admitted.n);
  for (size_t i = 0; i < s->n_admitted; i++) {
    W_SAME("an admitted request", (uintptr_t)s->admitted[i].req,
           (uintptr_t)m->admitted.at[i]->real);
    W_SAME("its cached tokens", s->admitted[i].cached, m->cached_of[i]);
  }
  W_SAME("the number of loads", s->n_loads, m->loads.n);
  for (size_t i = 0; i < s->n_loads; i++) {
    W_SAME("a loading request", (uintptr_t)s->loads[i].req, (uintptr_t)m->loads.at[i]->real);
    W_SAME("when it has loaded", s->loads[i].ready_ns, m->ready_of[i]);
  }
  w_same_list(w, "preempted requests", s->preempted, s->n_preempted, &m->preempted);
  w_same_list(w, "requests with a token", s->sampled, s->n_sampled, &m->sampled);
  w_same_list(w, "ended requests", s->finished, s->n_finished, &m->finished);
  w_same_events(w, s, m);
  W_SAME("prefill tokens", s->prefill_tokens, m->prefill_tokens);
  W_SAME("prefill context", s->prefill_context, m->prefill_context);
  W_SAME("decode tokens", s->decode_tokens, m->decode_tokens);
  W_SAME("decode context", s->decode_context, m->decode_context);
  W_SAME("the next arrival", s->wake_ns, m->wake_ns);
  W_SAME("running", engine_running(p->engine), m->running.n);
  W_SAME("waiting", engine_waiting(p->engine), m->waiting.n + m->loading.n);
  engine_get_totals(p->engine, &totals);
  const uint64_t *got = (const uint64_t *)&totals, *want = (const uint64_t *)&m->totals;
  for (size_t i = 0; i < sizeof totals / sizeof *got; i++)
    W_SAME("a total", got[i], want[i]);
  w_same_pool(w, p);
  w_same_requests(w, p);
  w_same_evictions(w, p);
  w_same_holds(w, p);
  w_same_prefix(w, p);
  w_same_tier(w, "CPU memory", p->engine->offload, &m->offload);
  w_same_tier(w, "shared storage", w->shared, &w->world.shared);
}

/* ---- operations ---- */

static inline uint32_t w_sample(void *user, const struct engine_request *req, uint32_t index) {
  (void)user;
  return m_sample(req, index);
}

/* The beginning of what some request said or was told, and something new. */
static inline uint32_t w_prompt(struct walk *w, const struct w_replica *p, uint32_t *tokens) {
  uint32_t n = w_draw(w, 1, w->c.max_model_len - 1), shared = 0;
  const struct w_slot *from =
      &w->replicas[w_draw(w, 0, W_REPLICAS - 1)].slots[w_draw(w, 0, W_REQUESTS - 1)];
  (void)p;
  if (from->used && w_chance(w, 80)) {
    shared = w_draw(w, 0, from->model.n_tokens);
    shared = shared < n ? shared : n;
    memcpy(tokens, from->tokens, shared * sizeof *tokens);
  }
  for (uint32_t i = shared; i < n; i++)
    tokens[i] = w_draw(w, 0, 2);
  return n;
}

static inline void w_arrive(struct walk *w, struct w_replica *p) {
  struct w_slot *s = &p->slots[w_draw(w, 0, W_REQUESTS - 1)];
  if (s->used && !s->model.ended)
    return;
  uint32_t tokens[M_TOKENS], n = w_prompt(w, p, tokens), outputs = w_draw(w, 1, 12);
  if (n + outputs > M_TOKENS)
    outputs = M_TOKENS - n;
  p->evicted += s->used ? s->real.num_evicted : 0;
  memset(s, 0, sizeof *s);
  memcpy(s->tokens, tokens, n * sizeof *tokens);
  s->used = true;
  s->real = (struct engine_request){.tokens = s->tokens,
                                    .prompt_len = n,
                                    .max_output = outputs,
                                    .salt = w_chance(w, 10) ? "salt" : NULL,
                                    .adapter = w_chance(w, 10) ? "adapter" : NULL,
                                    .remote_tokens = w_chance(w, 5) ? w_draw(w, 1, n) : 0,
                                    .hold = w_chance(w, 5),
                                    .skip_lookup = w_chance(w, 3),
                                    .sample = w_sample,
                                    .user = (void *)(uintptr_t)++w->next_id};
  struct m_request *m = &s->model;
  *m = (struct m_request){.real = &s->real,
                          .n_tokens = n,
                          .max_output = outputs,
                          .salt = s->real.salt,
                          .adapter = s->real.adapter,
                          .remote = s->real.remote_tokens,
                          .hold = s->real.hold,
                          .cached = -1};
  memcpy(m->tokens, tokens, n * sizeof *tokens);
  struct err err;
  check_ok(engine_add(p->engine, &s->real, &err), &err);
  m_push(&p->model.waiting, m);
}

/* Pressure: blocks for others, held or not. */
static inline void w_fill(struct walk *w, struct w_replica *p) {
  uint32_t n = w_draw(w, 0, w->c.num_blocks / (w_chance(w, 20) ? 1 : 3));
  bool hold = p->model.fills.n < 4 && w_chance(w, 40);
  uint64_t got = 0, want, removed = p->model.totals.removed;
  W_SAME("blocks of a fill", engine_fill(p->engine, n, hold ? &got : NULL),
         m_fill(&p->model, n, hold, &want));
  W_SAME("a fill's number", got, want);
  p->evicted += p->model.totals.removed - removed;
}

static inline void w_operate(struct walk *w, struct w_replica *p) {
  for (uint32_t n = w_draw(w, 0, 2); n; n--)
    w_arrive(w, p);
  if (w_chance(w, 4)) {
    struct w_slot *s = &p->slots[w_draw(w, 0, W_REQUESTS - 1)];
    if (s->used)
      W_SAME("an abort's effect", engine_abort(p->engine, &s->real), m_abort(&p->model, &s->model));
  }
  if (w_chance(w, 3)) {
    bool running = w_chance(w, 30);
    W_SAME("a reset's success", engine_reset_cache(p->engine, running),
           m_reset(&p->model, running));
  }
  struct m_holds *holds = &p->model.holds, *fills = &p->model.fills;
  if (holds->n && w_chance(w, 30)) {
    uint64_t id = holds->at[w_draw(w, 0, (uint32_t)holds->n - 1)].id;
    W_SAME("a hold's release", engine_release_hold(p->engine, id),
           m_release_hold(&p->model, holds, id));
    W_SAME("a second release", engine_release_hold(p->engine, id), false);
  }
  if (fills->n && w_chance(w, 20)) {
    uint64_t id = fills->at[w_draw(w, 0, (uint32_t)fills->n - 1)].id;
    W_SAME("a fill's release", engine_release_fill(p->engine, id),
           m_release_hold(&p->model, fills, id));
    W_SAME("a second release", engine_release_fill(p->engine, id), false);
  }
  if (w_chance(w, 2))
    w_fill(w, p);
  if (w_chance(w, 1)) {
    engine_reset_offload(p->engine);
    p->model.offload.n = 0;
  }
}

/* ---- walking ---- */

static inline void w_config(struct walk *w, bool tiers) {
  struct engine_config *c = &w->c;
  c->block_size = w_draw(w, 1, 6);
  c->num_blocks = w_draw(w, 4, 40);
  c->max_num_seqs = w_draw(w, 1, 6);
  c->max_num_batched_tokens = c->max_num_seqs + w_draw(w, 0, 40);
  c->long_prefill_token_threshold = w_chance(w, 30) ? w_draw(w, 1, 20) : 0;
  uint32_t room = (c->num_blocks - 1) * c->block_size;
  c->max_model_len = w_draw(w, 2, room < M_TOKENS ? room : M_TOKENS);
  c->enable_prefix_caching = w_chance(w, 92);
  c->reserve_full_isl = w_chance(w, 70);
  c->watermark_blocks = w_chance(w, 15) ? w_draw(w, 1, c->num_blocks) : 0;
  if (!tiers)
    return;
  c->tiers.chunk_tokens = c->block_size * w_draw(w, 1, 3);
  c->tiers.kv_bytes_per_token = w_draw(w, 0, 100);
  c->tiers.offload_chunks = w_chance(w, 70) ? w_draw(w, 1, 20) : 0;
  if (w_chance(w, 60)) {
    w->world.shared.capacity = (int)w_draw(w, 1, M_CHUNKS);
    w->shared = c->tiers.shared = tierstore_new((uint32_t)w->world.shared.capacity);
  }
  for (int i = 0; i < ENGINE_SOURCES; i++)
    c->tiers.links[i] =
        (struct engine_link){.latency_ns = w_draw(w, 0, 300),
                             .bytes_per_s = w_chance(w, 80) ? w_draw(w, 1, 50) * 1e9 / 10 : 0};
}

/* One walk of W_STEPS steps; what happened in it is added to `seen`. */
static inline void walk_once(struct walk *w, uint64_t seed, bool tiers, bool async,
                             struct m_seen *seen) {
  memset(w, 0, sizeof *w);
  w->seed = seed;
  rng_init(&w->rng, seed, 1);
  w_config(w, tiers);
  w->c.async_scheduling = async;
  for (int i = 0; i < W_REPLICAS; i++) {
    struct err err;
    w->replicas[i].engine = engine_new(&w->c, &err);
    if (!w->replicas[i].engine)
      fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
    m_init(&w->replicas[i].model, &w->c, &w->world);
  }
  for (w->step = 0; w->step < W_STEPS && w->world.n_contents < M_CONTENTS * 3 / 4; w->step++) {
    struct w_replica *p = &w->replicas[w_draw(w, 0, W_REPLICAS - 1)];
    struct engine_step s;
    m_open(&p->model);
    w_operate(w, p);
    w->now_ns += w_draw(w, 0, 200);
    int under_way = p->model.n_flights;
    if (under_way == 2 || (under_way && w_chance(w, 30))) {
      engine_step_done(p->engine, &s);
      m_done(&p->model);
    } else if (async) {
      engine_step_ahead(p->engine, w->now_ns, &s);
      m_step(&p->model, w->now_ns);
    } else {
      engine_step_run(p->engine, w->now_ns, &s);
      m_step(&p->model, w->now_ns);
    }
    W_SAME("steps under way", engine_steps_under_way(p->engine), p->model.n_flights);
    w_same_step(w, p, &s);
  }
  for (int i = 0; i < W_REPLICAS; i++) {
    const uint64_t *from = (const uint64_t *)&w->replicas[i].model.seen;
    for (size_t k = 0; k < sizeof *seen / sizeof *from; k++)
      ((uint64_t *)seen)[k] += from[k];
    engine_delete(w->replicas[i].engine);
  }
  tierstore_delete(w->shared);
}

#endif

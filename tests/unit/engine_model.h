/* engine_model.h: the engine once more, slow and obvious, to hold kv/engine.c against.
 *
 * Written from the rules (tests/data/engine/README.md; kv/engine.h and kv/engine_tiers.c for what
 * stands behind the pool) with arrays and searches: lists are shifted, the oldest copy is found by
 * looking at all blocks, and a content is the whole text before it, compared token by token. */
#ifndef TESTS_UNIT_ENGINE_MODEL_H
#define TESTS_UNIT_ENGINE_MODEL_H

#include "engine_world.h"

/* ---- the pool ---- */

static inline void m_unqueue(struct model *m, uint32_t id) {
  uint32_t at = 0;
  while (m->queue[at] != id)
    at++;
  for (m->n_free--; at < m->n_free; at++)
    m->queue[at] = m->queue[at + 1];
}

static inline void m_release(struct model *m, const uint32_t *blocks, uint32_t n) {
  uint32_t front[M_BLOCKS], back[M_BLOCKS], n_front = 0, n_back = 0;
  while (n-- > 0) {
    if (--m->refs[blocks[n]])
      continue;
    if (m->name[blocks[n]] < 0)
      front[n_front++] = blocks[n];
    else
      back[n_back++] = blocks[n];
  }
  memmove(m->queue + n_front, m->queue, m->n_free * sizeof *m->queue);
  memcpy(m->queue, front, n_front * sizeof *front);
  memcpy(m->queue + n_front + m->n_free, back, n_back * sizeof *back);
  m->n_free += n_front + n_back;
}

static inline uint32_t m_oldest_copy(const struct model *m, int name) {
  uint32_t best = 0;
  for (uint32_t id = 1; id < m->c.num_blocks; id++)
    if (m->name[id] == name && (!best || m->since[id] < m->since[best]))
      best = id;
  return best;
}

static inline uint32_t m_lookup(struct model *m, const struct m_request *r, uint32_t *hits) {
  uint32_t n = 0;
  while (m->c.enable_prefix_caching && !r->real->skip_lookup &&
         (n + 1) * m->c.block_size <= r->n_tokens - 1) {
    hits[n] = m_oldest_copy(m, m_name(m->world, r, false, (n + 1) * m->c.block_size));
    if (!hits[n])
      break;
    n++;
  }
  return n;
}

static inline void m_register(struct model *m, struct m_request *r, uint32_t full) {
  uint32_t bs = m->c.block_size;
  if (!m->c.enable_prefix_caching || full <= r->registered)
    return;
  struct m_event *e = m_event(m, ENGINE_STORED, ENGINE_GPU,
                              r->registered ? m_name(m->world, r, false, r->registered * bs) : -1);
  for (; r->registered < full; r->registered++) {
    int name = m_name(m->world, r, false, (r->registered + 1) * bs);
    m->seen.copies += m_oldest_copy(m, name) != 0;
    m->name[r->blocks[r->registered]] = name;
    m->since[r->blocks[r->registered]] = ++m->clock;
    e->names[e->n++] = name;
    m->totals.stored++;
  }
}

/* P5. */
static inline uint32_t m_take(struct model *m) {
  uint32_t id = m->queue[0];
  m_unqueue(m, id);
  m->refs[id] = 1;
  if (m->name[id] < 0)
    return id;
  struct m_event *e = m_event(m, ENGINE_REMOVED, ENGINE_GPU, -1);
  e->names[e->n++] = m->name[id];
  m->name[id] = -1;
  m->totals.removed++;
  return id;
}

/* P1 to P5; and P6 unless it is for a load. */
static inline bool m_place(struct model *m, struct m_request *r, uint32_t n, const uint32_t *hits,
                           uint32_t n_hits, bool gate, bool load) {
  uint32_t bs = m->c.block_size, end = r->n_computed + n_hits * bs + n;
  uint32_t have = r->n_blocks + n_hits, idle = 0, want = (end + bs - 1) / bs;
  uint32_t whole = (r->n_tokens + bs - 1) / bs;
  for (uint32_t i = 0; i < n_hits; i++)
    idle += m->refs[hits[i]] == 0;
  if (gate && m->running.n)
    idle += m->c.watermark_blocks;
  uint32_t need = want > have ? want - have : 0;
  if (gate && m->c.reserve_full_isl && (whole > have ? whole - have : 0) + idle > m->n_free) {
    m->seen.gated += need + idle <= m->n_free;
    return false;
  }
  if (need + idle > m->n_free)
    return false;
  for (uint32_t i = 0; i < n_hits; i++) {
    if (!m->refs[hits[i]]++)
      m_unqueue(m, hits[i]);
    r->blocks[r->n_blocks++] = hits[i];
    r->registered++;
  }
  for (; need; need--)
    r->blocks[r->n_blocks++] = m_take(m);
  if (!load) /* as far as the tokens are known */
    m_register(m, r, (end < r->n_tokens ? end : r->n_tokens) / bs);
  return true;
}

/* What stands of the first n tokens of r's text: in the pool, or with what the tiers would add. */
static inline uint32_t m_peek(struct model *m, const struct m_request *r, uint32_t n, bool tiers) {
  uint32_t bs = m->c.block_size, size = m->c.tiers.chunk_tokens, end = 0;
  uint32_t most = n ? (n - 1) / bs * bs : 0;
  if (!m->c.enable_prefix_caching)
    return 0;
  while (end < most && m_oldest_copy(m, m_name(m->world, r, false, end + bs)))
    end += bs;
  while (tiers && m_has_tiers(m) && end < most && (end / size + 1) * size <= n) {
    int name = m_name(m->world, r, true, (end / size + 1) * size);
    if (m_tier_find(&m->offload, name) < 0 && m_tier_find(&m->world->shared, name) < 0)
      break;
    end = (end / size + 1) * size < most ? (end / size + 1) * size : most;
  }
  return end;
}

/* ---- giving up ---- */

static inline void m_give_back(struct model *m, struct m_request *r) {
  m_release(m, r->blocks, r->n_blocks);
  r->n_blocks = r->registered = 0;
}

static inline struct m_request *m_preempt_last(struct model *m, struct m_list *from) {
  struct m_request *r = from->at[--from->n];
  m->seen.preempted++;
  m->seen.mid_prefill += !r->n_output;
  m_give_back(m, r);
  r->n_computed = 0;
  r->preemptions++;
  m_insert(&m->waiting, 0, r);
  m_push(&m->preempted, r);
  m->totals.preemptions++;
  return r;
}

/* Steps under way have nothing to do with it any more. */
static inline void m_forget(struct model *m, struct m_request *r) {
  for (int f = 0; f < m->n_flights; f++)
    for (int i = 0; i < m->flights[f].n; i++)
      if (m->flights[f].r[i] == r)
        m->flights[f].r[i] = NULL;
  r->n_pending = 0;
}

static inline bool m_abort(struct model *m, struct m_request *r) {
  if (r->ended ||
      !(m_remove(&m->running, r) || m_remove(&m->loading, r) || m_remove(&m->waiting, r)))
    return false;
  m_forget(m, r);
  m_give_back(m, r);
  r->ended = true;
  m->totals.aborted++;
  m->seen.aborts++;
  return true;
}

static inline bool m_reset(struct model *m, bool running) {
  while (running && m->running.n)
    m_forget(m, m_preempt_last(m, &m->running));
  if (m->n_free != m->c.num_blocks - 1) {
    m->seen.refused_resets++;
    return false;
  }
  m->seen.resets++;
  for (uint32_t id = 1; id < m->c.num_blocks; id++)
    m->name[id] = -1;
  m_event(m, ENGINE_CLEARED, ENGINE_GPU, -1);
  m->totals.cleared += !m->cleared;
  m->cleared = true;
  return true;
}

/* ---- a step ---- */

static inline uint32_t m_chunk(const struct model *m, uint32_t open, uint32_t budget) {
  uint32_t most =
      m->c.long_prefill_token_threshold ? m->c.long_prefill_token_threshold : UINT32_MAX;
  open = open < most ? open : most;
  return open < budget ? open : budget;
}

static inline void m_schedule(struct model *m, struct m_request *r, uint32_t n) {
  m->tokens_of[m->scheduled.n] = n;
  m_push(&m->scheduled, r);
  m->totals.scheduled_tokens += n;
}

/* Whether it ends with what steps under way will sample. */
static inline bool m_last_is_pending(const struct model *m, const struct m_request *r) {
  uint32_t left = r->max_output - r->n_output, room = m->c.max_model_len - r->n_tokens;
  return r->n_pending && r->n_pending >= (left < room ? left : room);
}

static inline bool m_schedule_running(struct model *m, uint32_t *budget) {
  bool preempted = false;
  for (int i = 0; i < m->running.n && *budget; i++) {
    struct m_request *r = m->running.at[i];
    if (m_last_is_pending(m, r))
      continue;
    uint32_t n = m_chunk(m, r->n_tokens + r->n_pending - r->n_computed, *budget);
    while (!m_place(m, r, n, NULL, 0, false, false)) {
      preempted = true;
      if (m_preempt_last(m, &m->running) == r)
        return true;
    }
    m_schedule(m, r, n);
    *budget -= n;
  }
  return preempted;
}

static inline void m_admit(struct model *m, struct m_request *r, uint32_t cached, uint32_t n) {
  uint32_t loaded = r->load[0] + r->load[1] + r->load[2];
  m_push(&m->running, r);
  r->n_computed = cached;
  m_schedule(m, r, n);
  m->seen.hit_after_preemption += r->preemptions && cached > loaded;
  m->seen.salt_hits += r->salt && cached > loaded;
  m->seen.adapter_hits += r->adapter && cached > loaded;
  m->seen.skipped += r->real->skip_lookup;
  m->cached_of[m->admitted.n] = cached;
  m_push(&m->admitted, r);
  if (r->cached < 0) {
    r->cached = cached;
    memcpy(r->first_load, r->load, sizeof r->load);
  }
  if (!m->c.enable_prefix_caching)
    return;
  if (r->preemptions) {
    m->totals.preempted_queries += r->n_tokens;
    m->totals.preempted_hits += cached - loaded;
    return;
  }
  m->totals.prefix_queries += r->n_tokens;
  m->totals.prefix_hits += cached - loaded;
  if (!m_has_tiers(m) && !r->remote)
    return;
  m->totals.external_queries += r->n_tokens - (cached - loaded);
  for (int i = 0; i < ENGINE_SOURCES; i++)
    m->totals.external_hits[i] += r->load[i];
}

static inline bool m_arrived(struct model *m, struct m_request *r, uint64_t now_ns) {
  if (r->arrived || r->ready_ns > now_ns)
    return r->arrived;
  r->arrived = true;
  m_register(m, r, r->n_computed / m->c.block_size);
  if (r->load[ENGINE_SHARED] && m->offload.capacity) {
    uint32_t n = (r->n_computed + m->c.tiers.chunk_tokens - 1) / m->c.tiers.chunk_tokens;
    m_touch_chain(m, r, n);
    for (uint32_t i = 0; i < n; i++)
      if (m_tier_find(&m->world->shared,
                      m_name(m->world, r, true, (i + 1) * m->c.tiers.chunk_tokens)) >= 0)
        m_put(m, &m->offload, r, i);
    m_touch_chain(m, r, n);
  }
  if (r->n_computed == r->n_tokens) {
    r->n_computed--;
    r->load[ENGINE_TRANSFER]--;
    m->totals.loaded_recomputed++;
  }
  return true;
}

static inline bool m_schedule_loading(struct model *m, uint64_t now_ns, uint32_t *budget) {
  for (int i = 0; i < m->loading.n;) {
    struct m_request *r = m->loading.at[i];
    if (!*budget || m->running.n >= (int)m->c.max_num_seqs)
      return true;
    if (!m_arrived(m, r, now_ns)) {
      i++;
      continue;
    }
    uint32_t n = m_chunk(m, r->n_tokens - r->n_computed, *budget);
    if (!m_place(m, r, n, NULL, 0, true, false))
      return false;
    m_remove(&m->loading, r);
    m_admit(m, r, r->n_computed, n);
    *budget -= n;
  }
  return true;
}

static inline void m_begin_load(struct model *m, struct m_request *r, uint64_t now_ns) {
  r->ready_ns = now_ns;
  r->arrived = false;
  for (int i = 0; i < ENGINE_SOURCES; i++) {
    const struct engine_link *link = &m->c.tiers.links[i];
    if (!r->load[i])
      continue;
    m->seen.loads[i]++;
    uint64_t begin = m->link_free[i] > now_ns ? m->link_free[i] : now_ns;
    double bytes = (double)r->load[i] * m->c.tiers.kv_bytes_per_token;
    uint64_t ns = link->bytes_per_s > 0 ? (uint64_t)(bytes * 1e9 / link->bytes_per_s + 0.5) : 0;
    m->link_free[i] = begin + ns;
    if (begin + ns + link->latency_ns > r->ready_ns)
      r->ready_ns = begin + ns + link->latency_ns;
  }
  if (r->load[ENGINE_TRANSFER])
    r->transferred = true;
  else
    m_touch_chain(m, r, (r->n_computed + m->c.tiers.chunk_tokens - 1) / m->c.tiers.chunk_tokens);
  m->ready_of[m->loads.n] = r->ready_ns;
  m_push(&m->loads, r);
}

static inline void m_schedule_waiting(struct model *m, uint64_t now_ns, uint32_t *budget) {
  while (m->waiting.n && *budget && m->running.n < (int)m->c.max_num_seqs) {
    struct m_request *r = m->waiting.at[0];
    uint32_t hits[M_TOKENS], n_hits = m_lookup(m, r, hits);
    uint32_t cached = n_hits * m->c.block_size, more = m_find_load(m, r, cached);
    if (more) {
      if (!m_place(m, r, more, hits, n_hits, true, true))
        return;
      m_remove(&m->waiting, r);
      m_push(&m->loading, r);
      r->n_computed = cached + more;
      m_begin_load(m, r, now_ns);
      continue;
    }
    uint32_t n = m_chunk(m, r->n_tokens - cached, *budget);
    if (!m_place(m, r, n, hits, n_hits, true, false))
      return;
    m_remove(&m->waiting, r);
    m_admit(m, r, cached, n);
    *budget -= n;
  }
}

static inline bool m_stands_still(struct model *m, uint64_t now_ns) {
  if (m->running.n || m->scheduled.n || m->loading.n < 2)
    return false;
  for (int i = 0; i < m->loading.n; i++)
    if (!m_arrived(m, m->loading.at[i], now_ns))
      return false;
  return true;
}

static inline uint64_t m_hold(struct m_holds *l, const uint32_t *blocks, uint32_t n) {
  assert_true(l->n < M_LIST);
  struct m_hold *h = &l->at[l->n++];
  *h = (struct m_hold){.id = ++l->last, .n = n};
  memcpy(h->blocks, blocks, n * sizeof *blocks);
  return h->id;
}

static inline bool m_release_hold(struct model *m, struct m_holds *l, uint64_t id) {
  for (int i = 0; i < l->n; i++)
    if (l->at[i].id == id) {
      m_release(m, l->at[i].blocks, l->at[i].n);
      l->at[i] = l->at[--l->n];
      m->seen.releases++;
      return true;
    }
  return false;
}

/* Memory pressure: as a request with new content would take and leave them. Returns how many. */
static inline uint32_t m_fill(struct model *m, uint32_t n, bool hold, uint64_t *id) {
  uint32_t blocks[M_BLOCKS];
  uint64_t removed = m->totals.removed;
  n = n < m->n_free ? n : m->n_free;
  *id = 0;
  if (!n)
    return 0;
  for (uint32_t i = 0; i < n; i++)
    blocks[i] = m_take(m);
  uint64_t fill = m->fills.last + 1;
  struct m_event *e = NULL;
  if (m->c.enable_prefix_caching)
    e = m_event(m, ENGINE_STORED, ENGINE_GPU, -1);
  for (uint32_t i = 0; e && i < n; i++) {
    e->names[e->n++] = m->name[blocks[i]] = m_foreign(m->world, fill, i + 1);
    m->since[blocks[i]] = ++m->clock;
    m->totals.stored++;
  }
  m->seen.fills++;
  m->seen.held_fills += hold;
  m->seen.fill_evictions += m->totals.removed - removed;
  if (hold) {
    *id = m_hold(&m->fills, blocks, n);
  } else {
    m->fills.last++;
    m_release(m, blocks, n);
  }
  return n;
}

static inline void m_end(struct model *m, struct m_request *r) {
  r->ended = true;
  m_push(&m->finished, r);
  m->totals.finished++;
  if (r->hold)
    (void)m_hold(&m->holds, r->blocks, r->n_blocks);
  else
    m_give_back(m, r);
}

static inline void m_count_pass(struct model *m) {
  for (int i = 0; i < m->scheduled.n; i++) {
    struct m_request *r = m->scheduled.at[i];
    uint32_t n = m->tokens_of[i];
    if (r->n_output + r->n_pending && r->n_tokens + r->n_pending - r->n_computed == 1) {
      m->decode_tokens++;
      m->decode_context += r->n_computed;
    } else {
      m->prefill_tokens += n;
      for (uint32_t k = 0; k < n; k++)
        m->prefill_context += r->n_computed + k;
    }
  }
}

static inline void m_sample_one(struct model *m, struct m_request *r) {
  r->tokens[r->n_tokens++] = m_sample(r->real, r->n_output++);
  m_push(&m->sampled, r);
  m->totals.generated_tokens++;
  m->seen.ended_by_length += r->n_output < r->max_output && r->n_tokens == m->c.max_model_len;
  if (r->n_output == r->max_output || r->n_tokens == m->c.max_model_len)
    m_end(m, r);
}

static inline void m_forward(struct model *m) {
  for (int i = 0; i < m->scheduled.n; i++) {
    struct m_request *r = m->scheduled.at[i];
    r->n_computed += m->tokens_of[i];
    m_store(m, r, r->n_computed);
    if (r->n_computed == r->n_tokens)
      m_sample_one(m, r);
  }
  for (int i = 0; i < m->finished.n; i++)
    m_remove(&m->running, m->finished.at[i]);
}

/* The halves of an asynchronous step. */
static inline void m_take_off(struct model *m) {
  struct m_flight *f = &m->flights[m->n_flights++];
  f->n = m->scheduled.n;
  for (int i = 0; i < f->n; i++) {
    struct m_request *r = f->r[i] = m->scheduled.at[i];
    f->end[i] = r->n_computed += m->tokens_of[i];
    f->samples[i] = r->n_computed == r->n_tokens + r->n_pending;
    r->n_pending += f->samples[i];
  }
}

static inline bool m_is_running(const struct model *m, const struct m_request *r) {
  for (int i = 0; i < m->running.n; i++)
    if (m->running.at[i] == r)
      return true;
  return false;
}

static inline void m_done(struct model *m) {
  struct m_flight f = m->flights[0];
  for (int i = 0; i < f.n; i++) {
    struct m_request *r = f.r[i];
    if (!r)
      continue;
    bool running = m_is_running(m, r);
    if (running)
      m_store(m, r, f.end[i]);
    if (!f.samples[i])
      continue;
    r->n_pending--;
    uint64_t stored = m->totals.stored;
    if (running)
      m_register(m, r, (r->n_computed - r->n_pending) / m->c.block_size);
    m->seen.blocks_on_arrival += m->totals.stored - stored;
    m_sample_one(m, r);
    m->seen.ended_while_waiting += r->ended && !running;
  }
  for (int i = 0; i < m->finished.n; i++)
    if (!m_remove(&m->running, m->finished.at[i]))
      m_remove(&m->waiting, m->finished.at[i]);
  m->flights[0] = m->flights[1];
  m->n_flights--;
}

static inline void m_step(struct model *m, uint64_t now_ns) {
  uint32_t budget = m->c.max_num_batched_tokens;
  m->totals.steps++;
  if (!m->running.n && !m->loading.n && !m->waiting.n)
    return;
  if (!m_schedule_running(m, &budget)) {
    bool go_on;
    while (!(go_on = m_schedule_loading(m, now_ns, &budget)) && m_stands_still(m, now_ns)) {
      m_preempt_last(m, &m->loading);
      m->seen.standstills++;
    }
    if (go_on)
      m_schedule_waiting(m, now_ns, &budget);
  }
  m_count_pass(m);
  if (!m->c.async_scheduling)
    m_forward(m);
  else if (m->scheduled.n)
    m_take_off(m);
  for (int i = 0; i < m->loading.n; i++) {
    const struct m_request *r = m->loading.at[i];
    if (!r->arrived && (!m->wake_ns || r->ready_ns < m->wake_ns))
      m->wake_ns = r->ready_ns;
  }
}

/* Before what comes after a step. */
static inline void m_open(struct model *m) {
  m->scheduled.n = m->admitted.n = m->preempted.n = m->sampled.n = m->finished.n = m->loads.n = 0;
  m->n_events = 0;
  m->prefill_tokens = m->decode_tokens = 0;
  m->prefill_context = m->decode_context = m->wake_ns = 0;
  m->cleared = false;
}

static inline void m_init(struct model *m, const struct engine_config *c, struct m_world *w) {
  *m = (struct model){.c = *c, .world = w};
  if (c->enable_prefix_caching)
    m->offload.capacity = (int)c->tiers.offload_chunks;
  for (uint32_t id = 1; id < c->num_blocks; id++) {
    m->queue[m->n_free++] = id;
    m->name[id] = -1;
  }
}

#endif

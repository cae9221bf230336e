/* engine_model.h: the engine once more, slow and obvious, to hold kv/engine.c against.
 *
 * Written from the rules (tests/data/engine/README.md; kv/engine.h and kv/engine_tiers.c for what
 * stands behind the pool) with arrays and searches: lists are shifted, the oldest copy is found by
 * looking at all blocks, and a content is the whole text before it, compared token by token. */
#ifndef TESTS_UNIT_ENGINE_MODEL_H
#define TESTS_UNIT_ENGINE_MODEL_H

#include "check.h"
#include "kv/engine.h"

enum {
  M_BLOCKS = 64,
  M_TOKENS = 128,
  M_LIST = 64,
  M_EVENTS = 512,
  M_CHUNKS = 64,
  M_CONTENTS = 8192
};

/* Contents by number: blocks count salt and adapter, chunks the adapter alone. */
struct m_content {
  const char *salt, *adapter;
  bool chunk;
  uint32_t n;
  uint32_t tokens[M_TOKENS];
};
struct m_tier {
  int names[M_CHUNKS]; /* least recently used first */
  int n, capacity;     /* capacity 0: no such tier */
};
/* What several replicas share. */
struct m_world {
  struct m_content contents[M_CONTENTS];
  int n_contents;
  struct m_tier shared;
};

struct m_request {
  struct engine_request *real;
  uint32_t tokens[M_TOKENS];
  uint32_t n_tokens, n_computed, n_output, max_output, remote;
  const char *salt, *adapter;
  uint32_t blocks[M_TOKENS], n_blocks, registered, stored, preemptions;
  uint32_t load[ENGINE_SOURCES], first_load[ENGINE_SOURCES];
  uint64_t ready_ns;
  int64_t cached;
  bool hold, arrived, transferred, ended;
};
struct m_list {
  struct m_request *at[M_LIST];
  int n;
};
struct m_event {
  enum engine_event_kind kind;
  enum engine_medium medium;
  int parent, names[M_TOKENS], n;
};
struct m_hold {
  uint64_t id;
  uint32_t blocks[M_TOKENS], n;
};

struct model {
  struct engine_config c;
  struct m_world *world;
  struct m_tier offload;
  uint32_t refs[M_BLOCKS], queue[M_BLOCKS], n_free;
  int name[M_BLOCKS]; /* −1: none */
  uint64_t since[M_BLOCKS], clock;
  struct m_list running, loading, waiting;
  struct m_hold holds[M_LIST];
  int n_holds;
  uint64_t last_hold, link_free[ENGINE_SOURCES];
  struct engine_totals totals;
  bool cleared;
  /* What happened since the last step was compared. */
  struct m_list scheduled, admitted, preempted, sampled, finished, loads;
  uint32_t tokens_of[M_LIST], cached_of[M_LIST];
  uint64_t ready_of[M_LIST], prefill_context, decode_context, wake_ns;
  uint32_t prefill_tokens, decode_tokens;
  struct m_event events[M_EVENTS];
  int n_events;
};

/* What the model samples: any function of the request that both sides know. */
static inline uint32_t m_sample(const struct engine_request *real, uint32_t index) {
  return (uint32_t)(((uintptr_t)real->user * 7 + index * 5) % 3);
}

/* ---- lists ---- */

static inline void m_insert(struct m_list *l, int at, struct m_request *r) {
  assert_true(l->n < M_LIST);
  for (int i = l->n++; i > at; i--)
    l->at[i] = l->at[i - 1];
  l->at[at] = r;
}

static inline bool m_remove(struct m_list *l, const struct m_request *r) {
  for (int i = 0; i < l->n; i++)
    if (l->at[i] == r) {
      for (l->n--; i < l->n; i++)
        l->at[i] = l->at[i + 1];
      return true;
    }
  return false;
}

static inline void m_push(struct m_list *l, struct m_request *r) {
  m_insert(l, l->n, r);
}

/* ---- contents ---- */

static inline bool m_same_text(const char *a, const char *b) {
  return a == b || (a && b && strcmp(a, b) == 0);
}

static inline int m_name(struct m_world *w, const struct m_request *r, bool chunk, uint32_t n) {
  const char *salt = chunk ? NULL : r->salt;
  for (int i = 0; i < w->n_contents; i++) {
    const struct m_content *c = &w->contents[i];
    if (c->n == n && c->chunk == chunk && m_same_text(c->salt, salt) &&
        m_same_text(c->adapter, r->adapter) &&
        memcmp(c->tokens, r->tokens, n * sizeof(uint32_t)) == 0)
      return i;
  }
  assert_true(w->n_contents < M_CONTENTS);
  struct m_content *c = &w->contents[w->n_contents];
  *c = (struct m_content){.salt = salt, .adapter = r->adapter, .chunk = chunk, .n = n};
  memcpy(c->tokens, r->tokens, n * sizeof(uint32_t));
  return w->n_contents++;
}

static inline struct m_event *m_event(struct model *m, enum engine_event_kind kind,
                                      enum engine_medium medium, int parent) {
  assert_true(m->n_events < M_EVENTS);
  struct m_event *e = &m->events[m->n_events++];
  *e = (struct m_event){.kind = kind, .medium = medium, .parent = parent};
  return e;
}

/* ---- tiers ---- */

static inline int m_tier_find(const struct m_tier *t, int name) {
  for (int i = 0; i < t->n; i++)
    if (t->names[i] == name)
      return i;
  return -1;
}

static inline void m_tier_drop(struct m_tier *t, int at) {
  for (t->n--; at < t->n; at++)
    t->names[at] = t->names[at + 1];
}

static inline void m_tier_touch(struct m_tier *t, int name) {
  int at = m_tier_find(t, name);
  if (at < 0)
    return;
  m_tier_drop(t, at);
  t->names[t->n++] = name;
}

/* The first n chunks of r, from the last to the first. */
static inline void m_touch_chain(struct model *m, const struct m_request *r, uint32_t n) {
  for (uint32_t i = n; i-- > 0;) {
    int name = m_name(m->world, r, true, (i + 1) * m->c.tiers.chunk_tokens);
    m_tier_touch(&m->offload, name);
    m_tier_touch(&m->world->shared, name);
  }
}

static inline void m_put(struct model *m, struct m_tier *t, const struct m_request *r, uint32_t i) {
  if (!t->capacity || i >= (uint32_t)t->capacity)
    return;
  int name = m_name(m->world, r, true, (i + 1) * m->c.tiers.chunk_tokens);
  if (m_tier_find(t, name) >= 0) {
    m_tier_touch(t, name);
    return;
  }
  if (t->n == t->capacity) {
    if (t == &m->offload) {
      struct m_event *e = m_event(m, ENGINE_REMOVED, ENGINE_CPU, -1);
      e->names[e->n++] = t->names[0];
      m->totals.chunks_evicted++;
    }
    m_tier_drop(t, 0);
  }
  t->names[t->n++] = name;
  if (t != &m->offload) {
    m->totals.chunks_shared++;
    return;
  }
  struct m_event *e = m_event(m, ENGINE_STORED, ENGINE_CPU,
                              i ? m_name(m->world, r, true, i * m->c.tiers.chunk_tokens) : -1);
  e->names[e->n++] = name;
  m->totals.chunks_stored++;
}

static inline bool m_has_tiers(const struct model *m) {
  return m->c.enable_prefix_caching && (m->offload.capacity || m->c.tiers.shared);
}

static inline void m_store(struct model *m, struct m_request *r) {
  if (!m_has_tiers(m))
    return;
  uint32_t n = r->n_computed / m->c.tiers.chunk_tokens;
  if (n <= r->stored)
    return;
  m_touch_chain(m, r, r->stored);
  for (; r->stored < n; r->stored++) {
    m_put(m, &m->offload, r, r->stored);
    m_put(m, &m->world->shared, r, r->stored);
  }
  m_touch_chain(m, r, n);
}

static inline uint32_t m_find_load(struct model *m, struct m_request *r, uint32_t cached) {
  memset(r->load, 0, sizeof r->load);
  uint32_t there = r->remote < r->n_tokens ? r->remote : r->n_tokens;
  if (!r->transferred && there > cached)
    return r->load[ENGINE_TRANSFER] = there - cached;
  if (!m_has_tiers(m) || r->real->skip_lookup)
    return 0;
  uint32_t size = m->c.tiers.chunk_tokens, end = cached;
  uint32_t most = (r->n_tokens - 1) / m->c.block_size * m->c.block_size;
  while (end < most) {
    uint32_t to = (end / size + 1) * size;
    if (to > r->n_tokens)
      break;
    int name = m_name(m->world, r, true, to);
    bool cpu = m_tier_find(&m->offload, name) >= 0;
    if (!cpu && m_tier_find(&m->world->shared, name) < 0)
      break;
    if (to > most)
      to = most;
    r->load[cpu ? ENGINE_OFFLOAD : ENGINE_SHARED] += to - end;
    end = to;
  }
  return end - cached;
}

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
    m->name[r->blocks[r->registered]] = name;
    m->since[r->blocks[r->registered]] = ++m->clock;
    e->names[e->n++] = name;
    m->totals.stored++;
  }
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
  if (gate && m->c.reserve_full_isl && (whole > have ? whole - have : 0) + idle > m->n_free)
    return false;
  if (need + idle > m->n_free)
    return false;
  for (uint32_t i = 0; i < n_hits; i++) {
    if (!m->refs[hits[i]]++)
      m_unqueue(m, hits[i]);
    r->blocks[r->n_blocks++] = hits[i];
    r->registered++;
  }
  for (; need; need--) {
    uint32_t id = m->queue[0];
    m_unqueue(m, id);
    m->refs[id] = 1;
    r->blocks[r->n_blocks++] = id;
    if (m->name[id] < 0)
      continue;
    struct m_event *e = m_event(m, ENGINE_REMOVED, ENGINE_GPU, -1);
    e->names[e->n++] = m->name[id];
    m->name[id] = -1;
    m->totals.removed++;
  }
  if (!load)
    m_register(m, r, end / bs);
  return true;
}

/* ---- giving up ---- */

static inline void m_give_back(struct model *m, struct m_request *r) {
  m_release(m, r->blocks, r->n_blocks);
  r->n_blocks = r->registered = 0;
}

static inline struct m_request *m_preempt_last(struct model *m, struct m_list *from) {
  struct m_request *r = from->at[--from->n];
  m_give_back(m, r);
  r->n_computed = 0;
  r->preemptions++;
  m_insert(&m->waiting, 0, r);
  m_push(&m->preempted, r);
  m->totals.preemptions++;
  return r;
}

static inline bool m_abort(struct model *m, struct m_request *r) {
  if (r->ended ||
      !(m_remove(&m->running, r) || m_remove(&m->loading, r) || m_remove(&m->waiting, r)))
    return false;
  m_give_back(m, r);
  r->ended = true;
  m->totals.aborted++;
  return true;
}

static inline bool m_reset(struct model *m, bool running) {
  while (running && m->running.n)
    m_preempt_last(m, &m->running);
  if (m->n_free != m->c.num_blocks - 1)
    return false;
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

static inline bool m_schedule_running(struct model *m, uint32_t *budget) {
  bool preempted = false;
  for (int i = 0; i < m->running.n && *budget; i++) {
    struct m_request *r = m->running.at[i];
    uint32_t n = m_chunk(m, r->n_tokens - r->n_computed, *budget);
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

static inline void m_end(struct model *m, struct m_request *r) {
  r->ended = true;
  m_push(&m->finished, r);
  m->totals.finished++;
  if (!r->hold) {
    m_give_back(m, r);
    return;
  }
  assert_true(m->n_holds < M_LIST);
  struct m_hold *h = &m->holds[m->n_holds++];
  h->id = ++m->last_hold;
  h->n = r->n_blocks;
  memcpy(h->blocks, r->blocks, sizeof h->blocks);
}

static inline bool m_release_hold(struct model *m, uint64_t id) {
  for (int i = 0; i < m->n_holds; i++)
    if (m->holds[i].id == id) {
      m_release(m, m->holds[i].blocks, m->holds[i].n);
      m->holds[i] = m->holds[--m->n_holds];
      return true;
    }
  return false;
}

static inline void m_forward(struct model *m) {
  for (int i = 0; i < m->scheduled.n; i++) {
    struct m_request *r = m->scheduled.at[i];
    uint32_t n = m->tokens_of[i];
    if (r->n_output && r->n_tokens - r->n_computed == 1) {
      m->decode_tokens++;
      m->decode_context += r->n_computed;
    } else {
      m->prefill_tokens += n;
      for (uint32_t k = 0; k < n; k++)
        m->prefill_context += r->n_computed + k;
    }
  }
  for (int i = 0; i < m->scheduled.n; i++) {
    struct m_request *r = m->scheduled.at[i];
    r->n_computed += m->tokens_of[i];
    m_store(m, r);
    if (r->n_computed < r->n_tokens)
      continue;
    r->tokens[r->n_tokens++] = m_sample(r->real, r->n_output++);
    m_push(&m->sampled, r);
    m->totals.generated_tokens++;
    if (r->n_output == r->max_output || r->n_tokens == m->c.max_model_len)
      m_end(m, r);
  }
  for (int i = 0; i < m->finished.n; i++)
    m_remove(&m->running, m->finished.at[i]);
}

static inline void m_step(struct model *m, uint64_t now_ns) {
  uint32_t budget = m->c.max_num_batched_tokens;
  m->totals.steps++;
  if (!m->running.n && !m->loading.n && !m->waiting.n)
    return;
  if (!m_schedule_running(m, &budget)) {
    bool go_on;
    while (!(go_on = m_schedule_loading(m, now_ns, &budget)) && m_stands_still(m, now_ns))
      m_preempt_last(m, &m->loading);
    if (go_on)
      m_schedule_waiting(m, now_ns, &budget);
  }
  m_forward(m);
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

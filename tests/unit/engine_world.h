/* engine_world.h: what the slow model of the engine (engine_model.h) consists of: contents by
 * number, lists, what stands behind the pool; and what is counted of it. */
#ifndef TESTS_UNIT_ENGINE_WORLD_H
#define TESTS_UNIT_ENGINE_WORLD_H

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

/* Contents by number: blocks count salt and adapter, chunks the adapter alone. Foreign ones (memory
 * pressure) are told apart by the number of their fill. */
struct m_content {
  const char *salt, *adapter;
  uint64_t foreign; /* 0: of a request */
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
  uint32_t n_tokens, n_computed, n_pending, n_output, max_output, remote;
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
struct m_holds {
  struct m_hold at[M_LIST];
  int n;
  uint64_t last;
};
/* A step under way: whose tokens, how far, and who gets one. */
struct m_flight {
  struct m_request *r[M_LIST]; /* NULL: aborted or reset */
  uint32_t end[M_LIST];
  bool samples[M_LIST];
  int n;
};
/* How often what should be walked through happened. */
struct m_seen {
  uint64_t preempted, hit_after_preemption, standstills, refused_resets, resets, aborts, copies,
      salt_hits, adapter_hits, skipped, gated, ended_by_length, fills, fill_evictions, held_fills,
      releases, loads[ENGINE_SOURCES], mid_prefill, ended_while_waiting, blocks_on_arrival;
};

struct model {
  struct engine_config c;
  struct m_world *world;
  struct m_tier offload;
  uint32_t refs[M_BLOCKS], queue[M_BLOCKS], n_free;
  int name[M_BLOCKS]; /* −1: none */
  uint64_t since[M_BLOCKS], clock;
  struct m_list running, loading, waiting;
  struct m_holds holds, fills; /* of prefill legs, of foreign content */
  uint64_t link_free[ENGINE_SOURCES];
  struct m_flight flights[2]; /* of asynchronous scheduling, the oldest first */
  int n_flights;
  struct m_seen seen;
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
    if (!c->foreign && c->n == n && c->chunk == chunk && m_same_text(c->salt, salt) &&
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

/* A fill's block by its place; the first fills of two replicas are alike, as are the second … */
static inline int m_foreign(struct m_world *w, uint64_t fill, uint32_t n) {
  for (int i = 0; i < w->n_contents; i++)
    if (w->contents[i].foreign == fill && w->contents[i].n == n)
      return i;
  assert_true(w->n_contents < M_CONTENTS);
  w->contents[w->n_contents] = (struct m_content){.foreign = fill, .n = n};
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

static inline void m_store(struct model *m, struct m_request *r, uint32_t computed) {
  if (!m_has_tiers(m))
    return;
  uint32_t n = computed / m->c.tiers.chunk_tokens;
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

#endif

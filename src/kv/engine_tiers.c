/* engine_tiers.c: KV that does not come from the pool: CPU memory, shared storage, a prefill
 * replica.
 *
 * After shared/facts/interfaces.md §8.2: the pool is asked first, then what stands behind it, chunk
 * by chunk from the one in which the pool's hits end; the first chunk that no tier has ends it. A
 * chunk that is only partly behind the hits is loaded from there on. A prompt's last block is
 * always computed, as without tiers; of a transferred prompt it is the last token (vLLM loads all
 * of it and computes that one again). A load holds its blocks from the start, like vLLM's
 * asynchronous loads: they are registered, and can be hit, when it is complete. CPU memory stands
 * before storage.
 *
 * A chain is touched from its end, so that its head outlives what builds on it, and no chain takes
 * more of a tier than its first chunks: what has no room behind them is not stored. */
#include "base/mem.h"
#include "kv/engine_impl.h"
#include "kv/tierstore.h"

static bool can_transfer(const struct engine_request *r) {
  return r->remote_tokens && !r->blocks->transferred;
}

bool engine_has_external(const struct engine *e, const struct engine_request *r) {
  return engine_has_tiers(e) || r->remote_tokens;
}

/* Makes sure that the names of r's first n chunks are known. */
static void name_chunks(const struct engine *e, struct engine_request *r, uint32_t n) {
  struct engine_blocks *b = r->blocks;
  uint32_t size = e->config.tiers.chunk_tokens;
  for (; b->n_chunks < n; b->n_chunks++) {
    uint64_t parent =
        b->n_chunks ? b->chunks[b->n_chunks - 1] : engine_chain_root(NULL, r->adapter);
    b->chunks[b->n_chunks] =
        engine_chain_name(parent, r->tokens + (size_t)b->n_chunks * size, size);
  }
}

/* Most tokens that hits and loads from tiers may cover: whole blocks, and never all of them. */
static uint32_t most_cached(const struct engine *e, uint32_t num_tokens) {
  return (num_tokens - 1) / e->config.block_size * e->config.block_size;
}

bool engine_in_tier(const struct engine *e, uint64_t name, enum engine_source *source) {
  if (e->offload && tierstore_has(e->offload, name)) {
    *source = ENGINE_OFFLOAD;
    return true;
  }
  *source = ENGINE_SHARED;
  return e->config.tiers.shared && tierstore_has(e->config.tiers.shared, name);
}

static void touch_chunks(struct engine *e, const struct engine_blocks *b, uint32_t end) {
  while (end--) {
    if (e->offload)
      (void)tierstore_touch(e->offload, b->chunks[end]);
    if (e->config.tiers.shared)
      (void)tierstore_touch(e->config.tiers.shared, b->chunks[end]);
  }
}

static uint32_t find_in_tiers(struct engine *e, struct engine_request *r, uint32_t cached) {
  struct engine_blocks *b = r->blocks;
  uint32_t size = e->config.tiers.chunk_tokens, most = most_cached(e, r->num_tokens);
  uint32_t chunk = cached / size, last = r->num_tokens / size, end = cached;
  enum engine_source source;
  for (; chunk < last && end < most; chunk++) {
    name_chunks(e, r, chunk + 1);
    if (!engine_in_tier(e, b->chunks[chunk], &source))
      break;
    uint32_t to = (chunk + 1) * size < most ? (chunk + 1) * size : most;
    b->load[source] += to - end;
    end = to;
  }
  return end - cached;
}

uint32_t engine_find_load(struct engine *e, struct engine_request *r, uint32_t cached) {
  struct engine_blocks *b = r->blocks;
  for (int i = 0; i < ENGINE_SOURCES; i++)
    b->load[i] = 0;
  if (can_transfer(r)) {
    uint32_t there = r->remote_tokens < r->num_tokens ? r->remote_tokens : r->num_tokens;
    if (there > cached)
      return b->load[ENGINE_TRANSFER] = there - cached;
  }
  return engine_has_tiers(e) && !r->skip_lookup ? find_in_tiers(e, r, cached) : 0;
}

/* When a load of `tokens` over a path is complete. Bytes follow each other, latencies overlap. */
static uint64_t take_link(struct engine *e, enum engine_source source, uint32_t tokens,
                          uint64_t now_ns) {
  const struct engine_link *link = &e->config.tiers.links[source];
  double bytes = (double)tokens * e->config.tiers.kv_bytes_per_token;
  uint64_t begin = e->link_free_ns[source] > now_ns ? e->link_free_ns[source] : now_ns;
  double ns = link->bytes_per_s > 0 ? bytes * 1e9 / link->bytes_per_s : 0;
  uint64_t end =
      begin + (ns < (double)ENGINE_MAX_LOAD_NS ? (uint64_t)(ns + 0.5) : ENGINE_MAX_LOAD_NS);
  e->link_free_ns[source] = end;
  return end + link->latency_ns;
}

void engine_begin_load(struct engine *e, struct engine_request *r, uint64_t now_ns) {
  struct engine_blocks *b = r->blocks;
  b->ready_ns = now_ns;
  b->arrived = false;
  MEM_GROW(e->loads, e->n_loads, e->cap_loads);
  struct engine_load *load = &e->loads[e->n_loads++];
  load->req = r;
  for (int i = 0; i < ENGINE_SOURCES; i++) {
    load->tokens[i] = b->load[i];
    uint64_t end = b->load[i] ? take_link(e, (enum engine_source)i, b->load[i], now_ns) : now_ns;
    if (end > b->ready_ns)
      b->ready_ns = end;
  }
  load->ready_ns = b->ready_ns;
  if (b->load[ENGINE_TRANSFER])
    b->transferred = true;
  else
    touch_chunks(e, b, (r->num_computed - 1) / e->config.tiers.chunk_tokens + 1);
}

/* An event of CPU memory about the chunk `index` of r, or about one that went. */
static void chunk_event(struct engine *e, enum engine_event_kind kind, struct engine_request *r,
                        uint32_t index) {
  struct engine_blocks *b = r->blocks;
  struct engine_event *event = engine_event_add(e, kind);
  event->medium = ENGINE_CPU;
  event->n = 1;
  event->req = r;
  event->hashes = &b->chunks[index];
  event->has_parent = index > 0;
  event->parent = index ? b->chunks[index - 1] : 0;
  event->first_block = index * (e->config.tiers.chunk_tokens / e->config.block_size);
}

/* The chunks before it were touched: what goes is none of them. */
static void put_offload(struct engine *e, struct engine_request *r, uint32_t index) {
  uint64_t lost;
  if (index >= tierstore_capacity(e->offload))
    return;
  enum tierstore_put put = tierstore_put(e->offload, r->blocks->chunks[index], &lost);
  if (put == TIERSTORE_KNOWN)
    return;
  if (put == TIERSTORE_EVICTED) {
    struct engine_event *event = engine_event_add(e, ENGINE_REMOVED);
    event->medium = ENGINE_CPU;
    event->parent = lost; /* `hashes` points at it once the step is published */
    event->n = 1;
    e->totals.chunks_evicted++;
  }
  chunk_event(e, ENGINE_STORED, r, index);
  e->totals.chunks_stored++;
}

/* What storage gave is in CPU memory from now on. */
static void keep_shared(struct engine *e, struct engine_request *r) {
  struct engine_blocks *b = r->blocks;
  uint32_t size = e->config.tiers.chunk_tokens, end = (r->num_computed - 1) / size + 1;
  touch_chunks(e, b, end);
  for (uint32_t i = 0; i < end; i++)
    if (tierstore_has(e->config.tiers.shared, b->chunks[i]))
      put_offload(e, r, i);
  touch_chunks(e, b, end);
}

bool engine_load_arrived(struct engine *e, struct engine_request *r, uint64_t now_ns) {
  struct engine_blocks *b = r->blocks;
  if (b->arrived)
    return true;
  if (b->ready_ns > now_ns)
    return false;
  b->arrived = true;
  uint32_t full = r->num_computed / e->config.block_size;
  if (e->config.enable_prefix_caching && full > b->registered)
    engine_register(e, r, full);
  if (b->load[ENGINE_SHARED] && e->offload)
    keep_shared(e, r);
  if (r->num_computed == r->num_tokens) { /* a transfer: something must be computed to sample */
    r->num_computed--;
    b->load[ENGINE_TRANSFER]--;
    e->totals.loaded_recomputed++;
  }
  return true;
}

void engine_store_chunks(struct engine *e, struct engine_request *r, uint32_t computed) {
  struct engine_blocks *b = r->blocks;
  uint32_t n = computed / e->config.tiers.chunk_tokens;
  if (n <= b->n_stored)
    return;
  struct tierstore *shared = e->config.tiers.shared;
  name_chunks(e, r, n);
  touch_chunks(e, b, b->n_stored);
  for (; b->n_stored < n; b->n_stored++) {
    uint64_t lost;
    if (e->offload)
      put_offload(e, r, b->n_stored);
    if (shared && b->n_stored < tierstore_capacity(shared)) {
      bool new = tierstore_put(shared, b->chunks[b->n_stored], &lost) != TIERSTORE_KNOWN;
      e->totals.chunks_shared += new;
    }
  }
  touch_chunks(e, b, n);
}

/* ----------------------------------------------------------------------------------- questions */

void engine_reset_offload(struct engine *e) {
  if (e->offload)
    tierstore_clear(e->offload);
}

uint32_t engine_offload_chunks(const struct engine *e) {
  return e->offload ? tierstore_count(e->offload) : 0;
}

uint32_t engine_peek_tiers(const struct engine *e, const uint32_t *tokens, uint32_t n,
                           const char *salt, const char *adapter) {
  uint32_t end = engine_peek(e, tokens, n, salt, adapter);
  if (!engine_has_tiers(e) || !n)
    return end;
  uint32_t size = e->config.tiers.chunk_tokens, most = most_cached(e, n);
  uint64_t name = engine_chain_root(NULL, adapter);
  enum engine_source source;
  for (uint32_t chunk = 0; chunk < n / size && end < most; chunk++) {
    name = engine_chain_name(name, tokens + (size_t)chunk * size, size);
    uint32_t to = (chunk + 1) * size;
    if (to <= end)
      continue;
    if (!engine_in_tier(e, name, &source))
      break;
    end = to < most ? to : most;
  }
  return end;
}

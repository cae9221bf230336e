/* engine_new.c: making an engine and putting requests into it: what can work, what is refused, and
 * the memory of requests' blocks. */
#include <string.h>

#include "base/mem.h"
#include "kv/engine_impl.h"
#include "kv/tierstore.h"

/* ------------------------------------------------------------------------------------- lists */

void engine_list_append(struct engine_list *l, struct engine_request *r) {
  r->prev = l->tail;
  r->next = NULL;
  if (l->tail)
    l->tail->next = r;
  else
    l->head = r;
  l->tail = r;
  l->n++;
}

void engine_list_prepend(struct engine_list *l, struct engine_request *r) {
  r->prev = NULL;
  r->next = l->head;
  if (l->head)
    l->head->prev = r;
  else
    l->tail = r;
  l->head = r;
  l->n++;
}

void engine_leave_list(struct engine *e, struct engine_request *r) {
  struct engine_list *const lists[] = {[ENGINE_IN_WAITING] = &e->waiting,
                                       [ENGINE_IN_LOADING] = &e->loading,
                                       [ENGINE_IN_RUNNING] = &e->running};
  struct engine_list *l = lists[r->blocks->where];
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

static int check_tiers(const struct engine_config *c, struct err *err) {
  const struct engine_tiers *t = &c->tiers;
  if ((t->offload_chunks || t->shared) && !t->chunk_tokens)
    return err_set(err, ERR_INVALID,
                   "chunk_tokens is 0: give what a tier stores as one piece (256)");
  if (t->chunk_tokens % c->block_size)
    return err_set(
        err, ERR_INVALID,
        "chunk_tokens is %u: give a multiple of block_size (%u): a chunk is whole blocks",
        t->chunk_tokens, c->block_size);
  return 0;
}

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
  return check_tiers(c, err);
}

struct engine *engine_new(const struct engine_config *config, struct err *err) {
  if (check_config(config, err))
    return NULL;
  struct engine *e = MEM_NEW(struct engine);
  e->config = *config;
  pool_init(&e->pool, config->num_blocks);
  if (config->tiers.offload_chunks && config->enable_prefix_caching)
    e->offload = tierstore_new(config->tiers.offload_chunks);
  return e;
}

void engine_follow_blocks(struct engine *e, struct blocklife *life) {
  e->life = life;
}

void engine_delete(struct engine *e) {
  if (!e)
    return;
  for (size_t i = 0; i < e->n_blocks; i++) {
    mem_free(e->all_blocks[i]->ids);
    mem_free(e->all_blocks[i]->names);
    mem_free(e->all_blocks[i]->chunks);
    mem_free(e->all_blocks[i]);
  }
  mem_free(e->all_blocks);
  mem_free(e->scheduled);
  mem_free(e->admitted);
  mem_free(e->preempted);
  mem_free(e->sampled);
  mem_free(e->finished);
  mem_free(e->events);
  mem_free(e->loads);
  mem_free(e->flights[0].items);
  mem_free(e->flights[1].items);
  engine_fills_told(e, true);
  tierstore_delete(e->offload);
  pool_free(&e->pool);
  mem_free(e);
}

/* Room for `tokens` tokens. */
static struct engine_blocks *blocks_get(struct engine *e, uint64_t tokens) {
  uint32_t cap = (uint32_t)((tokens + e->config.block_size - 1) / e->config.block_size);
  struct engine_blocks *b = e->unused;
  if (b) {
    e->unused = b->next;
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
  uint32_t chunk = e->config.tiers.chunk_tokens;
  uint32_t cap_chunks = chunk ? (uint32_t)(tokens / chunk) : 0;
  if (b->cap_chunks < cap_chunks) {
    b->chunks = mem_resize(b->chunks, cap_chunks, sizeof *b->chunks);
    b->cap_chunks = cap_chunks;
  }
  b->n = b->n_names = b->registered = b->n_chunks = b->n_stored = 0;
  memset(b->load, 0, sizeof b->load);
  b->ready_ns = b->hold_id = 0;
  b->arrived = b->transferred = false;
  b->where = ENGINE_IN_WAITING;
  return b;
}

void engine_blocks_put(struct engine *e, struct engine_blocks *b) {
  b->next = e->unused;
  e->unused = b;
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
  req->num_tokens = req->prompt_len;
  req->num_computed = req->num_pending = req->num_output = req->num_preemptions = req->num_evicted =
      0;
  req->num_cached = -1;
  req->finish = ENGINE_RUNNING;
  memset(req->num_loaded, 0, sizeof req->num_loaded);
  req->hold_id = 0;
  req->blocks = blocks_get(e, most);
  engine_list_append(&e->waiting, req);
  return 0;
}

/* test_pubhash.c: published hashes against whole chains of the same scheme (kv/blockhash_chain.h),
 * over engines that evict, preempt, reset and load from CPU memory. */
#include "engine_requests.h"

#include "base/rng.h"
#include "kv/blockhash_chain.h"
#include "kv/engine_impl.h"
#include "kv/pubhash.h"

static const char *const schemes[] = {"vllm-sha256", "vllm-sha256-cbor", "vllm-xxhash",
                                      "vllm-xxhash-cbor", "vllm-sha256-cbor-64bit"};

static struct pubhash *open_pubhash(const char *scheme, const char *seed, uint32_t block_size,
                                    uint32_t chunk_tokens) {
  struct err err = {0};
  struct pubhash *p;
  struct pubhash_options o = {scheme, seed, block_size, chunk_tokens};
  check_ok(pubhash_open(&o, &p, &err), &err);
  return p;
}

/* Hash `index` of the whole chain that begins with a request's tokens. */
static void chain_hash(const char *scheme, const char *seed, uint32_t size, const char *salt,
                       const char *adapter, const uint32_t *tokens, uint32_t index,
                       uint8_t out[BLOCKHASH_MAX_WIDTH]) {
  struct err err = {0};
  struct blockhash_chain *c;
  struct value v = value_object();
  bool lmcache = strncmp(scheme, "lmcache/", 8) == 0;
  value_set(&v, "block_size", value_int(size));
  value_set(&v, "seed", value_cstring(seed));
  if (salt)
    value_set(&v, "cache_salt", value_cstring(salt));
  if (adapter)
    value_set(&v, "lora_name", value_cstring(adapter));
  if (lmcache)
    value_set(&v, "algorithm", value_cstring(scheme + 8));
  check_ok(blockhash_chain_open(lmcache ? "lmcache-vllm-hash" : scheme, &v, &c, &err), &err);
  check_ok(blockhash_chain_add(c, tokens, (size_t)size * (index + 1), &err), &err);
  assert_int_equal(blockhash_chain_count(c), index + 1);
  blockhash_chain_bytes(c, index, out);
  blockhash_chain_delete(c);
  value_free(&v);
}

/* ---- random engines ---- */

enum { SLOTS = 12, STEPS = 500 };

struct life {
  struct engine *engine;
  struct pubhash *pubhash;
  struct engine_config config;
  struct test_request slots[SLOTS];
  bool used[SLOTS];
  struct rng rng;
  const char *scheme, *chunk_scheme;
  size_t compared;
};

static uint32_t draw(struct life *l, uint32_t least, uint32_t most) {
  return (uint32_t)rng_int(&l->rng, least, most);
}

static void compare(struct life *l, const struct engine_event *e, const struct pubhash_said *said) {
  uint32_t width = pubhash_width(l->pubhash);
  bool cpu = e->medium == ENGINE_CPU;
  uint32_t size = cpu ? l->config.tiers.chunk_tokens : l->config.block_size;
  uint32_t first = e->first_block * l->config.block_size / size;
  const char *scheme = cpu ? l->chunk_scheme : l->scheme;
  const char *salt = cpu ? NULL : e->req->salt, *adapter = cpu ? NULL : e->req->adapter;
  uint8_t want[BLOCKHASH_MAX_WIDTH];
  assert_int_equal(said->n, e->n);
  assert_int_equal(said->parent != NULL, first > 0);
  if (said->parent) {
    chain_hash(scheme, "7", size, salt, adapter, e->req->tokens, first - 1, want);
    assert_memory_equal(said->parent, want, width);
  }
  for (uint32_t i = 0; i < e->n; i++) {
    chain_hash(scheme, "7", size, salt, adapter, e->req->tokens, first + i, want);
    assert_memory_equal(said->hashes + i * width, want, width);
    l->compared++;
  }
}

static void step(struct life *l, uint64_t now) {
  struct engine_step s;
  engine_step_run(l->engine, now, &s);
  for (size_t i = 0; i < s.n_events; i++) {
    struct pubhash_said said;
    pubhash_event(l->pubhash, &s.events[i], &said);
    if (s.events[i].kind == ENGINE_STORED)
      compare(l, &s.events[i], &said);
    else
      assert_int_equal(said.n, s.events[i].kind == ENGINE_REMOVED);
  }
  assert_int_equal(pubhash_count(l->pubhash),
                   l->engine->pool.num_names + engine_offload_chunks(l->engine));
  for (int i = 0; i < SLOTS; i++)
    l->used[i] = l->used[i] && l->slots[i].req.finish == ENGINE_RUNNING;
}

/* Few prompts with few salts, so that contents come again, in copies and after their eviction. */
static void arrive(struct life *l, int i) {
  static const char *const salts[] = {NULL, NULL, "red", "blue"};
  static const char *const adapters[] = {NULL, NULL, NULL, "sql"};
  test_request(&l->slots[i], 100 * draw(l, 1, 4), draw(l, 1, 34), draw(l, 1, 5));
  l->slots[i].req.salt = salts[draw(l, 0, 3)];
  l->slots[i].req.adapter = adapters[draw(l, 0, 3)];
  test_add(l->engine, &l->slots[i].req);
  l->used[i] = true;
}

static void live(const char *scheme, const char *chunk_scheme, uint32_t offload_chunks,
                 uint64_t seed) {
  struct life l = {.config = CONFIG_SMALL, .scheme = scheme, .chunk_scheme = chunk_scheme};
  if (offload_chunks)
    l.config.tiers = (struct engine_tiers){
        .chunk_tokens = 8,
        .kv_bytes_per_token = 1000,
        .offload_chunks = offload_chunks,
        .links = {[ENGINE_OFFLOAD] = {.latency_ns = 100, .bytes_per_s = 1e9}}};
  rng_init(&l.rng, seed, 0);
  l.engine = test_engine(l.config);
  l.pubhash = open_pubhash(scheme, "7", l.config.block_size, l.config.tiers.chunk_tokens);
  for (int t = 0; t < STEPS; t++) {
    int i = (int)draw(&l, 0, SLOTS - 1);
    if (!l.used[i])
      arrive(&l, i);
    else if (draw(&l, 0, 9) == 0)
      l.used[i] = !engine_abort(l.engine, &l.slots[i].req);
    if (draw(&l, 0, 24) == 0)
      engine_reset_cache(l.engine, draw(&l, 0, 1));
    step(&l, 1000000 * (uint64_t)t);
  }
  struct engine_totals totals;
  engine_get_totals(l.engine, &totals);
  assert_true(l.compared > 20 && totals.removed > 10 && totals.cleared > 2);
  for (int i = 0; i < SLOTS; i++)
    if (l.used[i])
      engine_abort(l.engine, &l.slots[i].req);
  pubhash_reset(l.pubhash);
  assert_int_equal(pubhash_count(l.pubhash), 0);
  pubhash_delete(l.pubhash);
  engine_delete(l.engine);
}

static void test_as_whole_chains(void **state) {
  (void)state;
  for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
    live(schemes[i], NULL, 0, i);
}

static void test_chunks_as_lmcache(void **state) {
  (void)state;
  live("vllm-sha256", "lmcache/sha256", 3, 11);
  live("vllm-sha256-cbor", "lmcache/sha256_cbor", 5, 12);
  live("vllm-xxhash-cbor", "lmcache/xxhash_cbor", 2, 13);
}

/* ---- by hand ---- */

static void test_copies_and_growth(void **state) {
  (void)state;
  enum { N = 1000 };
  struct pubhash *p = open_pubhash("vllm-xxhash", "", 1, 0);
  uint32_t tokens[1] = {5};
  struct engine_request req = {.tokens = tokens};
  struct pubhash_said said;
  uint8_t hash[N][16];
  uint64_t names[N];
  struct rng rng;
  rng_init(&rng, 3, 3);
  for (int round = 0; round < 2; round++)
    for (uint32_t i = 0; i < N; i++) { /* names that fall on each other's slots */
      if (!round)
        names[i] = rng_u64(&rng) & ~UINT64_C(0x3f);
      tokens[0] = i;
      struct engine_event e = {.kind = ENGINE_STORED, .hashes = &names[i], .n = 1, .req = &req};
      pubhash_event(p, &e, &said);
      if (round)
        assert_memory_equal(hash[i], said.hashes, 16);
      memcpy(hash[i], said.hashes, 16);
    }
  assert_int_equal(pubhash_count(p), N);
  for (int round = 0; round < 2; round++) /* the first R leaves the other copy */
    for (uint32_t k = 0; k < N; k++) {
      uint32_t i = (k * 7) % N;
      struct engine_event e = {.kind = ENGINE_REMOVED, .hashes = &names[i], .n = 1};
      pubhash_event(p, &e, &said);
      assert_int_equal(said.n, 1);
      assert_null(said.parent);
      assert_memory_equal(hash[i], said.hashes, 16);
      assert_int_equal(pubhash_count(p), round ? N - 1 - k : N);
    }
  pubhash_delete(p);
}

/* facts/block-hashing.md §2: the example with seed "0", also as the number that is published. */
static void test_facts(void **state) {
  (void)state;
  struct pubhash *p = open_pubhash("vllm-sha256-cbor", "0", 4, 0);
  assert_int_equal(pubhash_width(p), 32);
  uint32_t tokens[] = {1, 300, 70000, 4294967295u};
  uint64_t name = 1;
  struct engine_request req = {.tokens = tokens};
  struct engine_event e = {.kind = ENGINE_STORED, .hashes = &name, .n = 1, .req = &req};
  struct pubhash_said said;
  pubhash_event(p, &e, &said);
  char hex[65];
  for (int i = 0; i < 32; i++)
    snprintf(hex + 2 * i, 3, "%02x", said.hashes[i]);
  assert_string_equal(hex, "656dea1076f098c114060f00a623833d10441fd46ad0f175aa544f1e6a3235a7");
  assert_true(pubhash_number(said.hashes, 32) == UINT64_C(0xaa544f1e6a3235a7));
  pubhash_delete(p);
}

static void test_unknown_scheme(void **state) {
  (void)state;
  struct err err = {0};
  struct pubhash *p;
  struct pubhash_options o = {"vllm-sha265", "0", 16, 0};
  assert_int_equal(pubhash_open(&o, &p, &err), ERR_NOT_FOUND);
  check_has(err.text, "(did you mean vllm-sha256?)");
  o.scheme = "ic-xxh3";
  assert_int_equal(pubhash_open(&o, &p, &err), ERR_NOT_FOUND);
  check_has(err.text, "\"ic-xxh3\" is no hash that vLLM publishes; there are vllm-sha256, ");
  assert_null(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_as_whole_chains),   cmocka_unit_test(test_chunks_as_lmcache),
      cmocka_unit_test(test_copies_and_growth), cmocka_unit_test(test_facts),
      cmocka_unit_test(test_unknown_scheme),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* engine_requests.h: a small engine and requests for the engine's unit tests. */
#ifndef TESTS_UNIT_ENGINE_REQUESTS_H
#define TESTS_UNIT_ENGINE_REQUESTS_H

#include "check.h"
#include "kv/engine.h"

#define CONFIG_SMALL                                                                               \
  ((struct engine_config){.num_blocks = 13,                                                        \
                          .block_size = 4,                                                         \
                          .max_num_batched_tokens = 64,                                            \
                          .max_num_seqs = 4,                                                       \
                          .max_model_len = 40,                                                     \
                          .enable_prefix_caching = true,                                           \
                          .reserve_full_isl = true})

struct test_request {
  struct engine_request req;
  uint32_t tokens[128];
};

/* Samples 9000, 9001, …, so that outputs of requests with one prompt are alike. */
static inline uint32_t test_sample(void *user, const struct engine_request *req, uint32_t index) {
  (void)req;
  if (user)
    ++*(int *)user;
  return 9000 + index;
}

/* A prompt of n tokens first, first+1, … */
static inline struct engine_request *test_request(struct test_request *t, uint32_t first,
                                                  uint32_t n, uint32_t max_output) {
  memset(t, 0, sizeof *t);
  for (uint32_t i = 0; i < n; i++)
    t->tokens[i] = first + i;
  t->req = (struct engine_request){
      .tokens = t->tokens, .prompt_len = n, .max_output = max_output, .sample = test_sample};
  return &t->req;
}

static inline struct engine *test_engine(struct engine_config config) {
  struct err err;
  struct engine *e = engine_new(&config, &err);
  if (!e)
    fail_msg("%s", err.text);
  return e;
}

static inline void test_add(struct engine *e, struct engine_request *r) {
  struct err err;
  check_ok(engine_add(e, r, &err), &err);
}

#endif

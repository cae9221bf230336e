/* summary_million.c: how long summary.json takes for a million requests, with all intervals.
 * Usage: summary_million [REQUESTS [GAPS_EACH [BEST_OF]]]; 10 turns per session; prints
 * {"requests", "gaps", "sessions", "seconds", "bytes_per_request"}, seconds being thread CPU, the
 * best try. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "out/summary.h"

#define TURNS 10

static void add_request(struct table *t, struct rng *rng, uint64_t i, size_t gaps) {
  struct sample s = {0};
  uint64_t start = i * 100000, ttft = (uint64_t)rng_lognormal(rng, 18, 0.6);
  s.session = i / TURNS;
  s.turn = (uint32_t)(i % TURNS) + 1;
  s.measured = s.is_generation = s.streamed = true;
  s.status = 200;
  s.error = i % 100 == 99 ? SAMPLE_RESET : SAMPLE_OK;
  s.parent = -1;
  s.t[STAMP_SCHED] = start;
  s.t[STAMP_START] = start + 20000;
  s.t[STAMP_SENT] = start + 50000;
  s.t[STAMP_FIRST_TOKEN] = start + ttft;
  s.first_visible = start + ttft;
  s.t[STAMP_LAST_TOKEN] = start + ttft + (uint64_t)rng_lognormal(rng, 21, 0.3);
  s.t[STAMP_DONE] = s.t[STAMP_LAST_TOKEN] + 200000;
  s.error_ns = (int64_t)(rng_u64(rng) % 9000);
  s.prompt_tokens = 500 * s.turn + (int64_t)(rng_u64(rng) % 200);
  s.output_tokens = s.output_tokens_local = 50 + (int64_t)(rng_u64(rng) % 200);
  s.prompt_tokens_local = s.reasoning_tokens = s.window_tokens = SAMPLE_ABSENT;
  s.first_tokens = 1;
  s.cached_state = CACHED_VALUE;
  s.cached_tokens = 500 * (s.turn - 1);
  s.render_ns = s.tokenize_ns = s.hash_ns = SAMPLE_ABSENT;
  s.policy = "session_hash";
  s.chosen = i % 3 ? "r0" : "r1";
  uint64_t list[64];
  for (size_t g = 0; g < gaps; g++)
    list[g] = (uint64_t)rng_lognormal(rng, 16.8, 0.2);
  s.gaps_ns = list;
  s.n_gaps = gaps;
  table_add_sample(t, &s);
}

int main(int argc, char **argv) {
  uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
  size_t gaps = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  int tries = argc > 3 ? atoi(argv[3]) : 1;
  if (!n || gaps > 64 || tries < 1) {
    fprintf(stderr, "usage: summary_million [REQUESTS [GAPS_EACH (0 to 64) [BEST_OF]]]\n");
    return 2;
  }
  struct table *t = table_new(0);
  struct rng rng;
  rng_init(&rng, 1, 1);
  for (uint64_t i = 0; i < n; i++)
    add_request(t, &rng, i, gaps);
  table_add_window(t, NULL, 0, n * 100000);
  struct metrics metrics;
  metrics_init(&metrics);
  struct summary_options options = {
      .run_id = "bench",
      .metrics = &metrics,
      .checks = {.limits = checks_default_limits(), .clock_step_ns = SAMPLE_ABSENT}};
  double best = 0;
  for (int i = 0; i < tries; i++) {
    uint64_t start = clock_thread_cpu_ns();
    table_finish(t);
    struct value summary = summary_build(t, &options);
    double seconds = (double)(clock_thread_cpu_ns() - start) / 1e9;
    if (!i || seconds < best)
      best = seconds;
    value_free(&summary);
  }
  printf("{\"requests\": %llu, \"gaps\": %zu, \"sessions\": %u, \"seconds\": %.3f, "
         "\"bytes_per_request\": %zu}\n",
         (unsigned long long)n, t->n_gaps, t->n_clusters, best, sizeof(struct table_row));
  metrics_free(&metrics);
  table_free(t);
  return 0;
}

/* meters_sglang.c: see meters_sglang.h. */
#include "sim/meters_sglang.h"

static const double ttft_edges[] = {.1, .2, .4, .6, .8, 1,  2,   4,   6,
                                    8,  10, 20, 40, 60, 80, 100, 200, 400};
static const double itl_edges[] = {.002, .004, .006, .008, .01, .015, .02, .025,
                                   .03,  .035, .04,  .06,  .08, .1,   .2,  .4,
                                   .6,   .8,   1,    2,    4,   6,    8};
static const double e2e_edges[] = {.1, .2, .4, .6, .8,  1,   2,   4,   6,    8,    10,
                                   20, 40, 60, 80, 100, 200, 400, 600, 1200, 1800, 2400};

#define EDGES(a) a, ARRAY_LEN(a)

static const struct meter_spec specs[METER_HISTS] = {
    [METER_TTFT] = {"sglang:time_to_first_token_seconds", "Arrival to first token, seconds.",
                    EDGES(ttft_edges)},
    [METER_ITL] = {"sglang:inter_token_latency_seconds", "Time between output tokens, seconds.",
                   EDGES(itl_edges)},
    [METER_E2E] = {"sglang:e2e_request_latency_seconds", "Arrival to last token, seconds.",
                   EDGES(e2e_edges)},
    [METER_QUEUE] = {"sglang:queue_time_seconds", "Time in the waiting queue, seconds.",
                     EDGES(ttft_edges)},
};

const struct meter_spec *meters_sglang_spec(int which) {
  return specs[which].name ? &specs[which] : NULL;
}

static void put_gauges(const struct meters_now *now, struct meterpage *w) {
  double total = (double)(now->num_blocks - 1) * now->block_size;
  double asked = (double)now->prefix_queries;
  meterpage_gauge(w, "sglang:num_running_reqs", "Requests that run.", now->running);
  meterpage_gauge(w, "sglang:num_queue_reqs", "Requests that wait.", now->waiting);
  meterpage_gauge(w, "sglang:num_used_tokens", "Tokens of the KV pool in use.",
                  now->kv_usage * total);
  meterpage_gauge(w, "sglang:max_total_num_tokens", "Tokens that the KV pool holds.", total);
  meterpage_gauge(w, "sglang:token_usage", "Part of the KV pool in use, 0 to 1.", now->kv_usage);
  meterpage_gauge(w, "sglang:cache_hit_rate", "Part of the prompt tokens that were cached, 0 to 1.",
                  asked > 0 ? (double)now->prefix_hits / asked : 0);
  meterpage_head(w, "sglang:cache_config_info", "", "gauge", "What the KV pool is made of.");
  char labels[80];
  struct buf b;
  buf_init(&b, sizeof labels);
  buf_printf(&b, ",num_pages=\"%u\",page_size=\"%u\"", now->num_blocks - 1, now->block_size);
  meterpage_sample(w, "sglang:cache_config_info", "", "", b.data, 1);
  buf_free(&b);
}

void meters_write_sglang(const struct meters *m, const struct meters_now *now,
                         struct meterpage *w) {
  static const char *const sources[] = {"cache_source=\"device\",", "cache_source=\"host\",",
                                        "cache_source=\"total\","};
  static const char *const modes[] = {"mode=\"prefill_compute\",", "mode=\"prefill_cache\",",
                                      "mode=\"decode\","};
  const uint64_t cached[] = {m->cached_tokens - m->external_tokens, m->external_tokens,
                             m->cached_tokens};
  const uint64_t live[] = {m->prompt_tokens - m->cached_tokens, m->cached_tokens,
                           m->generation_tokens};
  uint64_t ended = 0;
  for (int i = 0; i < METER_FINISHES; i++)
    ended += m->finished[i];
  w->lead = "engine_type=\"unified\",";
  w->tail = ",pp_rank=\"0\",tp_rank=\"0\"";
  put_gauges(now, w);
  meterpage_counter(w, "sglang:prompt_tokens", "Prompt tokens.", m->prompt_tokens);
  meterpage_counter(w, "sglang:generation_tokens", "Output tokens.", m->generation_tokens);
  meterpage_counter(w, "sglang:num_requests", "Ended requests.", ended);
  meterpage_counter(w, "sglang:num_aborted_requests", "Requests given up.",
                    m->finished[METER_ABORT]);
  meterpage_counter(w, "sglang:num_retracted_requests", "Preempted requests.", now->preemptions);
  meterpage_counters(w, "sglang:cached_tokens", "Prompt tokens that were not computed.", sources,
                     NULL, cached, ARRAY_LEN(cached));
  meterpage_counters(w, "sglang:realtime_tokens", "Tokens by how they came about.", modes, NULL,
                     live, ARRAY_LEN(live));
  for (int i = 0; i < METER_HISTS; i++)
    if (specs[i].name)
      meterpage_hist(w, &specs[i], &m->edges[i], &m->hists[i]);
}

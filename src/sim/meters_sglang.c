/* meters_sglang.c: see meters_sglang.h. */
#include "sim/meters_sglang.h"

static const double ttft_edges[] = {.1, .2, .4, .6, .8, 1,  2,   4,   6,
                                    8,  10, 20, 40, 60, 80, 100, 200, 400};
static const double itl_edges[] = {.002, .004, .006, .008, .01, .015, .02, .025,
                                   .03,  .035, .04,  .06,  .08, .1,   .2,  .4,
                                   .6,   .8,   1,    2,    4,   6,    8};
static const double e2e_edges[] = {.1, .2, .4, .6, .8,  1,   2,   4,   6,    8,    10,
                                   20, 40, 60, 80, 100, 200, 400, 600, 1200, 1800, 2400};

static const double queue_edges[] = {0,   .001, .005, .01,  .05,  .1,   .2,   .5,   1,    2,
                                     3,   4,    5,    10,   15,   20,   30,   40,   50,   60,
                                     70,  80,   90,   100,  200,  300,  400,  500,  600,  700,
                                     800, 900,  1000, 1200, 1400, 1600, 1800, 2000, 2500, 3000};
/* prometheus_client's exponential_buckets(0.001, 1.62, 30) */
static const double stage_edges[] = {0.001,
                                     0.0016200000000000001,
                                     0.0026244000000000007,
                                     0.004251528,
                                     0.006887475360000002,
                                     0.011157710083200004,
                                     0.018075490334784006,
                                     0.029282294342350097,
                                     0.047437316834607154,
                                     0.07684845327206359,
                                     0.12449449430074302,
                                     0.20168108076720373,
                                     0.3267233508428701,
                                     0.5292918283654495,
                                     0.8574527619520282,
                                     1.389073474362286,
                                     2.2502990284669036,
                                     3.6454844261163837,
                                     5.905684770308542,
                                     9.567209327899839,
                                     15.49887911119774,
                                     25.10818416014034,
                                     40.67525833942735,
                                     65.89391850987231,
                                     106.74814798599316,
                                     172.93199973730896,
                                     280.1498395744405,
                                     453.84274011059364,
                                     735.2252389791618,
                                     1191.064887146242};

#define EDGES(a) a, ARRAY_LEN(a)

static const struct meter_spec specs[METER_HISTS] = {
    [METER_TTFT] = {"sglang:time_to_first_token_seconds", "Arrival to first token, seconds.",
                    EDGES(ttft_edges)},
    [METER_ITL] = {"sglang:inter_token_latency_seconds", "Time between output tokens, seconds.",
                   EDGES(itl_edges)},
    [METER_E2E] = {"sglang:e2e_request_latency_seconds", "Arrival to last token, seconds.",
                   EDGES(e2e_edges)},
    [METER_QUEUE] = {"sglang:queue_time_seconds", "Time in the waiting queue, seconds.",
                     EDGES(queue_edges)},
    [METER_PREFILL] = {"sglang:per_stage_req_latency_seconds", "A stage of a request, seconds.",
                       EDGES(stage_edges)},
    [METER_DECODE] = {"sglang:per_stage_req_latency_seconds", "A stage of a request, seconds.",
                      EDGES(stage_edges)},
};

const struct meter_spec *meters_sglang_spec(int which) {
  return specs[which].name ? &specs[which] : NULL;
}

static void put_gauges(const struct meters *m, const struct meters_now *now, struct meterpage *w) {
  double total = (double)(now->num_blocks - 1) * now->block_size;
  const struct {
    const char *name, *help;
    double x;
  } rows[] = {
      {"num_running_reqs", "Requests that run.", now->running},
      {"num_queue_reqs", "Requests that wait.", now->waiting},
      {"num_used_tokens", "Tokens of the KV pool in use.", now->kv_usage * total},
      {"max_total_num_tokens", "Tokens that the KV pool holds.", total},
      {"token_usage", "Part of the KV pool in use, 0 to 1.", now->kv_usage},
      {"gen_throughput", "Output tokens a second.", now->running ? m->output_rate : 0},
      {"cache_hit_rate", "Part of the last batch's prompt tokens that was cached, 0 to 1.",
       m->batch_hit_rate},
      {"utilization", "Use of what the latency limits allow.", 0},
      {"num_paused_reqs", "Requests that are paused.", 0},
      {"spec_accept_length", "Mean length that speculation had accepted.", 0},
      {"num_prefill_prealloc_queue_reqs", "Prefill legs that wait for room.", 0},
      {"num_prefill_inflight_queue_reqs", "Prefill legs whose KV is on its way.", 0},
      {"num_decode_prealloc_queue_reqs", "Decode legs that wait for room.", 0},
      {"num_decode_transfer_queue_reqs", "Decode legs that wait for KV.", 0},
      {"kv_transfer_speed_gb_s", "Speed of KV transfers, GB a second.", 0},
      {"kv_transfer_latency_ms", "Time of KV transfers, milliseconds.", 0},
  };
  for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
    meterpage_head(w, "sglang:", rows[i].name, "gauge", rows[i].help);
    meterpage_sample(w, "sglang:", rows[i].name, "", "", rows[i].x);
  }
  meterpage_head(w, "sglang:cache_config_info", "", "gauge", "What the KV pool is made of.");
  struct buf b;
  buf_init(&b, 80);
  buf_printf(&b, ",num_pages=\"%u\",page_size=\"%u\"", now->num_blocks - 1, now->block_size);
  meterpage_sample(w, "sglang:cache_config_info", "", "", b.data, 1);
  buf_free(&b);
}

/* By where the KV was; what came from another replica counts as the device's. */
static void put_cached(const struct meters *m, const struct meters_now *now, struct meterpage *w) {
  static const char *const sources[] = {"cache_source=\"device\",", "cache_source=\"host\",",
                                        "cache_source=\"total\",",
                                        "cache_source=\"storage_file\","};
  const uint64_t cached[] = {m->cached_tokens - m->host_tokens - m->storage_tokens, m->host_tokens,
                             m->cached_tokens, m->storage_tokens};
  meterpage_counters(w, "sglang:cached_tokens", "Prompt tokens that were not computed.", sources,
                     NULL, cached, now->storage ? 4 : 3);
  if (!now->storage)
    return;
  meterpage_counter(w, "sglang:prefetched_tokens", "Tokens loaded from storage.",
                    m->storage_tokens);
  meterpage_counter(w, "sglang:backuped_tokens", "Tokens put into storage.", now->stored_tokens);
}

void meters_write_sglang(const struct meters *m, const struct meters_now *now,
                         struct meterpage *w) {
  static const char *const modes[] = {"mode=\"prefill_compute\",", "mode=\"prefill_cache\",",
                                      "mode=\"decode\","};
  const uint64_t live[] = {m->prompt_tokens - m->cached_tokens, m->cached_tokens,
                           m->generation_tokens};
  uint64_t ended = 0;
  for (int i = 0; i < METER_FINISHES; i++)
    ended += m->finished[i];
  w->lead = "engine_type=\"unified\",";
  w->tail = ",pp_rank=\"0\",tp_rank=\"0\"";
  put_gauges(m, now, w);
  meterpage_counter(w, "sglang:prompt_tokens", "Prompt tokens.", m->prompt_tokens);
  meterpage_counter(w, "sglang:generation_tokens", "Output tokens.", m->generation_tokens);
  meterpage_counter(w, "sglang:num_requests", "Ended requests.", ended);
  meterpage_counter(w, "sglang:num_aborted_requests", "Requests given up.",
                    m->finished[METER_ABORT]);
  meterpage_counter(w, "sglang:num_retracted_requests", "Preempted requests.", now->preemptions);
  meterpage_counter(w, "sglang:num_retracted_input_tokens", "Prompt tokens of preempted requests.",
                    m->retracted_tokens);
  put_cached(m, now, w);
  meterpage_counters(w, "sglang:realtime_tokens", "Tokens by how they came about.", modes, NULL,
                     live, ARRAY_LEN(live));
  for (int i = 0; i < METER_HISTS; i++)
    if (specs[i].name && i != METER_PREFILL && i != METER_DECODE)
      meterpage_hist(w, &specs[i], &m->edges[i], &m->hists[i]);
  static const char *const stages[] = {",stage=\"prefill_forward\"", ",stage=\"decode_loop\""};
  const struct meter_counts *counts[] = {&m->hists[METER_PREFILL], &m->hists[METER_DECODE]};
  meterpage_hists(w, &specs[METER_PREFILL], &m->edges[METER_PREFILL], counts, stages,
                  ARRAY_LEN(stages));
}

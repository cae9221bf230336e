/* meters.c: vLLM's metrics of a simulated replica, from tables. */
#include "sim/meters.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "sim/meterpage.h"
#include "sim/meters_plain.h"
#include "sim/meters_sglang.h"

static const double ttft_edges[] = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                    1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
static const double itl_edges[] = {.01, .025, .05, .075, .1,  .15, .2, .3, .4, .5,
                                   .75, 1,    2.5, 5,    7.5, 10,  20, 40, 80};
static const double request_edges[] = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                       30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
static const double iteration_edges[] = {1,   8,    16,   32,   64,   128,  256,
                                         512, 1024, 2048, 4096, 8192, 16384};

static const double n_edges[] = {1, 2, 5, 10, 20};

static const double block_edges[] = {.001, .002, .005, .01, .02, .05, .1,  .2,  .5,   1,   2,
                                     5,    10,   20,   30,  60,  120, 300, 600, 1200, 1800};

#define EDGES(a) a, ARRAY_LEN(a)

static const struct meter_spec hist_specs[METER_HISTS] = {
    [METER_TTFT] = {"vllm:time_to_first_token_seconds", "Arrival to first token, seconds.",
                    EDGES(ttft_edges)},
    [METER_ITL] = {"vllm:inter_token_latency_seconds", "Time between output tokens, seconds.",
                   EDGES(itl_edges)},
    [METER_TPOT] = {"vllm:request_time_per_output_token_seconds",
                    "Mean time per output token of a request, seconds.", EDGES(itl_edges)},
    [METER_E2E] = {"vllm:e2e_request_latency_seconds", "Arrival to last token, seconds.",
                   EDGES(request_edges)},
    [METER_QUEUE] = {"vllm:request_queue_time_seconds", "Time in the waiting queue, seconds.",
                     EDGES(request_edges)},
    [METER_INFERENCE] = {"vllm:request_inference_time_seconds",
                         "First scheduling to last token, seconds.", EDGES(request_edges)},
    [METER_PREFILL] = {"vllm:request_prefill_time_seconds",
                       "First scheduling to first token, seconds.", EDGES(request_edges)},
    [METER_DECODE] = {"vllm:request_decode_time_seconds", "First to last token, seconds.",
                      EDGES(request_edges)},
    [METER_ITERATION_TOKENS] = {"vllm:iteration_tokens_total",
                                "Prompt and output tokens of an engine step.",
                                EDGES(iteration_edges)},
    [METER_PROMPT_TOKENS] = {"vllm:request_prompt_tokens", "Prompt tokens of a request.", NULL, 0},
    [METER_GENERATION_TOKENS] = {"vllm:request_generation_tokens", "Output tokens of a request.",
                                 NULL, 0},
    [METER_MAX_TOKENS] = {"vllm:request_params_max_tokens", "The max_tokens of a request.", NULL,
                          0},
    [METER_MAX_GENERATION] = {"vllm:request_max_num_generation_tokens",
                              "Output tokens of a request's longest choice.", NULL, 0},
    [METER_PREFILL_COMPUTED] = {"vllm:request_prefill_kv_computed_tokens",
                                "Prompt tokens of a request that were not cached.", NULL, 0},
    [METER_PARAMS_N] = {"vllm:request_params_n", "The n of a request.", EDGES(n_edges)},
    [METER_BLOCK_LIFETIME] = {"vllm:kv_block_lifetime_seconds",
                              "A KV block's time from its allocation to its eviction, seconds.",
                              EDGES(block_edges)},
    [METER_BLOCK_IDLE] = {"vllm:kv_block_idle_before_evict_seconds",
                          "A KV block's time from its last access to its eviction, seconds.",
                          EDGES(block_edges)},
    [METER_BLOCK_GAP] = {"vllm:kv_block_reuse_gap_seconds",
                         "Time between accesses of a KV block, seconds.", EDGES(block_edges)},
};

/* 1, 2, 5, 10, 20, 50 … up to `longest`; allocated. */
static double *series(uint32_t longest, uint32_t *n) {
  static const double mantissas[] = {1, 2, 5};
  double *edges = NULL;
  uint32_t cap = 0;
  *n = 0;
  for (double power = 1;; power *= 10)
    for (size_t i = 0; i < ARRAY_LEN(mantissas); i++) {
      double edge = mantissas[i] * power;
      if (edge > longest)
        return edges;
      MEM_GROW(edges, *n, cap);
      edges[(*n)++] = edge;
    }
}

void meters_init(struct meters *m, enum meters_style style, uint32_t max_model_len,
                 double created_s) {
  *m = (struct meters){.style = style, .created_s = created_s};
  uint32_t n;
  m->length_edges = series(max_model_len, &n);
  for (int i = 0; i < METER_HISTS; i++) {
    const struct meter_spec *own = style == METERS_SGLANG ? meters_sglang_spec(i)
                                   : style == METERS_TGI  ? meters_tgi_spec(i)
                                                          : NULL;
    const struct meter_spec *spec = own ? own : &hist_specs[i];
    m->edges[i].edges = spec->edges ? spec->edges : m->length_edges;
    m->edges[i].n = spec->edges ? spec->n : n;
    m->hists[i].buckets = mem_calloc(m->edges[i].n + 1u, sizeof *m->hists[i].buckets);
  }
}

void meters_free(struct meters *m) {
  for (int i = 0; i < METER_HISTS; i++)
    mem_free(m->hists[i].buckets);
  mem_free(m->length_edges);
  *m = (struct meters){0};
}

void meters_observe(struct meters *m, enum meter_hist which, double value) {
  meters_observe_times(m, which, value, 1);
}

void meters_observe_times(struct meters *m, enum meter_hist which, double value, uint32_t n) {
  const struct meter_edges *e = &m->edges[which];
  struct meter_counts *h = &m->hists[which];
  uint32_t lo = 0, hi = e->n; /* the first edge >= value */
  if (value == h->last_value) /* as with all gaps of a step */
    lo = hi = h->last_bucket;
  while (lo < hi) {
    uint32_t mid = (lo + hi) / 2;
    if (e->edges[mid] >= value)
      hi = mid;
    else
      lo = mid + 1;
  }
  h->last_value = value;
  h->last_bucket = lo;
  h->buckets[lo] += n;
  h->count += n;
  for (; n; n--)
    h->sum += value;
}

void meters_output(struct meters *m, uint64_t now_ns, uint64_t tokens) {
  m->rate_tokens += tokens;
  if (!tokens || ++m->rate_steps < METERS_RATE_STEPS)
    return;
  if (m->rate_ns && now_ns > m->rate_ns)
    m->output_rate = (double)m->rate_tokens * 1e9 / (double)(now_ns - m->rate_ns);
  m->rate_ns = now_ns;
  m->rate_tokens = m->rate_steps = 0;
}

/* ---- text ---- */

static void put_cache_config(struct meterpage *w, const struct meters_now *now) {
  meterpage_head(w, "vllm:cache_config_info", "", "gauge", "What the KV cache is made of.");
  buf_printf(w->out,
             "vllm:cache_config_info{block_size=\"%u\",cache_dtype=\"auto\","
             "enable_prefix_caching=\"%s\",engine=\"0\",num_gpu_blocks=\"%u\","
             "num_gpu_blocks_override=\"None\",prefix_caching_hash_algo=\"sha256\"} 1.0\n",
             now->block_size, now->prefix_caching ? "True" : "False", now->num_blocks);
}

static void put_gauges(struct meterpage *w, const struct meters_now *now) {
  static const char *const reasons[] = {",reason=\"capacity\"", ",reason=\"deferred\""};
  static const char *const states[] = {",sleep_state=\"awake\"",
                                       ",sleep_state=\"weights_offloaded\"",
                                       ",sleep_state=\"discard_all\""};
  static const char by_reason[] = "vllm:num_requests_waiting_by_reason";
  static const char sleep[] = "vllm:engine_sleep_state";
  meterpage_gauge(w, "vllm:num_requests_running", "Requests that run, as of the last step.",
                  now->running);
  meterpage_gauge(w, "vllm:num_requests_waiting", "Requests that wait, as of the last step.",
                  now->waiting);
  const uint64_t waiting[] = {now->waiting - now->loading, now->loading};
  meterpage_head(w, by_reason, "", "gauge",
                 "Requests that wait: for blocks, slots or budget; for KV to be loaded.");
  for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
    meterpage_sample(w, by_reason, "", "", reasons[i], (double)waiting[i]);
  meterpage_head(w, sleep, "", "gauge", "1 for the state that the engine is in.");
  for (int i = 0; i < (int)ARRAY_LEN(states); i++)
    meterpage_sample(w, sleep, "", "", states[i], i == now->asleep);
  meterpage_gauge(w, "vllm:kv_cache_usage_perc", "Part of the KV blocks in use, 0 to 1.",
                  now->kv_usage);
  put_cache_config(w, now);
}

/* Of all metrics the one without model_name and engine (vllm/v1/metrics/loggers.py). */
static void put_adapters(struct meterpage *w, const struct meters_now *now) {
  static const char name[] = "vllm:lora_requests_info";
  if (!now->adapters)
    return;
  meterpage_head(w, name, "", "gauge", "When the adapters were these; Unix time.");
  buf_printf(w->out, "%s{max_lora=\"%zu\",running_lora_adapters=\"", name, now->adapters);
  meterpage_label(w->out, now->running_adapters);
  buf_puts(w->out, "\",waiting_lora_adapters=\"");
  meterpage_label(w->out, now->waiting_adapters);
  buf_puts(w->out, "\"} ");
  meterpage_value(w->out, now->now_s);
  buf_putc(w->out, '\n');
}

static void put_caches(struct meterpage *w, const struct meters_now *now) {
  meterpage_counter(w, "vllm:prefix_cache_queries", "Prompt tokens looked up in the prefix cache.",
                    now->prefix_queries);
  meterpage_counter(w, "vllm:prefix_cache_hits", "Prompt tokens found in the prefix cache.",
                    now->prefix_hits);
  meterpage_counter(w, "vllm:external_prefix_cache_queries",
                    "Prompt tokens looked up behind the prefix cache.", now->external_queries);
  meterpage_counter(w, "vllm:external_prefix_cache_hits", "Prompt tokens loaded from behind it.",
                    now->external_hits);
  meterpage_counter(w, "vllm:mm_cache_queries", "Images and the like looked up.", 0);
  meterpage_counter(w, "vllm:mm_cache_hits", "Images and the like found.", 0);
}

static void put_tokens(struct meterpage *w, const struct meters *m, const struct meters_now *now) {
  static const char *const sources[] = {",source=\"local_compute\"", ",source=\"local_cache_hit\"",
                                        ",source=\"external_kv_transfer\""};
  meterpage_counter(w, "vllm:num_preemptions", "Preempted requests.", now->preemptions);
  meterpage_counter(w, "vllm:corrupted_requests", "Requests whose logits had NaNs.", 0);
  meterpage_counter(w, "vllm:prompt_tokens", "Prompt tokens of requests with a first token.",
                    m->prompt_tokens);
  const uint64_t by_source[] = {m->prompt_tokens - m->cached_tokens,
                                m->cached_tokens - m->external_tokens, m->external_tokens};
  meterpage_counters(w, "vllm:prompt_tokens_by_source",
                     "Prompt tokens by where their KV came from.", NULL, sources, by_source,
                     ARRAY_LEN(by_source));
  meterpage_counter(w, "vllm:prompt_tokens_cached", "Prompt tokens that were not computed.",
                    m->cached_tokens);
  meterpage_counter(w, "vllm:prompt_tokens_recomputed",
                    "Prompt tokens computed although their KV had been loaded.", now->recomputed);
  meterpage_counter(w, "vllm:generation_tokens", "Output tokens.", m->generation_tokens);
}

static void put_engine(struct meterpage *w, const struct meters *m, const struct meters_now *now) {
  static const char *const reasons[METER_FINISHES] = {
      "finished_reason=\"stop\",", "finished_reason=\"length\",", "finished_reason=\"abort\",",
      "finished_reason=\"error\",", "finished_reason=\"repetition\","};
  put_gauges(w, now);
  put_adapters(w, now);
  put_caches(w, now);
  put_tokens(w, m, now);
  meterpage_counters(w, "vllm:request_success", "Ended requests by reason.", reasons, NULL,
                     m->finished, METER_FINISHES);
  static const char *const limits[] = {",reason=\"max_num_queued_tokens\"",
                                       ",reason=\"max_num_queued_reqs\""};
  if (now->limits)
    meterpage_counters(w, "vllm:admission_rejections", "Requests refused with 503 by reason.", NULL,
                       limits, m->rejected, ARRAY_LEN(limits));
}

void meters_write(const struct meters *m, const struct meters_now *now, struct buf *out) {
  struct meterpage w;
  meterpage_init(&w, now->model, m->created_s, out);
  if (m->style == METERS_SGLANG) {
    meters_write_sglang(m, now, &w);
  } else if (m->style != METERS_VLLM) {
    meters_write_plain(m, now, &w);
  } else {
    w.lead = "engine=\"0\",";
    put_engine(&w, m, now);
    for (int i = 0; i < (now->blocks ? METER_HISTS : METER_BLOCK_LIFETIME); i++)
      meterpage_hist(&w, &hist_specs[i], &m->edges[i], &m->hists[i]);
  }
  meterpage_free(&w);
}

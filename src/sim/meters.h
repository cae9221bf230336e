/* meters.h: the counters and histograms of one simulated replica, and their Prometheus text.
 *
 * Names, types, labels and bucket edges are vLLM's (facts/interfaces.md §2.1); the text is what
 * prometheus_client prints: labels sorted, floats with a point, `_total` and a `_created` gauge for
 * counters, `_created` for histograms. Help texts are our own. What a simulated replica has none of
 * (an external cache, images, NaNs) is there with 0. lora_requests_info is there with adapters: one
 * sample, of now, where vLLM keeps those of earlier mixtures with their times. */
#ifndef SIM_METERS_H
#define SIM_METERS_H

#include "base/buf.h"

enum meter_hist {
  METER_TTFT,
  METER_ITL,
  METER_TPOT,
  METER_E2E,
  METER_QUEUE,
  METER_INFERENCE,
  METER_PREFILL,
  METER_DECODE,
  METER_ITERATION_TOKENS,
  METER_PROMPT_TOKENS,
  METER_GENERATION_TOKENS,
  METER_MAX_TOKENS,
  METER_MAX_GENERATION,   /* of the longest choice of a request */
  METER_PREFILL_COMPUTED, /* prompt tokens that were not cached */
  METER_PARAMS_N,
  METER_BLOCK_LIFETIME, /* the last three: of KV blocks, kv/blocklife.h */
  METER_BLOCK_IDLE,
  METER_BLOCK_GAP,
  METER_HISTS
};

enum meter_finish {
  METER_STOP,
  METER_LENGTH,
  METER_ABORT,
  METER_ERROR,
  METER_REPETITION,
  METER_FINISHES
};

/* Whose page it is. */
enum meters_style { METERS_VLLM, METERS_SGLANG, METERS_TGI, METERS_LLAMACPP };

struct meter_spec {
  const char *name, *help;
  const double *edges; /* NULL = the 1-2-5 series up to max_model_len */
  uint32_t n;
};

struct meter_edges {
  const double *edges;
  uint32_t n;
};

struct meter_counts {
  uint64_t *buckets; /* one per edge and one for +Inf, not cumulative */
  uint64_t count;
  double last_value; /* and the bucket it went into */
  uint32_t last_bucket;
  double sum;
};

struct meters {
  enum meters_style style;
  struct meter_edges edges[METER_HISTS];
  struct meter_counts hists[METER_HISTS];
  double *length_edges; /* the 1-2-5 series up to max_model_len */
  uint64_t prompt_tokens, generation_tokens, cached_tokens;
  uint64_t external_tokens;             /* of the cached ones: loaded from behind the pool */
  uint64_t host_tokens, storage_tokens; /* of those: from CPU memory, from shared storage */
  uint64_t retracted_tokens;            /* prompts of preempted requests */
  double batch_hit_rate; /* of the last step with a new prompt: cached ÷ all of it */
  double
      output_rate; /* output tokens a second, over the last METERS_RATE_STEPS steps that had any */
  uint64_t steps;  /* of the engine, those without output tokens included */
  uint64_t rate_ns, rate_tokens; /* since when, and how many since then */
  uint32_t rate_steps;
  uint64_t finished[METER_FINISHES];
  uint64_t rejected[2]; /* for too many tokens, for too many requests */
  double created_s;     /* wall clock, when the replica started */
};

/* `created_s` is Unix time in seconds. */
void meters_init(struct meters *m, enum meters_style style, uint32_t max_model_len,
                 double created_s);
void meters_free(struct meters *m);
void meters_observe(struct meters *m, enum meter_hist which, double value);
/* The same n times: also the sum is, to the last bit, as if they came one by one. */
void meters_observe_times(struct meters *m, enum meter_hist which, double value, uint32_t n);

#define METERS_RATE_STEPS 40
/* A step ended that gave so many output tokens: for output_rate. */
void meters_output(struct meters *m, uint64_t now_ns, uint64_t tokens);

/* What is not counted here but read off the engine. */
struct meters_now {
  const char *model;
  uint32_t running, waiting; /* requests, as of the last step */
  uint32_t loading;          /* of those that wait: for KV to be loaded */
  double kv_usage;           /* 0..1 */
  uint32_t block_size, num_blocks;
  bool prefix_caching;
  bool storage;                                    /* there is shared storage behind the pool */
  uint64_t stored_tokens;                          /* put into shared storage */
  bool blocks;                                     /* the lives of KV blocks are measured */
  int asleep;                                      /* the level; 0 = awake */
  bool limits;                                     /* admission is limited: rejections are told */
  size_t adapters;                                 /* LoRA; 0: there is no metric of them */
  const char *running_adapters, *waiting_adapters; /* names with commas */
  double now_s;                                    /* Unix time */
  uint64_t prefix_queries, prefix_hits, external_queries, external_hits, recomputed, preemptions;
};
/* Appends the exposition text 0.0.4. */
void meters_write(const struct meters *m, const struct meters_now *now, struct buf *out);

#endif

/* steptime.c: the step-time formula and the table of built-in profiles.
 *
 * Where the figures come from (shared/facts/interfaces.md §8.3; H100 SXM, HBM 3.35 TB/s):
 *   step overhead   126 µs + 32.1 µs · layers
 *   decode base     the rest of the published decode step at batch 1, context 1,024
 *   per sequence    4.4 µs
 *   per context     1.947 · KV bytes per token and GPU ÷ 3.35 TB/s
 *   per request     15.6 ms ingest
 *   KV budget       80 GB · 0.9 less weights; whole blocks of 16
 *   batch limits    vLLM's defaults for an API server on a GPU of 70 GiB or more
 * The test compares the whole published decode table with the formula (within 5 %). */
#include "kv/steptime.h"

#include <stdio.h>
#include <string.h>

#define H100_BATCH .block_size = 16, .max_num_batched_tokens = 8192, .max_num_seqs = 1024
#define UNLIMITED_BATCH                                                                            \
  .kv_tokens = 62500 * 16, .block_size = 16, .max_num_batched_tokens = 1 << 20,                    \
  .max_num_seqs = 4096, .max_model_len = 131072

static const struct steptime_profile profiles[] = {
    {.name = "llama-3.1-8b",
     .summary = "Llama-3.1-8B bf16 on one H100",
     .prefill_tokens_per_s = 30000,
     .step_overhead_ns = 1.153e6, /* 32 layers */
     .decode_base_ns = 5.67e6,
     .decode_seq_ns = 4400,
     .decode_context_ns = 76.2, /* 131,072 bytes */
     .request_overhead_ns = 15600000,
     .kv_tokens = 26300 * 16,
     H100_BATCH,
     .max_model_len = 131072},
    {.name = "qwen3-32b",
     .summary = "Qwen3-32B bf16 on two H100, tensor parallel",
     .prefill_tokens_per_s = 15900,
     .step_overhead_ns = 2.180e6, /* 64 layers */
     .decode_base_ns = 12.74e6,
     .decode_seq_ns = 4400,
     .decode_context_ns = 76.2, /* 131,072 bytes on each GPU */
     .request_overhead_ns = 15600000,
     .kv_tokens = 18100 * 16,
     H100_BATCH,
     .max_model_len = 40960},
    {.name = "gpt-oss-20b",
     .summary = "gpt-oss-20b MXFP4 on one H100",
     .prefill_tokens_per_s = 45000,
     .step_overhead_ns = 0.896e6, /* 24 layers */
     .decode_base_ns = 5.57e6,
     .decode_seq_ns = 4400,
     .decode_context_ns = 28.6, /* 49,152 bytes */
     .request_overhead_ns = 15600000,
     .kv_tokens = 69600 * 16,
     H100_BATCH,
     .max_model_len = 131072},
    /* For demonstrations on a laptop, where the `bytes` tokenizer makes every byte of a prompt one
     * token: prompts are four to five times as long in tokens as on a real server, and the budget
     * so small that a handful of conversations fill it. A prompt of 8,000 bytes takes 0.4 s cold
     * and next to nothing warm, and 32,000 tokens of KV begin to evict with a few users. */
    {.name = "tiny",
     .summary = "small and quick, for demonstrations",
     .prefill_tokens_per_s = 20000,
     .step_overhead_ns = 0.2e6,
     .decode_base_ns = 4.7e6,
     .decode_seq_ns = 10000,
     .decode_context_ns = 10,
     .request_overhead_ns = 1000000,
     .kv_tokens = 2000 * 16,
     .block_size = 16,
     .max_num_batched_tokens = 2048,
     .max_num_seqs = 64,
     .max_model_len = 16384},
    /* 50 ms to the first token, 10 ms between tokens; see steptime_set_fixed. */
    {.name = "fixed",
     .summary = "constant times, settable: TTFT 50 ms, ITL 10 ms",
     .step_overhead_ns = 10e6,
     .request_overhead_ns = 40000000,
     UNLIMITED_BATCH},
    {.name = "instant", .summary = "no time passes", UNLIMITED_BATCH},
};

uint64_t steptime_step_ns(const struct steptime_profile *p, uint64_t prefill_tokens,
                          uint64_t decode_seqs, uint64_t decode_context) {
  double ns = p->step_overhead_ns;
  if (prefill_tokens && p->prefill_tokens_per_s > 0)
    ns += (double)prefill_tokens * 1e9 / p->prefill_tokens_per_s;
  if (decode_seqs)
    ns += p->decode_base_ns + (double)decode_seqs * p->decode_seq_ns +
          (double)decode_context * p->decode_context_ns;
  return ns < (double)STEPTIME_MAX_NS ? (uint64_t)(ns + 0.5) : STEPTIME_MAX_NS;
}

const struct steptime_profile *steptime_profiles(size_t *n) {
  *n = ARRAY_LEN(profiles);
  return profiles;
}

int steptime_get(const char *name, struct steptime_profile *out, struct err *err) {
  char list[256] = "";
  for (size_t i = 0; i < ARRAY_LEN(profiles); i++) {
    if (strcmp(profiles[i].name, name) == 0) {
      *out = profiles[i];
      return 0;
    }
    size_t len = strlen(list);
    snprintf(list + len, sizeof list - len, "%s%s", i ? ", " : "", profiles[i].name);
  }
  return err_set(err, ERR_NOT_FOUND, "no profile \"%.60s\"; there are %s", name, list);
}

void steptime_set_fixed(struct steptime_profile *p, uint64_t ttft_ns, uint64_t itl_ns) {
  uint64_t both = ttft_ns < itl_ns ? ttft_ns : itl_ns;
  p->prefill_tokens_per_s = 0;
  p->step_overhead_ns = (double)both;
  p->decode_base_ns = (double)(itl_ns - both);
  p->decode_seq_ns = p->decode_context_ns = 0;
  p->request_overhead_ns = ttft_ns - both;
}

struct engine_config steptime_engine_config(const struct steptime_profile *p) {
  return (struct engine_config){.num_blocks = p->kv_tokens / p->block_size + 1,
                                .block_size = p->block_size,
                                .max_num_batched_tokens = p->max_num_batched_tokens,
                                .max_num_seqs = p->max_num_seqs,
                                .max_model_len = p->max_model_len,
                                .enable_prefix_caching = true,
                                .reserve_full_isl = true};
}

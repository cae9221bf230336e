/* steptime.c: the step-time formula and the table of built-in profiles.
 *
 * Where the figures come from (shared/facts/interfaces.md §8.3; H100 SXM, HBM 3.35 TB/s):
 *   step overhead   126 µs + 32.1 µs · layers
 *   decode base     the rest of the published decode step at batch 1, context 1,024
 *   per sequence    4.4 µs
 *   per context     1.947 · KV bytes per token and GPU ÷ 3.35 TB/s
 *   per request     15.6 ms ingest
 *   KV bytes        the table's; loads from slower memory are computed from them
 *   KV budget       80 GB · 0.9 less weights; whole blocks of 16
 *   batch limits    vLLM's defaults for an API server on a GPU of 70 GiB or more
 * The test compares the whole published decode table with the formula (within 5 %). */
#include "kv/steptime.h"

#include <string.h>

#include "base/buf.h"

/* Tiers are off until they are given room; then CPU memory is DRAM and storage an object store, in
 * LMCache's chunks. Transfers go over 200 Gbit/s. */
#define DRAM                                                                                       \
  { .latency_ns = 1000, .bytes_per_s = 20e9 }
#define NVME                                                                                       \
  { .latency_ns = 80000, .bytes_per_s = 7e9 }
#define OBJECT_STORE                                                                               \
  { .latency_ns = 30000000, .bytes_per_s = 1e9 }
#define BEHIND                                                                                     \
  .chunk_tokens = 256, .offload = {.link = DRAM}, .shared = {.link = OBJECT_STORE},                \
  .transfer = {.bytes_per_s = 25e9}
/* Of every server on H100s; and what gpt-oss-20b's 24 layers, weights and KV take there. */
#define H100 .decode_seq_ns = 4400, .max_num_batched_tokens = 8192, .max_num_seqs = 1024, BEHIND
#define INGEST .request_overhead_ns = 15600000, .block_size = 16
#define GPT_OSS_20B                                                                                \
  H100, .step_overhead_ns = 0.896e6, .decode_base_ns = 5.57e6,                                     \
        .decode_context_ns = 28.6 /* 49,152 bytes */, .kv_bytes_per_token = 49152,                 \
        .max_model_len = 131072
#define UNLIMITED_BATCH                                                                            \
  .kv_tokens = 62500 * 16, .block_size = 16, .max_num_batched_tokens = 1 << 20,                    \
  .max_num_seqs = 4096, .max_model_len = 131072, BEHIND

static const struct steptime_profile profiles[] = {
    {.name = "llama-3.1-8b",
     .summary = "Llama-3.1-8B bf16 on one H100",
     .prefill_tokens_per_s = 30000,
     .step_overhead_ns = 1.153e6, /* 32 layers */
     .decode_base_ns = 5.67e6,
     .decode_context_ns = 76.2, /* 131,072 bytes */
     .kv_tokens = 26300 * 16,
     .max_model_len = 131072,
     .kv_bytes_per_token = 131072,
     INGEST,
     H100},
    {.name = "qwen3-32b",
     .summary = "Qwen3-32B bf16 on two H100, tensor parallel",
     .prefill_tokens_per_s = 15900,
     .step_overhead_ns = 2.180e6, /* 64 layers */
     .decode_base_ns = 12.74e6,
     .decode_context_ns = 76.2, /* 131,072 bytes on each GPU */
     .kv_tokens = 18100 * 16,
     .max_model_len = 40960,
     .kv_bytes_per_token = 262144,
     INGEST,
     H100},
    {.name = "gpt-oss-20b",
     .summary = "gpt-oss-20b MXFP4 on one H100",
     .prefill_tokens_per_s = 45000,
     .kv_tokens = 69600 * 16,
     INGEST,
     GPT_OSS_20B},
    /* The host of ADR-04's experiment (facts §6.1): gpt-oss-20b, blocks of 64, two replicas behind
     * a gateway and an EPP. Fitted to the published means: 6,653 tokens cold 1.287 s, with 61 of
     * them left to compute 0.315 s; 12,944 tokens cold 2.596 s, with 16 left 0.283 s. Each comes
     * out within 5 %. Two prompt lengths are enough to see that later tokens took longer. The
     * overhead is all else that a request took there, its short answer included. Nothing is
     * published of its decode steps and its memory: those are gpt-oss-20b's on an H100. */
    {.name = "adr-04",
     .summary = "gpt-oss-20b on the host of the first reference experiment (ADR-04)",
     .prefill_tokens_per_s = 8370,
     .prefill_context_ns = 9.04,
     .request_overhead_ns = 291000000,
     .kv_tokens = 17400 * 64,
     .block_size = 64,
     GPT_OSS_20B},
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
     .max_model_len = 16384,
     .kv_bytes_per_token = 16384,
     BEHIND},
    /* 50 ms to the first token, 10 ms between tokens; see steptime_set_fixed. */
    {.name = "fixed",
     .summary = "constant times, settable: TTFT 50 ms, ITL 10 ms",
     .step_overhead_ns = 10e6,
     .request_overhead_ns = 40000000,
     UNLIMITED_BATCH},
    {.name = "instant", .summary = "no time passes", UNLIMITED_BATCH},
};

static uint64_t pass_ns(const struct steptime_profile *p, uint64_t prefill_tokens,
                        uint64_t prefill_context, uint64_t decode_seqs, uint64_t decode_context) {
  double ns = p->step_overhead_ns + (double)prefill_context * p->prefill_context_ns;
  if (prefill_tokens && p->prefill_tokens_per_s > 0)
    ns += (double)prefill_tokens * 1e9 / p->prefill_tokens_per_s;
  if (decode_seqs)
    ns += p->decode_base_ns + (double)decode_seqs * p->decode_seq_ns +
          (double)decode_context * p->decode_context_ns;
  return ns < (double)STEPTIME_MAX_NS ? (uint64_t)(ns + 0.5) : STEPTIME_MAX_NS;
}

uint64_t steptime_step_ns(const struct steptime_profile *p, uint64_t prefill_tokens,
                          uint64_t decode_seqs, uint64_t decode_context) {
  return pass_ns(p, prefill_tokens, 0, decode_seqs, decode_context);
}

uint64_t steptime_engine_ns(const struct steptime_profile *p, const struct engine_step *step) {
  return pass_ns(p, step->prefill_tokens, step->prefill_context, step->decode_tokens,
                 step->decode_context);
}

bool steptime_device(const char *name, struct engine_link *link) {
  static const struct {
    const char *name;
    struct engine_link link;
  } devices[] = {{"dram", DRAM}, {"nvme", NVME}, {"object", OBJECT_STORE}};
  for (size_t i = 0; i < ARRAY_LEN(devices); i++)
    if (strcmp(devices[i].name, name) == 0) {
      *link = devices[i].link;
      return true;
    }
  return false;
}

const struct steptime_profile *steptime_profiles(size_t *n) {
  *n = ARRAY_LEN(profiles);
  return profiles;
}

int steptime_get(const char *name, struct steptime_profile *out, struct err *err) {
  struct buf list;
  buf_init(&list, BUF_MAX_OWN);
  for (size_t i = 0; i < ARRAY_LEN(profiles); i++) {
    if (strcmp(profiles[i].name, name) == 0) {
      *out = profiles[i];
      buf_free(&list);
      return 0;
    }
    buf_printf(&list, "%s%s", i ? ", " : "", profiles[i].name);
  }
  int rc = err_set(err, ERR_NOT_FOUND, "no profile \"%.60s\"; there are %s", name, list.data);
  buf_free(&list);
  return rc;
}

static void put_link(struct value *v, const struct engine_link *link) {
  value_set(v, "latency", value_double((double)link->latency_ns / 1e9));
  value_set(v, "bytes_per_s", value_double(link->bytes_per_s));
}

static void put_tier(struct value *v, const char *name, const struct steptime_tier *tier) {
  struct value *table = value_set(v, name, value_object());
  value_set(table, "tokens", value_int((int64_t)tier->tokens));
  put_link(table, &tier->link);
}

struct value steptime_describe(const struct steptime_profile *p) {
  struct value v = value_object();
  value_set(&v, "name", value_cstring(p->name));
  value_set(&v, "summary", value_cstring(p->summary));
  value_set(&v, "prefill_tokens_per_s", value_double(p->prefill_tokens_per_s));
  value_set(&v, "prefill_context", value_double(p->prefill_context_ns / 1e9));
  value_set(&v, "step_overhead", value_double(p->step_overhead_ns / 1e9));
  value_set(&v, "decode_base", value_double(p->decode_base_ns / 1e9));
  value_set(&v, "decode_seq", value_double(p->decode_seq_ns / 1e9));
  value_set(&v, "decode_context", value_double(p->decode_context_ns / 1e9));
  value_set(&v, "request_overhead", value_double((double)p->request_overhead_ns / 1e9));
  value_set(&v, "kv_tokens", value_int(p->kv_tokens));
  value_set(&v, "block_size", value_int(p->block_size));
  value_set(&v, "max_num_batched_tokens", value_int(p->max_num_batched_tokens));
  value_set(&v, "max_num_seqs", value_int(p->max_num_seqs));
  value_set(&v, "max_model_len", value_int(p->max_model_len));
  value_set(&v, "kv_bytes_per_token", value_int(p->kv_bytes_per_token));
  value_set(&v, "chunk_tokens", value_int(p->chunk_tokens));
  put_tier(&v, "offload", &p->offload);
  put_tier(&v, "shared", &p->shared);
  put_link(value_set(&v, "transfer", value_object()), &p->transfer);
  return v;
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
  uint64_t chunks = p->chunk_tokens ? p->offload.tokens / p->chunk_tokens : 0;
  return (struct engine_config){
      .num_blocks = p->kv_tokens / p->block_size + 1,
      .block_size = p->block_size,
      .max_num_batched_tokens = p->max_num_batched_tokens,
      .max_num_seqs = p->max_num_seqs,
      .max_model_len = p->max_model_len,
      .enable_prefix_caching = true,
      .reserve_full_isl = true,
      .tiers = {.chunk_tokens = p->chunk_tokens,
                .kv_bytes_per_token = p->kv_bytes_per_token,
                .offload_chunks = (uint32_t)(chunks < UINT32_MAX ? chunks : UINT32_MAX),
                .links = {[ENGINE_OFFLOAD] = p->offload.link,
                          [ENGINE_SHARED] = p->shared.link,
                          [ENGINE_TRANSFER] = p->transfer}}};
}

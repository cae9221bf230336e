/* simconfig.c: profile fields by name. */
#include "sim/simconfig.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/units.h"
#include "kv/pool.h"

enum key_kind {
  KEY_WHOLE,
  KEY_LONG, /* whole, 64 bits */
  KEY_SWITCH,
  KEY_TIME,
  KEY_TIME_NS,
  KEY_RATE,
  KEY_SHARE,
  KEY_BYTES, /* whole, per token */
  KEY_BYTES_PER_S,
  KEY_DEVICE,
  KEY_TTFT,
  KEY_ITL
};

struct key {
  const char *name;
  enum key_kind kind;
  size_t offset;      /* in struct simconfig */
  double least, most; /* base units; a rate may be 0 as well */
};

#define ENGINE(field) offsetof(struct simconfig, engine.field)
#define TOOLS(field) offsetof(struct simconfig, tools.field)
#define TIME(field) offsetof(struct simconfig, time.field)
#define DAY_S 86400.0

static const struct key keys[] = {
    {"kv_blocks", KEY_WHOLE, ENGINE(num_blocks), 1, POOL_MAX_BLOCKS - 1},
    {"kv_tokens", KEY_LONG, offsetof(struct simconfig, kv_tokens), 1, 4e9},
    {"block_size", KEY_WHOLE, ENGINE(block_size), 1, 1e6},
    {"max_model_len", KEY_WHOLE, ENGINE(max_model_len), 2, 4e9},
    {"max_num_batched_tokens", KEY_WHOLE, ENGINE(max_num_batched_tokens), 1, 4e9},
    {"max_num_seqs", KEY_WHOLE, ENGINE(max_num_seqs), 1, 1e6},
    {"long_prefill_token_threshold", KEY_WHOLE, ENGINE(long_prefill_token_threshold), 0, 4e9},
    {"watermark", KEY_SHARE, offsetof(struct simconfig, watermark), 0, 1},
    {"reasoning_tokens", KEY_WHOLE, offsetof(struct simconfig, reasoning_tokens), 0, 1e6},
    {"tool_call_p", KEY_SHARE, TOOLS(call_p), 0, 1},
    {"tool_rounds", KEY_WHOLE, TOOLS(rounds), 0, 1000},
    {"tool_result_tokens", KEY_WHOLE, TOOLS(result_tokens), 1, 1e6},
    {"tool_latency", KEY_TIME_NS, TOOLS(latency_ns), 0, DAY_S},
    {"tool_salt_lost", KEY_SWITCH, TOOLS(salt_lost), 0, 0},
    {"reserve_full_isl", KEY_SWITCH, ENGINE(reserve_full_isl), 0, 0},
    {"async_scheduling", KEY_SWITCH, ENGINE(async_scheduling), 0, 0},
    {"prefix_caching", KEY_SWITCH, ENGINE(enable_prefix_caching), 0, 0},
    {"ttft", KEY_TTFT, 0, 0, DAY_S},
    {"itl", KEY_ITL, 0, 0, DAY_S},
    {"prefill_tokens_per_s", KEY_RATE, TIME(prefill_tokens_per_s), 1e-3, 1e12},
    {"prefill_context", KEY_TIME, TIME(prefill_context_ns), 0, 1},
    {"step_overhead", KEY_TIME, TIME(step_overhead_ns), 0, DAY_S},
    {"decode_base", KEY_TIME, TIME(decode_base_ns), 0, DAY_S},
    {"decode_seq", KEY_TIME, TIME(decode_seq_ns), 0, DAY_S},
    {"decode_context", KEY_TIME, TIME(decode_context_ns), 0, DAY_S},
    {"request_overhead", KEY_TIME_NS, TIME(request_overhead_ns), 0, DAY_S},
    {"kv_bytes_per_token", KEY_BYTES, TIME(kv_bytes_per_token), 0, 1 << 30},
    {"chunk_tokens", KEY_WHOLE, TIME(chunk_tokens), 1, 1e6},
    {"offload_tokens", KEY_LONG, TIME(offload.tokens), 0, 1e12},
    {"offload_device", KEY_DEVICE, TIME(offload.link), 0, 0},
    {"offload_latency", KEY_TIME_NS, TIME(offload.link.latency_ns), 0, DAY_S},
    {"offload_bytes_per_s", KEY_BYTES_PER_S, TIME(offload.link.bytes_per_s), 1e3, 1e15},
    {"shared_tokens", KEY_LONG, TIME(shared.tokens), 0, 1e12},
    {"shared_device", KEY_DEVICE, TIME(shared.link), 0, 0},
    {"shared_latency", KEY_TIME_NS, TIME(shared.link.latency_ns), 0, DAY_S},
    {"shared_bytes_per_s", KEY_BYTES_PER_S, TIME(shared.link.bytes_per_s), 1e3, 1e15},
    {"transfer_latency", KEY_TIME_NS, TIME(transfer.latency_ns), 0, DAY_S},
    {"transfer_bytes_per_s", KEY_BYTES_PER_S, TIME(transfer.bytes_per_s), 1e3, 1e15},
};

int simconfig_init(struct simconfig *c, const char *profile, struct err *err) {
  *c = (struct simconfig){.tools = GENTOOLS_DEFAULTS};
  int rc = steptime_get(profile, &c->time, err);
  if (rc) {
    size_t n;
    const struct steptime_profile *all = steptime_profiles(&n);
    const char **names = mem_calloc(n, sizeof *names);
    for (size_t i = 0; i < n; i++)
      names[i] = all[i].name;
    const char *near = err_nearest(profile, names, n);
    if (near) {
      const char *list = strchr(err->text, ';');
      char all_names[256];
      snprintf(all_names, sizeof all_names, "%s", list ? list : "");
      rc = err_set(err, ERR_NOT_FOUND, "no profile \"%.60s\" (did you mean %s?)%s", profile, near,
                   all_names);
    }
    mem_free(names);
    return rc;
  }
  c->engine = steptime_engine_config(&c->time);
  c->kv_tokens = c->time.kv_tokens;
  kvconfig_init(&c->events);
  return 0;
}

static int set_fixed(struct simconfig *c, const struct key *k, double seconds, struct err *err) {
  if (strcmp(c->time.name, "fixed") != 0)
    return err_set(err, ERR_INVALID,
                   "%s belongs to profile fixed; profile %s computes its times (set "
                   "prefill_tokens_per_s, step_overhead, decode_base)",
                   k->name, c->time.name);
  uint64_t ns = (uint64_t)(seconds * 1e9 + 0.5);
  uint64_t itl = (uint64_t)(c->time.step_overhead_ns + c->time.decode_base_ns);
  uint64_t ttft = (uint64_t)c->time.step_overhead_ns + c->time.request_overhead_ns;
  if (k->kind == KEY_TTFT)
    ttft = ns;
  else
    itl = ns;
  steptime_set_fixed(&c->time, ttft, itl);
  return 0;
}

static int set_switch(const struct key *k, bool *field, const char *text, struct err *err) {
  bool on = strcmp(text, "on") == 0 || strcmp(text, "true") == 0;
  if (!on && strcmp(text, "off") != 0 && strcmp(text, "false") != 0)
    return err_set(err, ERR_INVALID, "%s=%s: on or off is needed", k->name, text);
  *field = on;
  return 0;
}

static int refuse(const struct key *k, const char *text, struct err *err) {
  char value[80], most[32];
  snprintf(value, sizeof value, "%s=%.40s", k->name, text);
  units_format_seconds(k->most, most, sizeof most);
  if (k->kind == KEY_SHARE)
    return err_set(err, ERR_INVALID, "%s: a share from 0 to 1 is needed, as in 0.01 or 1%%", value);
  if (k->kind == KEY_BYTES)
    return err_set(err, ERR_INVALID,
                   "%s: bytes from %.0f to %.0f are needed, as in 131072 or 128KiB", value,
                   k->least, k->most);
  if (k->kind == KEY_BYTES_PER_S)
    return err_set(
        err, ERR_INVALID,
        "%s: bytes a second are needed, from %g to %g, as in 20GB, or 0 for no time at all", value,
        k->least, k->most);
  if (k->kind == KEY_WHOLE || k->kind == KEY_LONG)
    return err_set(err, ERR_INVALID, "%s: a whole number from %.0f to %.0f is needed", value,
                   k->least, k->most);
  if (k->kind == KEY_RATE)
    return err_set(
        err, ERR_INVALID,
        "%s: a number of tokens per second is needed, from %g to %g, or 0 for no time at all",
        value, k->least, k->most);
  return err_set(err, ERR_INVALID,
                 "%s: a time from 0 to %s is needed, as in 5ms, 200us or 0.5 (seconds)", value,
                 most);
}

static int set_number(struct simconfig *c, const struct key *k, const char *text, struct err *err) {
  void *field = (char *)c + k->offset;
  bool whole = k->kind == KEY_WHOLE || k->kind == KEY_LONG, bytes = k->kind == KEY_BYTES;
  bool rate = k->kind == KEY_RATE || k->kind == KEY_BYTES_PER_S;
  enum units_kind kind = bytes || k->kind == KEY_BYTES_PER_S ? UNITS_BYTES
                         : k->kind == KEY_SHARE              ? UNITS_RATIO
                         : whole || rate                     ? UNITS_NONE
                                                             : UNITS_TIME;
  double x = 0;
  int rc = units_parse(text, strlen(text), kind, &x, NULL, NULL);
  if (rc || !((rate && x == 0) || (x >= k->least && x <= k->most)) ||
      ((whole || bytes) && x != floor(x)))
    return refuse(k, text, err);
  switch (k->kind) {
  case KEY_WHOLE:
  case KEY_BYTES:
    *(uint32_t *)field = (uint32_t)x;
    break;
  case KEY_LONG:
    *(uint64_t *)field = (uint64_t)x;
    break;
  case KEY_TIME:
    *(double *)field = x * 1e9;
    break;
  case KEY_TIME_NS:
    *(uint64_t *)field = (uint64_t)(x * 1e9 + 0.5);
    break;
  case KEY_RATE:
  case KEY_SHARE:
  case KEY_BYTES_PER_S:
    *(double *)field = x;
    break;
  default:
    return set_fixed(c, k, x, err);
  }
  return 0;
}

enum { MAX_NAMES = 64 };

/* Every field's name, those of KV events included. */
static size_t list_names(const char *names[MAX_NAMES]) {
  size_t n = 0;
  const char *name;
  for (; n < ARRAY_LEN(keys); n++)
    names[n] = keys[n].name;
  for (size_t i = 0; (name = kvconfig_name(i)); i++) {
    assert(n < MAX_NAMES);
    names[n++] = name;
  }
  return n;
}

static bool is_of_events(const char *name) {
  const char *known;
  for (size_t i = 0; (known = kvconfig_name(i)); i++)
    if (strcmp(known, name) == 0)
      return true;
  return false;
}

const char *simconfig_field(size_t i) {
  return i < ARRAY_LEN(keys) ? keys[i].name : kvconfig_name(i - ARRAY_LEN(keys));
}

int simconfig_set(struct simconfig *c, const char *text, struct err *err) {
  const char *eq = strchr(text, '=');
  if (!eq)
    return err_set(err, ERR_INVALID, "\"%s\" should be key=value, such as kv_blocks=500", text);
  char *name = mem_strndup(text, (size_t)(eq - text));
  const char *names[MAX_NAMES];
  size_t n_names = list_names(names);
  const struct key *k = NULL;
  for (size_t i = 0; i < ARRAY_LEN(keys); i++)
    if (strcmp(keys[i].name, name) == 0)
      k = &keys[i];
  int rc;
  if (!*name) {
    rc = err_set(err, ERR_INVALID, "\"%s\" should be key=value, such as kv_blocks=500", text);
  } else if (is_of_events(name)) {
    rc = kvconfig_set(&c->events, name, eq + 1, err);
  } else if (!k) {
    const char *near = err_nearest(name, names, n_names);
    rc = near
             ? err_set(err, ERR_INVALID, "a replica has no field %s (did you mean %s?)", name, near)
             : err_set(err, ERR_INVALID,
                       "a replica has no field %s; some are kv_blocks, block_size, max_model_len, "
                       "ttft, itl (all: perigee sim --help)",
                       name);
  } else if (k->kind == KEY_DEVICE) {
    rc =
        steptime_device(eq + 1, (void *)((char *)c + k->offset))
            ? 0
            : err_set(err, ERR_INVALID,
                      "%s=%.40s: dram (20 GB/s, 1us), nvme (7 GB/s, 80us) or object (1 GB/s, 30ms) "
                      "is needed",
                      name, eq + 1);
  } else if (k->kind == KEY_SWITCH) {
    rc = set_switch(k, (bool *)((char *)c + k->offset), eq + 1, err);
  } else {
    rc = set_number(c, k, eq + 1, err);
  }
  if (!rc && k && k->offset == ENGINE(num_blocks) && k->kind == KEY_WHOLE) {
    c->engine.num_blocks++; /* the null block */
    c->kv_tokens = 0;
  }
  if (!rc && k && k->offset == ENGINE(max_model_len) && k->kind == KEY_WHOLE)
    c->max_model_len_set = true;
  mem_free(name);
  return rc;
}

/* Blocks from tokens, unless blocks were set. */
static int settle_blocks(struct simconfig *c, struct err *err) {
  if (!c->kv_tokens)
    return 0;
  uint64_t blocks = c->kv_tokens / c->engine.block_size;
  if (!blocks || blocks >= POOL_MAX_BLOCKS)
    return err_set(err, ERR_INVALID,
                   "kv_tokens=%llu are %llu blocks of block_size=%u; 1 to %u blocks are possible",
                   (unsigned long long)c->kv_tokens, (unsigned long long)blocks,
                   c->engine.block_size, POOL_MAX_BLOCKS - 1);
  c->engine.num_blocks = (uint32_t)blocks + 1;
  return 0;
}

static void settle_watermark(struct simconfig *c) {
  c->engine.watermark_blocks = (uint32_t)(c->watermark * c->engine.num_blocks);
}

/* Chunks from tokens. */
static int settle_tiers(struct simconfig *c, struct err *err) {
  struct steptime_profile *p = &c->time;
  const struct steptime_tier *const tiers[] = {&p->offload, &p->shared};
  static const char *const names[] = {"offload_tokens", "shared_tokens"};
  for (size_t i = 0; i < ARRAY_LEN(tiers); i++) {
    if (!tiers[i]->tokens)
      continue;
    if (p->chunk_tokens % c->engine.block_size)
      return err_set(err, ERR_INVALID,
                     "chunk_tokens=%u is no multiple of block_size=%u: a tier holds whole blocks",
                     p->chunk_tokens, c->engine.block_size);
    if (tiers[i]->tokens / p->chunk_tokens < 1 || tiers[i]->tokens / p->chunk_tokens > UINT32_MAX)
      return err_set(err, ERR_INVALID, "%s=%llu: at least one chunk (chunk_tokens=%u) is needed",
                     names[i], (unsigned long long)tiers[i]->tokens, p->chunk_tokens);
  }
  c->engine.tiers = steptime_engine_config(p).tiers;
  c->shared_chunks = (uint32_t)(p->shared.tokens / p->chunk_tokens);
  if (!p->offload.tokens && !p->shared.tokens)
    c->engine.tiers.chunk_tokens = 0;
  return 0;
}

int simconfig_check(struct simconfig *c, struct err *err) {
  struct engine_config *e = &c->engine;
  if (settle_blocks(c, err) || settle_tiers(c, err))
    return ERR_INVALID;
  settle_watermark(c);
  uint64_t room = (uint64_t)(e->num_blocks - 1) * e->block_size;
  if (e->max_model_len > room && !c->max_model_len_set && room >= 2) {
    e->max_model_len = (uint32_t)room;
    c->max_model_len_lowered = true;
  }
  if (e->max_model_len > room)
    return err_set(err, ERR_INVALID,
                   "max_model_len=%u does not fit: %u blocks of %u hold %llu tokens; raise "
                   "kv_blocks or lower max_model_len",
                   e->max_model_len, e->num_blocks - 1, e->block_size, (unsigned long long)room);
  if (e->max_num_batched_tokens < e->max_num_seqs)
    return err_set(err, ERR_INVALID,
                   "max_num_batched_tokens=%u is less than max_num_seqs=%u: every running request "
                   "needs a token in a step",
                   e->max_num_batched_tokens, e->max_num_seqs);
  return 0;
}

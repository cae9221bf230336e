/* sim.c: `perigee sim`: serves the built-in fleet until it is told to end.
 *
 * With --announce it is somebody's child: one JSON line on standard output when every port is open,
 * and it ends when its parent does. A parent that ends in the child's first moments is noticed with
 * --until-eof alone, which `perigee run` uses. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <uv.h>

#include "base/mem.h"
#include "base/units.h"
#include "cmd/cmd.h"
#include "cmd/readtable.h"
#include "sim/simfleet.h"
#include "text/json.h"

struct sim_options {
  int64_t replicas, spares, port, admin_port, seed;
  const char *host, *profile, *model, *truth, *events_config;
  struct genmodel_options text;
  struct options_list sets, faults, adapters;
  int64_t queued_reqs, queued_tokens, stream_interval;
  struct simhost_flags flags;
  const char *face;
  double keep_alive_s, block_share;
  bool announce, until_eof, events;
};

static const struct options_spec specs[] = {
    {"--replicas", "N", OPTIONS_COUNT, offsetof(struct sim_options, replicas),
     "how many replicas (default 3)"},
    {"--spares", "N", OPTIONS_COUNT, offsetof(struct sim_options, spares),
     "keep so many more ports for replicas that are added later (POST /admin/add)"},
    {"--port", "P", OPTIONS_COUNT, offsetof(struct sim_options, port),
     "port of the first replica, the others follow; 0 = any free ones (default)"},
    {"--admin-port", "P", OPTIONS_COUNT, offsetof(struct sim_options, admin_port),
     "port of the admin API, always on 127.0.0.1; 0 = any free one (default)"},
    {"--host", "ADDRESS", OPTIONS_TEXT, offsetof(struct sim_options, host),
     "address the replicas listen on (default 127.0.0.1)"},
    {"--profile", "NAME|FILE", OPTIONS_TEXT, offsetof(struct sim_options, profile),
     "model and machine to play: llama-3.1-8b, qwen3-32b, gpt-oss-20b, adr-04 (the host of the "
     "first "
     "reference experiment), tiny (default), fixed, instant (for the speed of the client, not for "
     "figures: its events come together), or a profile file (above)"},
    {"--set", "KEY=VALUE", OPTIONS_LIST, offsetof(struct sim_options, sets),
     "change a field of the profile, may be repeated: kv_blocks or kv_tokens, block_size, "
     "max_model_len, "
     "max_num_batched_tokens, max_num_seqs, long_prefill_token_threshold, watermark (a share), "
     "reserve_full_isl (on; off: prompts are let in chunk by chunk), async_scheduling (off; on: a "
     "step is scheduled while the one before it runs, vLLM's default where it is supported), "
     "prefix_caching (on, "
     "off), reasoning_tokens (of gpt-oss: analysis before each answer), tool_call_p (share of the "
     "answers that call a tool where tool_choice leaves it open), tool_rounds (no more calls after "
     "so many results), tool_latency, tool_result_tokens and tool_salt_lost (of tools that the "
     "server runs), ttft and itl (profile "
     "fixed), prefill_tokens_per_s, prefill_context, step_overhead, decode_base, decode_seq, "
     "decode_context, request_overhead, kv_bytes_per_token, chunk_tokens, offload_tokens, "
     "offload_device (dram, nvme, object), offload_latency, offload_bytes_per_s, the same of "
     "shared, "
     "transfer_latency, transfer_bytes_per_s; those of KV events are above"},
    {"--kv-events", NULL, OPTIONS_FLAG, offsetof(struct sim_options, events),
     "publish what enters and leaves each cache (ZeroMQ, as vLLM does): --set kv_events=on; the "
     "endpoints are printed"},
    {"--kv-events-config", "JSON", OPTIONS_TEXT, offsetof(struct sim_options, events_config),
     "the same with vLLM's option of that name"},
    {"--model", "NAME", OPTIONS_TEXT, offsetof(struct sim_options, model),
     "the model's name (default sim-model)"},
    {"--lora-modules", "NAME[=PATH]", OPTIONS_LIST, offsetof(struct sim_options, adapters),
     "a LoRA adapter that requests choose as their model, as vLLM's option; may be repeated"},
    {"--tokenizer", "NAME|PATH", OPTIONS_TEXT, offsetof(struct sim_options, text.tokenizer),
     "what text is cut with: bytes (default), a name that `make deps` fetched (qwen3, "
     "o200k_harmony), "
     "a tokenizer.json or its folder, a tiktoken rank file"},
    {"--family", "NAME", OPTIONS_TEXT, offsetof(struct sim_options, text.family),
     "whose rank file --tokenizer is: cl100k_base, o200k_base, o200k_harmony, llama4, kimi_k2"},
    {"--template", "PATH|NAME", OPTIONS_TEXT, offsetof(struct sim_options, text.template),
     "how messages become text: a Jinja file, a tokenizer_config.json or its folder, harmony, or "
     "sim "
     "(the fleet's own); default: what comes with the tokenizer, else sim"},
    {"--now", "TIME", OPTIONS_TEXT, offsetof(struct sim_options, text.now),
     "the present for templates and Harmony, as in 2026-08-22T12:00:00 (default: the clock's)"},
    {"--fault", "[REPLICA:]SPEC", OPTIONS_LIST, offsetof(struct sim_options, faults),
     "what goes wrong, on one replica (r0) or all; may be repeated"},
    {"--truth", "FILE", OPTIONS_TEXT, offsetof(struct sim_options, truth),
     "write what was received and sent, and when (JSON lines)"},
    {"--seed", "N", OPTIONS_COUNT, offsetof(struct sim_options, seed),
     "what answers and faults are drawn from (default 1)"},
    {"--face", "NAME", OPTIONS_TEXT, offsetof(struct sim_options, face),
     "whose HTTP API is played: vllm (default), sglang, tgi, llamacpp, trtllm, ollama; the engine "
     "behind it stays the same"},
    {"--sse-keep-alive-interval", "TIME", OPTIONS_SECONDS,
     offsetof(struct sim_options, keep_alive_s),
     "a comment in streams after so much silence, as vLLM's option (default: the face's own: tgi "
     "15s, llamacpp 30s, else none)"},
    {"--stream-interval", "N", OPTIONS_COUNT, offsetof(struct sim_options, stream_interval),
     "output tokens in an event of a stream, as vLLM's option (default 1); a request may say its "
     "own. The first and the last event are never late"},
    {"--enable-request-id-headers", NULL, OPTIONS_FLAG,
     offsetof(struct sim_options, flags.request_id_headers),
     "send the client's X-Request-Id back, as vLLM does with this option"},
    {"--enable-force-include-usage", NULL, OPTIONS_FLAG,
     offsetof(struct sim_options, flags.force_usage),
     "usage at the end of every stream, asked for or not, as vLLM's option of that name"},
    {"--enable-per-request-metrics", NULL, OPTIONS_FLAG,
     offsetof(struct sim_options, flags.request_metrics),
     "times of each request in its reply or usage event (`metrics`), as vLLM's option"},
    {"--max-num-queued-reqs", "N", OPTIONS_COUNT, offsetof(struct sim_options, queued_reqs),
     "503 beyond so many choices that wait or run, as vLLM's option; 0 = no limit (default)"},
    {"--max-num-queued-tokens", "N", OPTIONS_COUNT, offsetof(struct sim_options, queued_tokens),
     "503 while so many prompt tokens wait for their first output; 0 = no limit (default)"},
    {"--kv-cache-metrics", NULL, OPTIONS_FLAG, offsetof(struct sim_options, flags.block_metrics),
     "vllm:kv_block_lifetime_seconds and two more histograms of KV blocks, as vLLM's option"},
    {"--kv-cache-metrics-sample", "SHARE", OPTIONS_RATIO, offsetof(struct sim_options, block_share),
     "of so many of the blocks, as vLLM's option (default 0.01)"},
    {"--metrics", NULL, OPTIONS_FLAG, offsetof(struct sim_options, flags.metrics),
     "of --face llamacpp: /metrics is there, as with llama.cpp's option"},
    {"--no-responses-store", NULL, OPTIONS_FLAG, offsetof(struct sim_options, flags.no_store),
     "keep no responses: a vLLM without VLLM_ENABLE_RESPONSES_API_STORE=1"},
    {"--no-cached-tokens", NULL, OPTIONS_FLAG, offsetof(struct sim_options, flags.no_cached),
     "never say how many prompt tokens were cached: a vLLM without "
     "--enable-prompt-tokens-details"},
    {"--announce", NULL, OPTIONS_FLAG, offsetof(struct sim_options, announce),
     "print one JSON line when ready, and end with the parent process"},
    {"--until-eof", NULL, OPTIONS_FLAG, offsetof(struct sim_options, until_eof),
     "end when standard input does: a pipe whose other end closes with whoever started this"},
};

static const struct options_range ranges[] = {
    {"--replicas", 1, 4096},
    {"--spares", 0, 4096},
    {"--port", 0, 65535},
    {"--admin-port", 0, 65535},
    {"--stream-interval", 1, 1000000},
    {"--kv-cache-metrics-sample", 0, 1},
    {"--max-num-queued-reqs", 0, 1000000000},
    {"--max-num-queued-tokens", 0, 1000000000},
};

static const struct options_hint hints[] = {
    {"--sim", "--replicas N"},
    {"--sim-set", "--set KEY=VALUE"},
};

static const struct options_command command = {
    .name = "sim",
    .summary = "serve the built-in simulated fleet",
    .usage = "[options]",
    .about =
        "Replicas speak vLLM's HTTP API (chat, completions, responses, models, health, tokenize,\n"
        "render, metrics, resets, sleep) with a prefix cache, a step scheduler and the step times "
        "of a "
        "profile. Nothing\n"
        "is computed: answers are words drawn from the prompt. One token is one byte, unless a\n"
        "--tokenizer is given: then prompts, answers and caches are in its ids, messages go "
        "through\n"
        "the model's chat template, and answers are words that re-tokenize to themselves.\n"
        "\n"
        "Behind a replica's KV blocks there can be CPU memory (offload_tokens=N: room for the KV "
        "of N\n"
        "tokens) and storage that all replicas share (shared_tokens=N). They keep whole chunks of\n"
        "chunk_tokens (256); a prompt that finds its chunks there waits until they are loaded.\n"
        "\n"
        "KV events: with --kv-events every replica publishes a batch for each step in which blocks "
        "were\n"
        "stored or removed, on a port of its own, and answers requests for a replay on another. "
        "Frames,\n"
        "fields and hashes are vLLM's. --set fields (names of --kv-events-config, and a few "
        "more):\n"
        "  kv_events=on|map|array|sglang|off     maps as vLLM since June 2026 (on), arrays as "
        "before, or\n"
        "                                 SGLang's fields and hashes (on with --face sglang)\n"
        "  kv_events_port=P, kv_events_replay_port=P   of r0, the others follow; 0: any free ones\n"
        "  kv_events_endpoint=tcp://*:P or ipc://PATH (bound; of r0), tcp://HOST:P (connected to)\n"
        "  kv_events_replay_endpoint=... or off; kv_events_topic=TEXT, where {id}, {model} and\n"
        "  {address} stand for the replica's; kv_events_buffer_steps, kv_events_hwm,\n"
        "  kv_events_max_queue_size; kv_events_hashes=int|bytes\n"
        "  hash_scheme=vllm-sha256|vllm-sha256-cbor|vllm-xxhash|vllm-xxhash-cbor|"
        "vllm-sha256-cbor-64bit\n"
        "  hash_seed=TEXT   PYTHONHASHSEED; default as without it: vllm-none-hash for sha256, "
        "else\n"
        "                   another for each replica that no client knows\n"
        "\n"
        "A profile file is Lua and returns a table of the fields that --set has. What it does not "
        "say\n"
        "comes from base, a built-in profile; without one it says prefill_tokens_per_s,\n"
        "decode_steps and kv_tokens itself, and the rest is: blocks of 16 tokens, 8192 tokens and\n"
        "1024 sequences a step, 131072 tokens a request, no overheads. Times are texts with\n"
        "units, or seconds:\n"
        "  return {\n"
        "    name = \"my-gpu\", prefill_tokens_per_s = 21000, kv_tokens = 400000,\n"
        "    decode_steps = { -- measured: sequences, tokens of each, time of a step\n"
        "      { batch = 1, context = 1024, time = \"6.9ms\" },\n"
        "      { batch = 64, context = 1024, time = \"12ms\" },\n"
        "      { batch = 64, context = 8192, time = \"47ms\" },\n"
        "    },\n"
        "    kv_bytes_per_token = 131072, -- for what loading takes\n"
        "    offload = { tokens = 2000000, device = \"dram\" },\n"
        "  }\n"
        "\n"
        "Faults: KIND [key=value]..., such as \"empty p=0.3\" or \"r1:429 retry_after=2s\". "
        "Kinds:\n"
        "  refuse [for=T]            the port is closed\n"
        "  reset [after=K]           RST after K events; 0 (default): at once\n"
        "  status code=N [retry_after=T]   an error reply, 400 to 599; the code alone will do: "
        "503\n"
        "  stall [after=K] [for=T]   silence after K events; 0 (default): before the headers; "
        "then\n"
        "                            the rest at its pace, T late; without T for ever\n"
        "  empty, only_done, not_sse a 200 with nothing, with the end marker alone, with HTML\n"
        "  error [after=K]           an error event in the stream\n"
        "  bad_json [after=K]        event K is half of its JSON\n"
        "  truncated [after=K], cut [after=K]   no end marker; the connection closed as well\n"
        "  slow bytes=N delay=T, coalesce events=K   dribbled; held and written together\n"
        "  no_usage, no_output       without usage; without content\n"
        "All but refuse take p=0..1, count=N and path=/... (default: the generation endpoints).\n"
        "\n"
        "The admin API changes a running fleet: JSON over HTTP on 127.0.0.1, at the URL and with "
        "the\n"
        "token that are printed at the start (new ones each time; --announce has both as "
        "admin.url\n"
        "and admin.token). Every request needs the header \"Authorization: Bearer TOKEN\". A "
        "field\n"
        "in [ ] may be left out; without \"replica\", or with \"*\", all are meant.\n"
        "  GET  /admin/state   of each replica: up, draining, starting or down, since when; "
        "what\n"
        "                      is under way and until when; queues, blocks, hits, faults\n"
        "  POST /admin/restart {\"replica\": \"r1\", [\"down\": \"2s\"]}   its process ends: "
        "connections\n"
        "       are reset, requests under way end as aborted, the cache is gone; and is back "
        "after\n"
        "       \"down\" (2s). One that was killed is started\n"
        "  POST /admin/kill {\"replica\": \"r1\"}   the same, and it stays away\n"
        "  POST /admin/add {[\"start\": \"5s\"]}   one more replica, up after \"start\" (0); the "
        "answer\n"
        "       has its id and url\n"
        "  POST /admin/drain {\"replica\": \"r1\", [\"after\": \"keep\"], [\"timeout\": \"30s\"]}  "
        " it takes\n"
        "       what still comes, and goes down once it is idle; with keep it stays. The timeout "
        "ends\n"
        "       it with what runs\n"
        "  POST /admin/pressure {\"share\": \"50%\" or \"blocks\": N or \"tokens\": N, "
        "[\"replica\"],\n"
        "       [\"lasts\": \"10s\"]}   content of others takes so much of the cache: what was "
        "used\n"
        "       longest ago is evicted. With lasts the blocks stay in use for so long. Refused by "
        "one\n"
        "       that is down\n"
        "  POST /admin/reset_cache {[\"replica\"], [\"reset_running\": true]}   empties the "
        "prefix\n"
        "       cache. Refused where blocks are in use, unless those requests start anew; the "
        "answer "
        "has\n"
        "       who did (\"reset\") and who refused and why; 409 when nobody did\n"
        "  POST /admin/fault {\"fault\": SPEC, [\"replica\"], [\"lasts\": \"10s\"]}   adds a "
        "fault\n"
        "  POST /admin/clear_faults {[\"replica\"]}   removes them, opens closed ports\n"
        "  POST /admin/delay_events {\"delay\": \"500ms\", [\"replica\"], [\"lasts\"]}   KV events "
        "go out\n"
        "       late; 0 ends it. Both need --set kv_events=on\n"
        "  POST /admin/drop_events {\"p\": 0.3 or \"count\": N, [\"replica\"], [\"lasts\"]}   or "
        "not at all\n"
        "  POST /admin/peek {\"prompt\": TEXT or \"tokens\": [N, ...], [\"cache_salt\": TEXT],\n"
        "       [\"model\": NAME]}   how many of its tokens each replica holds now, for the model "
        "or an\n"
        "       adapter\n"
        "What takes time is answered when it begins; with \"wait\": true when it has ended.\n"
        "An error is {\"error\": TEXT} with status 400, 401, 403, 404, 405, or\n"
        "409 for a replica that is not in the state for it. With ADMIN and TOKEN "
        "set\n"
        "to what was printed:\n"
        "  curl -H \"Authorization: Bearer $TOKEN\" $ADMIN/admin/state\n"
        "  curl -H \"Authorization: Bearer $TOKEN\" $ADMIN/admin/fault \\\n"
        "       -d '{\"fault\": \"429 p=0.5 retry_after=2s\", \"replica\": \"r1\"}'\n"
        "\n"
        "Exit status: 0 when it was told to end (Ctrl-C, SIGTERM, SIGHUP), 1 it failed (a port in "
        "use, a "
        "full\n"
        "disk), 2 wrong usage.",
    .specs = specs,
    .n_specs = ARRAY_LEN(specs),
    .ranges = ranges,
    .n_ranges = ARRAY_LEN(ranges),
    .hints = hints,
    .n_hints = ARRAY_LEN(hints),
};

/* An address, not a name: what is listened on must not depend on a name server. */
static int check_host(const char *host, struct err *err) {
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
  if (!host || uv_ip4_addr(host, 0, &v4) == 0 || uv_ip6_addr(host, 0, &v6) == 0)
    return 0;
  return err_set(err, ERR_INVALID,
                 "--host: \"%s\" is not an address; give one like 127.0.0.1, ::1 or 0.0.0.0", host);
}

static int read_config(const struct sim_options *o, struct simconfig *c, struct err *err) {
  int rc = readtable_profile(o->profile, c, err);
  if (rc)
    return rc;
  if (o->events && kvconfig_set(&c->events, "kv_events", "on", err))
    return err->code;
  if (o->events_config && kvconfig_set(&c->events, "kv_events_config", o->events_config, err))
    return err_prefix(err, "--kv-events-config");
  for (size_t i = 0; i < o->sets.n; i++) /* over the two above */
    if (simconfig_set(c, o->sets.items[i], err))
      return err_prefix(err, "--set");
  return 0;
}

static int read_adapters(const struct sim_options *o, struct adapters *out, struct err *err) {
  for (size_t i = 0; i < o->adapters.n; i++)
    if (adapters_add(out, o->adapters.items[i], err))
      return err_prefix(err, "--lora-modules");
  return 0;
}

/* ---- what it says ---- */

static void print_line(const struct simfleet *f) {
  struct value v = simfleet_describe(f);
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  json_write(&b, &v);
  printf("%s\n", b.data);
  buf_free(&b);
  value_free(&v);
}

static void print_events(const struct simfleet *f) {
  const struct kvconfig *c = &f->config.events;
  struct value v = kvevents_describe_config(c);
  const char *seed = value_to_string(value_get(&v, "hash_seed"));
  printf("KV events: events are %ss, hashes %s of %s, seed %s\n",
         value_to_string(value_get(&v, "encoding")), c->raw_hashes ? "digests" : "numbers",
         c->scheme, seed ? seed : "unknown to clients");
  for (size_t i = 0; i < f->n_hosts; i++) {
    const struct kvevents *k = f->hosts[i]->kv;
    const char *replay = kvevents_endpoint(k, true);
    printf("  %-6s %s   replay %s   topic \"%s\"\n", f->hosts[i]->id, kvevents_endpoint(k, false),
           *replay ? replay : "off", kvevents_topic(k));
  }
  value_free(&v);
}

/* What the profile's figures come to: one that was said in other units stands out here. */
static void print_pace(const struct steptime_profile *p) {
  const struct engine_step prompt = {.prefill_tokens = 1000,
                                     .prefill_context = UINT64_C(1000) * 999 / 2};
  const uint64_t ns[] = {p->request_overhead_ns + steptime_engine_ns(p, &prompt),
                         steptime_step_ns(p, 0, 1, 1024),
                         steptime_step_ns(p, 0, 64, UINT64_C(64) * 1024)};
  char text[ARRAY_LEN(ns)][32];
  for (size_t i = 0; i < ARRAY_LEN(ns); i++)
    units_format_seconds((double)ns[i] / 1e9, text[i], sizeof text[i]);
  printf("idle, a prompt of 1000 tokens takes %s; a decode step %s for one sequence, %s for 64, of "
         "1024 tokens each\n",
         text[0], text[1], text[2]);
}

static void print_table(const struct simfleet *f, const struct sim_options *o) {
  const struct engine_config *e = &f->config.engine;
  struct value v = simfleet_describe(f);
  const struct value *admin = value_get(&v, "admin");
  printf("simulated fleet   model %s, tokenizer %s, template %s\n", f->model.name,
         f->model.tokenizer->name, genmodel_template(&f->model));
  if (f->model.speech && !f->model.speech->repeats)
    printf(
        "the template writes past answers differently from how they were said: hits end there\n");
  printf("profile %s: %s\n", f->config.time.name, f->config.time.summary);
  printf("%u KV blocks of %u tokens a replica, context %u tokens%s\n", e->num_blocks - 1,
         e->block_size, e->max_model_len,
         f->config.max_model_len_lowered ? " (lowered to what the blocks hold)" : "");
  const struct steptime_profile *p = &f->config.time;
  print_pace(p);
  if (p->offload.tokens || p->shared.tokens)
    printf("behind them: CPU memory for %llu tokens a replica, shared storage for %llu\n",
           (unsigned long long)p->offload.tokens, (unsigned long long)p->shared.tokens);
  for (size_t i = 0; i < f->n_hosts; i++)
    printf("  %-6s %s\n", f->hosts[i]->id, f->hosts[i]->url);
  if (f->hub)
    print_events(f);
  printf("  %-6s %s   token %s\n", "admin", value_to_string(value_get(admin, "url")),
         value_to_string(value_get(admin, "token")));
  for (size_t i = 0; i < o->faults.n; i++)
    printf("fault %s\n", o->faults.items[i]);
  if (o->truth)
    printf("truth log %s\n", o->truth);
  printf("Ctrl-C ends it.\n");
  value_free(&v);
}

/* ---- serving ---- */

static void on_signal(uv_signal_t *handle, int signum) {
  (void)signum;
  loop_stop(handle->data);
}

/* Whatever comes on standard input is skipped; its end is ours. */
static void on_input(uv_poll_t *handle, int status, int events) {
  (void)events;
  char skipped[4096];
  ssize_t n = status ? 0 : read(STDIN_FILENO, skipped, sizeof skipped);
  if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
    loop_stop(handle->data);
}

/* Live until the loop is deleted: closing ends there. */
struct handles {
  uv_signal_t signals[3];
  uv_poll_t input;
};

/* Whoever reads where the fleet is may end it at once: signals are caught before. */
static int serve(struct loop *loop, const struct simfleet *fleet, const struct sim_options *o,
                 struct handles *s, struct err *err) {
  if (o->until_eof) {
    int rc = uv_poll_init(loop_uv(loop), &s->input, STDIN_FILENO);
    if (rc)
      return err_set(err, ERR_IO, "--until-eof: standard input cannot be watched (%s); give a pipe",
                     uv_strerror(rc));
    s->input.data = loop;
    uv_poll_start(&s->input, UV_READABLE, on_input);
  }
  static const int numbers[ARRAY_LEN(s->signals)] = {SIGTERM, SIGINT, SIGHUP};
  for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
    struct sigaction now_is;
    uv_signal_init(loop_uv(loop), &s->signals[i]);
    s->signals[i].data = loop;
    if (sigaction(numbers[i], NULL, &now_is) != 0 || now_is.sa_handler != SIG_IGN) /* nohup */
      uv_signal_start(&s->signals[i], on_signal, numbers[i]);
  }
  if (o->announce)
    print_line(fleet);
  else
    print_table(fleet, o);
  int rc = 0;
  errno = 0;
  if (fflush(stdout) == 0 && !ferror(stdout)) {
    loop_run(loop);
  } else if (errno == EPIPE) { /* who started us has gone: nobody is there to be told */
    __fpurge(stdout);
    clearerr(stdout);
    rc = ERR_CLOSED;
  } /* else nobody would know where it is, and main says why */
  for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
    uv_close((uv_handle_t *)&s->signals[i], NULL);
  if (o->until_eof)
    uv_close((uv_handle_t *)&s->input, NULL);
  return rc;
}

static int run(const struct sim_options *o, struct err *err) {
  struct simfleet_options fo = {.n_replicas = (size_t)o->replicas,
                                .n_spares = (size_t)o->spares,
                                .host = o->host,
                                .port = (int)o->port,
                                .admin_port = (int)o->admin_port,
                                .model = o->model,
                                .text = o->text,
                                .truth = o->truth,
                                .seed = (uint64_t)o->seed,
                                .flags = o->flags};
  fo.flags.block_share = o->block_share;
  fo.flags.stream_interval = (uint32_t)o->stream_interval;
  fo.flags.max_queued_reqs = (uint32_t)o->queued_reqs;
  fo.flags.max_queued_tokens = (uint32_t)o->queued_tokens;
  fo.flags.keep_alive_ns = (uint64_t)(o->keep_alive_s * 1e9);
  struct loop *loop = NULL;
  struct simfleet *fleet = NULL;
  struct handles handles;
  int rc = o->face ? face_find(o->face, &fo.face, err) : 0;
  if (rc)
    return err_prefix(err, "--face");
  rc = check_host(o->host, err);
  if (!rc)
    rc = read_config(o, &fo.config, err);
  if (!rc)
    rc = cmd_need_descriptors((fo.n_replicas + fo.n_spares) * (fo.config.events.on ? 5 : 1) + 64,
                              "a fleet of this size", err);
  if (rc)
    return rc;
  loop = loop_new(err);
  if (!loop)
    return err->code;
  rc = read_adapters(o, &fo.adapters, err);
  if (!rc)
    rc = simfleet_start(loop, &fo, &fleet, err);
  adapters_free(&fo.adapters);
  for (size_t i = 0; !rc && i < o->faults.n; i++) {
    rc = simfleet_add_fault_text(fleet, o->faults.items[i], err);
    if (rc)
      err_prefix(err, "--fault");
  }
  if (!rc)
    rc = serve(loop, fleet, o, &handles, err);
  if (fleet && simfleet_stop(fleet) && !rc)
    rc = err_set(err, ERR_IO, "--truth %s is not complete (the reason is above)", o->truth);
  loop_delete(loop);
  return rc;
}

int cmd_sim(int argc, char **argv) {
  struct err err = {0};
  struct options_list args;
  struct sim_options o = {
      .replicas = 3, .profile = SIMCONFIG_DEFAULT_PROFILE, .seed = 1, .block_share = 0.01};
  int rc = options_parse(&command, argc, argv, &o, &args, &err);
  if (rc == 0 && o.announce) {
    pid_t parent = getppid();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) /* it ended in between: nobody would tell us any more */
      rc = err_set(&err, ERR_CLOSED, "the parent process has ended");
  }
  if (rc == 0)
    rc = run(&o, &err);
  options_free(&command, &o, &args);
  if (rc == 1)
    return 0; /* --help */
  if (rc == ERR_CLOSED && !err.text[0])
    return EXIT_FAILED;
  return rc ? cmd_fail("sim", rc == ERR_IO || rc == ERR_LIMIT ? 1 : EXIT_USAGE, &err) : 0;
}

/* dry.c: `perigee dry`: the run of a scenario in virtual time, over the built-in fleet in this
 * process. Everything but its options, and what it says of itself, is cmd/run.c's. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cmd/cmd.h"
#include "cmd/runjob.h"

#define AT(field) offsetof(struct run_options, field)

static const struct options_spec specs[] = {
    SIMOPTS_SPECS(struct run_options, sim, "replicas of the fleet (default 3)"),
    SIMOPTS_SPARES_SPEC(struct run_options, sim),
    {"--truth", "FILE", OPTIONS_TEXT, AT(sim.truth),
     "where the fleet logs what it sent and when, in virtual time"},
    {"--set", "NAME=VALUE", OPTIONS_LIST, AT(sets),
     "a parameter of the script (or of its load: users, rate, duration, sessions, warmup)"},
    {"--seed", "N", OPTIONS_COUNT, AT(seed), "seed of everything random (default 1)"},
    {"--model", "NAME", OPTIONS_TEXT, AT(fleet.model), "the model's name (default sim-model)"},
    {"--tokenizer", "NAME", OPTIONS_TEXT, AT(fleet.tokenizer),
     "the model's tokenizer, as `perigee run` takes it (default bytes: one byte, one token)"},
    {"--family", "NAME", OPTIONS_TEXT, AT(fleet.family),
     "whose rank file --tokenizer is: cl100k_base, o200k_base, o200k_harmony, llama4, kimi_k2"},
    {"--template", "PATH", OPTIONS_TEXT, AT(fleet.template),
     "the model's chat template: a file, the folder of its tokenizer_config.json, or qwen3; "
     "harmony is gpt-oss's own format"},
    {"--now", "TIME", OPTIONS_TEXT, AT(fleet.now),
     "the present for templates that print it, as in 2026-08-22T12:00:00 (default: the clock's)"},
    {"--tenant", "NAME", OPTIONS_TEXT, AT(fleet.tenant), "the tenant that routers are told"},
    {"--header", "LINE", OPTIONS_LIST, AT(fleet.headers),
     "\"Name: value\" on every request; masked in run.json"},
    {"--label", "NAME", OPTIONS_TEXT, AT(label),
     "name of the results folder (default: the script's name)"},
    {"--out", "DIR", OPTIONS_TEXT, AT(out), "where the results folder goes (default results)"},
    {"--itl", NULL, OPTIONS_FLAG, AT(itl), "keep every gap between output events in samples.jsonl"},
    {"--verify", NULL, OPTIONS_FLAG, AT(verify),
     "join the fleet's own log with the rows: where each prompt's tokens came from and why not "
     "from "
     "a cache (the ledger), counts, who answered; with --tokenizer and --template the tokens of "
     "each "
     "chat prompt are counted on the client's side too"},
    {"--limit", "CHECK=VALUE", OPTIONS_LIST, AT(limits),
     "limit of a validity check (a name that there is not lists all)"},
    {"--runaway", "TIME", OPTIONS_SECONDS, AT(runaway_s),
     "CPU time a script may use without waiting before it is stopped (default 2s)"},
    {"--max-users", "N", OPTIONS_COUNT, AT(max_users),
     "sessions of an open load that may be alive at once; more end the run (default 100000)"},
    SWEEP_OPTIONS_SPECS(struct run_options, sweep),
    {"--plan", NULL, OPTIONS_FLAG, AT(plan), "say what would run, and stop"},
    {"--json", NULL, OPTIONS_FLAG, AT(json), "print summary.json instead of the report"},
    {"--quiet", NULL, OPTIONS_FLAG, AT(quiet), "no live line"},
    {"--verbose", NULL, OPTIONS_FLAG, AT(verbose), "log more on stderr"},
    {"--exit-codes", "bisect", OPTIONS_TEXT, AT(exit_codes),
     "for `git bisect run`: 1, 2 and 98 become 125 (skip this commit), and 99 becomes 1"},
};

static const struct options_range ranges[] = {
    {"--sim", 1, 4096},           {"--spares", 0, 4095},    {"--runaway", 1e-3, 86400},
    {"--max-users", 1, HUGE_VAL}, {"--point", 1, HUGE_VAL},
};

const struct options_command dry_command = {
    .name = "dry",
    .summary = "run a scenario in virtual time on the simulated fleet, without sockets",
    .usage = "FILE.lua [options]",
    .about =
        "The same script, sessions, tokens and routing as `perigee run FILE.lua` on the built-in\n"
        "fleet, but nobody waits: the time jumps from one event to the next, so an hour of load\n"
        "takes seconds. The fleet is the one that `perigee run` starts, in this process; a plan's\n"
        "own target is not used. Every figure is a simulated one, and every file says so.\n"
        "\n"
        "  perigee dry chat_multi_turn --sim 16 --profile llama-3.1-8b\n"
        "  perigee dry chat_multi_turn --sim-set kv_blocks=20000 --set rate=8 --json\n"
        "\n"
        "Sessions that do not overlap, under a policy that looks neither at load nor at time, get\n"
        "the same replicas, tokens and hits as in a real run of the same seed. What is missing is\n"
        "the time that sockets and the client itself take.\n"
        "\n"
        "It prints the report of the run and then: sessions, requests, tokens, the best possible\n"
        "cached share (of all prompts' tokens, those in leading blocks that were sent or received\n"
        "before by anybody) beside the one that was reached, and how fast the time went.\n"
        "\n"
        "The folder has the files of a run (samples.jsonl, summary.json, run.json, report.md).\n"
        "Checks of the client (lags, CPU, measurement error) do not apply, and say so. vu:http "
        "can\n"
        "only go to the fleet.\n"
        "\n"
        "A script that returns a sweep runs at every point of its grid, as with `perigee run`.\n"
        "\n"
        "Exit status: 0 fine, 1 the run failed, 2 wrong usage, 98 the run is not valid, 99 an\n"
        "expectation was not met, 130 interrupted. Ctrl-C ends the load, and what there is by "
        "then\n"
        "is reported.",
    .specs = specs,
    .n_specs = ARRAY_LEN(specs),
    .min_args = 1,
    .max_args = 1,
    .ranges = ranges,
    .n_ranges = ARRAY_LEN(ranges),
    .hints = run_hints,
    .n_hints = RUN_HINTS,
};

/* Options of `perigee run` that say how to reach servers, or what the real time costs. */
static const struct {
  const char *name, *why;
} refused[] = {
    {"--replica", "servers cannot be asked in virtual time"},
    {"--fleet", "servers cannot be asked in virtual time"},
    {"--gateway", "servers cannot be asked in virtual time"},
    {"--metrics", "servers cannot be asked in virtual time"},
    {"--api-key-env", "there is no server that wants a key"},
    {"--api-key-file", "there is no server that wants a key"},
    {"--ca-file", "there are no connections"},
    {"--cert-file", "there are no connections"},
    {"--key-file", "there are no connections"},
    {"--insecure", "there are no connections"},
    {"--http2", "there are no connections"},
    {"--proxy", "there are no connections"},
    {"--no-preflight", "no server is asked beforehand"},
    {"--no-kernel-stamps", "nothing is received from a kernel"},
    {"--precise", "virtual time is never late"},
    {"--workers", "one thread steps the virtual time"},
};

static int check_refused(int argc, char **argv, struct err *err) {
  for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
    for (size_t k = 0; k < ARRAY_LEN(refused); k++) {
      size_t len = strlen(refused[k].name);
      if (strncmp(argv[i], refused[k].name, len) == 0 && (!argv[i][len] || argv[i][len] == '='))
        return err_set(err, ERR_INVALID,
                       "%s: a dry run has no sockets: %s; leave it out, or use `perigee run`",
                       refused[k].name, refused[k].why);
    }
  return 0;
}

int dry_options_parse(int argc, char **argv, struct run_options *o, struct options_list *args,
                      struct err *err) {
  *o = (struct run_options){.seed = 1, .out = "results", .runaway_s = 2, .workers = 1};
  int rc = check_refused(argc, argv, err);
  if (!rc)
    rc = options_parse(&dry_command, argc, argv, o, args, err);
  if (!rc && o->exit_codes && strcmp(o->exit_codes, "bisect") != 0)
    rc = err_set(err, ERR_INVALID, "--exit-codes: \"%s\" is not known; the one form is bisect",
                 o->exit_codes);
  return rc ? rc : simopts_check(&o->sim, RUN_SIM_REPLICAS, err);
}

/* ---- what it says of itself ---- */

static double ratio(uint64_t part, uint64_t whole) {
  return whole ? (double)part / (double)whole : NAN;
}

static struct value number(double x) {
  return isfinite(x) ? value_double(x) : value_null();
}

static double field(const struct value *v, const char *name) {
  double x = NAN;
  (void)value_to_double(value_get(v, name), &x);
  return x;
}

/* Of a metric over measured requests. */
static double total(const struct value *summary, const char *metric) {
  const struct value *m = value_get(value_get(summary, "metrics"), metric);
  return field(m, "n") * field(m, "mean");
}

/* A script that waits for nanoseconds never gets anywhere, and nothing else would tell. */
#define STANDSTILL_NS (10 * NS_PER_S) /* of real time without a request ... */
#define STANDSTILL_S 0.1              /* ... in which the virtual time moves by less than this */

void dry_watch(struct runjob *job, const struct run_snapshot *s) {
  struct runjob_pace *p = &job->pace;
  uint64_t now = clock_ns(), requests = s->live.requests + s->live.other_requests;
  if (requests != p->requests || s->elapsed_s - p->elapsed_s >= STANDSTILL_S || !p->since_ns) {
    *p = (struct runjob_pace){now, requests, s->elapsed_s, p->told};
  } else if (!p->told && now - p->since_ns > STANDSTILL_NS) {
    p->told = true;
    log_warn("the virtual time has moved by %.3g s in %.0f s, and no request has ended: do "
             "sessions sleep for almost nothing, again and again? Ctrl-C ends the run",
             s->elapsed_s - p->elapsed_s, (double)(now - p->since_ns) / 1e9);
  }
}

void dry_set_summary(const struct runjob *job, struct value *summary) {
  const struct drynet_totals *t = &job->dry_totals;
  const struct run_result *r = &job->result;
  double virtual_s = (double)r->ended_ns / 1e9, wall_s = (double)job->dry_wall_ns / 1e9;
  value_set(summary, "virtual_time", value_bool(true));
  struct value *v = value_set(summary, "dry", value_object());
  value_set(v, "sessions", value_int((int64_t)r->sessions_ended));
  value_set(v, "requests", value_int((int64_t)t->requests));
  value_set(v, "prompt_tokens", value_int((int64_t)t->prompt_tokens));
  value_set(v, "possible_tokens", value_int((int64_t)t->possible_tokens));
  value_set(v, "best_cached_share", number(ratio(t->possible_tokens, t->prompt_tokens)));
  value_set(v, "cached_share",
            number(total(summary, "cached_tokens") / total(summary, "prompt_tokens")));
  value_set(v, "different_blocks", value_int((int64_t)t->blocks));
  value_set(v, "virtual_s", value_double(virtual_s));
  value_set(v, "wall_s", value_double(wall_s));
  value_set(v, "speedup", number(wall_s > 0 ? virtual_s / wall_s : NAN));
  value_set(v, "requests_per_s", number(wall_s > 0 ? (double)t->requests / wall_s : NAN));
}

void dry_print(const struct value *summary) {
  const struct value *d = value_get(summary, "dry");
  double prompts = total(summary, "prompt_tokens"), outputs = total(summary, "output_tokens");
  printf("\nvirtual time, simulated: no sockets, the built-in fleet's engine model\n");
  printf("  sessions %.0f, requests %.0f", field(d, "sessions"), field(d, "requests"));
  if (isfinite(prompts) && isfinite(outputs))
    printf("; measured: %.0f prompt tokens, %.0f output tokens", prompts, outputs);
  printf("\n");
  double best = field(d, "best_cached_share"), reached = field(d, "cached_share");
  if (isfinite(best))
    printf("  best possible cached share %.1f %% (of all prompt tokens, leading blocks sent or "
           "received before by "
           "anybody)\n",
           100 * best);
  if (isfinite(reached))
    printf("  cached share reached %.1f %%\n", 100 * reached);
  double speedup = field(d, "speedup");
  printf("  %.3f s of virtual time in %.3f s: %.*f times as fast, %.0f requests/s\n",
         field(d, "virtual_s"), field(d, "wall_s"), speedup < 10 ? 2 : 0, speedup,
         field(d, "requests_per_s"));
}

int cmd_dry(int argc, char **argv) {
  return runjob_main(argc, argv, true);
}

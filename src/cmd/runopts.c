/* runopts.c: the option table of `perigee run`. */
#include "cmd/runopts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define AT(field) offsetof(struct run_options, field)

static const struct options_spec specs[] = {
    FLEET_OPTIONS_SPECS(struct run_options, fleet),
    SIMOPTS_SPECS(struct run_options, sim,
                  "replicas of the built-in fleet (default 3), which is started when no server is "
                  "given; also instead of the plan's target"),
    SIMOPTS_SPARES_SPEC(struct run_options, sim),
    {"--truth", "FILE", OPTIONS_TEXT, AT(sim.truth),
     "where the built-in fleet logs what it sent and when"},
    {"--set", "NAME=VALUE", OPTIONS_LIST, AT(sets),
     "a parameter of the script (or of its load: users, rate, duration, sessions, warmup)"},
    SWEEP_OPTIONS_SPECS(struct run_options, sweep),
    {"--seed", "N", OPTIONS_COUNT, AT(seed), "seed of everything random (default 1)"},
    {"--workers", "N", OPTIONS_COUNT, AT(workers), "threads (default: cores - 1)"},
    {"--label", "NAME", OPTIONS_TEXT, AT(label),
     "name of the results folder (default: the script's name)"},
    {"--out", "DIR", OPTIONS_TEXT, AT(out), "where the results folder goes (default results)"},
    {"--itl", NULL, OPTIONS_FLAG, AT(itl), "keep every gap between output events in samples.jsonl"},
    {"--precise", NULL, OPTIONS_FLAG, AT(precise),
     "spin for the last 50 us before each due time (uses the whole core)"},
    {"--verify", NULL, OPTIONS_FLAG, AT(verify),
     "hold the run against what is known otherwise: on the built-in fleet its own log of every "
     "request (stamps, token counts, where prompts were cached: the check ground_truth); and each "
     "chat prompt is counted on this side too (prompt_tokens_local), which needs --tokenizer and "
     "--template. Other servers have no such log: there the counting alone (perigee verify joins a "
     "run with the log of a perigee sim)"},
    {"--limit", "CHECK=VALUE", OPTIONS_LIST, AT(limits),
     "limit of a validity check, such as loop_lag_p99=50ms (a name that there is not lists all)"},
    {"--runaway", "TIME", OPTIONS_SECONDS, AT(runaway_s),
     "CPU time a script may use without waiting before it is stopped (default 2s); also how long a "
     "session may do nothing but vu:sleep(0)"},
    {"--max-users", "N", OPTIONS_COUNT, AT(max_users),
     "sessions of an open load that may be alive at once; more end the run (default 100000)"},
    {"--no-preflight", NULL, OPTIONS_FLAG, AT(no_preflight),
     "start without asking each server first for /v1/models (needs --model) and for the tokens of "
     "a few requests (token_parity is then not proven)"},
    {"--no-kernel-stamps", NULL, OPTIONS_FLAG, AT(no_kernel_stamps),
     "take receive times from the loop alone"},
    {"--plan", NULL, OPTIONS_FLAG, AT(plan), "say what would run, and stop"},
    {"--json", NULL, OPTIONS_FLAG, AT(json), "print summary.json instead of the report"},
    {"--quiet", NULL, OPTIONS_FLAG, AT(quiet), "no live line"},
    {"--verbose", NULL, OPTIONS_FLAG, AT(verbose), "log more on stderr"},
    {"--exit-codes", "bisect", OPTIONS_TEXT, AT(exit_codes),
     "for `git bisect run`: 1, 2 and 98 become 125 (skip this commit), and 99 becomes 1"},
};

/* A workload of more replicas or threads than this is a slip of the keyboard. */
static const struct options_range ranges[] = {
    {"--sim", 1, 4096},         {"--spares", 0, 4095},        {"--workers", 1, 1024},
    {"--runaway", 1e-3, 86400}, {"--max-users", 1, HUGE_VAL}, {"--point", 1, HUGE_VAL},
};

const struct options_hint run_hints[RUN_HINTS] = {
    {"--replicas", "--sim N"},
    {"--kv-events", "--sim-set kv_events=on"},
    {"--users", "--set users=N"},
    {"--rate", "--set rate=N"},
    {"--duration", "--set duration=TIME"},
    {"--sessions", "--set sessions=N"},
    {"--warmup", "--set warmup=TIME"},
    {"-o", "--out DIR"},
};

const struct options_command run_command = {
    .name = "run",
    .summary = "run a scenario and write the report",
    .usage = "FILE.lua [options]",
    .about =
        "FILE.lua is a path, or the name of a shipped scenario (see `perigee list`). Without a\n"
        "server (--replica, --gateway, --fleet, or the plan's own target) it starts the built-in\n"
        "simulated fleet.\n"
        "\n"
        "  perigee run scenarios/chat_multi_turn.lua --set duration=30s\n"
        "  perigee run my.lua --replica a=http://10.0.0.1:8000 --replica b=http://10.0.0.2:8000\n"
        "\n"
        "With --gateway every request goes to the gateway, which chooses. Servers that --replica\n"
        "names beside it are those behind it: the report lists them by their ids, and only a\n"
        "request whose routing policy picks one itself (route.direct(ID), say) goes straight "
        "there.\n"
        "\n"
        "A script that returns a sweep (perigee.sweep) runs its plan at every point of a grid, "
        "one\n"
        "after another, each a run of its own: --plan lists the points, --point N runs one alone,\n"
        "--over AXIS=V,V gives an axis other values. The results folder has a folder per point, "
        "and\n"
        "sweep.json and report.md over them; --json prints sweep.json.\n"
        "\n"
        "While it runs, one line on stderr shows the time elapsed and left, the TTFT of what ended "
        "so\n"
        "far, failed and all requests (\"now N/s\": over the last two seconds) and the sessions.\n"
        "\n"
        "Exit status: 0 fine, 1 the run failed, 2 wrong usage (a script that fails in every "
        "session\n"
        "too: the run then ends after the first ten, or one of each user), 98 the run is not "
        "valid,\n"
        "99 an expectation was not met, 130 interrupted.\n"
        "\n"
        "SIGINT (Ctrl-C), SIGTERM and SIGHUP end the load, and what was measured is reported; "
        "once\n"
        "more cuts the drain short, and once more, later than 1 s, the report. Other signals\n"
        "(SIGQUIT, SIGUSR1, SIGALRM) end the process at once, without a report.\n"
        "\n"
        "Environment: PERIGEE_PATH, further folders of modules and scenarios, with : between;\n"
        "NO_COLOR, a report without colours; TERM=dumb, also without the live line's redrawing.",
    .specs = specs,
    .n_specs = ARRAY_LEN(specs),
    .min_args = 1,
    .max_args = 1,
    .ranges = ranges,
    .n_ranges = ARRAY_LEN(ranges),
    .hints = run_hints,
    .n_hints = RUN_HINTS,
};

static int check(const struct run_options *o, struct err *err) {
  if (o->exit_codes && strcmp(o->exit_codes, "bisect") != 0)
    return err_set(err, ERR_INVALID, "--exit-codes: \"%s\" is not known; the one form is bisect",
                   o->exit_codes);
  if (o->no_preflight && !o->fleet.model)
    return err_set(err, ERR_INVALID,
                   "--no-preflight needs --model: nobody asks the servers for it");
  bool elsewhere = o->fleet.replicas.n || o->fleet.gateway; /* a fleet file's own: run.c */
  if (elsewhere && (o->sim.replicas || simopts_described(&o->sim)))
    return err_set(
        err, ERR_INVALID,
        "--sim, --spares, --profile, --sim-set, --fault and --truth are for the built-in fleet, "
        "and servers of your own are given");
  return elsewhere ? 0 : simopts_check(&o->sim, RUN_SIM_REPLICAS, err);
}

int run_options_parse(int argc, char **argv, struct run_options *o, struct options_list *args,
                      struct err *err) {
  *o = (struct run_options){.seed = 1, .out = "results", .runaway_s = 2};
  int rc = options_parse(&run_command, argc, argv, o, args, err);
  return rc ? rc : check(o, err);
}

bool run_options_bisect(int argc, char **argv) {
  for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
    if (strcmp(argv[i], "--exit-codes=bisect") == 0)
      return true;
    if (strcmp(argv[i], "--exit-codes") == 0 && i + 1 < argc && strcmp(argv[i + 1], "bisect") == 0)
      return true;
  }
  return false;
}

int run_options_limits(const struct run_options *o, struct checks_limits *limits, struct err *err) {
  *limits = checks_default_limits();
  for (size_t i = 0; i < o->limits.n; i++) {
    const char *text = o->limits.items[i];
    size_t len = strcspn(text, "=");
    char name[80];
    snprintf(name, sizeof name, "%.*s", (int)(len < sizeof name ? len : sizeof name - 1), text);
    /* A name that does not exist is the greater mistake: what follows it is not looked at. */
    if (checks_set_limit(limits, name, text[len] ? text + len + 1 : "0", err))
      return err_prefix(err, "--limit");
    if (!text[len] || !text[len + 1])
      return err_set(err, ERR_INVALID, "--limit: \"%s\" is not CHECK=VALUE", text);
  }
  return 0;
}

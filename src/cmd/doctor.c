/* doctor.c: `perigee doctor`: asks every server of a fleet what a KV-cache benchmark needs of it,
 * and says what is wrong and how to mend it.
 *
 * This file gathers facts; what to ask and what to think of the answers is lua/perigee/doctor*.lua,
 * plain functions of the facts. The facts: {endpoints [{index, id, role, url, metrics, replies}],
 * model, tokenizer, block_size (as the fleet file has it), simulated, nonce, sent, elapsed_ms,
 * out_of_time, options {has_key, proxy, insecure, strict}, client (cmd/clientfacts.h), parity {list
 * (cmd/paritycheck.h), error}}. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/printable.h"
#include "bind/script.h"
#include "cmd/clientfacts.h"
#include "cmd/cmd.h"
#include "cmd/doctorask.h"
#include "cmd/fleetopts.h"
#include "cmd/live.h"
#include "cmd/paritycheck.h"
#include "cmd/probe.h"
#include "cmd/simchild.h"
#include "cmd/simopts.h"
#include "net/http.h"
#include "text/json.h"

#define MODULE "perigee.doctor"
#define MAX_ROUNDS 16 /* a healthy server takes six */
#define SIM_REPLICAS 2
#define DEFAULT_TIMEOUT_S 60
#define PARITY_STEPS 24 /* waits of a parity check that come one after the other, about */

struct doctor_options {
  struct fleet_options fleet;
  struct simopts sim;
  struct options_list urls;
  double timeout_s;
  bool json, strict;
};

#define AT(field) offsetof(struct doctor_options, field)

static const struct options_spec specs[] = {
    {"--url", "URL", OPTIONS_LIST, AT(urls), "a server to ask, as --replica URL; repeat for more"},
    FLEET_OPTIONS_SPECS(struct doctor_options, fleet),
    SIMOPTS_SPECS(struct doctor_options, sim,
                  "replicas of the built-in fleet (default 2), which is started when no server is "
                  "given"),
    {"--timeout", "TIME", OPTIONS_SECONDS, AT(timeout_s),
     "all of it ends after this (default 60s); one question takes 5 s, a generation 30 s at most"},
    {"--strict", NULL, OPTIONS_FLAG, AT(strict), "warnings make the exit status 98"},
    {"--json", NULL, OPTIONS_FLAG, AT(json), "the checks and what was found, for programs"},
};

static const struct options_range ranges[] = {{"--sim", 1, 64}, {"--timeout", 1, 3600}};

static const struct options_command command = {
    .name = "doctor",
    .summary = "check every server of a fleet, and say what is wrong and how to mend it",
    .usage = "[URL]... [options]",
    .about =
        "Asks each server for what a KV-cache benchmark needs of it: name, connection and TLS,\n"
        "/health, /v1/models, /tokenize, /detokenize, render, /metrics (block size, prefix\n"
        "caching), streaming, usage, cached_tokens for a repeated prompt, token ids, and with\n"
        "--tokenizer and --template whether its token ids are those made here. (What a simulated\n"
        "server says of its own tokenizer, template and day is taken where it is not given; "
        "without\n"
        "either, what comes with the tokenizer, and today.) Then it holds the\n"
        "replicas against each other, and looks at this machine. Each line says ok, warn or FAIL,\n"
        "what was found, and behind -> the way out.\n"
        "\n"
        "  perigee doctor http://10.0.0.1:8000 http://10.0.0.2:8000 --tokenizer qwen3 --template "
        "qwen3\n"
        "  perigee doctor --fleet fleet.lua --json\n"
        "  perigee doctor               (the built-in simulated fleet)\n"
        "\n"
        "It costs about 15 requests to each server, three of them one prompt of some 450 tokens "
        "with\n"
        "at most 8 tokens of output; with a template eight more, and more where there is no\n"
        "/tokenize.\n"
        "\n"
        "Exit status: 0 healthy (warnings allowed), 1 something failed, 2 wrong usage, 98 with\n"
        "--strict when there are warnings, 130 interrupted.",
    .specs = specs,
    .n_specs = ARRAY_LEN(specs),
    .max_args = 256,
    .ranges = ranges,
    .n_ranges = ARRAY_LEN(ranges),
};

struct doctor {
  struct doctor_options options;
  struct fleet fleet;
  struct simchild sim;
  struct doctorask *ask;
  struct value facts;
  int64_t sent;
  uint64_t began_ns, deadline_ns;
};

static void put_text(struct value *v, const char *key, const char *text) {
  if (text)
    value_set(v, key, value_cstring(text));
}

static void add_endpoint(struct value *list, const char *id, const char *role, const char *url,
                         const char *metrics) {
  struct value e = value_object();
  value_set(&e, "index", value_int((int64_t)value_count(list)));
  put_text(&e, "id", id);
  put_text(&e, "role", role);
  put_text(&e, "url", url);
  put_text(&e, "metrics", metrics);
  value_set(&e, "replies", value_object());
  value_push(list, e);
}

/* host:port of a proxy's address, without user and password. */
static const char *proxy_shown(const char *proxy) {
  const char *at = proxy ? strrchr(proxy, '@') : NULL;
  return at ? at + 1 : proxy;
}

static bool has_key(const struct fleet *f) {
  static const char name[] = "authorization:";
  for (const char *line = f->headers; line && *line; line = strchr(line, '\n')) {
    line += *line == '\n';
    if (strncasecmp(line, name, sizeof name - 1) == 0)
      return true;
  }
  return false;
}

static void begin_facts(struct doctor *d) {
  const struct fleet *f = &d->fleet;
  struct value *v = &d->facts, endpoints = value_array(), options = value_object();
  char nonce[40];
  snprintf(nonce, sizeof nonce, "%llx", (unsigned long long)clock_wall_ns());
  *v = value_object();
  if (f->gateway)
    add_endpoint(&endpoints, "gateway", "gateway", f->gateway, NULL);
  for (size_t i = 0; i < f->n_replicas; i++)
    add_endpoint(&endpoints, f->replicas[i].id, "replica", f->replicas[i].url,
                 f->replicas[i].metrics);
  value_set(v, "endpoints", endpoints);
  put_text(v, "model", f->model);
  put_text(v, "tokenizer", f->tokenizer);
  if (f->block_size)
    value_set(v, "block_size", value_int(f->block_size));
  value_set(v, "simulated", value_bool(d->sim.pid != 0));
  put_text(v, "nonce", nonce);
  value_set(&options, "has_key", value_bool(has_key(f)));
  value_set(&options, "insecure", value_bool(f->insecure));
  value_set(&options, "strict", value_bool(d->options.strict));
  put_text(&options, "proxy", proxy_shown(f->proxy));
  value_set(v, "options", options);
  value_set(v, "client", clientfacts_value());
}

/* The JSON that a function of the module makes of the facts. */
static int ask_module(struct doctor *d, const char *function, struct value *out, struct err *err) {
  const struct value *args[] = {&d->facts};
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  *out = value_null();
  int rc = script_text(MODULE, function, args, 1, &text, err);
  if (!rc)
    rc = json_parse(text.data ? text.data : "", text.len, out, err);
  buf_free(&text);
  return rc;
}

static int examine(struct doctor *d, struct err *err) {
  struct value *endpoints = value_get(&d->facts, "endpoints");
  for (int round = 0; round < MAX_ROUNDS; round++) {
    struct value questions;
    int rc = ask_module(d, "questions", &questions, err);
    bool over = !rc && value_count(&questions) == 0;
    bool late = !rc && !over && clock_ns() >= d->deadline_ns;
    if (!rc && !over && !late)
      rc = doctorask_round(d->ask, &questions, endpoints, &d->sent, err);
    value_free(&questions);
    if (late)
      value_set(&d->facts, "out_of_time", value_bool(true));
    if (rc || over || late)
      return rc;
  }
  return 0;
}

/* The fleet as parity is to see it: the servers that answer, a gateway among them, and the model.
 * Strings are borrowed; `replicas` has room for all of them. */
static struct fleet parity_fleet(struct doctor *d, const struct value *wish,
                                 struct fleet_replica *replicas) {
  struct fleet f = d->fleet;
  const struct value *servers = value_get(wish, "servers");
  const struct value *endpoints = value_get(&d->facts, "endpoints");
  f.gateway = NULL;
  f.replicas = replicas;
  f.n_replicas = 0;
  f.model = (char *)(uintptr_t)value_to_string(value_get(wish, "model"));
  for (size_t i = 0; i < value_count(endpoints); i++) {
    const char *id = value_to_string(value_get(value_at(endpoints, i), "id"));
    const char *url = value_to_string(value_get(value_at(endpoints, i), "url"));
    for (size_t j = 0; j < value_count(servers); j++)
      if (strcmp(value_to_string(value_at(servers, j)), id) == 0)
        replicas[f.n_replicas++] =
            (struct fleet_replica){.id = (char *)(uintptr_t)id, .url = (char *)(uintptr_t)url};
  }
  return f;
}

/* With one template at most; `list` gets what paritycheck.h says. */
static int compare(struct doctor *d, const struct value *wish, uint64_t left_ns, struct value *list,
                   struct err *err) {
  struct fleet_replica *replicas = mem_calloc(d->fleet.n_replicas + 1, sizeof *replicas);
  struct chattemplate *template = NULL;
  struct fleet f = parity_fleet(d, wish, replicas);
  int rc = fleet_load_tokens(&d->fleet, err);
  f.tokens = d->fleet.tokens;
  if (!rc)
    rc = f.template ? chattemplate_load(f.template, f.tokenizer, &template, err)
                    : chattemplate_default(f.tokenizer, f.family, &template, err);
  struct paritycheck check = {.fleet = &f,
                              .templates = &template,
                              .n_templates = template != NULL,
                              .generate = true,
                              .timeout_ns = left_ns / PARITY_STEPS};
  if (!rc)
    rc = paritycheck_run(&check, list, err);
  chattemplate_delete(template);
  mem_free(replicas);
  return rc;
}

/* What servers say of themselves, from their answers to /v1/models: parity takes from simulated
 * ones what was not given, as `perigee parity` does. */
static int take_announced(struct doctor *d, struct err *err) {
  const struct value *endpoints = value_get(&d->facts, "endpoints");
  int rc = 0;
  for (size_t i = 0; i < value_count(endpoints) && !rc; i++) {
    const struct value *e = value_at(endpoints, i);
    const struct value *body = value_get(value_get(value_get(e, "replies"), "models"), "body");
    struct value answer;
    if (!body || body->kind != VALUE_STRING ||
        json_parse(body->u.string.data, body->u.string.len, &answer, NULL))
      continue;
    rc = probe_take(&d->fleet, value_to_string(value_get(e, "url")), &answer, err);
    value_free(&answer);
  }
  put_text(&d->facts, "tokenizer", d->fleet.tokenizer);
  return rc;
}

/* Sets the facts' parity; what goes wrong with it is a fact too. */
static int find_parity(struct doctor *d, struct err *err) {
  struct value wish, list = value_array(), parity = value_object();
  struct err why = {0};
  uint64_t now = clock_ns(), left_ns = d->deadline_ns > now ? d->deadline_ns - now : 0;
  int rc = ask_module(d, "parity", &wish, err);
  bool wanted = !rc && wish.kind == VALUE_OBJECT, taken = wanted && !take_announced(d, &why);
  bool asked = taken && d->fleet.tokenizer;
  bool failed = wanted && !taken;
  if (asked && left_ns < NS_PER_S)
    failed = err_set(&why, ERR_TIMEOUT, "no time is left (--timeout)");
  else if (asked)
    failed = compare(d, &wish, left_ns, &list, &why);
  if (failed)
    value_set(&parity, "error", value_cstring(why.text));
  value_set(&parity, "list", list);
  for (size_t i = 0; i < value_count(value_get(&parity, "list")); i++) {
    int64_t n = 0; /* one renderer: each server stands there once */
    if (value_to_int(value_get(value_at(value_get(&parity, "list"), i), "requests"), &n))
      d->sent += n;
  }
  value_set(&d->facts, "parity", parity);
  value_free(&wish);
  return rc;
}

static int report(struct doctor *d, int *status, struct err *err) {
  const char *no_color = getenv("NO_COLOR");
  struct value view = value_object();
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  value_set(&d->facts, "sent", value_int(d->sent));
  value_set(&d->facts, "elapsed_ms", value_double((double)(clock_ns() - d->began_ns) / 1e6));
  value_set(&view, "json", value_bool(d->options.json));
  value_set(&view, "color", value_bool(live_can_draw(STDOUT_FILENO) && !(no_color && *no_color)));
  const struct value *args[] = {&d->facts, &view};
  int rc = script_text(MODULE, "report", args, 2, &text, err);
  const char *line = rc ? NULL : strchr(text.data, '\n');
  if (line) {
    *status = (int)strtol(text.data, NULL, 10);
    fwrite(line + 1, 1, text.len - (size_t)(line + 1 - text.data), stdout);
  }
  value_free(&view);
  buf_free(&text);
  return rc;
}

/* Servers from arguments, --url and the fleet's options; none: the built-in fleet. */
static int find_fleet(struct doctor *d, const struct options_list *args, struct err *err) {
  struct doctor_options *o = &d->options;
  const struct options_list *lists[] = {args, &o->urls};
  int rc = fleet_options_build(&o->fleet, &d->fleet, err);
  for (size_t i = 0; i < ARRAY_LEN(lists) && !rc; i++)
    for (size_t j = 0; j < lists[i]->n && !rc; j++) {
      rc = fleet_add_replica(&d->fleet, lists[i]->items[j], err);
      if (rc)
        err_prefix(err, "%s", i ? "--url" : "doctor");
    }
  bool given = d->fleet.n_replicas || d->fleet.gateway;
  if (!rc && given && (o->sim.replicas || simopts_described(&o->sim)))
    rc = err_set(err, ERR_INVALID,
                 "--sim, --profile, --sim-set and --fault are for the built-in fleet, and servers "
                 "of your own are given");
  if (!rc && !given)
    rc = simopts_check(&o->sim, SIM_REPLICAS, err);
  return rc ? rc : fleet_options_check(&d->fleet, err);
}

static int start_fleet(struct doctor *d, struct err *err) {
  const struct doctor_options *o = &d->options;
  return d->fleet.n_replicas || d->fleet.gateway
             ? 0
             : simchild_start_fleet(&d->sim, &o->sim, SIM_REPLICAS, 1, &d->fleet, err);
}

/* Everything behind the options; returns the exit status. */
static int work(struct doctor *d, struct err *err) {
  int status = 0;
  int rc = start_fleet(d, err);
  if (rc)
    return cmd_fail("doctor", rc == ERR_INVALID ? EXIT_USAGE : EXIT_FAILED, err);
  d->began_ns = clock_ns();
  d->deadline_ns = d->began_ns + (uint64_t)(d->options.timeout_s * 1e9);
  begin_facts(d);
  d->ask = doctorask_new(&d->fleet, d->deadline_ns, err);
  rc = d->ask ? examine(d, err) : err->code;
  if (!rc)
    rc = find_parity(d, err);
  if (!rc)
    rc = report(d, &status, err);
  return rc ? cmd_fail("doctor", EXIT_FAILED, err) : status;
}

int cmd_doctor(int argc, char **argv) {
  struct err err = {0};
  struct options_list args = {0};
  struct doctor d = {.options = {.timeout_s = DEFAULT_TIMEOUT_S}, .facts = value_null()};
  d.sim.life = -1;
  int rc = options_parse(&command, argc, argv, &d.options, &args, &err);
  int status = 0;
  if (rc == 0)
    rc = cmd_need_descriptors(24, "asking servers", &err);
  if (rc == 0)
    rc = http_global_init(&err);
  if (rc == 0)
    rc = find_fleet(&d, &args, &err);
  if (rc < 0)
    status = cmd_fail("doctor", rc == ERR_LIMIT || rc == ERR_IO ? EXIT_FAILED : EXIT_USAGE, &err);
  else if (rc == 0)
    cmd_end_on_signals();
  if (rc == 0)
    status = work(&d, &err);
  bool lost = d.ask && doctorask_lost(d.ask);
  char how[80];
  if (d.sim.pid)
    simchild_stop(&d.sim, how, sizeof how);
  if (lost)                   /* a look-up of a name still runs, and may touch what it was given */
    _exit(cmd_flush(status)); /* NOLINT(concurrency-mt-unsafe) */
  doctorask_delete(d.ask);
  value_free(&d.facts);
  fleet_free(&d.fleet);
  options_free(&command, &d.options, &args);
  return status;
}

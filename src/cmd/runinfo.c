/* runinfo.c: what runs: run.json with its banner, and the text of --plan. */
#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/units.h"
#include "bind/script.h"
#include "cmd/runjob.h"
#include "net/http.h"
#include "version.h"

static void set_text(struct value *o, const char *key, const char *text) {
  value_set(o, key, value_cstring(text));
}

static void add_banner(struct value *list, const char *name, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

static void add_banner(struct value *list, const char *name, const char *fmt, ...) {
  char text[1024];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  struct value line = value_object();
  set_text(&line, "name", name);
  set_text(&line, "value", text);
  value_push(list, line);
}

/* "3 replicas and 1 spare" */
static void count_replicas(size_t n, size_t spares, char *out, size_t size) {
  int len = snprintf(out, size, "%zu replica%s", n, n == 1 ? "" : "s");
  if (spares)
    snprintf(out + len, size - (size_t)len, " and %zu spare%s", spares, spares == 1 ? "" : "s");
}

/* "r0 http://…, r1 http://…", at most four by name. */
static void describe_fleet(const struct runjob *job, char *out, size_t size) {
  const struct fleet *f = &job->fleet;
  if (job->own_fleet) {
    char count[80];
    count_replicas(f->n_replicas - f->n_spares, f->n_spares, count, sizeof count);
    snprintf(out, size, "built-in simulated fleet: %s of profile %s (simulated)", count,
             job->options.sim.profile ? job->options.sim.profile : "tiny");
    return;
  }
  int n = f->simulated ? snprintf(out, size, "simulated, as its servers say: ") : 0;
  if (f->gateway)
    n += snprintf(out + n, size - (size_t)n, "gateway %s%s", f->gateway, f->n_replicas ? "; " : "");
  for (size_t i = 0; i < f->n_replicas && n < (int)size; i++) {
    if (i == 4) {
      snprintf(out + n, size - (size_t)n, ", and %zu more", f->n_replicas - 4);
      break;
    }
    n += snprintf(out + n, size - (size_t)n, "%s%s %s", i ? ", " : "", f->replicas[i].id,
                  f->replicas[i].url);
  }
}

static void add_list(struct value *banner, const char *name, const struct options_list *items) {
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  for (size_t i = 0; i < items->n; i++)
    buf_printf(&text, "%s%s", i ? "; " : "", items->items[i]);
  if (items->n)
    add_banner(banner, name, "%.900s", text.data);
  buf_free(&text);
}

/* Where whoever wants to follow the built-in fleet's KV events connects to. */
static void add_kv_events(struct value *banner, const struct fleet *f) {
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  for (size_t i = 0; i < f->n_replicas; i++) {
    const struct fleet_replica *r = &f->replicas[i];
    if (r->kv_events)
      buf_printf(&text, "%s%s %s%s%s", text.len ? ", " : "", r->id, r->kv_events,
                 r->kv_replay ? ", replay " : "", r->kv_replay ? r->kv_replay : "");
  }
  if (text.len)
    add_banner(banner, "kv events", "%.900s", text.data);
  buf_free(&text);
}

/* What `goodput` is made of. */
static void add_objectives(struct value *banner, const struct metrics *metrics) {
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  for (size_t i = 0; i < metrics->n_slos; i++) {
    char limit[48];
    expect_format(metrics->slos[i].max, metrics->slos[i].metric->kind,
                  metrics->slos[i].metric->unit, limit, sizeof limit);
    buf_printf(&text, "%s%s <= %s", i ? ", " : "", metrics->slos[i].metric->name, limit);
  }
  if (metrics->n_slos)
    add_banner(banner, "objectives", "%.900s", text.data);
  buf_free(&text);
}

/* Without user and password. */
static const char *proxy_shown(const char *proxy) {
  const char *at = proxy ? strrchr(proxy, '@') : NULL;
  return at ? at + 1 : proxy;
}

/* The point that runs, or for all of them what varies in the lines around. */
static void add_sweep(struct value *banner, const struct runjob *job) {
  const struct sweepgrid *g = &job->sweep.grid;
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  if (job->sweep.point) {
    buf_printf(&text, "%s of a sweep: ", job->sweep.title);
    sweepgrid_describe(g, job->sweep.point, &text);
  } else if (g->n_axes) {
    buf_printf(&text, "%llu points over ", (unsigned long long)g->n_points);
    for (size_t i = 0; i < g->n_axes; i++)
      buf_printf(&text, "%s%s", i ? " × " : "", g->axes[i].name);
    buf_puts(&text, ", one after another");
  }
  if (text.len)
    add_banner(banner, "sweep", "%.900s", text.data);
  buf_free(&text);
}

/* Whether all points of a sweep run, and an axis of that kind is one of it. */
static bool varies(const struct runjob *job, enum sweepgrid_kind kind) {
  bool found = false;
  for (size_t i = 0; i < job->sweep.grid.n_axes && !job->sweep.point; i++)
    found = found || job->sweep.grid.axes[i].kind == kind;
  return found;
}

/* Whether all points of a sweep run, and each has its own value of that parameter. */
static bool is_axis(const struct runjob *job, const char *param) {
  const struct sweepgrid *g = &job->sweep.grid;
  for (size_t i = 0; i < g->n_axes && !job->sweep.point; i++)
    if (g->axes[i].kind == SWEEPGRID_PARAM && strcmp(g->axes[i].name, param) == 0)
      return true;
  return false;
}

/* The fleet that would be started. */
static void add_own_fleet(struct value *banner, const struct runjob *job) {
  const struct simopts *sim = &job->options.sim;
  char count[80];
  count_replicas((size_t)(sim->replicas ? sim->replicas : RUN_SIM_REPLICAS), (size_t)sim->spares,
                 count, sizeof count);
  add_banner(banner, "fleet", "built-in simulated fleet: %s of %s%s (simulated)",
             varies(job, SWEEPGRID_REPLICAS) ? "as many replicas as each point says" : count,
             varies(job, SWEEPGRID_PROFILE) ? "its profile" : "profile ",
             varies(job, SWEEPGRID_PROFILE) ? ""
             : job->options.sim.profile     ? job->options.sim.profile
                                            : "tiny");
}

static struct value banner(const struct runjob *job) {
  struct value list = value_array();
  bool own = false;
  char text[768];
  const char *name = job->plan.name, *about = job->plan.description;
  add_banner(&list, "scenario", "%s%s%s%s%s", job->script, name || about ? ": " : "",
             name ? name : "", name && about ? ", " : "", about ? about : "");
  schedule_describe(&job->plan.load, text, sizeof text);
  add_banner(&list, "load", "%s%s", text,
             varies(job, SWEEPGRID_LOAD) ? "; the sweep's points set figures of it" : "");
  if (job->plan.n_timeline)
    add_banner(&list, "timeline", "%zu action%s, the first at %g s", job->plan.n_timeline,
               job->plan.n_timeline == 1 ? "" : "s", job->plan.timeline[0].at_s);
  if (job->fleet.n_replicas || job->fleet.gateway) {
    describe_fleet(job, text, sizeof text);
    add_banner(&list, "fleet", "%s", text);
  } else {
    add_own_fleet(&list, job);
    own = true;
  }
  add_list(&list, "settings", &job->options.sim.sets);
  add_kv_events(&list, &job->fleet);
  add_sweep(&list, job);
  add_list(&list, "faults", &job->options.sim.faults);
  add_banner(&list, "model", "%s; tokens counted by %s",
             job->fleet.model ? job->fleet.model
             : own            ? "sim-model"
                              : "the first that /v1/models lists",
             job->fleet.tokenizer ? job->fleet.tokenizer
             : own                ? "bytes"
                                  : "the server alone");
  add_banner(&list, "routing", "%s",
             varies(job, SWEEPGRID_ROUTE) ? "the policy of each point"
             : job->plan.has_route        ? "the plan's policy"
             : job->fleet.gateway         ? "the gateway's"
             : job->fleet.n_replicas == 1 ? "one replica"
                                          : "session_hash (default)");
  add_objectives(&list, &job->metrics);
  struct buf params;
  buf_init(&params, BUF_MAX_OWN);
  for (size_t i = 0; i < job->plan.n_params; i++)
    if (!is_axis(job, job->plan.params[i].name))
      buf_printf(&params, "%s%s=%s", params.len ? ", " : "", job->plan.params[i].name,
                 job->plan.params[i].value ? job->plan.params[i].value : "nil");
  if (params.len)
    add_banner(&list, "parameters", "%.900s", params.data);
  buf_free(&params);
  uint32_t workers = job->result.workers        ? job->result.workers
                     : job->options.workers > 0 ? (uint32_t)job->options.workers
                                                : run_default_workers();
  add_banner(&list, "engine", "seed %lld, %u worker%s, perigee %s (%s)",
             (long long)job->options.seed, workers, workers == 1 ? "" : "s", PERIGEE_VERSION,
             PERIGEE_COMMIT);
  if (job->fleet.proxy)
    add_banner(&list, "proxy", "%s", proxy_shown(job->fleet.proxy));
  if (job->fleet.insecure)
    add_banner(&list, "tls", "certificates are NOT verified (--insecure)");
  return list;
}

/* The command line with what may be a secret masked. */
static struct value command_line(const struct runjob *job) {
  struct value list = value_array();
  value_push(&list, value_cstring("perigee"));
  value_push(&list, value_cstring(job->command->name));
  bool mask_next = false, proxy_next = false;
  for (int i = 0; i < job->argc; i++) {
    const char *a = job->argv[i];
    char masked[256];
    bool next = strcmp(a, "--header") == 0;
    const char *header = mask_next ? a : strncmp(a, "--header=", 9) == 0 ? a + 9 : NULL;
    if (header) {
      snprintf(masked, sizeof masked, "%.*s%.*s: ***", (int)(header - a), a,
               (int)strcspn(header, ":"), header);
      a = masked;
    }
    mask_next = next;
    const char *at = proxy_next || strncmp(a, "--proxy=", 8) == 0 ? strrchr(a, '@') : NULL;
    if (at) {
      snprintf(masked, sizeof masked, "%s***%s", proxy_next ? "" : "--proxy=", at);
      a = masked;
    }
    proxy_next = strcmp(a, "--proxy") == 0;
    value_push(&list, value_cstring(a));
  }
  return list;
}

/* A source with the hash of the bytes that ran. */
static struct value file_entry(const struct runjob *job, const char *path) {
  struct value entry = value_object();
  set_text(&entry, "path", path);
  const struct blob *bytes = store_source(job->store, path);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int len = 0;
  if (!bytes || !EVP_Digest(bytes->data, bytes->len, digest, &len, EVP_sha256(), NULL))
    return entry;
  char hex[2 * EVP_MAX_MD_SIZE + 1];
  for (unsigned int i = 0; i < len; i++)
    snprintf(hex + 2 * (size_t)i, 3, "%02x", digest[i]);
  set_text(&entry, "sha256", hex);
  return entry;
}

static struct value fleet_value(const struct fleet *f) {
  struct value v = value_object();
  struct value list = value_array();
  for (size_t i = 0; i < f->n_replicas; i++) {
    struct value r = value_object();
    set_text(&r, "id", f->replicas[i].id);
    set_text(&r, "url", f->replicas[i].url);
    if (i >= f->n_replicas - f->n_spares)
      value_set(&r, "spare", value_bool(true));
    if (f->replicas[i].kv_events)
      set_text(&r, "kv_events", f->replicas[i].kv_events);
    if (f->replicas[i].kv_replay)
      set_text(&r, "kv_events_replay", f->replicas[i].kv_replay);
    value_push(&list, r);
  }
  value_set(&v, "replicas", list);
  set_text(&v, "gateway", f->gateway);
  set_text(&v, "model", f->model);
  set_text(&v, "tokenizer", f->tokenizer);
  set_text(&v, "family", f->family);
  set_text(&v, "template", f->template);
  set_text(&v, "now", f->now);
  set_text(&v, "hash_scheme", f->hash_scheme);
  if (f->block_size)
    value_set(&v, "block_size", value_int(f->block_size));
  set_text(&v, "tenant", f->tenant);
  set_text(&v, "proxy", proxy_shown(f->proxy));
  value_set(&v, "tls_verified", value_bool(!f->insecure));
  value_set(&v, "http2", value_bool(f->http2));
  value_set(&v, "simulated", value_bool(f->simulated));
  return v;
}

static struct value params_value(const struct plan_info *p) {
  struct value v = value_object();
  for (size_t i = 0; i < p->n_params; i++)
    value_set(&v, p->params[i].name, value_cstring(p->params[i].value));
  return v;
}

static struct value load_value(const struct schedule *s) {
  struct value v = value_object();
  set_text(&v, "kind", s->open ? "open" : "closed");
  value_set(&v, s->open ? "rate" : "users", value_double(s->points[0].value));
  if (s->open)
    set_text(&v, "arrival", s->constant ? "constant" : "poisson");
  value_set(&v, "warmup_s", value_double(s->warmup_s));
  value_set(&v, "duration_s", s->duration_s > 0 ? value_double(s->duration_s) : value_null());
  value_set(&v, "sessions", s->sessions ? value_int((int64_t)s->sessions) : value_null());
  if (s->n_points > 1) {
    struct value points = value_array();
    for (size_t i = 0; i < s->n_points; i++) {
      struct value pair = value_array();
      value_push(&pair, value_double(s->points[i].at_s));
      value_push(&pair, value_double(s->points[i].value));
      value_push(&points, pair);
    }
    value_set(&v, "points", points);
  }
  return v;
}

static struct value machine_value(void) {
  struct value v = value_object();
  struct utsname name;
  if (uname(&name) == 0) {
    set_text(&v, "system", name.sysname);
    set_text(&v, "kernel", name.release);
    set_text(&v, "machine", name.machine);
  }
  value_set(&v, "cores", value_int(sysconf(_SC_NPROCESSORS_ONLN)));
  return v;
}

static void set_versions(struct value *v) {
  struct value versions = value_object();
  set_text(&versions, "perigee", PERIGEE_VERSION);
  set_text(&versions, "commit", PERIGEE_COMMIT);
  char net[256];
  http_versions(net, sizeof net);
  set_text(&versions, "libraries", net);
  set_text(&versions, "lua", script_lua_version());
  value_set(v, "versions", versions);
}

struct value runinfo_value(const struct runjob *job) {
  struct value v = value_object();
  char started[40];
  clock_format_utc(job->started_wall_ns, started, sizeof started);
  value_set(&v, "v", value_int(1));
  set_text(&v, "id", job->dir.id);
  set_text(&v, "path", job->dir.path);
  set_text(&v, "label", job->options.label);
  set_text(&v, "scenario", job->script);
  set_text(&v, "name", job->plan.name);
  set_text(&v, "description", job->plan.description);
  value_set(&v, "simulated", value_bool(job->fleet.simulated));
  value_set(&v, "virtual_time", value_bool(job->is_dry));
  bool over = job->ended;
  value_set(&v, "unfinished", value_bool(!over));
  value_set(&v, "interrupted", value_bool(job->result.interrupted));
  set_text(&v, "started", started);
  value_set(&v, "duration_s",
            over ? value_double((double)job->result.ended_ns / (double)NS_PER_S) : value_null());
  value_set(&v, "zero_wall_ns", value_int((int64_t)job->result.zero_wall_ns));
  value_set(&v, "zero_monotonic_ns", value_int((int64_t)job->result.zero_ns));
  struct value window = value_object();
  value_set(&window, "start_ns", value_int((int64_t)job->result.window_start_ns));
  value_set(&window, "end_ns", value_int((int64_t)job->result.window_end_ns));
  if (!over) {
    value_free(&window);
    window = value_null();
  }
  value_set(&v, "window", window);
  value_set(&v, "closed_loop", value_bool(!job->plan.load.open));
  value_set(&v, "load", load_value(&job->plan.load));
  value_set(&v, "params", params_value(&job->plan));
  value_set(&v, "sweep", sweep_point_value(&job->sweep));
  value_set(&v, "seed", value_int(job->options.seed));
  value_set(&v, "workers", value_int(job->result.workers));
  value_set(&v, "fleet", fleet_value(&job->fleet));
  value_set(&v, "parity", value_copy(&job->parity));
  value_set(&v, "banner", banner(job));
  value_set(&v, "command", command_line(job));
  struct value scripts = value_array();
  value_push(&scripts, file_entry(job, job->script));
  for (size_t i = 0; i < job->plan.n_files; i++)
    value_push(&scripts, file_entry(job, job->plan.files[i]));
  value_set(&v, "scripts", scripts);
  set_versions(&v);
  value_set(&v, "host", machine_value());
  return v;
}

#define MAX_SET_WIDTH 40 /* of name=value, whose meaning stands in a column */

int runinfo_print_plan(struct runjob *job, struct err *err) {
  struct value lines = banner(job);
  for (size_t i = 0; i < value_count(&lines); i++) {
    const struct value *line = value_at(&lines, i);
    struct value *text = value_get(line, "value");
    printable_make(text->u.string.data, text->u.string.len);
    printf("%-11s %s\n", value_to_string(value_get(line, "name")),
           value_to_string(value_get(line, "value")));
  }
  value_free(&lines);
  for (size_t i = 0; i < job->plan.n_expect; i++)
    printf("%-11s %s\n", i ? "" : "expects",
           job->plan.expect[i].text ? job->plan.expect[i].text : "(a Lua function)");
  size_t widest = 0;
  for (size_t i = 0; i < job->plan.n_params; i++) {
    const struct plan_word *p = &job->plan.params[i];
    size_t width = strlen(p->name) + 1 + (p->value ? strlen(p->value) : 0);
    if (p->doc && width > widest && width <= MAX_SET_WIDTH)
      widest = width;
  }
  for (size_t i = 0; i < job->plan.n_params; i++) {
    const struct plan_word *p = &job->plan.params[i];
    int width = (int)widest - (int)strlen(p->name) - 1;
    printf("%-11s %s=%*s%s%s\n", i ? "" : "--set", p->name, p->doc && width > 0 ? -width : 0,
           p->value ? p->value : "", p->doc ? "  " : "", p->doc ? p->doc : "");
  }
  bool all = job->sweep.grid.n_axes && !job->sweep.point;
  return all ? sweep_print_plan(&job->sweep, &job->source, err) : 0;
}

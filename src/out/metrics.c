/* metrics.c: the list itself, what a plan adds to it, and which statistics make sense. */
#include "out/metrics.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define METRIC(id_, name_, unit_, kind_, domain_, meaning_, ...)                                   \
  [id_] = {.id = id_,                                                                              \
           .name = name_,                                                                          \
           .unit = unit_,                                                                          \
           .kind = kind_,                                                                          \
           .domain = METRIC_##domain_,                                                             \
           .scale = 1,                                                                             \
           .meaning = meaning_,                                                                    \
           __VA_ARGS__}
#define LATENCY(id_, name_, domain_, meaning_)                                                     \
  METRIC(id_, name_, "s", UNITS_TIME, domain_, meaning_, .failures_beside = true)
#define SECONDS(id_, name_, domain_, meaning_, needs_)                                             \
  METRIC(id_, name_, "s", UNITS_TIME, domain_, meaning_, .needs = needs_)
#define TOKENS(id_, name_, domain_, meaning_, needs_)                                              \
  METRIC(id_, name_, "tokens", UNITS_NONE, domain_, meaning_, .needs = needs_)
#define SHARE(id_, name_, meaning_, needs_)                                                        \
  METRIC(id_, name_, "ratio", UNITS_RATIO, OF_REQUEST, meaning_, .indicator = true, .needs = needs_)

static const char USAGE[] = "usage in the replies, or a tokenizer";
static const char CACHED[] = "a server that reports cached_tokens";
static const char LOOKUP[] = "LookupRoute calls";
static const char LEDGER[] = "the token ledger (--verify on the built-in fleet)";

static const struct metric builtin[METRIC_BUILTIN_COUNT] = {
    LATENCY(METRIC_TTFT, "ttft", OF_REQUEST,
            "time to first token: first event with output − start"),
    LATENCY(METRIC_TTFT_SCHED, "ttft_sched", OF_REQUEST,
            "first event with output − the time the request was due"),
    LATENCY(METRIC_TTFT_SENT, "ttft_sent", OF_REQUEST,
            "first event with output − last request byte handed to the kernel"),
    LATENCY(METRIC_FIRST_VISIBLE, "first_visible", OF_REQUEST, "first visible text − start"),
    LATENCY(METRIC_ITL, "itl", OF_GAP, "gap between two output events of a request"),
    LATENCY(METRIC_ITL_TOKEN, "itl_token", OF_GAP,
            "gap between two output events ÷ tokens of the second"),
    LATENCY(
        METRIC_TPOT, "tpot", OF_REQUEST,
        "time per output token: (last − first event with output) ÷ (tokens − those of the first "
        "event); an event whose token has no text yet (half a character) is none"),
    LATENCY(METRIC_E2E, "e2e", OF_REQUEST, "end of the reply − start"),
    SECONDS(METRIC_START_LAG, "start_lag", OF_REQUEST,
            "start − the time the request was due: the client's own lateness", NULL),
    SECONDS(METRIC_WAKE_LAG, "wake_lag", OF_CLIENT, "a timer of the client fired − when it was due",
            NULL),
    SECONDS(METRIC_LOOKUP_TIME, "lookup_time", LATER, "a LookupRoute call as the client saw it",
            LOOKUP),
    SECONDS(METRIC_LOOKUP_SERVER_TIME, "lookup_server_time", LATER,
            "a LookupRoute call as its server reports it", LOOKUP),
    SECONDS(METRIC_CLIENT_OVERHEAD, "client_overhead", OF_REQUEST,
            "time to render, tokenize, hash and look a prompt up",
            "a client-side renderer, tokenizer or hash"),
    SECONDS(METRIC_COLD_PATH_OVERHEAD, "cold_path_overhead", LATER,
            "client_overhead of requests that got no hint", LOOKUP),
    SHARE(METRIC_ROUTE_FALLBACK, "route_fallback", "requests whose policy had to fall back",
          "a routing policy"),
    TOKENS(METRIC_PROMPT_TOKENS, "prompt_tokens", OF_REQUEST,
           "prompt tokens: usage, else the tokenizer's count", USAGE),
    TOKENS(METRIC_OUTPUT_TOKENS, "output_tokens", OF_REQUEST,
           "output tokens: usage, else the tokenizer's count", USAGE),
    TOKENS(METRIC_CACHED_TOKENS, "cached_tokens", OF_REQUEST,
           "prompt tokens the server took from its cache; inferred zeros count as 0", CACHED),
    METRIC(METRIC_CACHED_RATIO, "cached_ratio", "ratio", UNITS_RATIO, OF_REQUEST,
           "cached_tokens ÷ prompt_tokens", .needs = CACHED),
    TOKENS(METRIC_SURVIVED_TOKENS, "survived_tokens", OF_REQUEST,
           "leading tokens of a prompt that the last prompt of the same conversation had too",
           "a renderer on this side (conv:set_renderer), from a conversation's second prompt on"),
    TOKENS(METRIC_POSSIBLE, "possible", OF_REQUEST,
           "longest leading run of the prompt among all this run sent or received before", LEDGER),
    TOKENS(METRIC_AVAILABLE, "available", OF_REQUEST,
           "longest leading run resident on the best replica when the route was decided", LEDGER),
    TOKENS(METRIC_CAPTURED, "captured", OF_REQUEST,
           "longest leading run resident on the replica that served", LEDGER),
    TOKENS(METRIC_DELIVERED, "delivered", OF_REQUEST, "cached_tokens, cut to whole blocks", LEDGER),
    TOKENS(METRIC_REGRET, "regret", OF_REQUEST, "available − captured", LEDGER),
    TOKENS(METRIC_MATCHED_TOKENS, "matched_tokens", LATER,
           "tokens the router's answer claims to match", LOOKUP),
    SHARE(METRIC_FAILED, "failed", "requests that failed, of those that ended ok or failed", NULL),
    SHARE(METRIC_GOODPUT, "goodput",
          "requests that met every objective of the plan's slo, of those that ended ok or failed",
          "slo in the plan"),
    METRIC(METRIC_REQUESTS, "requests", "requests", UNITS_NONE, OF_REQUEST,
           "requests, however they ended; their rate: those that ended well inside the window",
           .indicator = true),
    METRIC(METRIC_SESSIONS, "sessions", "sessions", UNITS_NONE, OF_SESSION,
           "sessions, however they ended; their rate: those that ended well inside the window",
           .indicator = true),
    SECONDS(METRIC_SESSION_TIME, "session_time", OF_SESSION,
            "start to end of a session that ended well", NULL),
    METRIC(METRIC_REPLICA_SHARE, "replica_share", "ratio", UNITS_RATIO, OF_REPLICA,
           "a replica's part of the requests; one value per replica",
           .needs = "replicas known by name"),
    TOKENS(METRIC_TOKEN_COUNT_DIFF, "token_count_diff", OF_REQUEST,
           "output tokens by usage − by the tokenizer", "usage in the replies and a tokenizer"),
    SECONDS(METRIC_MEASUREMENT_ERROR, "measurement_error", OF_REQUEST,
            "first byte: when the client read it − when the kernel received it; ttft is of the "
            "kernel's stamp and does not contain it",
            "kernel receive timestamps"),
    SECONDS(METRIC_EVENT_LAG, "event_lag", LATER,
            "a KV event's arrival here − its time at the engine", "KV events"),
    METRIC(METRIC_OUTPUT_RATE, "output_rate", "tokens/s", UNITS_RATE, OF_REQUEST,
           "output tokens per second of one request after its first token: 1 ÷ tpot"),
    SHARE(METRIC_INCOMPLETE, "incomplete",
          "requests the end of the run cut off, of all but the cancelled", NULL),
    METRIC(METRIC_CHECKS, "checks", "ratio", UNITS_RATIO, OF_SCRIPT,
           "calls of vu:check that were true; checks{check=NAME}: those of that name; their rate: "
           "those "
           "that were true, per second of the window",
           .indicator = true, .needs = "vu:check in the script"),
};

void metrics_init(struct metrics *m) {
  *m = (struct metrics){0};
  for (int i = 0; i < METRIC_BUILTIN_COUNT; i++) {
    assert(builtin[i].name && builtin[i].id == (enum metric_id)i);
    MEM_GROW(m->items, m->n, m->cap);
    m->items[m->n++] = mem_dup(&builtin[i], sizeof builtin[i]);
  }
}

void metrics_free(struct metrics *m) {
  for (size_t i = 0; i < m->n; i++) {
    if (m->items[i]->id == METRIC_SCRIPT) {
      mem_free((char *)m->items[i]->name);
      mem_free((char *)m->items[i]->unit);
    }
    mem_free(m->items[i]);
  }
  mem_free(m->items);
  mem_free(m->slos);
  *m = (struct metrics){0};
}

static bool is_identifier(const char *s) {
  if (!isalpha((unsigned char)*s) && *s != '_')
    return false;
  for (; *s; s++)
    if (!isalnum((unsigned char)*s) && *s != '_')
      return false;
  return true;
}

/* "ms" is a time of 0.001 s, "%" a ratio of 0.01; a word that is no unit is only a label. */
static void read_unit(struct metric *metric, const char *unit) {
  char one[40];
  struct err ignored;
  metric->scale = 1;
  metric->kind = UNITS_NONE;
  if (strcmp(unit, "ratio") == 0) {
    metric->kind = UNITS_RATIO;
    metric->unit = mem_strdup("ratio");
    return;
  }
  one[0] = '1';
  size_t len = strlen(unit);
  if (len + 2 <= sizeof one) {
    memcpy(one + 1, unit, len + 1);
    if (units_parse(one, len + 1, UNITS_ANY, &metric->scale, &metric->kind, &ignored)) {
      metric->scale = 1;
      metric->kind = UNITS_NONE;
    }
  }
  const char *base = metric->kind == UNITS_TIME    ? "s"
                     : metric->kind == UNITS_BYTES ? "B"
                     : metric->kind == UNITS_RATIO ? "ratio"
                     : metric->kind == UNITS_RATE  ? "1/s"
                                                   : unit;
  metric->unit = mem_strdup(base);
}

int metrics_declare(struct metrics *m, const char *name, const char *unit, struct err *err) {
  if (!is_identifier(name))
    return err_set(err, ERR_INVALID,
                   "metrics: \"%s\" is not a metric's name: letters, digits and _ only", name);
  if (strlen(name) > METRICS_NAME_MAX)
    return err_set(err, ERR_INVALID, "metrics: \"%.40s…\" has %zu bytes, at most %d are a name",
                   name, strlen(name), METRICS_NAME_MAX);
  const struct metric *taken = metrics_find(m, name);
  if (taken && taken->id != METRIC_SCRIPT)
    return err_set(err, ERR_INVALID,
                   "metrics: \"%s\" is one of perigee's own metrics (%s); choose another name",
                   name, taken->meaning);
  if (taken)
    return err_set(err, ERR_INVALID, "metrics: \"%s\" is declared twice", name);
  struct metric *metric = MEM_NEW(struct metric);
  metric->id = METRIC_SCRIPT;
  metric->domain = METRIC_OF_SCRIPT;
  metric->name = mem_strdup(name);
  metric->meaning = "recorded by the script";
  metric->needs = "vu:record in the script";
  read_unit(metric, unit);
  MEM_GROW(m->items, m->n, m->cap);
  m->items[m->n++] = metric;
  return 0;
}

const struct metric *metrics_get(const struct metrics *m, enum metric_id id) {
  assert(id < METRIC_BUILTIN_COUNT);
  return m->items[id];
}

const struct metric *metrics_find(const struct metrics *m, const char *name) {
  for (size_t i = 0; i < m->n; i++)
    if (strcmp(m->items[i]->name, name) == 0)
      return m->items[i];
  return NULL;
}

int metrics_require(const struct metrics *m, const char *name, const struct metric **out,
                    struct err *err) {
  *out = metrics_find(m, name);
  if (*out)
    return 0;
  const char **names = mem_calloc(m->n, sizeof *names);
  for (size_t i = 0; i < m->n; i++)
    names[i] = m->items[i]->name;
  const char *near = err_nearest(name, names, m->n);
  int rc =
      near ? err_set(err, ERR_INVALID, "unknown metric \"%s\" (did you mean \"%s\"?)", name, near)
           : err_set(err, ERR_INVALID,
                     "unknown metric \"%s\": it is none of perigee's (ttft, tpot, e2e, "
                     "cached_ratio, failed, …) and the plan's `metrics` does not declare it",
                     name);
  mem_free(names);
  return rc;
}

int metrics_available(const struct metric *metric, struct err *err) {
  if (metric->domain != METRIC_LATER)
    return 0;
  size_t len = strlen(metric->needs);
  return err_set(err, ERR_INVALID, "%s needs %s, which %s not in this version", metric->name,
                 metric->needs, metric->needs[len - 1] == 's' ? "are" : "is");
}

int metrics_add_slo(struct metrics *m, const char *name, const char *limit, struct err *err) {
  const struct metric *metric;
  double max;
  int rc = metrics_require(m, name, &metric, err);
  if (!rc)
    rc = metrics_available(metric, err);
  if (!rc && (metric->domain != METRIC_OF_REQUEST || !metric->failures_beside))
    rc = err_set(err, ERR_INVALID,
                 "%s is no time that a request's user waits for: objectives are upper bounds on "
                 "ttft, ttft_sched, ttft_sent, first_visible, tpot, e2e; for others write an "
                 "expectation",
                 name);
  if (!rc && (rc = units_parse_bound(limit, strlen(limit), metric->kind, &max, err)))
    err_prefix(err, "%s", name);
  if (rc) {
    err_prefix(err, "slo");
    return rc;
  }
  MEM_GROW(m->slos, m->n_slos, m->cap_slos);
  m->slos[m->n_slos++] = (struct slo){metric, max};
  return 0;
}

struct value metrics_value(const struct metrics *m) {
  struct value list = value_array();
  for (size_t i = 0; i < m->n; i++) {
    struct value *item = value_push(&list, value_object());
    value_set(item, "name", value_cstring(m->items[i]->name));
    value_set(item, "unit", value_cstring(m->items[i]->unit));
    char meaning[300];
    const struct metric *metric = m->items[i];
    if (metric->domain == METRIC_LATER)
      snprintf(meaning, sizeof meaning, "%s; not in this version (needs %s)", metric->meaning,
               metric->needs);
    else
      snprintf(meaning, sizeof meaning, "%s", metric->meaning);
    value_set(item, "meaning", value_cstring(meaning));
  }
  return list;
}

/* ---- statistics ---- */

int metrics_check_stat(const struct metric *m, enum statistic stat, struct err *err) {
  const char *use = NULL, *name = NULL;
  switch (stat) {
  case STAT_SHARE:
    if (!m->indicator && !(m->domain == METRIC_OF_SCRIPT && m->kind == UNITS_RATIO))
      name = "share", use = "mean, min, max or a percentile; a share is a part of requests";
    else if (m->id == METRIC_REQUESTS || m->id == METRIC_SESSIONS)
      name = "share", use = "count or rate";
    break;
  case STAT_RATE:
    if (!m->indicator && m->domain != METRIC_OF_SCRIPT && m->id != METRIC_OUTPUT_TOKENS &&
        m->id != METRIC_PROMPT_TOKENS)
      name = "rate", use = "mean, min, max or a percentile; a rate is a number per second";
    break;
  case STAT_QUANTILE:
  case STAT_MIN:
  case STAT_MAX:
    if (m->indicator)
      name = stat == STAT_QUANTILE ? "a percentile"
             : stat == STAT_MIN    ? "min"
                                   : "max",
      use = m->id == METRIC_REQUESTS || m->id == METRIC_SESSIONS ? "count or rate"
                                                                 : "share, count or rate";
    break;
  case STAT_MEAN:
    if (m->id == METRIC_REQUESTS || m->id == METRIC_SESSIONS)
      name = "mean", use = "count or rate";
    break;
  case STAT_SUM:
  case STAT_COUNT:
    break;
  }
  if (!use)
    return 0;
  return err_set(err, ERR_INVALID, "%s says nothing about %s (%s): use %s", name, m->name,
                 m->meaning, use);
}

enum units_kind metrics_stat_kind(const struct metric *metric, enum statistic stat) {
  switch (stat) {
  case STAT_COUNT:
    return UNITS_NONE;
  case STAT_SUM:
    return metric->indicator ? UNITS_NONE : metric->kind;
  case STAT_SHARE:
    return UNITS_RATIO;
  case STAT_RATE:
    return UNITS_RATE;
  case STAT_MEAN:
    return metric->indicator ? UNITS_RATIO : metric->kind;
  case STAT_MIN:
  case STAT_MAX:
  case STAT_QUANTILE:
    break;
  }
  return metric->kind;
}

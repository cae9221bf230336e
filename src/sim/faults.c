/* faults.c: the grammar of faults, and the draw that decides which request is hit. */
#include "sim/faults.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/units.h"

enum {
  KEY_P = 1 << 0,
  KEY_COUNT = 1 << 1,
  KEY_PATH = 1 << 2,
  KEY_AFTER = 1 << 3,
  KEY_FOR = 1 << 4,
  KEY_CODE = 1 << 5,
  KEY_RETRY_AFTER = 1 << 6,
  KEY_BYTES = 1 << 7,
  KEY_DELAY = 1 << 8,
  KEY_EVENTS = 1 << 9
};
#define KEY_CHOICE (KEY_P | KEY_COUNT | KEY_PATH)

static const char *const key_names[] = {"p",    "count",       "path",  "after", "for",
                                        "code", "retry_after", "bytes", "delay", "events"};

struct kind_spec {
  const char *name;
  unsigned keys;     /* allowed */
  unsigned required; /* must be there */
};

static const struct kind_spec kinds[FAULT_KINDS] = {
    [FAULT_REFUSE] = {"refuse", KEY_FOR, 0},
    [FAULT_RESET] = {"reset", KEY_CHOICE | KEY_AFTER, 0},
    [FAULT_STATUS] = {"status", KEY_CHOICE | KEY_CODE | KEY_RETRY_AFTER, KEY_CODE},
    [FAULT_STALL] = {"stall", KEY_CHOICE | KEY_AFTER | KEY_FOR, 0},
    [FAULT_EMPTY] = {"empty", KEY_CHOICE, 0},
    [FAULT_ONLY_DONE] = {"only_done", KEY_CHOICE, 0},
    [FAULT_NOT_SSE] = {"not_sse", KEY_CHOICE, 0},
    [FAULT_ERROR] = {"error", KEY_CHOICE | KEY_AFTER, 0},
    [FAULT_BAD_JSON] = {"bad_json", KEY_CHOICE | KEY_AFTER, 0},
    [FAULT_TRUNCATED] = {"truncated", KEY_CHOICE | KEY_AFTER, 0},
    [FAULT_CUT] = {"cut", KEY_CHOICE | KEY_AFTER, 0},
    [FAULT_SLOW] = {"slow", KEY_CHOICE | KEY_BYTES | KEY_DELAY, KEY_BYTES | KEY_DELAY},
    [FAULT_COALESCE] = {"coalesce", KEY_CHOICE | KEY_EVENTS, KEY_EVENTS},
    [FAULT_NO_USAGE] = {"no_usage", KEY_CHOICE, 0},
    [FAULT_NO_OUTPUT] = {"no_output", KEY_CHOICE, 0},
};

const char *faults_kind_name(enum fault_kind kind) {
  return kinds[kind].name;
}

/* ---- reading ---- */

/* The next word of *at, copied into `word`; false at the end. */
static bool next_word(const char **at, char *word, size_t size) {
  const char *p = *at + strspn(*at, " \t");
  size_t len = strcspn(p, " \t");
  *at = p + len;
  if (!len)
    return false;
  snprintf(word, size, "%.*s", (int)len, p);
  return true;
}

static int parse_kind(const char *word, struct fault *f, unsigned *seen, struct err *err) {
  size_t digits = strspn(word, "0123456789");
  if (digits == 3 && !word[3]) {
    f->kind = FAULT_STATUS;
    f->code = (uint32_t)((word[0] - '0') * 100 + (word[1] - '0') * 10 + (word[2] - '0'));
    *seen |= KEY_CODE;
    return 0;
  }
  const char *names[FAULT_KINDS];
  for (int k = 0; k < FAULT_KINDS; k++) {
    names[k] = kinds[k].name;
    if (strcmp(word, names[k]) == 0) {
      f->kind = (enum fault_kind)k;
      return 0;
    }
  }
  const char *near = err_nearest(word, names, FAULT_KINDS);
  if (near)
    return err_set(err, ERR_INVALID, "fault \"%s\" is unknown (did you mean %s?)", word, near);
  return err_set(
      err, ERR_INVALID,
      "fault \"%s\" is unknown; known: refuse reset status stall empty only_done not_sse "
      "error bad_json truncated cut slow coalesce no_usage no_output, or a status such "
      "as 503",
      word);
}

/* On failure *out is 0, so that a caller may convert it before it looks at the result. */
#define MOST_TIME_S 86400.0
#define MOST_WHOLE 1e9

static int parse_number(const char *key, const char *text, enum units_kind unit, double *out,
                        struct err *err) {
  double x = -1, most = unit == UNITS_TIME ? MOST_TIME_S : unit == UNITS_RATIO ? 1 : MOST_WHOLE;
  *out = 0;
  if (units_parse(text, strlen(text), unit, &x, NULL, NULL) || x < 0 || x > most)
    return err_set(err, ERR_INVALID, "%s=%.60s: %s is needed", key, text,
                   unit == UNITS_RATIO ? "a probability from 0 to 1"
                                       : "a time from 0 to 24h, as in 250ms or 2s,");
  *out = x;
  return 0;
}

static int parse_whole(const char *key, const char *text, double least, double *out,
                       struct err *err) {
  double x = -1;
  *out = 0;
  if (units_parse(text, strlen(text), UNITS_NONE, &x, NULL, NULL) || x != floor(x) || x < least ||
      x > MOST_WHOLE)
    return err_set(err, ERR_INVALID, "%s=%.60s: a whole number from %.0f to %.0f is needed", key,
                   text, least, MOST_WHOLE);
  *out = x;
  return 0;
}

static int parse_path(const char *text, struct fault *f, struct err *err) {
  if (text[0] != '/' || strlen(text) >= sizeof f->path)
    return err_set(err, ERR_INVALID, "path=%s: a path such as /v1/models is needed", text);
  snprintf(f->path, sizeof f->path, "%s", text);
  return 0;
}

static int set_key(unsigned key, const char *name, const char *text, struct fault *f,
                   struct err *err) {
  double x = 0;
  int rc = 0;
  switch (key) {
  case KEY_P:
    rc = parse_number(name, text, UNITS_RATIO, &x, err);
    f->p = x;
    return rc;
  case KEY_PATH:
    return parse_path(text, f, err);
  case KEY_COUNT:
    rc = parse_whole(name, text, 1, &x, err);
    f->count = (uint64_t)x;
    return rc;
  case KEY_AFTER:
    rc = parse_whole(name, text, 0, &x, err);
    f->after = (uint32_t)x;
    return rc;
  case KEY_CODE:
    rc = parse_whole(name, text, 1, &x, err);
    f->code = (uint32_t)x;
    return rc;
  case KEY_RETRY_AFTER:
    rc = parse_number(name, text, UNITS_TIME, &x, err);
    f->retry_after_s = (uint64_t)x;
    if (!rc && x != floor(x))
      rc = err_set(err, ERR_INVALID,
                   "retry_after=%.60s: the header has whole seconds: write %.0fs or %.0fs", text,
                   floor(x), ceil(x));
    return rc;
  case KEY_BYTES:
    rc = parse_whole(name, text, 1, &x, err);
    f->bytes = (uint32_t)x;
    return rc;
  case KEY_EVENTS:
    rc = parse_whole(name, text, 1, &x, err);
    f->events = (uint32_t)x;
    return rc;
  case KEY_FOR:
    rc = parse_number(name, text, UNITS_TIME, &x, err);
    f->for_ns = (uint64_t)(x * 1e9);
    return rc;
  default: /* KEY_DELAY */
    rc = parse_number(name, text, UNITS_TIME, &x, err);
    f->delay_ns = (uint64_t)(x * 1e9);
    return rc;
  }
}

/* As it was written: "status", or the code that stands for it. `room` lives on. */
static const char *shown_kind(const struct fault *f, bool by_code, char room[12]) {
  if (!by_code)
    return kinds[f->kind].name;
  snprintf(room, 12, "%03u", f->code);
  return room;
}

static int parse_key(char *word, struct fault *f, bool by_code, unsigned *seen, struct err *err) {
  char room[12];
  const char *kind = shown_kind(f, by_code, room);
  char *eq = strchr(word, '=');
  if (!eq)
    return err_set(err, ERR_INVALID, "fault %s: \"%s\" should be key=value", kind, word);
  *eq = '\0';
  const char *allowed[ARRAY_LEN(key_names)];
  size_t n = 0;
  for (size_t i = 0; i < ARRAY_LEN(key_names); i++) {
    if (!(kinds[f->kind].keys & 1u << i))
      continue;
    allowed[n++] = key_names[i];
    if (strcmp(word, key_names[i]) != 0)
      continue;
    int rc = set_key(1u << i, word, eq + 1, f, err);
    if (rc)
      return err_prefix(err, "fault %s", kind);
    *seen |= 1u << i;
    return 0;
  }
  const char *near = err_nearest(word, allowed, n);
  if (near)
    return err_set(err, ERR_INVALID, "fault %s has no key %s (did you mean %s?)", kind, word, near);
  char list[128] = "";
  for (size_t i = 0; i < n; i++)
    snprintf(list + strlen(list), sizeof list - strlen(list), " %s", allowed[i]);
  return err_set(err, ERR_INVALID, "fault %s has no key %s; it takes%s", kind, word, list);
}

static int check_complete(const struct fault *f, bool by_code, unsigned seen, struct err *err) {
  const struct kind_spec *k = &kinds[f->kind];
  for (size_t i = 0; i < ARRAY_LEN(key_names); i++)
    if (k->required & ~seen & 1u << i)
      return err_set(err, ERR_INVALID, "fault %s needs %s=…", k->name, key_names[i]);
  if (by_code && (f->code < 400 || f->code > 599))
    return err_set(err, ERR_INVALID, "fault %03u: it is no error status (400 to 599)", f->code);
  if (f->kind == FAULT_STATUS && (f->code < 400 || f->code > 599))
    return err_set(err, ERR_INVALID, "fault status: code=%u is no error status (400 to 599)",
                   f->code);
  return 0;
}

int faults_parse(const char *spec, struct fault *out, struct err *err) {
  *out = (struct fault){.p = 1, .after = FAULT_NEVER};
  char word[128];
  unsigned seen = 0;
  if (!next_word(&spec, word, sizeof word))
    return err_set(err, ERR_INVALID, "a fault needs a kind, such as \"empty p=0.3\"");
  int rc = parse_kind(word, out, &seen, err);
  bool by_code = out->kind == FAULT_STATUS && seen;
  while (!rc && next_word(&spec, word, sizeof word))
    rc = parse_key(word, out, by_code, &seen, err);
  return rc ? rc : check_complete(out, by_code, seen, err);
}

/* ---- writing ---- */

static void put_seconds(struct buf *out, const char *key, uint64_t ns) {
  buf_printf(out, " %s=%.9gs", key, (double)ns / 1e9);
}

void faults_format(const struct fault *f, struct buf *out) {
  buf_puts(out, kinds[f->kind].name);
  if (f->kind == FAULT_STATUS)
    buf_printf(out, " code=%u", f->code);
  if (f->retry_after_s)
    put_seconds(out, "retry_after", f->retry_after_s * NS_PER_S);
  if (f->after != FAULT_NEVER)
    buf_printf(out, " after=%u", f->after);
  if (f->for_ns)
    put_seconds(out, "for", f->for_ns);
  if (f->kind == FAULT_SLOW) {
    buf_printf(out, " bytes=%u", f->bytes);
    put_seconds(out, "delay", f->delay_ns);
  }
  if (f->kind == FAULT_COALESCE)
    buf_printf(out, " events=%u", f->events);
  if (f->p < 1)
    buf_printf(out, " p=%.9g", f->p);
  if (f->count)
    buf_printf(out, " count=%llu", (unsigned long long)f->count);
  if (f->path[0])
    buf_printf(out, " path=%s", f->path);
}

/* ---- the list ---- */

void faults_init(struct faults *list, uint64_t seed) {
  *list = (struct faults){.seed = seed};
}

void faults_free(struct faults *list) {
  mem_free(list->items);
  *list = (struct faults){0};
}

uint64_t faults_add(struct faults *list, const struct fault *f) {
  MEM_GROW(list->items, list->n, list->cap);
  list->items[list->n] = *f;
  list->items[list->n].serial = ++list->last_serial;
  list->items[list->n++].over = false;
  return list->last_serial;
}

bool faults_end(struct faults *list, uint64_t serial) {
  for (size_t i = 0; i < list->n; i++)
    if (list->items[i].serial == serial && !list->items[i].over)
      return list->items[i].over = true;
  return false;
}

void faults_clear(struct faults *list) {
  list->n = 0;
}

const struct fault *faults_refuse(const struct faults *list) {
  for (size_t i = 0; i < list->n; i++)
    if (list->items[i].kind == FAULT_REFUSE && !list->items[i].over)
      return &list->items[i];
  return NULL;
}

static bool path_matches(const struct fault *f, const char *path) {
  if (f->path[0])
    return strcmp(f->path, path) == 0;
  static const char *const paths[] = {"/v1/chat/completions", "/v1/completions",
                                      "/v1/responses",        "/generate",
                                      "/completion",          "/completions"};
  for (size_t i = 0; i < ARRAY_LEN(paths); i++)
    if (strcmp(path, paths[i]) == 0)
      return true;
  return false;
}

static bool hits(const struct faults *list, size_t i, const char *path, uint64_t number) {
  const struct fault *f = &list->items[i];
  if (f->over || f->kind == FAULT_REFUSE || (f->count && f->used >= f->count) ||
      !path_matches(f, path))
    return false;
  if (f->p >= 1)
    return true;
  struct rng r;
  rng_init(&r, list->seed + i * UINT64_C(0x9e3779b97f4a7c15), number);
  return rng_unit(&r) < f->p;
}

static void set_ending(struct fault_plan *plan, const struct fault *f) {
  if (plan->ending != FAULT_KINDS)
    return;
  plan->ending = f->kind;
  plan->ending_after = f->after;
  if (f->after == FAULT_NEVER && f->kind == FAULT_ERROR)
    plan->ending_after = 0;
}

/* Replies that replace the whole answer; an earlier one of the list stays. */
static void set_instead(struct fault_plan *plan, const struct fault *f) {
  if (plan->instead != FAULT_KINDS)
    return;
  plan->instead = f->kind;
  plan->status = f->code;
  plan->retry_after_s = f->retry_after_s;
}

static void apply(struct fault_plan *plan, const struct fault *f) {
  uint32_t after = f->after == FAULT_NEVER ? 0 : f->after;
  plan->kinds |= 1u << f->kind;
  switch (f->kind) {
  case FAULT_RESET:
    if (after)
      set_ending(plan, f);
    else
      set_instead(plan, f);
    break;
  case FAULT_STATUS:
  case FAULT_EMPTY:
  case FAULT_ONLY_DONE:
  case FAULT_NOT_SSE:
    set_instead(plan, f);
    break;
  case FAULT_ERROR:
  case FAULT_TRUNCATED:
  case FAULT_CUT:
    set_ending(plan, f);
    break;
  case FAULT_STALL:
    plan->stall_after = after;
    plan->stall_ns = f->for_ns;
    break;
  case FAULT_BAD_JSON:
    plan->bad_json_at = after;
    break;
  case FAULT_SLOW:
    plan->piece_bytes = f->bytes;
    plan->piece_delay_ns = f->delay_ns;
    break;
  case FAULT_COALESCE:
    plan->coalesce = f->events;
    break;
  case FAULT_NO_USAGE:
    plan->no_usage = true;
    break;
  case FAULT_NO_OUTPUT:
    plan->no_output = true;
    break;
  case FAULT_REFUSE:
  case FAULT_KINDS:
    break;
  }
}

void faults_decide(struct faults *list, const char *path, uint64_t number, struct fault_plan *out) {
  *out = (struct fault_plan){.instead = FAULT_KINDS,
                             .ending = FAULT_KINDS,
                             .ending_after = FAULT_NEVER,
                             .stall_after = FAULT_NEVER,
                             .bad_json_at = FAULT_NEVER};
  for (size_t i = 0; i < list->n; i++)
    if (hits(list, i, path, number)) {
      list->items[i].used++;
      apply(out, &list->items[i]);
    }
}

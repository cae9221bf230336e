/* simprofile.c: a profile that a user wrote for their own GPU, as the table that its file returned.
 *
 * Every field goes through simconfig_set, so that a file and the command line take the same words
 * and say the same about a wrong one. What is special: fields that replace a base, and decode steps
 * that were measured instead of the three figures of the formula (kv/steptime.h). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/units.h"
#include "sim/simconfig.h"
#include "text/json.h"
#include "text/value.h"

enum { MAX_STEPS = 1000 };
#define MOST_STEP_S 86400.0
#define MOST_BARE_S 1.0 /* a step's time without a unit: more is a number of milliseconds */
/* How far a measured decode step may lie from the fitted formula. */
#define FIT_WITHIN 0.25

struct step {
  double batch, context, ns;
};

/* ---- fitting ---- */

/* ns = x[0] + x[1] · batch + x[2] · batch · context for the terms of `mask`, the others 0, by least
 * squares of the relative error. False when the points do not determine them, or one is negative.
 */
static bool fit_terms(const struct step *steps, size_t n, unsigned mask, double x[3]) {
  double a[3][4] = {{0}};
  for (size_t i = 0; i < n; i++) {
    const double f[4] = {1 / steps[i].ns, steps[i].batch / steps[i].ns,
                         steps[i].batch * steps[i].context / steps[i].ns, 1};
    for (int r = 0; r < 3; r++)
      for (int c = 0; c < 4; c++)
        a[r][c] += f[r] * f[c];
  }
  double scale[3];
  for (int r = 0; r < 3; r++) {
    scale[r] = sqrt(a[r][r]);
    if (mask & 1u << r)
      continue;
    for (int c = 0; c < 3; c++)
      a[r][c] = a[c][r] = 0;
    a[r][r] = scale[r] = 1;
    a[r][3] = 0;
  }
  for (int r = 0; r < 3; r++) { /* positive definite, scaled: no pivoting */
    if (!(a[r][r] > 1e-9 * scale[r] * scale[r]))
      return false;
    for (int below = r + 1; below < 3; below++) {
      double by = a[below][r] / a[r][r];
      for (int c = r; c < 4; c++)
        a[below][c] -= by * a[r][c];
    }
  }
  for (int r = 2; r >= 0; r--) {
    x[r] = a[r][3];
    for (int c = r + 1; c < 3; c++)
      x[r] -= a[r][c] * x[c];
    x[r] /= a[r][r];
    if (x[r] < 0)
      return false;
  }
  return true;
}

static double relative_error(const struct step *s, const double x[3]) {
  return (x[0] + x[1] * s->batch + x[2] * s->batch * s->context) / s->ns - 1;
}

/* The best of all sets of terms that are not negative; the constant alone always fits somehow. */
static void fit(const struct step *steps, size_t n, double best[3]) {
  double least = INFINITY;
  for (unsigned mask = 1; mask < 8; mask++) {
    double x[3] = {0}, sum = 0;
    if (!fit_terms(steps, n, mask, x))
      continue;
    for (size_t i = 0; i < n; i++)
      sum += relative_error(&steps[i], x) * relative_error(&steps[i], x);
    if (sum < least) {
      least = sum;
      memcpy(best, x, sizeof x);
    }
  }
}

/* A field of a decode step; times may be texts with units. */
static int step_number(const struct value *v, const char *key, bool time, double *out,
                       struct err *err) {
  const struct value *x = value_get(v, key);
  if (x && x->kind == VALUE_STRING && time &&
      !units_parse(x->u.string.data, x->u.string.len, UNITS_TIME, out, NULL, NULL) &&
      *out >= 1e-9 && *out <= MOST_STEP_S)
    return 0;
  bool bare = x && (x->kind == VALUE_INT || x->kind == VALUE_DOUBLE) && value_to_double(x, out);
  if (bare && time && *out > MOST_BARE_S && *out <= MOST_STEP_S)
    return err_set(err, ERR_INVALID,
                   "%s = %g would be %g seconds; say the unit: \"%gms\", or \"%gs\" if it is so",
                   key, *out, *out, *out, *out);
  if (bare && *out >= (time ? 1e-9 : 0) && *out <= (time ? MOST_STEP_S : 1e9))
    return 0;
  return err_set(err, ERR_INVALID, "%s %s", key,
                 time ? "must be a time from 1ns to 24h, as in \"6.9ms\" or 0.0069"
                      : "must be a number from 0 to 1000000000");
}

static int read_steps(const struct value *list, struct step *steps, size_t *n, struct err *err) {
  static const char *const known[] = {"batch", "context", "time"};
  *n = value_count(list);
  if (list->kind != VALUE_ARRAY || !*n || *n > MAX_STEPS)
    return err_set(err, ERR_INVALID,
                   "decode_steps must be a list of 1 to %d {batch =, context =, time =}",
                   MAX_STEPS);
  for (size_t i = 0; i < *n; i++) {
    const struct value *v = value_at(list, i);
    struct step *s = &steps[i];
    int rc = v->kind == VALUE_OBJECT
                 ? 0
                 : err_set(err, ERR_INVALID, "must be {batch =, context =, time =}");
    for (size_t k = 0; !rc && k < v->u.object.n; k++) {
      const char *key = v->u.object.pairs[k].key;
      if (strcmp(key, known[0]) != 0 && strcmp(key, known[1]) != 0 && strcmp(key, known[2]) != 0)
        rc = err_set(err, ERR_INVALID, "unknown field %s; there are batch, context, time", key);
    }
    if (!rc)
      rc = step_number(v, "batch", false, &s->batch, err);
    if (!rc)
      rc = step_number(v, "context", false, &s->context, err);
    if (!rc)
      rc = step_number(v, "time", true, &s->ns, err);
    if (!rc && s->batch < 1)
      rc = err_set(err, ERR_INVALID, "batch must be 1 or more");
    if (rc)
      return err_prefix(err, "decode_steps[%zu]", i + 1);
    s->ns *= 1e9;
  }
  return 0;
}

static int take_steps(struct simconfig *c, const struct value *list, struct err *err) {
  struct step steps[MAX_STEPS] = {{0}};
  size_t n;
  double x[3] = {0};
  int rc = read_steps(list, steps, &n, err);
  if (rc)
    return rc;
  fit(steps, n, x);
  for (size_t i = 0; i < n; i++)
    if (fabs(relative_error(&steps[i], x)) > FIT_WITHIN)
      return err_set(err, ERR_INVALID,
                     "decode_steps[%zu] (batch %g, context %g) is %.3g ms, where the formula that "
                     "fits them all best has %.3g ms: more than %g %% apart; is a time mistyped?",
                     i + 1, steps[i].batch, steps[i].context, steps[i].ns / 1e6,
                     (relative_error(&steps[i], x) + 1) * steps[i].ns / 1e6, FIT_WITHIN * 100);
  c->time.decode_base_ns = x[0] - c->time.step_overhead_ns;
  c->time.decode_seq_ns = x[1];
  c->time.decode_context_ns = x[2];
  if (c->time.decode_base_ns < 0)
    return err_set(err, ERR_INVALID,
                   "step_overhead is %.3g ms, more than the %.3g ms that decode_steps leave for a "
                   "step without sequences",
                   c->time.step_overhead_ns / 1e6, x[0] / 1e6);
  return 0;
}

/* ---- fields ---- */

/* Texts are shown, in JSON too, and go on as C strings. */
static int check_plain(const struct value *v, const char *key, struct err *err) {
  const char *text = v->u.string.data;
  size_t len = v->u.string.len;
  bool plain = strlen(text) == len && json_utf8_valid(text, len) == len;
  for (size_t i = 0; i < len && plain; i++)
    plain = (unsigned char)text[i] >= ' ' && text[i] != 0x7f;
  return plain ? 0
               : err_set(err, ERR_INVALID,
                         "%.60s must be one line of UTF-8, without control characters", key);
}

/* "key=value" for simconfig_set. */
static int set_field(struct simconfig *c, const char *key, const struct value *v, struct err *err) {
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  buf_printf(&b, "%s=", key);
  int rc = 0;
  if (v->kind == VALUE_STRING)
    rc = check_plain(v, key, err);
  if (v->kind == VALUE_STRING)
    buf_puts(&b, v->u.string.data);
  else if (v->kind == VALUE_BOOL)
    buf_puts(&b, v->u.boolean ? "on" : "off");
  else if (v->kind == VALUE_INT || v->kind == VALUE_DOUBLE)
    json_write(&b, v);
  else
    rc = err_set(err, ERR_INVALID, "%s must be a number, a text or true or false", key);
  if (!rc)
    rc = simconfig_set(c, b.data, err);
  buf_free(&b);
  return rc;
}

static bool is_special(const char *key) {
  static const char *const keys[] = {"name", "summary", "base", "decode_steps"};
  for (size_t i = 0; i < ARRAY_LEN(keys); i++)
    if (strcmp(keys[i], key) == 0)
      return true;
  return false;
}

static bool is_tier(const char *key) {
  return strcmp(key, "offload") == 0 || strcmp(key, "shared") == 0 || strcmp(key, "transfer") == 0;
}

/* The device of a tier comes first: its latency and rate may be said apart. */
static int take_tier(struct simconfig *c, const char *tier, const struct value *table,
                     struct err *err) {
  if (table->kind != VALUE_OBJECT)
    return err_set(err, ERR_INVALID, "%s must be a table, as in %s = { %s }", tier, tier,
                   strcmp(tier, "transfer") != 0 ? "tokens = 1000000, device = \"dram\""
                                                 : "bytes_per_s = \"25GB\"");
  for (int devices = 1; devices >= 0; devices--)
    for (size_t i = 0; i < table->u.object.n; i++) {
      const char *key = table->u.object.pairs[i].key;
      char name[80];
      if ((strcmp(key, "device") == 0) != (devices == 1))
        continue;
      snprintf(name, sizeof name, "%s_%.60s", tier, key);
      int rc = set_field(c, name, &table->u.object.pairs[i].value, err);
      if (rc)
        return rc;
    }
  return 0;
}

static int take_fields(struct simconfig *c, const struct value *table, struct err *err) {
  for (size_t i = 0; i < table->u.object.n; i++) {
    const char *key = table->u.object.pairs[i].key;
    const struct value *v = &table->u.object.pairs[i].value;
    int rc = is_special(key) ? 0
             : is_tier(key)  ? take_tier(c, key, v, err)
                             : set_field(c, key, v, err);
    if (rc)
      return rc;
  }
  if (value_get(table, "kv_tokens") && value_get(table, "kv_blocks"))
    return err_set(err, ERR_INVALID, "kv_tokens and kv_blocks say the same; leave one out");
  const struct value *steps = value_get(table, "decode_steps");
  if (!steps)
    return 0;
  static const char *const own[] = {"decode_base", "decode_seq", "decode_context"};
  for (size_t i = 0; i < ARRAY_LEN(own); i++)
    if (value_get(table, own[i]))
      return err_set(err, ERR_INVALID, "%s and decode_steps say the same; leave one out", own[i]);
  return take_steps(c, steps, err);
}

/* A text of the table into a field of fixed size; absent: `otherwise`. */
static int take_text(const struct value *table, const char *key, const char *otherwise, char *out,
                     size_t size, struct err *err) {
  const struct value *v = value_get(table, key);
  const char *text = v ? value_to_string(v) : otherwise;
  if (!text || !*text || strlen(text) >= size)
    return err_set(err, ERR_INVALID, "%s must be a text of 1 to %zu bytes", key, size - 1);
  if (v && check_plain(v, key, err))
    return ERR_INVALID;
  snprintf(out, size, "%s", text);
  return 0;
}

/* Without a base these must be said, or figures would come from nowhere. */
static int check_said(const struct value *table, struct err *err) {
  static const char *const ways =
      "a profile says prefill_tokens_per_s, decode_steps (or decode_base) and kv_tokens (or "
      "kv_blocks), or names a built-in profile as base that gives the rest";
  const char *missing = NULL;
  if (!value_get(table, "prefill_tokens_per_s"))
    missing = "prefill_tokens_per_s";
  else if (!value_get(table, "decode_steps") && !value_get(table, "decode_base"))
    missing = "decode_steps";
  else if (!value_get(table, "kv_tokens") && !value_get(table, "kv_blocks"))
    missing = "kv_tokens";
  return missing ? err_set(err, ERR_INVALID, "%s is missing: %s", missing, ways) : 0;
}

/* What a profile without a base begins with: H100-sized limits and tiers of the usual kinds, and no
 * times at all. */
static int init_blank(struct simconfig *c, struct err *err) {
  int rc = simconfig_init(c, "llama-3.1-8b", err);
  c->time.prefill_tokens_per_s = c->time.step_overhead_ns = c->time.decode_base_ns = 0;
  c->time.decode_seq_ns = c->time.decode_context_ns = 0;
  c->time.request_overhead_ns = 0;
  c->time.kv_bytes_per_token = 0;
  return rc;
}

/* "models/my-gpu.lua" is profile my-gpu. */
static void name_of_file(const char *file, char *out, size_t size) {
  const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
  size_t len = strlen(name);
  if (len > 4 && strcmp(name + len - 4, ".lua") == 0)
    len -= 4;
  snprintf(out, size, "%.*s", (int)(len < size ? len : size - 1), name);
}

static int read_table(struct simconfig *c, const char *file, const struct value *table,
                      struct err *err) {
  if (table->kind != VALUE_OBJECT)
    return err_set(err, ERR_INVALID,
                   "a profile file returns a table with named fields, as in return { base = "
                   "\"llama-3.1-8b\", kv_tokens = 400000 }");
  const struct value *base = value_get(table, "base");
  char name[sizeof c->time.name];
  int rc;
  if (base && base->kind != VALUE_STRING)
    return err_set(err, ERR_INVALID, "base must be the name of a built-in profile");
  if (base && check_plain(base, "base", err))
    return ERR_INVALID;
  if (base && simconfig_init(c, base->u.string.data, err)) {
    err_prefix(err, "base");
    return ERR_INVALID;
  }
  if (!base && ((rc = check_said(table, err)) || (rc = init_blank(c, err))))
    return rc;
  if ((rc = take_fields(c, table, err)))
    return rc;
  name_of_file(file, name, sizeof name);
  if (!base)
    snprintf(c->time.summary, sizeof c->time.summary, "a profile of your own");
  if ((rc = take_text(table, "name", name, c->time.name, sizeof c->time.name, err)) ||
      (value_get(table, "summary") &&
       (rc = take_text(table, "summary", NULL, c->time.summary, sizeof c->time.summary, err))))
    return rc;
  if ((c->time.offload.tokens || c->time.shared.tokens) && !c->time.kv_bytes_per_token)
    return err_set(
        err, ERR_INVALID,
        "kv_bytes_per_token is missing: what loading from a tier takes is computed from it");
  struct simconfig copy = *c;
  return simconfig_check(&copy, err);
}

int simprofile_read(struct simconfig *c, const char *file, const struct value *table,
                    struct err *err) {
  int rc = read_table(c, file, table, err);
  if (rc)
    err_prefix(err, "%s", file);
  return rc;
}

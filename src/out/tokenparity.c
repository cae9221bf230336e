/* tokenparity.c: the server's tokens against ours, over a whole run; see tokenparity.h. */
#include "out/tokenparity.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_before(const struct table_row *r, const struct tokenparity_counts *c) {
  if (r->session != c->session)
    return r->session < c->session;
  return r->turn != c->turn ? r->turn < c->turn : r->step < c->step;
}

void tokenparity_count(const struct table *t, uint32_t arm, struct tokenparity_counts *out) {
  *out = (struct tokenparity_counts){0};
  for (size_t i = 0; i < t->n_rows; i++) {
    const struct table_row *r = &t->rows[i];
    if (!(r->flags & ROW_MEASURED) || !(r->flags & ROW_GENERATION) || r->error != SAMPLE_OK ||
        (arm != TOKENPARITY_ALL && r->arm != arm) || r->prompt_tokens < 0 || r->prompt_local < 0)
      continue;
    int64_t difference = llabs((int64_t)r->prompt_tokens - r->prompt_local);
    out->compared++;
    if (!difference)
      continue;
    if (!out->differ || is_before(r, out)) {
      out->session = r->session;
      out->turn = r->turn;
      out->step = r->step;
      out->local = r->prompt_local;
      out->server = r->prompt_tokens;
    }
    out->differ++;
    if (difference > out->largest)
      out->largest = difference;
  }
}

/* ---- what was compared before ---- */

static const char *text_of(const struct value *entry, const char *key) {
  return value_to_string(value_get(entry, key));
}

static bool has_verdict(const struct value *entry, const char *verdict) {
  const char *is = text_of(entry, "verdict");
  return is && strcmp(is, verdict) == 0;
}

bool tokenparity_proven(const struct value *list, const char *arm) {
  size_t n = 0;
  for (size_t i = 0; i < value_count(list); i++) {
    const char *of = text_of(value_at(list, i), "arm");
    if (arm && of && strcmp(of, arm) != 0)
      continue;
    n++;
    if (!has_verdict(value_at(list, i), "equal"))
      return false;
  }
  return n > 0;
}

static size_t count_verdict(const struct value *list, const char *verdict) {
  size_t n = 0;
  for (size_t i = 0; i < value_count(list); i++)
    n += has_verdict(value_at(list, i), verdict);
  return n;
}

/* The first of that verdict, one with a cause before others. */
static const struct value *first_case(const struct value *entry, const char *verdict) {
  const struct value *cases = value_get(entry, "cases"), *first = NULL;
  for (size_t i = 0; i < value_count(cases); i++) {
    const struct value *c = value_at(cases, i);
    if (!has_verdict(c, verdict))
      continue;
    if (value_count(value_get(c, "causes")))
      return c;
    first = first ? first : c;
  }
  return first;
}

/* Whether ids of this case were equal, and an earlier row is not the same case asked otherwise. */
static bool is_equal_case(const struct value *cases, size_t i) {
  const struct value *c = value_at(cases, i);
  if (!has_verdict(c, "equal"))
    return false;
  for (size_t k = 0; k < i; k++)
    if (has_verdict(value_at(cases, k), "equal") &&
        value_equal(value_get(value_at(cases, k), "case"), value_get(c, "case")) &&
        value_equal(value_get(value_at(cases, k), "form"), value_get(c, "form")))
      return false;
  return true;
}

/* Cases of an entry whose ids were equal: of conversations alone with `chat`. */
static size_t count_cases(const struct value *entry, bool chat) {
  const struct value *cases = value_get(entry, "cases");
  size_t n = 0;
  for (size_t i = 0; i < value_count(cases); i++) {
    const char *form = text_of(value_at(cases, i), "form");
    n += is_equal_case(cases, i) && (!chat || (form && strcmp(form, "messages") == 0));
  }
  return n;
}

/* Why some case of an entry could not be compared; NULL: all were. */
static const char *why_partly(const struct value *list) {
  for (size_t i = 0; i < value_count(list); i++) {
    const struct value *c = first_case(value_at(list, i), "error");
    if (c)
      return text_of(c, "reason") ? text_of(c, "reason") : "no answer";
  }
  return NULL;
}

/* "r0 (qwen3.jinja) from token 1: double_bos" */
static void describe(const struct value *entry, char *out, size_t size) {
  const struct value *c = first_case(entry, "differs");
  const char *server = text_of(entry, "server"), *renderer = text_of(entry, "renderer");
  int64_t index = 0;
  int n = snprintf(out, size, "%.40s%s%.60s%s differs", server ? server : "?", renderer ? " (" : "",
                   renderer ? renderer : "", renderer ? ")" : "");
  if (value_to_int(value_get(value_get(c, "difference"), "index"), &index))
    n += snprintf(out + n, size - (size_t)n, " from token %lld", (long long)index);
  const char *cause = text_of(value_at(value_get(c, "causes"), 0), "name");
  bool count = cause && strcmp(cause, "usage") == 0;
  snprintf(out + n, size - (size_t)n, ": %s%s", cause ? cause : "no cause is known",
           count ? ".prompt_tokens is not the number of its token ids" : "");
}

/* ---- both together ---- */

static const char *arm_name(const struct table *t, uint32_t arm) {
  return arm < t->arms.n ? t->arms.items[arm] : NULL;
}

/* The arms, the last turn for requests without one. */
static uint32_t arm_at(const struct table *t, size_t i) {
  return i < t->arms.n ? (uint32_t)i : TABLE_NO_ARM;
}

static void note_counts(struct tokenparity_judgement *out, const struct tokenparity_counts *c) {
  snprintf(out->note, sizeof out->note,
           "%llu of %llu prompts have another number of tokens on the server, by up to %lld; the "
           "first %d, here %d",
           (unsigned long long)c->differ, (unsigned long long)c->compared, (long long)c->largest,
           c->server, c->local);
}

static const char *why_unknown(const struct value *list, const char *missing) {
  for (size_t i = 0; i < value_count(list) && !missing; i++)
    if (!has_verdict(value_at(list, i), "equal"))
      missing = text_of(value_at(list, i), "reason");
  if (!missing && count_verdict(list, "count"))
    missing = "the server gives no ids, counts alone";
  return missing ? missing : "nothing was compared";
}

/* Whether a server of the arm is counted already. */
static bool is_known_to_differ(const struct value *list, const char *arm) {
  for (size_t i = 0; i < value_count(list); i++) {
    const char *of = text_of(value_at(list, i), "arm");
    if (has_verdict(value_at(list, i), "differs") && (!arm || !of || strcmp(of, arm) == 0))
      return true;
  }
  return false;
}

void tokenparity_judge(const struct table *t, const struct value *list, const char *missing,
                       struct tokenparity_judgement *out) {
  size_t differ = count_verdict(list, "differs"), equal = count_verdict(list, "equal");
  size_t all = value_count(list);
  uint64_t compared = 0;
  *out = (struct tokenparity_judgement){.figure = (double)differ};
  for (size_t i = 0; i < all && differ && !out->note[0]; i++)
    if (has_verdict(value_at(list, i), "differs"))
      describe(value_at(list, i), out->note, sizeof out->note);
  for (size_t i = 0; i <= t->arms.n; i++) {
    struct tokenparity_counts c;
    tokenparity_count(t, arm_at(t, i), &c);
    compared += c.compared;
    const char *arm = arm_name(t, arm_at(t, i));
    if (!c.differ || tokenparity_proven(list, arm) || is_known_to_differ(list, arm))
      continue; /* where ids were equal, usage_vs_local judges the counts */
    out->figure++;
    if (!out->note[0])
      note_counts(out, &c);
  }
  if (out->note[0])
    return;
  if (all && equal == all) {
    size_t n = count_cases(value_at(list, 0), false), chats = count_cases(value_at(list, 0), true);
    const char *partly = why_partly(list);
    char what[80] = "a prompt";
    if (n != 1 || chats)
      snprintf(what, sizeof what, "%zu request%s (%zu of them conversations)", n, n == 1 ? "" : "s",
               chats);
    snprintf(out->note, sizeof out->note, "ids of %s were equal on %zu server%s before the load%s",
             what, all, all == 1 ? "" : "s",
             partly || chats ? "" : " (without --template no conversation is rendered here)");
    if (partly)
      snprintf(out->note + strlen(out->note), sizeof out->note - strlen(out->note),
               "; not all could be compared: %.80s", partly);
  } else if (equal || compared) {
    snprintf(out->note, sizeof out->note,
             "not proven for all: %.80s; ids were equal on %zu of %zu, the counts of %llu prompts "
             "are equal",
             why_unknown(list, missing), equal, all, (unsigned long long)compared);
  } else {
    out->figure = NAN;
    snprintf(out->note, sizeof out->note, "not measured: parity is not proven (%.150s)",
             why_unknown(list, missing));
  }
}

static struct value counts_value(const struct table *t, uint32_t arm,
                                 const struct tokenparity_counts *c) {
  struct value v = value_object();
  value_set(&v, "arm", value_cstring(arm_name(t, arm)));
  value_set(&v, "compared", value_int((int64_t)c->compared));
  value_set(&v, "differ", value_int((int64_t)c->differ));
  value_set(&v, "largest", value_int(c->largest));
  struct value first = value_null();
  if (c->differ) {
    first = value_object();
    value_set(&first, "session", value_int((int64_t)c->session));
    value_set(&first, "turn", value_int(c->turn));
    value_set(&first, "step", value_int(c->step));
    value_set(&first, "local", value_int(c->local));
    value_set(&first, "server", value_int(c->server));
  }
  value_set(&v, "first", first);
  return v;
}

struct value tokenparity_value(const struct table *t, const struct value *list,
                               const char *missing) {
  struct value v = value_object();
  value_set(&v, "proven", value_bool(tokenparity_proven(list, NULL)));
  value_set(&v, "missing", value_cstring(missing));
  value_set(&v, "comparisons",
            list && list->kind == VALUE_ARRAY ? value_copy(list) : value_array());
  struct value *counts = value_set(&v, "counts", value_array());
  for (size_t i = 0; i <= t->arms.n; i++) {
    struct tokenparity_counts c;
    tokenparity_count(t, arm_at(t, i), &c);
    if (c.compared)
      value_push(counts, counts_value(t, arm_at(t, i), &c));
  }
  return v;
}

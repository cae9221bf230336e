/* table.c: compact rows, the gaps, and what happens when there are too many of those. */
#include "out/table.h"

#define XXH_INLINE_ALL
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "out/usage.h"
#include "text/json.h"

void probe_init(struct probe *p) {
  hist_init(&p->start_lag);
  hist_init(&p->timer_late);
  hist_init(&p->wakeup_busy);
  hist_init(&p->read_error);
  p->no_kernel_stamp = 0;
  p->cpu_max = NAN;
  p->cpu_worker = 0;
  p->n_cpu = 0;
  p->stalled_ns = p->longest_stall_ns = 0;
}

void probe_merge(struct probe *p, const struct probe *other) {
  hist_merge(&p->start_lag, &other->start_lag);
  hist_merge(&p->timer_late, &other->timer_late);
  hist_merge(&p->wakeup_busy, &other->wakeup_busy);
  hist_merge(&p->read_error, &other->read_error);
  p->no_kernel_stamp += other->no_kernel_stamp;
  if (other->n_cpu && !(p->cpu_max >= other->cpu_max)) {
    p->cpu_max = other->cpu_max;
    p->cpu_worker = other->cpu_worker;
  }
  p->n_cpu += other->n_cpu;
  if (other->stalled_ns > p->stalled_ns)
    p->stalled_ns = other->stalled_ns;
  if (other->longest_stall_ns > p->longest_stall_ns)
    p->longest_stall_ns = other->longest_stall_ns;
}

struct table *table_new(size_t max_gaps) {
  struct table *t = MEM_NEW(struct table);
  t->max_gaps = max_gaps ? max_gaps : TABLE_MAX_GAPS;
  names_init(&t->arms, 1024);
  names_init(&t->replicas, 4096);
  names_init(&t->policies, UINT8_MAX);
  names_init(&t->tags, UINT32_MAX);
  names_init(&t->value_names, 4096);
  probe_init(&t->probe);
  return t;
}

void table_free(struct table *t) {
  if (!t)
    return;
  mem_free(t->rows);
  mem_free(t->sessions);
  mem_free(t->values);
  mem_free(t->gaps);
  mem_free(t->gap_tokens);
  for (size_t i = 0; i < t->n_arm_hists; i++)
    mem_free(t->arm_hists[i]);
  mem_free(t->arm_hists);
  names_free(&t->arms);
  names_free(&t->replicas);
  names_free(&t->policies);
  names_free(&t->tags);
  names_free(&t->value_names);
  for (size_t i = 0; i < t->n_tag_values; i++)
    value_free(&t->tag_values[i]);
  mem_free(t->tag_values);
  for (int i = 0; i < SAMPLE_ERROR_COUNT; i++) {
    mem_free(t->detail[i]);
    mem_free(t->other_detail[i]);
    mem_free(t->session_detail[i]);
  }
  mem_free(t->replica_flags);
  mem_free(t->replica_rotation);
  mem_free(t->windows);
  mem_free(t);
}

static uint16_t arm_number(struct table *t, const char *arm) {
  return arm ? (uint16_t)names_intern(&t->arms, arm) : TABLE_NO_ARM;
}

/* Tag sets repeat: each different one is parsed once. */
static uint32_t tags_number(struct table *t, const char *json) {
  uint32_t number = names_intern(&t->tags, json ? json : "{}");
  while (t->n_tag_values < t->tags.n) {
    MEM_GROW(t->tag_values, t->n_tag_values, t->cap_tag_values);
    const char *text = t->tags.items[t->n_tag_values];
    struct value v;
    if (json_parse(text, strlen(text), &v, NULL) || v.kind != VALUE_OBJECT) {
      value_free(&v);
      v = value_object();
    }
    t->tag_values[t->n_tag_values++] = v;
  }
  return number;
}

static int32_t cut32(int64_t v) {
  return v == SAMPLE_ABSENT || v < 0 ? -1 : v > INT32_MAX ? INT32_MAX : (int32_t)v;
}

static uint32_t cut_u32(uint64_t v) {
  return v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

static int64_t overhead(const struct sample *s) {
  const int64_t parts[] = {s->render_ns, s->tokenize_ns, s->hash_ns};
  int64_t sum = SAMPLE_ABSENT;
  for (size_t i = 0; i < ARRAY_LEN(parts); i++)
    if (parts[i] != SAMPLE_ABSENT)
      sum = (sum == SAMPLE_ABSENT ? 0 : sum) + parts[i];
  return sum;
}

static struct arm_hist *arm_hist_of(struct table *t, uint16_t arm) {
  size_t i = arm == TABLE_NO_ARM ? 0 : (size_t)arm + 1;
  if (i >= t->n_arm_hists) {
    t->arm_hists = mem_resize(t->arm_hists, i + 1, sizeof *t->arm_hists);
    while (t->n_arm_hists <= i)
      t->arm_hists[t->n_arm_hists++] = NULL;
  }
  if (!t->arm_hists[i]) {
    t->arm_hists[i] = MEM_NEW(struct arm_hist);
    hist_init(&t->arm_hists[i]->itl);
    hist_init(&t->arm_hists[i]->itl_token);
  }
  return t->arm_hists[i];
}

static void count_gap(struct arm_hist *h, uint64_t gap, int32_t tokens) {
  hist_add(&h->itl, gap);
  if (tokens > 0)
    hist_add(&h->itl_token, (gap + (uint64_t)tokens / 2) / (uint64_t)tokens);
}

static void drop_gaps(struct table *t) {
  for (size_t i = 0; i < t->n_rows; i++) {
    struct table_row *row = &t->rows[i];
    struct arm_hist *h = row->n_gaps ? arm_hist_of(t, row->arm) : NULL;
    for (uint32_t g = 0; g < row->n_gaps; g++)
      count_gap(h, (uint64_t)(t->gaps[row->gaps + g] + 0.5f),
                t->gap_tokens ? t->gap_tokens[row->gaps + g] : 0);
    row->n_gaps = 0;
  }
  mem_free(t->gaps);
  mem_free(t->gap_tokens);
  t->gaps = NULL;
  t->gap_tokens = NULL;
  t->n_gaps = t->cap_gaps = 0;
  t->gaps_dropped = true;
}

static bool grow_gaps(struct table *t, size_t more) {
  if (t->n_gaps + more <= t->cap_gaps)
    return true;
  size_t cap = t->cap_gaps ? t->cap_gaps * 2 : 1024;
  while (cap < t->n_gaps + more)
    cap *= 2;
  float *gaps = mem_try_resize(t->gaps, cap * sizeof *gaps);
  if (!gaps)
    return false;
  t->gaps = gaps;
  if (t->gap_tokens) {
    uint16_t *tokens = mem_try_resize(t->gap_tokens, cap * sizeof *tokens);
    if (!tokens)
      return false;
    t->gap_tokens = tokens; /* what is new is written with its gaps: no page before it is used */
  }
  t->cap_gaps = cap;
  return true;
}

static void add_gaps(struct table *t, struct table_row *row, const struct sample *s) {
  if (!t->gaps_dropped && (s->n_gaps > t->max_gaps - t->n_gaps || !grow_gaps(t, s->n_gaps)))
    drop_gaps(t);
  if (t->gaps_dropped) {
    struct arm_hist *h = arm_hist_of(t, row->arm);
    for (size_t i = 0; i < s->n_gaps; i++)
      count_gap(h, s->gaps_ns[i], s->gap_tokens ? s->gap_tokens[i] : 0);
    return;
  }
  row->gaps = t->n_gaps;
  row->n_gaps = cut_u32(s->n_gaps);
  for (size_t i = 0; i < s->n_gaps; i++)
    t->gaps[t->n_gaps + i] = (float)s->gaps_ns[i];
  if (s->gap_tokens && !t->gap_tokens)
    t->gap_tokens = mem_calloc(t->cap_gaps, sizeof *t->gap_tokens);
  for (size_t i = 0; t->gap_tokens && i < s->n_gaps; i++) {
    int32_t n = s->gap_tokens ? s->gap_tokens[i] : 0;
    t->gap_tokens[t->n_gaps + i] = (uint16_t)(n < 0 ? 0 : n > UINT16_MAX ? UINT16_MAX : n);
  }
  t->n_gaps += s->n_gaps;
}

/* Rows come as workers hand them over: the first is the one that ended first. */
static void keep_detail(char **slot, uint64_t *slot_end, const char *detail, uint64_t end) {
  if (!detail || !*detail || (*slot && end >= *slot_end))
    return;
  mem_free(*slot);
  *slot = mem_strdup(detail);
  *slot_end = end;
}

static uint16_t replica_number(struct table *t, const char *id, uint8_t flags) {
  if (!id)
    return TABLE_NO_REPLICA;
  uint16_t number = (uint16_t)names_intern(&t->replicas, id);
  while (t->n_replica_flags < t->replicas.n) {
    MEM_GROW(t->replica_flags, t->n_replica_flags, t->cap_replica_flags);
    t->replica_flags[t->n_replica_flags++] = 0;
  }
  t->replica_flags[number] |= flags;
  return number;
}

/* The replica that answered, else the one that was chosen. */
static uint16_t replica_of(struct table *t, const struct sample *s) {
  uint8_t flags = s->measured && s->is_generation ? REPLICA_USED : 0;
  int64_t chosen = s->chosen ? names_find(&t->replicas, s->chosen) : -1;
  if (s->served && chosen >= 0)
    t->replica_flags[chosen] |= flags;
  return replica_number(t, s->served ? s->served : s->chosen, flags);
}

void table_add_sample(struct table *t, const struct sample *s) {
  struct table_row *rows = mem_try_grow(t->rows, t->n_rows, &t->cap_rows, sizeof *rows);
  if (!rows) {
    t->dropped++;
    return;
  }
  t->rows = rows;
  struct table_row *row = &t->rows[t->n_rows];
  *row = (struct table_row){
      .request = s->request_id ? XXH3_64bits(s->request_id, strlen(s->request_id)) : 0,
      .possible = -1,
      .available = -1,
      .captured = -1,
      .delivered = -1,
      .session = s->session,
      .sched = s->t[STAMP_SCHED],
      .start = s->t[STAMP_START],
      .sent = s->t[STAMP_SENT],
      .first_token = s->t[STAMP_FIRST_TOKEN],
      .last_token = s->t[STAMP_LAST_TOKEN],
      .done = s->t[STAMP_DONE],
      .first_visible = s->first_visible,
      .error_ns = s->error_ns,
      .overhead_ns = overhead(s),
      .prompt_local = cut32(s->prompt_tokens_local),
      .output_local = cut32(s->output_tokens_local),
      .survived = cut32(s->survived_tokens),
      .first_tokens = cut32(s->first_tokens),
      .window_tokens = cut32(s->window_tokens),
      .asked_tokens = cut32(s->asked_tokens),
      .output_events = cut_u32(s->output_events),
      .coalesced = cut_u32(s->coalesced),
      .tags = tags_number(t, s->tags),
      .turn = s->turn,
      .step = s->step,
      .branch = s->branch,
      .block = s->trial_block,
      .arm = arm_number(t, s->arm),
      .replica = replica_of(t, s),
      .status = (uint16_t)(s->status > 0 && s->status <= UINT16_MAX ? s->status : 0),
      .error = (uint8_t)s->error,
      .reconnects = (uint8_t)(s->reconnects < UINT8_MAX ? s->reconnects : UINT8_MAX),
      .policy = s->policy ? (uint8_t)names_intern(&t->policies, s->policy) : 0,
      .flags =
          (uint8_t)((s->measured ? ROW_MEASURED : 0) | (s->is_generation ? ROW_GENERATION : 0) |
                    (s->policy ? ROW_ROUTED : 0) | (s->fallback ? ROW_FALLBACK : 0) |
                    (s->streamed ? ROW_STREAMED : 0) | (s->stream_asked ? ROW_STREAM_ASKED : 0)),
  };
  if (usage_fill(row, s))
    row->flags |= ROW_BAD_USAGE;
  if (s->measured && s->is_generation && s->streamed && s->error == SAMPLE_OK && s->n_gaps)
    add_gaps(t, row, s);
  t->n_rows++;
  t->has_generation = t->has_generation || s->is_generation;
  if (!s->measured)
    return;
  char **details = s->is_generation ? t->detail : t->other_detail;
  keep_detail(&details[s->error], &t->detail_end[s->is_generation ? 0 : 1][s->error],
              s->error_detail, s->t[STAMP_DONE]);
}

void table_add_session(struct table *t, const struct session_record *s) {
  struct table_session *sessions =
      mem_try_grow(t->sessions, t->n_sessions, &t->cap_sessions, sizeof *sessions);
  if (!sessions) {
    t->dropped++;
    return;
  }
  t->sessions = sessions;
  t->sessions[t->n_sessions++] = (struct table_session){
      .session = s->session,
      .sched = s->sched_ns,
      .start = s->start_ns,
      .end = s->end_ns,
      .block = s->trial_block,
      .arm = arm_number(t, s->arm),
      .error = (uint8_t)s->error,
      .measured = s->measured,
  };
  if (s->measured)
    keep_detail(&t->session_detail[s->error], &t->detail_end[2][s->error], s->detail, s->end_ns);
}

void table_add_value(struct table *t, const struct value_record *v) {
  struct table_value *values = mem_try_grow(t->values, t->n_values, &t->cap_values, sizeof *values);
  if (!values) {
    t->dropped++;
    return;
  }
  t->values = values;
  t->values[t->n_values++] = (struct table_value){
      .session = v->session,
      .time = v->time_ns,
      .value = v->value,
      .name = names_intern(&t->value_names, v->name),
      .tags = tags_number(t, v->tags),
      .arm = arm_number(t, v->arm),
      .is_check = v->is_check,
      .measured = v->measured,
  };
}

void table_add_replica(struct table *t, const char *id, double rotation) {
  if (rotation < 0 && names_find(&t->replicas, id) < 0)
    return;
  uint16_t number = replica_number(t, id, rotation < 0 ? 0 : REPLICA_GIVEN);
  while (t->n_replica_rotation <= number) {
    MEM_GROW(t->replica_rotation, t->n_replica_rotation, t->cap_replica_rotation);
    t->replica_rotation[t->n_replica_rotation++] = 1;
  }
  t->replica_rotation[number] = rotation < 0 ? 0 : rotation;
}

double table_replica_rotation(const struct table *t, size_t replica) {
  return replica < t->n_replica_rotation ? t->replica_rotation[replica] : 1;
}

void table_add_window(struct table *t, const char *arm, uint64_t start_ns, uint64_t end_ns) {
  assert(start_ns <= end_ns);
  MEM_GROW(t->windows, t->n_windows, t->cap_windows);
  t->windows[t->n_windows++] = (struct table_window){arm_number(t, arm), start_ns, end_ns};
}

/* ---- sessions as clusters ---- */

static int compare_u64(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* All different ids of measured sessions, ascending. */
static uint64_t *session_ids(const struct table *t, size_t *n) {
  size_t all = t->n_rows + t->n_sessions + t->n_values, k = 0;
  uint64_t *ids = mem_resize(NULL, all, sizeof *ids);
  /* Runs of one session are common: dropping neighbours that repeat spares most of the sorting. */
#define ADD(measured, id)                                                                          \
  if ((measured) && (!k || ids[k - 1] != (id)))                                                    \
  ids[k++] = (id)
  for (size_t i = 0; i < t->n_rows; i++)
    ADD(t->rows[i].flags & ROW_MEASURED, t->rows[i].session);
  for (size_t i = 0; i < t->n_sessions; i++)
    ADD(t->sessions[i].measured, t->sessions[i].session);
  for (size_t i = 0; i < t->n_values; i++)
    ADD(t->values[i].measured, t->values[i].session);
#undef ADD
  qsort(ids, k, sizeof *ids, compare_u64);
  size_t unique = 0;
  for (size_t i = 0; i < k; i++)
    if (!unique || ids[unique - 1] != ids[i])
      ids[unique++] = ids[i];
  *n = unique;
  return ids;
}

static uint32_t find_cluster(const uint64_t *ids, size_t n, bool measured, uint64_t id) {
  if (!measured)
    return TABLE_NO_CLUSTER;
  if (id < n && ids[id] == id) /* sessions are usually numbered 0, 1, 2 … without holes */
    return (uint32_t)id;
  size_t lo = 0, hi = n;
  while (hi - lo > 1) {
    size_t mid = (lo + hi) / 2;
    if (ids[mid] <= id)
      lo = mid;
    else
      hi = mid;
  }
  return (uint32_t)lo;
}

/* A server that leaves the field out on a miss is known to report from its first hit on; its misses
 * before that were zeros as well. Rows without a replica's name share one gateway. */
static void infer_zeros(struct table *t) {
  bool *reports = mem_calloc(t->replicas.n + 1, sizeof *reports);
#define REPORTS(row) reports[(row)->replica == TABLE_NO_REPLICA ? t->replicas.n : (row)->replica]
  for (size_t i = 0; i < t->n_rows; i++)
    if (t->rows[i].cached_state != CACHED_ABSENT)
      REPORTS(&t->rows[i]) = true;
  for (size_t i = 0; i < t->n_rows; i++) {
    struct table_row *row = &t->rows[i];
    bool usage = row->prompt_tokens >= 0 || row->output_tokens >= 0;
    if (row->cached_state != CACHED_ABSENT || !usage || (row->flags & ROW_BAD_USAGE) ||
        !REPORTS(row))
      continue;
    row->cached_state = CACHED_INFERRED_ZERO;
    row->cached_tokens = 0;
  }
#undef REPORTS
  mem_free(reports);
}

void table_finish(struct table *t) {
  size_t n;
  uint64_t *ids = session_ids(t, &n);
  assert(n < UINT32_MAX);
  t->n_clusters = (uint32_t)n;
  for (size_t i = 0; i < t->n_rows; i++)
    t->rows[i].cluster = find_cluster(ids, n, t->rows[i].flags & ROW_MEASURED, t->rows[i].session);
  for (size_t i = 0; i < t->n_sessions; i++)
    t->sessions[i].cluster = find_cluster(ids, n, t->sessions[i].measured, t->sessions[i].session);
  for (size_t i = 0; i < t->n_values; i++)
    t->values[i].cluster = find_cluster(ids, n, t->values[i].measured, t->values[i].session);
  mem_free(ids);
  infer_zeros(t);
}

/* ---- windows and tokens ---- */

static bool window_applies(const struct table_window *w, uint16_t arm) {
  return arm == TABLE_NO_ARM || w->arm == TABLE_NO_ARM || w->arm == arm;
}

double table_window_seconds(const struct table *t, uint16_t arm) {
  uint64_t ns = 0;
  for (size_t i = 0; i < t->n_windows; i++)
    if (window_applies(&t->windows[i], arm))
      ns += t->windows[i].end_ns - t->windows[i].start_ns;
  return (double)ns / 1e9;
}

bool table_in_window(const struct table *t, uint16_t arm, uint64_t time_ns) {
  for (size_t i = 0; i < t->n_windows; i++) {
    const struct table_window *w = &t->windows[i];
    if (window_applies(w, arm) && time_ns != SAMPLE_NEVER && time_ns >= w->start_ns &&
        time_ns <= w->end_ns)
      return true;
  }
  return false;
}

int32_t table_row_output(const struct table_row *row) {
  return row->output_tokens >= 0 ? row->output_tokens : row->output_local;
}

int32_t table_row_prompt(const struct table_row *row) {
  return row->prompt_tokens >= 0 ? row->prompt_tokens : row->prompt_local;
}

double table_window_tokens(const struct table *t, const struct table_row *row) {
  if (row->window_tokens >= 0)
    return row->window_tokens;
  int32_t n = table_row_output(row);
  if (n <= 0 || row->first_token == SAMPLE_NEVER || row->last_token == SAMPLE_NEVER)
    return 0;
  uint64_t first = row->first_token, last = row->last_token;
  if (last <= first)
    return table_in_window(t, row->arm, first) ? n : 0;
  double inside = 0;
  for (size_t i = 0; i < t->n_windows; i++) {
    const struct table_window *w = &t->windows[i];
    if (!window_applies(w, row->arm))
      continue;
    uint64_t a = first > w->start_ns ? first : w->start_ns, b = last < w->end_ns ? last : w->end_ns;
    if (b > a)
      inside += (double)(b - a);
  }
  return n * inside / (double)(last - first);
}

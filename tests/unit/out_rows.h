/* out_rows.h: short ways to make samples for the tests of src/out. */
#ifndef TESTS_UNIT_OUT_ROWS_H
#define TESTS_UNIT_OUT_ROWS_H

#include "base/mem.h"
#include "out/table.h"

#define MS NS_PER_MS

/* A good generation request of `session`: due and started at start_ms, first token ttft_ms later,
 * last token after `tail_ms` more, done 1 ms after that. */
static inline struct sample *row_ok(uint64_t session, uint32_t turn, double start_ms,
                                    double ttft_ms, double tail_ms) {
  struct sample *s = sample_new();
  uint64_t start = (uint64_t)(start_ms * 1e6), first = start + (uint64_t)(ttft_ms * 1e6);
  s->session = session;
  s->turn = turn;
  s->step = 1;
  s->measured = s->is_generation = s->streamed = s->stream_asked = true;
  s->status = 200;
  s->t[STAMP_SCHED] = s->t[STAMP_START] = s->t[STAMP_CONNECTED] = start;
  s->t[STAMP_SENT] = start;
  s->t[STAMP_HEADERS] = s->t[STAMP_FIRST_BYTE] = s->t[STAMP_FIRST_TOKEN] = first;
  s->first_visible = first;
  s->t[STAMP_LAST_TOKEN] = first + (uint64_t)(tail_ms * 1e6);
  s->t[STAMP_DONE] = s->t[STAMP_LAST_TOKEN] + MS;
  return s;
}

static inline struct sample *row_failed(uint64_t session, uint32_t turn, double start_ms,
                                        enum sample_error error) {
  struct sample *s = row_ok(session, turn, start_ms, 1, 1);
  s->error = error;
  s->t[STAMP_FIRST_TOKEN] = s->t[STAMP_LAST_TOKEN] = s->first_visible = SAMPLE_NEVER;
  return s;
}

static inline struct sample *row_tokens(struct sample *s, int64_t prompt, int64_t output,
                                        int64_t cached) {
  s->prompt_tokens = prompt;
  s->output_tokens = output;
  s->cached_tokens = cached;
  s->cached_state = cached == SAMPLE_ABSENT ? CACHED_ABSENT : cached ? CACHED_VALUE : CACHED_ZERO;
  return s;
}

static inline struct sample *row_tags(struct sample *s, const char *json) {
  s->tags = mem_strdup(json);
  return s;
}

/* Adds and frees. */
static inline void row_add(struct table *t, struct sample *s) {
  table_add_sample(t, s);
  sample_free(s);
}

static inline struct session_record row_session(uint64_t session, double start_ms, double end_ms,
                                                enum sample_error error) {
  return (struct session_record){.session = session,
                                 .sched_ns = (uint64_t)(start_ms * 1e6),
                                 .start_ns = (uint64_t)(start_ms * 1e6),
                                 .end_ns = (uint64_t)(end_ms * 1e6),
                                 .error = error,
                                 .measured = true};
}

static inline void row_value(struct table *t, uint64_t session, const char *name, double value,
                             const char *tags, bool check) {
  struct value_record v = {.session = session,
                           .name = name,
                           .value = value,
                           .tags = tags ? mem_strdup(tags) : NULL,
                           .is_check = check,
                           .measured = true};
  table_add_value(t, &v);
  mem_free(v.tags);
}

#endif

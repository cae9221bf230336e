/* engine_trace.h: a trace of one replica's inputs, read from JSON and checked.
 *
 * Format: tests/data/engine/README.md, section 1; a request may name its `adapter`, and
 * the config `watermark_blocks`, as well. A trace is input from outside: everything the engine
 * would assert on is refused here with the place where it stands. */
#ifndef KV_ENGINE_TRACE_H
#define KV_ENGINE_TRACE_H

#include "kv/engine.h"
#include "text/value.h"

/* Largest step number of an arrival, abort or reset: every step is recorded, idle ones too. */
#define ENGINE_TRACE_MAX_STEP 1000000

struct engine_trace_request {
  struct engine_request req; /* user: the engine_trace_request itself; sample: its `output` */
  const struct value *id;    /* a string, lives in the trace */
  const uint32_t *output;    /* req.max_output tokens */
  int64_t admitted_step, first_token_step, end_step; /* for the runner; −1 = not yet */
};

/* One input of rule S1; the order of the kinds is the order within a step. */
enum engine_trace_kind { ENGINE_TRACE_ARRIVAL, ENGINE_TRACE_ABORT, ENGINE_TRACE_RESET };
struct engine_trace_input {
  uint32_t step;
  enum engine_trace_kind kind;
  size_t index; /* of the request, or of the reset */
  bool reset_running;
};

struct engine_trace {
  struct engine_config config;
  struct engine_trace_request *requests;
  size_t n_requests;
  struct engine_trace_input *inputs; /* sorted: the order in which they happen */
  size_t n_inputs;
  struct value root;
};

/* ERR_INVALID: no JSON, a key missing, unknown or out of range; ERR_UNSUPPORTED: chunked prefill
 * off. On failure there is nothing to free. */
NODISCARD int engine_trace_read(const char *json, size_t len, struct engine_trace *t,
                                struct err *err);
void engine_trace_free(struct engine_trace *t);

#endif

/* fuzz_engine_trace.c: hostile traces for the trace reader, and the engine under whatever small
 * trace gets through: the run must end with nothing running, waiting or held. */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "kv/engine.h"
#include "kv/engine_trace.h"
#include "text/json.h"

#define CHECK(what)                                                                                \
  do {                                                                                             \
    if (!(what)) {                                                                                 \
      fprintf(stderr, "fuzz_engine_trace: %s does not hold\n", #what);                             \
      abort();                                                                                     \
    }                                                                                              \
  } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Memory and time that a legal trace may ask for are not what is looked for here. */
static bool is_small(const struct engine_trace *t) {
  return t->config.num_blocks <= 4096 && (!t->n_inputs || t->inputs[t->n_inputs - 1].step <= 1000);
}

static void check_end(const struct value *result, uint32_t num_blocks) {
  const struct value *steps = value_get(value_get(result, "expect"), "steps");
  const struct value *last = value_at(steps, value_count(steps) - 1);
  int64_t running, waiting, free_blocks;
  CHECK(value_to_int(value_get(last, "running"), &running) && running == 0);
  CHECK(value_to_int(value_get(last, "waiting"), &waiting) && waiting == 0);
  CHECK(value_to_int(value_get(last, "free_blocks"), &free_blocks));
  CHECK(free_blocks == (int64_t)num_blocks - 1);
  const struct value *totals = value_get(value_get(result, "expect"), "totals");
  CHECK(value_count(value_get(totals, "final_free_queue")) == num_blocks - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *json = (const char *)data;
  struct engine_trace trace;
  struct err err;
  if (engine_trace_read(json, size, &trace, &err))
    return 0;
  bool small = is_small(&trace);
  uint32_t num_blocks = trace.config.num_blocks;
  engine_trace_free(&trace);
  struct buf out;
  buf_init(&out, BUF_MAX_OWN);
  if (small && !engine_replay(json, size, &out, &err)) {
    struct value result;
    CHECK(!json_parse(out.data, out.len, &result, &err));
    check_end(&result, num_blocks);
    value_free(&result);
  }
  buf_free(&out);
  return 0;
}

/* usage.c: keeps the counts that can be true. */
#include "out/usage.h"

/* −1 for what is not there, and for what no count can be; the latter sets *impossible. */
static int32_t take(int64_t n, bool *impossible) {
  if (n == SAMPLE_ABSENT)
    return -1;
  if (n < 0 || n > INT32_MAX) {
    *impossible = true;
    return -1;
  }
  return (int32_t)n;
}

bool usage_fill(struct table_row *row, const struct sample *s) {
  bool impossible = s->usage_odd;
  row->prompt_tokens = take(s->prompt_tokens, &impossible);
  row->output_tokens = take(s->output_tokens, &impossible);
  row->cached_tokens = take(sample_cached_tokens(s), &impossible);
  row->cached_state = (uint8_t)s->cached_state;
  int32_t reasoning = take(s->reasoning_tokens, &impossible);
  if (row->output_tokens == 0 && s->output_events) {
    row->output_tokens = -1;
    impossible = true;
  }
  impossible |= row->output_tokens >= 0 && reasoning > row->output_tokens;
  if (row->prompt_tokens >= 0 && row->cached_tokens > row->prompt_tokens) {
    row->cached_tokens = -1;
    impossible = true;
  }
  if (row->cached_tokens < 0)
    row->cached_state = CACHED_ABSENT;
  return impossible;
}

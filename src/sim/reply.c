/* reply.c: what the forms of replies share. Written by hand, not through struct value: an event is
 * made for every token of every stream. */
#include "sim/reply.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "text/json.h"

void reply_init(struct reply *r, const struct genrequest *request, const struct reply_options *o) {
  *r = (struct reply){.o = *o, .request = request};
  buf_init(&r->head, BUF_MAX_OWN);
}

void reply_free(struct reply *r) {
  buf_free(&r->head);
  mem_free(r->transfer);
}

void reply_put_ids(const uint32_t *ids, size_t n, struct buf *out) {
  buf_putc(out, '[');
  for (size_t i = 0; i < n; i++) {
    if (i)
      buf_putc(out, ',');
    buf_put_uint(out, ids[i]);
  }
  buf_putc(out, ']');
}

void reply_put_string(const char *key, const char *text, struct buf *out) {
  buf_putc(out, '"');
  buf_puts(out, key);
  buf_puts(out, "\":");
  json_write_string(out, text, strlen(text));
}

uint32_t reply_shown(const struct genchoice *c, uint32_t n) {
  uint32_t bytes = n ? c->shown[n - 1] : 0;
  return bytes < c->visible ? bytes : c->visible;
}

static void cut_part(const struct genchoice *c, uint32_t *start, uint32_t *end, bool thoughts) {
  if (thoughts && *end > c->thought)
    *end = c->thought;
  if (!thoughts && *start < c->thought)
    *start = c->thought < *end ? c->thought : *end;
  if (*end < *start)
    *end = *start;
}

void reply_put_part(const struct genchoice *c, uint32_t start, uint32_t end, bool thoughts,
                    struct buf *out) {
  bool first = start == 0 && !thoughts && c->echo;
  cut_part(c, &start, &end, thoughts);
  if (!first) {
    json_write_string(out, c->text + start, end - start);
    return;
  }
  struct buf both;
  buf_init(&both, BUF_MAX_OWN);
  buf_put(&both, c->echo, c->echo_len);
  buf_put(&both, c->text + start, end - start);
  json_write_string(out, both.data ? both.data : "", both.len);
  buf_free(&both);
}

bool reply_has_part(const struct genchoice *c, uint32_t start, uint32_t end, bool thoughts) {
  cut_part(c, &start, &end, thoughts);
  return end > start;
}

void reply_say(const struct genchoice *c, uint32_t start, uint32_t end, bool ids,
               struct events *out) {
  bool echo = !start && c->echo_len;
  bool visible =
      !c->call_name && (echo || (end > c->before && reply_has_part(c, start, end, false)));
  events_say(out, end > start || echo || ids, visible);
}

void reply_put_progress(const struct reply_progress *p, struct buf *out) {
  buf_printf(out,
             ",\"prompt_progress\":{\"total\":%u,\"cache\":%u,\"processed\":%u,\"time_ms\":%llu}",
             p->total, p->cached, p->processed, (unsigned long long)(p->time_ns / NS_PER_MS));
}

void reply_put_timings(const struct reply *r, const struct reply_facts *f, struct buf *out) {
  buf_printf(out,
             ",\"timings\":{\"cache_n\":%u,\"prompt_n\":%u,\"prompt_ms\":%.3f,\"predicted_n\":%u,"
             "\"predicted_ms\":%.3f}",
             f->cached, genrequest_prompt_tokens(r->request) - f->cached,
             (double)f->prefill_ns / 1e6, f->completion, (double)f->decode_ns / 1e6);
}

uint32_t reply_reasoning_tokens(const struct genrequest *q) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < q->n_choices; i++) {
    const struct genchoice *c = &q->choices[i];
    uint32_t k = 0;
    while (c->thought && k < c->output_len && (k ? c->shown[k - 1] : 0) < c->thought)
      k++;
    n += k;
  }
  return n;
}

void reply_error_event(const struct apierror *e, struct events *out) {
  buf_puts(&out->bytes, "data: ");
  apierror_write(e, &out->bytes);
  buf_puts(&out->bytes, "\n\n");
  events_end(out, TRUTH_ERROR);
  buf_puts(&out->bytes, "data: [DONE]\n\n");
  events_end(out, TRUTH_DONE);
}

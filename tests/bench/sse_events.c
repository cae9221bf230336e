/* sse_events.c: CPU time per event of reading a chat stream: text/sse.c and text/openai.c alone, no
 * socket. A synthetic stream of 200 chunks of about 250 bytes is fed with 1 and with 10 events per
 * read; prints the best and the median of the rounds, and the same for a stream with usage on every
 * chunk and for one with escapes and text beyond ASCII. Thread CPU time: other work on the machine
 * disturbs it little.
 *
 *   sse_events [ROUNDS]     default 30 */
#include "base/buf.h"
#include "base/clock.h"
#include "text/openai.h"

#include <stdio.h>
#include <stdlib.h>

#define EVENTS 200
#define REPEAT 50 /* streams in a round */

enum shape { PLAIN, USAGE, ESCAPED };

static const char *const words[] = {" the",    " cache", " of",  " a",
                                    " prefix", " that",  " was", " kept"};
static const char *const escaped[] = {
    "\\n\\n", " caf\xc3\xa9",  "\\\"x\\\"", "\\ud83d\\ude80", "\xe4\xbd\xa0\xe5\xa5\xbd",
    "\\t",    " \xe2\x82\xac", "\\u00e9"};

static void make_stream(struct buf *b, size_t *starts, enum shape shape) {
  for (size_t i = 0; i < EVENTS; i++) {
    starts[i] = b->len;
    buf_printf(
        b,
        "data: {\"id\":\"chatcmpl-6f1d2c3b4a59687786a5b4c3d2e1f001\",\"object\":"
        "\"chat.completion.chunk\",\"created\":1760000000,\"model\":"
        "\"meta-llama/Llama-3.1-8B-Instruct\",\"choices\":[{\"index\":0,\"delta\":{\"content\":"
        "\"%s\"},\"logprobs\":null,\"finish_reason\":null}]",
        shape == ESCAPED ? escaped[i % 8] : words[i % 8]);
    if (shape == USAGE)
      buf_printf(
          b,
          ",\"usage\":{\"prompt_tokens\":1200,\"total_tokens\":%zu,\"completion_tokens\":%zu,"
          "\"prompt_tokens_details\":{\"cached_tokens\":1184}}",
          1201 + i, 1 + i);
    buf_puts(b, "}\n\n");
  }
  starts[EVENTS] = b->len;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double round_ns(struct openai_stream *s, const struct buf *b, const size_t *starts,
                       size_t per_read) {
  uint64_t start = clock_thread_cpu_ns();
  for (int k = 0; k < REPEAT; k++) {
    struct err err;
    openai_stream_reset(s);
    for (size_t i = 0; i < EVENTS; i += per_read) {
      size_t len = starts[i + per_read] - starts[i];
      if (openai_stream_feed(s, b->data + starts[i], len, i + 1, &err)) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
      }
    }
    if (openai_stream_finish(s, &err) || s->result.output_events != EVENTS) {
      fprintf(stderr, "the stream was misread\n");
      exit(1);
    }
  }
  return (double)(clock_thread_cpu_ns() - start) / (REPEAT * EVENTS);
}

int main(int argc, char **argv) {
  static const char *const names[] = {"plain", "usage on each", "escapes, UTF-8"};
  int rounds = argc > 1 ? atoi(argv[1]) : 30;
  if (rounds < 1 || rounds > 100000) {
    fprintf(stderr, "usage: sse_events [ROUNDS]\n");
    return 2;
  }
  double *ns = calloc((size_t)rounds, sizeof *ns);
  for (enum shape shape = PLAIN; shape <= ESCAPED; shape++) {
    struct buf b;
    size_t starts[EVENTS + 1];
    buf_init(&b, BUF_MAX_OWN);
    make_stream(&b, starts, shape);
    for (size_t per_read = 1; per_read <= 10; per_read += 9) {
      struct openai_options options = {.api = OPENAI_CHAT, .keep_outputs = true};
      struct openai_stream s;
      openai_stream_init(&s, &options);
      for (int i = 0; i < rounds; i++)
        ns[i] = round_ns(&s, &b, starts, per_read);
      qsort(ns, (size_t)rounds, sizeof *ns, compare);
      printf("%-15s %3zu bytes/event  %2zu per read: %6.1f ns CPU per event (median %.1f, n=%d)\n",
             names[shape], b.len / EVENTS, per_read, ns[0], ns[rounds / 2], rounds);
      openai_stream_free(&s);
    }
    buf_free(&b);
  }
  free(ns);
  return 0;
}

/* live.c: the line that a run shows while it goes on. */
#include "cmd/live.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/units.h"

#define PLAIN_EVERY_S 10.0

void live_init(struct live_line *l, bool quiet) {
  *l = (struct live_line){.quiet = quiet, .phase = RUN_ENDED, .last_s = -1};
  pthread_mutex_init(&l->lock, NULL);
  l->terminal = live_can_draw(STDERR_FILENO);
}

bool live_can_draw(int fd) {
  const char *term = getenv("TERM");
  return isatty(fd) && term && *term && strcmp(term, "dumb") != 0;
}

size_t live_columns(int fd) {
  struct winsize size;
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

size_t live_report_columns(void) {
  if (isatty(STDOUT_FILENO))
    return live_columns(STDOUT_FILENO);
  const char *columns = getenv("COLUMNS");
  double n;
  if (!columns || units_parse(columns, strlen(columns), UNITS_NONE, &n, NULL, NULL) || n < 40 ||
      n > 10000)
    return 100;
  return (size_t)n;
}

/* Requests and tokens per second since about two seconds ago. */
static void count_rates(struct live_line *l, const struct run_snapshot *s) {
  double dt = s->elapsed_s - l->rate_at_s;
  uint64_t requests = s->live.requests + s->live.other_requests;
  if (dt < 0 || requests < l->rate_requests) {
    l->rate_at_s = s->elapsed_s;
    l->rate_requests = requests;
    l->rate_tokens = s->live.output_tokens;
    return;
  }
  if (dt < 0.2)
    return;
  l->rate = (double)(requests - l->rate_requests) / dt;
  l->token_rate = (double)(s->live.output_tokens - l->rate_tokens) / dt;
  if (dt >= 2) {
    l->rate_at_s = s->elapsed_s;
    l->rate_requests = requests;
    l->rate_tokens = s->live.output_tokens;
  }
}

static void add_seconds(struct buf *b, const char *name, double seconds) {
  char text[32];
  units_format_seconds(seconds, text, sizeof text);
  buf_printf(b, "%s %s", name, text);
}

/* A load bounded by sessions alone has no drain: its last sessions are as good as the first. */
static const char *phase_word(const struct run_snapshot *s) {
  if (s->interrupted)
    return "stopping";
  bool to_the_end = s->phase == RUN_DRAIN && s->window_s <= 0;
  return run_phase_name(to_the_end ? RUN_WINDOW : s->phase);
}

/* The time of the run, which nobody needs to the millisecond: " 0.4 s", " 12.3 s". */
static void add_time(struct buf *b, double seconds) {
  if (seconds < 9.95)
    buf_printf(b, " %.1f s", seconds > 0 ? seconds : 0);
  else
    add_seconds(b, "", seconds);
}

static void add_when(struct buf *b, const struct run_snapshot *s) {
  buf_puts(b, phase_word(s));
  if (s->elapsed_s <= 0)
    return;
  buf_putc(b, ':');
  add_time(b, s->elapsed_s);
  buf_puts(b, " elapsed");
  if (isnan(s->left_s))
    return;
  buf_puts(b, s->phase == RUN_DRAIN ? ", at most" : ",");
  add_time(b, s->left_s);
  buf_puts(b, " left");
}

/* What matters most comes first: a narrow terminal cuts the end off. */
static void compose(struct buf *b, const struct live_line *l, const struct run_snapshot *s) {
  if (l->title)
    buf_printf(b, "%s · ", l->title);
  add_when(b, s);
  if (s->live.ttft_n) {
    add_seconds(b, " · TTFT p50", s->live.ttft_p50_s);
    add_seconds(b, ", p95", s->live.ttft_p95_s);
  }
  uint64_t requests = s->live.requests + s->live.other_requests;
  uint64_t failed = s->live.failed + s->live.other_failed;
  buf_printf(b, " · %llu failed of %llu requests, now %.3g/s", (unsigned long long)failed,
             (unsigned long long)requests, l->rate);
  buf_printf(b, " · sessions: %llu active, %llu done", (unsigned long long)s->sessions_active,
             (unsigned long long)s->live.sessions_ended);
  if (s->sessions_bound)
    buf_printf(b, " of %llu", (unsigned long long)s->sessions_bound);
  if (s->live.sessions_failed)
    buf_printf(b, ", %llu failed", (unsigned long long)s->live.sessions_failed);
  if (l->token_rate >= 1)
    buf_printf(b, " · now %.0f tokens/s", l->token_rate);
}

/* Cuts to `columns` characters, at a character's start. */
static void cut(struct buf *b, size_t columns) {
  size_t seen = 0;
  for (size_t i = 0; i < b->len; i++)
    if (((unsigned char)b->data[i] & 0xC0) != 0x80 && seen++ == columns) {
      b->len = i;
      b->data[i] = '\0';
      return;
    }
}

static void write_stderr(const struct buf *b) {
  size_t done = 0;
  while (done < b->len) {
    ssize_t n = write(STDERR_FILENO, b->data + done, b->len - done);
    if (n <= 0)
      return;
    done += (size_t)n;
  }
}

static void draw(struct live_line *l, const struct run_snapshot *s) {
  struct buf line, out;
  buf_init(&line, BUF_MAX_OWN);
  buf_init(&out, BUF_MAX_OWN);
  compose(&line, l, s);
  if (l->terminal) {
    cut(&line, live_columns(STDERR_FILENO) - 1); /* asked anew: a window changes its size */
    buf_printf(&out, "\r\x1b[K%s", line.data);
    l->drawn = true;
  } else {
    buf_printf(&out, "%s\n", line.data);
  }
  write_stderr(&out);
  buf_free(&line);
  buf_free(&out);
}

void live_progress(void *user, const struct run_snapshot *s) {
  struct live_line *l = user;
  if (l->quiet)
    return;
  pthread_mutex_lock(&l->lock);
  count_rates(l, s);
  bool changed = s->phase != l->phase;
  bool due = l->terminal || changed || s->elapsed_s - l->last_s >= PLAIN_EVERY_S;
  bool shown = s->phase != RUN_LOADING && s->phase != RUN_ENDED;
  /* In a pipe or a file each line stays: one that says only that it begins is of no use. */
  uint64_t requests = s->live.requests + s->live.other_requests;
  if (!isatty(STDERR_FILENO) && !s->interrupted && requests == 0 && s->elapsed_s < 1) {
    pthread_mutex_unlock(&l->lock);
    return;
  }
  if (due && shown) {
    draw(l, s);
    l->last_s = s->elapsed_s;
  }
  l->phase = s->phase;
  pthread_mutex_unlock(&l->lock);
}

void live_print(void *user, const char *line, size_t len) {
  struct live_line *l = user;
  struct buf out;
  buf_init(&out, BUF_MAX_OWN);
  pthread_mutex_lock(&l->lock);
  if (l->drawn)
    buf_puts(&out, "\r\x1b[K");
  l->drawn = false;
  buf_put(&out, line, len);
  if (!len || line[len - 1] != '\n')
    buf_putc(&out, '\n');
  write_stderr(&out);
  pthread_mutex_unlock(&l->lock);
  buf_free(&out);
}

void live_end(struct live_line *l) {
  pthread_mutex_lock(&l->lock);
  if (l->drawn) {
    struct buf out;
    buf_init(&out, BUF_MAX_OWN);
    buf_puts(&out, "\r\x1b[K");
    write_stderr(&out);
    buf_free(&out);
  }
  l->drawn = false;
  pthread_mutex_unlock(&l->lock);
  pthread_mutex_destroy(&l->lock);
}

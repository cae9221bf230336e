/* log.c: writes log lines. The settings are the process's only mutable globals: a log without
 * them would have to be handed to every function that may warn. They are atomic. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/printable.h"

static int level_now = LOG_WARN;
static int sink_fd = -1;
static uint64_t zero_ns; /* 0 = not yet */
static int to_stderr = 1;
static void (*printer)(void *user, const char *line,
                       size_t len); /* set while no other thread runs */
static void *printer_user;

void log_set_level(enum log_level level) {
  __atomic_store_n(&level_now, (int)level, __ATOMIC_RELAXED);
}

enum log_level log_get_level(void) {
  return (enum log_level)__atomic_load_n(&level_now, __ATOMIC_RELAXED);
}

void log_set_sink(int fd) {
  log_set_zero(0);
  __atomic_store_n(&sink_fd, fd, __ATOMIC_RELAXED);
}

void log_set_zero(uint64_t zero) {
  __atomic_store_n(&zero_ns, zero, __ATOMIC_RELAXED);
}

void log_set_stderr(bool on) {
  __atomic_store_n(&to_stderr, on ? 1 : 0, __ATOMIC_RELAXED);
}

void log_set_printer(void (*print)(void *user, const char *line, size_t len), void *user) {
  printer_user = user;
  printer = print;
}

static void write_all(int fd, const char *data, size_t len) {
  while (len > 0) {
    ssize_t n = write(fd, data, len);
    if (n <= 0)
      return; /* a log that cannot be written has nobody to complain to */
    data += n;
    len -= (size_t)n;
  }
}

/* Stamp, line and line feed in one write: lines of several threads do not mix. */
static void write_sink(const char *line, size_t len) {
  int fd = __atomic_load_n(&sink_fd, __ATOMIC_RELAXED);
  if (fd < 0)
    return;
  char stamp[32] = "";
  uint64_t zero = __atomic_load_n(&zero_ns, __ATOMIC_RELAXED), now = clock_ns();
  int n = !zero ? 0
                : snprintf(stamp, sizeof stamp, "[%.3f] ",
                           now > zero ? (double)(now - zero) / (double)NS_PER_S : 0.0);
  struct iovec parts[3] = {
      {stamp, (size_t)n}, {(void *)(uintptr_t)line, len}, {(void *)(uintptr_t) "\n", 1}};
  bool whole = len > 0 && line[len - 1] == '\n';
  if (writev(fd, parts, whole ? 2 : 3) < 0)
    return; /* as above: a log that cannot be written has nobody to complain to */
}

void log_line(enum log_level level, const char *fmt, ...) {
  static const char *const names[] = {"error", "warn", "info", "debug"};
  if ((int)level > (int)log_get_level())
    return;
  char line[2048];
  int head = snprintf(line, sizeof line, "perigee: level=%s ", names[level]);
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(line + head, sizeof line - (size_t)head - 1, fmt, args);
  va_end(args);
  size_t len = (size_t)head + (n < 0 ? 0 : (size_t)n);
  if (len > sizeof line - 2)
    len = sizeof line - 2;
  printable_make(line + head, len - (size_t)head);
  for (size_t i = (size_t)head; i < len; i++)
    if (line[i] == '\n')
      line[i] = ' ';
  line[len++] = '\n';
  if (__atomic_load_n(&to_stderr, __ATOMIC_RELAXED) && printer)
    printer(printer_user, line, len);
  else if (__atomic_load_n(&to_stderr, __ATOMIC_RELAXED))
    write_all(STDERR_FILENO, line, len);
  write_sink(line, len);
}

void log_keep(const char *line, size_t len) {
  write_sink(line, len);
}

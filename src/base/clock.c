/* clock.c: reading the system's clocks, and nothing else. */
#include "base/clock.h"

#include <errno.h>
#include <time.h>

static uint64_t read_clock(clockid_t id) {
  struct timespec ts;
  int rc = clock_gettime(id, &ts);
  assert(rc == 0);
  (void)rc;
  return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t clock_ns(void) {
  return read_clock(CLOCK_MONOTONIC);
}

uint64_t clock_coarse_ns(void) {
  return read_clock(CLOCK_MONOTONIC_COARSE);
}

uint64_t clock_wall_ns(void) {
  return read_clock(CLOCK_REALTIME);
}

uint64_t clock_thread_cpu_ns(void) {
  return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

bool clock_cpu_of_thread(pthread_t thread, uint64_t *ns) {
  clockid_t id;
  struct timespec ts;
  if (pthread_getcpuclockid(thread, &id) != 0 || clock_gettime(id, &ts) != 0)
    return false;
  *ns = (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
  return true;
}

int64_t clock_realtime_offset_ns(void) {
  int64_t offset = 0;
  uint64_t tightest = UINT64_MAX;
  for (int i = 0; i < 5; i++) {
    uint64_t before = clock_ns();
    uint64_t wall = clock_wall_ns();
    uint64_t after = clock_ns();
    if (after - before < tightest) {
      tightest = after - before;
      offset = (int64_t)(wall - (before + (after - before) / 2));
    }
  }
  return offset;
}

void clock_sleep_ns(uint64_t ns) {
  struct timespec ts = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
  while (clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts) == EINTR)
    ;
}

void clock_format_utc(uint64_t wall_ns, char *out, size_t size) {
  time_t sec = (time_t)(wall_ns / NS_PER_S);
  struct tm tm;
  gmtime_r(&sec, &tm);
  size_t n = strftime(out, size, "%Y-%m-%dT%H:%M:%SZ", &tm);
  assert(n > 0);
  (void)n;
}

/* timer_floor.c: how late this machine itself is: Poisson arrivals from one absolute timerfd under
 * epoll, and nothing else. The ground that the engine's own lateness is held against.
 * Usage: timer_floor RATE SECONDS; prints {"n", "p50_us", "p99_us", "cpu"} (cpu: share of a core).
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void wait_until(int epoll, int timer, uint64_t due_ns) {
  struct itimerspec spec = {
      .it_value = {.tv_sec = (time_t)(due_ns / NS_PER_S), .tv_nsec = (long)(due_ns % NS_PER_S)}};
  struct epoll_event event;
  uint64_t ticks;
  if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &spec, NULL) != 0)
    exit(1);
  while (epoll_wait(epoll, &event, 1, -1) != 1)
    ;
  if (read(timer, &ticks, sizeof ticks) != sizeof ticks)
    exit(1);
}

int main(int argc, char **argv) {
  double rate = argc == 3 ? atof(argv[1]) : 0, seconds = argc == 3 ? atof(argv[2]) : 0;
  if (!(rate > 0) || !(seconds > 0) || rate * seconds > 1e8) {
    fprintf(stderr, "usage: timer_floor RATE SECONDS\n");
    return 2;
  }
  size_t cap = (size_t)(rate * seconds * 2) + 1000, n = 0;
  double *late_us = calloc(cap, sizeof *late_us);
  int epoll = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, 0);
  struct epoll_event event = {.events = EPOLLIN};
  struct rng rng;
  rng_init(&rng, 1, 0);
  if (!late_us || epoll < 0 || timer < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event))
    return 1;
  uint64_t start = clock_ns() + NS_PER_MS, cpu = clock_thread_cpu_ns();
  double at_s = 0;
  for (;;) {
    at_s += rng_exp(&rng, 1 / rate);
    if (at_s >= seconds || n == cap)
      break;
    uint64_t due = start + (uint64_t)(at_s * 1e9);
    if (clock_ns() < due)
      wait_until(epoll, timer, due);
    late_us[n++] = (double)(clock_ns() - due) / 1e3;
  }
  double busy = (double)(clock_thread_cpu_ns() - cpu) / 1e9 / seconds;
  if (!n)
    return 1;
  qsort(late_us, n, sizeof *late_us, compare);
  printf("{\"n\": %zu, \"p50_us\": %.1f, \"p99_us\": %.1f, \"cpu\": %.3f}\n", n, late_us[n / 2],
         late_us[n * 99 / 100], busy);
  free(late_us);
  close(timer);
  close(epoll);
  return 0;
}

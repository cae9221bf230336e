/* cmd.c: what several commands share: saying that it failed, and commands that are written in Lua.
 */
#include "cmd/cmd.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/printable.h"
#include "base/units.h"
#include "bind/script.h"

/* Who started this process as a point of a sweep wants the reason in its files too. */
static void tell_sweep(const char *text) {
  const char *fd = getenv(CMD_ERRORS_ENV);
  double n;
  if (fd && units_parse(fd, strlen(fd), UNITS_NONE, &n, NULL, NULL) == 0 && n > STDERR_FILENO &&
      n < 1e6)
    dprintf((int)n, "%s\n", text);
}

int cmd_fail(const char *name, int status, const struct err *err) {
  struct err shown = *err;
  printable_make(shown.text, strlen(shown.text));
  fprintf(stderr, "perigee %s: %s\n", name, shown.text);
  tell_sweep(shown.text);
  return status;
}

/* Standard output is a pipe whose reader has had enough (`| head`). */
static bool nobody_reads(void) {
  struct pollfd p = {.fd = STDOUT_FILENO};
  return poll(&p, 1, 0) == 1 && (p.revents & POLLERR);
}

int cmd_flush(int status) {
  errno = 0;
  int rc = fflush(stdout);
  if (!rc && !ferror(stdout))
    return status;
  int why = rc ? errno : 0;
  bool wanted = why != EPIPE && !nobody_reads();
  if (wanted && rc)
    fprintf(stderr, "perigee: cannot write to standard output: %s\n", strerror(why));
  else if (wanted) /* an earlier write failed, and took its reason along */
    fprintf(stderr, "perigee: not all of it could be written to standard output\n");
  __fpurge(stdout); /* exit would try again */
  clearerr(stdout);
  if (!wanted)
    return status;
  return status == EXIT_USAGE || status == EXIT_INTERRUPTED ? status : EXIT_FAILED;
}

static void on_signal(int number) {
  static const char text[] = "perigee: interrupted before anything was measured\n";
  (void)number;
  ssize_t done = write(STDERR_FILENO, text, sizeof text - 1);
  (void)done; /* the terminal may be what went away */
  _exit(EXIT_INTERRUPTED);
}

void cmd_end_on_signals(void) {
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
  for (size_t i = 0; i < ARRAY_LEN(signals); i++) {
    struct sigaction now_is;
    if (sigaction(signals[i], NULL, &now_is) == 0 && now_is.sa_handler != SIG_IGN)
      signal(signals[i], on_signal);
  }
}

int cmd_need_descriptors(size_t need, const char *what, struct err *err) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return err_set(err, ERR_IO, "cannot read the limit of open files: %s", strerror(errno));
  if (limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
      return err_set(err, ERR_IO, "cannot raise the limit of open files: %s", strerror(errno));
  }
  if (limit.rlim_cur < need)
    return err_set(err, ERR_LIMIT,
                   "%s needs at least %zu descriptors, the limit is %llu; raise it with "
                   "`ulimit -n 65536`",
                   what, need, (unsigned long long)limit.rlim_cur);
  return 0;
}

uint64_t cmd_descriptor_limit(void) {
  struct rlimit limit;
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur
                                                                                  : 0;
}

int cmd_lua_main(const char *name, const char *module, int argc, char **argv) {
  struct err err = {0};
  int status = 0;
  for (int i = 0; i < argc; i++)
    if (!argv[i][0]) {
      err_set(&err, ERR_INVALID, "argument %d is empty; see `perigee %s --help`", i + 1, name);
      return cmd_fail(name, EXIT_USAGE, &err);
    }
  int rc = script_main(module, argc, argv, &status, &err);
  if (rc)
    return cmd_fail(name, 1, &err);
  return status;
}

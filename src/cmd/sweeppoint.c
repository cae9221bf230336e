/* sweeppoint.c: starting a point's process, passing signals on, reading what it left. */
#include "cmd/sweeppoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "cmd/cmd.h"
#include "text/json.h"

#define MOST_ACTIONS 20 /* of a point's timeline in sweep.json */
#define MAX_SUMMARY ((size_t)256 << 20)

void sweeppoint_signals(sigset_t *set, sigset_t *before) {
  static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
  sigemptyset(set);
  sigaddset(set, SIGCHLD);
  signal(SIGCHLD, SIG_DFL);
  for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
    struct sigaction now_is;
    if (sigaction(ends[i], NULL, &now_is) == 0 && now_is.sa_handler != SIG_IGN)
      sigaddset(set, ends[i]);
  }
  pthread_sigmask(SIG_BLOCK, set, before);
}

/* In the child, between fork and exec: nothing that may take a lock. */
static NORETURN void become(char *const *args, const sigset_t *before, pid_t parent, int errors) {
  int null = open("/dev/null", O_RDWR);
  if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
    _exit(127);
  if (null > STDERR_FILENO)
    close(null);
  if (errors >= 0 && fcntl(errors, F_SETFD, 0) < 0)
    _exit(127);
  setpgid(0, 0); /* Ctrl-C is for us, who pass it on once */
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent)
    _exit(127);
  sigprocmask(SIG_SETMASK, before, NULL);
  execv("/proc/self/exe", args);
  _exit(127);
}

static int wait_for(pid_t pid, const sigset_t *set, bool *interrupted, int *status,
                    struct err *err) {
  for (;;) {
    int how = 0;
    pid_t got = waitpid(pid, &how, WNOHANG);
    if (got == pid) {
      *status = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
      return 0;
    }
    if (got < 0 && errno != EINTR)
      return err_set(err, ERR_IO, "cannot wait for a point's process: %s", strerror(errno));
    int number = sigwaitinfo(set, NULL);
    if (number <= 0 || number == SIGCHLD)
      continue;
    *interrupted = true;
    kill(pid, number);
  }
}

/* The last line of what cmd_fail wrote there. */
static void last_line(int fd, char why[SWEEPPOINT_WHY]) {
  off_t size = lseek(fd, 0, SEEK_END), from = size < SWEEPPOINT_WHY ? 0 : size - SWEEPPOINT_WHY + 1;
  ssize_t n = size > 0 ? pread(fd, why, SWEEPPOINT_WHY - 1, from) : 0;
  while (n > 0 && why[n - 1] == '\n')
    n--;
  why[n > 0 ? n : 0] = '\0';
  const char *line = strrchr(why, '\n');
  if (line)
    memmove(why, line + 1, strlen(line + 1) + 1);
}

int sweeppoint_run(char *const *args, const sigset_t *set, const sigset_t *before,
                   bool *interrupted, int *status, char why[SWEEPPOINT_WHY], struct err *err) {
  char text[16];
  why[0] = '\0';
  int errors = memfd_create("errors", MFD_CLOEXEC); /* without it stderr alone has them */
  snprintf(text, sizeof text, "%d", errors);
  if (errors >= 0)
    setenv(CMD_ERRORS_ENV, text, 1);
  pid_t parent = getpid(), pid = fork();
  if (pid == 0)
    become(args, before, parent, errors);
  int rc = pid < 0 ? err_set(err, ERR_IO, "cannot start a point's process: %s", strerror(errno))
                   : wait_for(pid, set, interrupted, status, err);
  unsetenv(CMD_ERRORS_ENV);
  if (errors >= 0) {
    last_line(errors, why);
    close(errors);
  }
  return rc;
}

bool sweeppoint_is_interrupted(const sigset_t *set) {
  const struct timespec at_once = {0};
  int number;
  while ((number = sigtimedwait(set, NULL, &at_once)) > 0)
    if (number != SIGCHLD)
      return true;
  return false;
}

/* ---- what it left ---- */

static char *find_folder(const char *parent, const char *prefix) {
  char *found = NULL;
  DIR *dir = opendir(parent);
  for (struct dirent *e; dir && !found && (e = readdir(dir));)
    if (strncmp(e->d_name, prefix, strlen(prefix)) == 0)
      found = mem_strdup(e->d_name);
  if (dir)
    closedir(dir);
  return found;
}

/* Null when there is no such file, or no JSON in it. */
static struct value read_json(const char *parent, const char *folder, const char *name) {
  struct value v = value_null();
  struct buf path, text;
  buf_init(&path, BUF_MAX_OWN);
  buf_init(&text, MAX_SUMMARY);
  buf_printf(&path, "%s/%s/%s", parent, folder, name);
  FILE *file = fopen(path.data, "re");
  char chunk[16384];
  size_t n;
  while (file && (n = fread(chunk, 1, sizeof chunk, file)) > 0 && !buf_add(&text, chunk, n))
    ;
  if (file)
    fclose(file);
  if (text.len && json_parse(text.data, text.len, &v, NULL))
    v = value_null();
  buf_free(&text);
  buf_free(&path);
  return v;
}

static void copy_field(struct value *to, const struct value *from, const char *name) {
  const struct value *v = value_get(from, name);
  if (v)
    value_set(to, name, value_copy(v));
}

/* Of a metric, what tables and plots of a sweep need. */
static struct value metric(const struct value *m) {
  static const char *const stats[] = {"unit", "n",   "mean", "min",  "p50",  "p90",
                                      "p95",  "p99", "max",  "rate", "share"};
  struct value v = value_object();
  for (size_t i = 0; i < ARRAY_LEN(stats); i++)
    copy_field(&v, m, stats[i]);
  const struct value *mean = value_get(value_get(m, "ci95"), "mean");
  if (mean)
    value_set(&v, "mean_ci95", value_copy(mean));
  return v;
}

static struct value metrics(const struct value *all) {
  struct value v = value_object();
  for (size_t i = 0; all && all->kind == VALUE_OBJECT && i < all->u.object.n; i++) {
    const struct value_pair *p = &all->u.object.pairs[i];
    int64_t n = 0;
    if (value_to_int(value_get(&p->value, "n"), &n) && n > 0)
      value_set(&v, p->key, metric(&p->value));
  }
  return v;
}

static void no_summary(struct value *point, int status, const char *why) {
  char reason[SWEEPPOINT_WHY + 80];
  if (status > 128 && status != 130)
    snprintf(reason, sizeof reason, "its process was ended by signal %d", status - 128);
  else
    snprintf(reason, sizeof reason, "it ended with status %d and left no summary: %s", status,
             why[0] ? why : "stderr says why");
  value_set(point, "reason", value_cstring(reason));
  value_set(point, "valid", value_null());
}

/* Of the checks those that do not hold. */
static struct value broken(const struct value *checks) {
  struct value list = value_array();
  for (size_t i = 0; i < value_count(checks); i++) {
    const struct value *ok = value_get(value_at(checks, i), "ok");
    if (ok && ok->kind == VALUE_BOOL && !ok->u.boolean)
      value_push(&list, value_copy(value_at(checks, i)));
  }
  return list;
}

/* Of a time before, during or after an action. */
static struct value span(const struct value *from, bool nested) {
  static const char *const kept[] = {"seconds", "requests", "failed", "cached_share"};
  if (!from || from->kind != VALUE_OBJECT)
    return value_null();
  struct value v = value_object();
  for (size_t i = 0; i < ARRAY_LEN(kept); i++)
    copy_field(&v, from, kept[i]);
  const struct value *mean = value_get(value_get(from, "ttft"), "mean");
  value_set(&v, "ttft_mean", mean ? value_copy(mean) : value_null());
  const struct value *replicas = value_get(from, "replicas");
  if (nested || !replicas || replicas->kind != VALUE_OBJECT)
    return v;
  struct value *of = value_set(&v, "replicas", value_object());
  for (size_t i = 0; i < replicas->u.object.n; i++)
    value_set(of, replicas->u.object.pairs[i].key, span(&replicas->u.object.pairs[i].value, true));
  return v;
}

/* What was done to the fleet, the first MOST_ACTIONS of it. */
static struct value actions(const struct value *timeline) {
  static const char *const kept[] = {"entry", "round", "by", "action", "state", "error", "at_s"};
  static const char *const spans[] = {"before", "during", "after"};
  struct value list = value_array();
  for (size_t i = 0; i < value_count(timeline) && i < MOST_ACTIONS; i++) {
    const struct value *from = value_at(timeline, i);
    struct value *v = value_push(&list, value_object());
    for (size_t k = 0; k < ARRAY_LEN(kept); k++)
      copy_field(v, from, kept[k]);
    for (size_t k = 0; k < ARRAY_LEN(spans); k++)
      value_set(v, spans[k], span(value_get(from, spans[k]), false));
  }
  return list;
}

void sweeppoint_collect(const char *parent, const char *prefix, int status, const char *why,
                        struct value *point) {
  static const char *const kept[] = {"valid",  "simulated",  "requests", "sessions",
                                     "cached", "throughput", "replicas", "expectations"};
  char *folder = find_folder(parent, prefix);
  value_set(point, "folder", value_cstring(folder));
  value_set(point, "status", value_int(status));
  struct value summary = folder ? read_json(parent, folder, "summary.json") : value_null();
  if (summary.kind != VALUE_OBJECT) {
    no_summary(point, status, why);
  } else {
    struct value run = read_json(parent, folder, "run.json");
    value_set(point, "reason", value_null());
    const struct value *reason = value_get(value_get(&summary, "outcome"), "reason");
    if (reason)
      value_set(point, "reason", value_copy(reason));
    copy_field(point, &run, "duration_s");
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
      copy_field(point, &summary, kept[i]);
    value_set(point, "broken", broken(value_get(&summary, "checks")));
    if (value_count(value_get(&summary, "timeline")))
      value_set(point, "timeline", actions(value_get(&summary, "timeline")));
    value_set(point, "metrics", metrics(value_get(&summary, "metrics")));
    value_free(&run);
  }
  value_free(&summary);
  mem_free(folder);
}

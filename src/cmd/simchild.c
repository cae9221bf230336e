/* simchild.c: starting and ending the built-in fleet's process. */
#include "cmd/simchild.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cmd/fleetopts.h"
#include "text/json.h"

#define START_NS (20 * NS_PER_S)

extern char **environ;

/* Reads one line from fd until `deadline`; ERR_TIMEOUT, ERR_CLOSED. */
static int read_line(int fd, uint64_t deadline, struct buf *line) {
  for (;;) {
    uint64_t now = clock_ns();
    if (now >= deadline)
      return ERR_TIMEOUT;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int n = poll(&p, 1, (int)((deadline - now) / NS_PER_MS) + 1);
    if (n < 0 && errno != EINTR)
      return ERR_IO;
    if (n <= 0)
      continue;
    char chunk[4096];
    ssize_t got = read(fd, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return ERR_CLOSED;
    if (buf_add(line, chunk, (size_t)got))
      return ERR_LIMIT;
    if (memchr(chunk, '\n', (size_t)got))
      return 0;
  }
}

/* `life` is the read end of a pipe that nobody writes to: its end of file, which comes however we
 * end and however early, ends the child. */
static int spawn(struct simchild *child, const char *const *args, int write_end, int life,
                 struct err *err) {
  static const char *const fixed[] = {"perigee", "sim", "--announce", "--until-eof"};
  size_t n = 0, m = ARRAY_LEN(fixed);
  while (args[n])
    n++;
  char **argv = mem_calloc(n + m + 1, sizeof *argv);
  for (size_t i = 0; i < m; i++)
    argv[i] = mem_strdup(fixed[i]);
  for (size_t i = 0; i < n; i++)
    argv[m + i] = mem_strdup(args[i]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, write_end, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, life, STDIN_FILENO);
  posix_spawnattr_t attr;
  posix_spawnattr_init(&attr);
  /* A group of its own: Ctrl-C on the terminal is for the run, which ends the fleet itself. */
  posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attr, 0);
  int rc = posix_spawn(&child->pid, "/proc/self/exe", &actions, &attr, argv, environ);
  posix_spawnattr_destroy(&attr);
  posix_spawn_file_actions_destroy(&actions);
  for (size_t i = 0; argv[i]; i++)
    mem_free(argv[i]);
  mem_free(argv);
  if (rc) {
    child->pid = 0;
    return err_set(err, ERR_IO, "cannot start the built-in fleet: %s", strerror(rc));
  }
  return 0;
}

static void close_end(int fd) {
  if (fd >= 0)
    close(fd);
}

int simchild_start(struct simchild *child, const char *const *args, uint64_t timeout_ns,
                   struct err *err) {
  *child = (struct simchild){.announce = value_null(), .life = -1};
  struct buf line;
  buf_init(&line, 1 << 20);
  int ends[2] = {-1, -1}, life[2] = {-1, -1};
  int rc = 0;
  if (pipe2(ends, O_CLOEXEC) != 0 || pipe2(life, O_CLOEXEC) != 0)
    rc = err_set(err, ERR_IO, "cannot start the built-in fleet: %s", strerror(errno));
  else
    rc = spawn(child, args, ends[1], life[0], err);
  child->life = life[1];
  close_end(ends[1]);
  close_end(life[0]);
  if (rc)
    goto out;
  rc = read_line(ends[0], clock_ns() + timeout_ns, &line);
  if (rc) {
    char how[80];
    simchild_stop(child, how, sizeof how);
    if (strcmp(how, "ended with status 2") == 0) /* it said on stderr what it does not take */
      rc = err_set(err, ERR_INVALID, "the built-in fleet does not take that option (see above)");
    else
      err_set(err, rc, "the built-in fleet did not start (%s)",
              rc == ERR_TIMEOUT ? "no answer in time" : how);
    goto out;
  }
  rc = json_parse(line.data, line.len, &child->announce, err);
  if (rc) {
    err_prefix(err, "the built-in fleet's announcement");
    char how[80];
    simchild_stop(child, how, sizeof how);
  }
out:
  if (rc) {
    close_end(child->life);
    child->life = -1;
  }
  close_end(ends[0]);
  buf_free(&line);
  return rc;
}

static void push(struct options_list *list, const char *item) {
  MEM_GROW(list->items, list->n, list->cap);
  list->items[list->n++] = item;
}

/* `name item` for each. */
static void push_each(struct options_list *list, const char *name,
                      const struct options_list *items) {
  for (size_t i = 0; i < items->n; i++)
    push(list, name), push(list, items->items[i]);
}

void simchild_set_now(struct fleet *f) {
  char text[32];
  struct tm local;
  time_t seconds = (time_t)(clock_wall_ns() / NS_PER_S);
  if (f->now)
    return;
  localtime_r(&seconds, &local);
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &local);
  f->now = mem_strdup(text);
}

static int add_replicas(struct fleet *fleet, const struct value *list, struct err *err) {
  int rc = 0;
  for (size_t i = 0; i < value_count(list) && !rc; i++) {
    const struct value *r = value_at(list, i);
    char text[256];
    snprintf(text, sizeof text, "%s=%s", value_to_string(value_get(r, "id")),
             value_to_string(value_get(r, "url")));
    rc = fleet_add_replica(fleet, text, err);
    const char *events = value_to_string(value_get(r, "kv_events"));
    const char *replay = value_to_string(value_get(r, "kv_events_replay"));
    if (!rc && events)
      fleet->replicas[fleet->n_replicas - 1].kv_events = mem_strdup(events);
    if (!rc && replay)
      fleet->replicas[fleet->n_replicas - 1].kv_replay = mem_strdup(replay);
  }
  return rc;
}

int simchild_start_fleet(struct simchild *child, const struct simopts *wish, int64_t replicas,
                         int64_t seed, struct fleet *fleet, struct err *err) {
  struct options_list args = {0};
  char count[24], spares[24], seed_text[24];
  snprintf(count, sizeof count, "%lld", (long long)(wish->replicas ? wish->replicas : replicas));
  snprintf(spares, sizeof spares, "%lld", (long long)wish->spares);
  snprintf(seed_text, sizeof seed_text, "%lld", (long long)seed);
  simchild_set_now(fleet);
  const struct {
    const char *name, *value;
  } words[] = {{"--replicas", count},
               {"--spares", spares},
               {"--seed", seed_text},
               {"--profile", wish->profile},
               {"--truth", wish->truth},
               {"--model", fleet->model},
               {"--tokenizer", fleet->tokenizer},
               {"--family", fleet->family},
               {"--template", fleet->template},
               {"--now", fleet->now}};
  for (size_t i = 0; i < ARRAY_LEN(words); i++)
    if (words[i].value)
      push(&args, words[i].name), push(&args, words[i].value);
  char block_size[40]; /* --sim-set stands over a fleet file */
  snprintf(block_size, sizeof block_size, "block_size=%u", fleet->block_size);
  if (fleet->block_size)
    push(&args, "--set"), push(&args, block_size);
  char hash_scheme[64];
  bool of_vllm = fleet->hash_scheme && strncmp(fleet->hash_scheme, "vllm-", 5) == 0;
  snprintf(hash_scheme, sizeof hash_scheme, "hash_scheme=%s", of_vllm ? fleet->hash_scheme : "");
  if (of_vllm)
    push(&args, "--set"), push(&args, hash_scheme);
  push_each(&args, "--set", &wish->sets);
  push_each(&args, "--fault", &wish->faults);
  push(&args, NULL);
  int rc = simchild_start(child, args.items, START_NS, err);
  mem_free(args.items);
  if (rc == ERR_TIMEOUT && (fleet->tokenizer || fleet->template)) /* what may take long to load */
    err_set(err, rc, "the built-in fleet did not start: it was still reading%s%s%s%s after %d s",
            fleet->tokenizer ? " --tokenizer " : "", fleet->tokenizer ? fleet->tokenizer : "",
            fleet->template ? " --template " : "", fleet->template ? fleet->template : "",
            (int)(START_NS / NS_PER_S));
  if (rc)
    return rc;
  rc = add_replicas(fleet, value_get(&child->announce, "replicas"), err);
  size_t up = fleet->n_replicas;
  if (!rc)
    rc = add_replicas(fleet, value_get(&child->announce, "spares"), err);
  fleet->n_spares = fleet->n_replicas - up;
  if (!fleet->model)
    fleet->model = mem_strdup(value_to_string(value_get(&child->announce, "model")));
  if (!fleet->tokenizer)
    fleet->tokenizer = mem_strdup("bytes");
  int64_t blocks = 0;
  if (value_to_int(value_get(&child->announce, "block_size"), &blocks))
    fleet->block_size = (uint32_t)blocks;
  const char *template = value_to_string(value_get(&child->announce, "template"));
  if (!fleet->template && value_get(&child->announce, "template_hash"))
    fleet->template = mem_strdup(template);
  if (!rc && fleet->template)
    rc = fleet_options_find_template(fleet, err);
  const struct value *admin = value_get(&child->announce, "admin");
  const char *url = value_to_string(value_get(admin, "url"));
  const char *token = value_to_string(value_get(admin, "token"));
  mem_free(fleet->admin);
  mem_free(fleet->admin_token);
  fleet->admin = url ? mem_strdup(url) : NULL;
  fleet->admin_token = token ? mem_strdup(token) : NULL;
  fleet->simulated = fleet->reports_cached = true;
  return rc;
}

/* Waits up to `timeout_ns` for the child to end; true when it has. */
static bool reap(pid_t pid, uint64_t timeout_ns, int *status) {
  uint64_t deadline = clock_ns() + timeout_ns;
  for (;;) {
    pid_t got = waitpid(pid, status, WNOHANG);
    if (got == pid || (got < 0 && errno == ECHILD))
      return true;
    if (clock_ns() >= deadline)
      return false;
    clock_sleep_ns(2 * NS_PER_MS);
  }
}

bool simchild_has_ended(const struct simchild *child, char *how, size_t how_size) {
  siginfo_t info = {0};
  if (!child->pid || waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      !info.si_pid)
    return false;
  snprintf(how, how_size,
           info.si_code == CLD_EXITED ? "ended with status %d" : "ended by signal %d",
           info.si_status);
  return true;
}

bool simchild_stop(struct simchild *child, char *how, size_t how_size) {
  bool as_asked = true;
  snprintf(how, how_size, "not running");
  if (child->pid) {
    int status = 0;
    if (reap(child->pid, 20 * NS_PER_MS, &status)) { /* it may just be ending */
      as_asked = false;
    } else {
      kill(child->pid, SIGTERM);
      if (!reap(child->pid, 2 * NS_PER_S, &status)) {
        kill(child->pid, SIGKILL);
        reap(child->pid, 5 * NS_PER_S, &status);
      }
    }
    if (WIFSIGNALED(status))
      snprintf(how, how_size, "ended by signal %d", WTERMSIG(status));
    else
      snprintf(how, how_size, "ended with status %d", WEXITSTATUS(status));
    if (WIFEXITED(status) && WEXITSTATUS(status)) /* it says on stderr what it could not do */
      as_asked = false;
  }
  value_free(&child->announce);
  close_end(child->life);
  child->life = -1;
  child->pid = 0;
  return as_asked;
}

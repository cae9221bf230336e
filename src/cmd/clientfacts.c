/* clientfacts.c: limits, timestamps, processors, libraries and tokenizer data of this machine. */
#include "cmd/clientfacts.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "bind/script.h"
#include "net/http.h"
#include "net/kstamp.h"
#include "text/tokenizer.h"
#include "version.h"

#define MAX_NAMES 64
#define STAMP_MS 500 /* a byte on the loopback is there at once */
#define STAMP_TRIES 20
#define STAMP_PAUSE_NS (5 * NS_PER_MS)

static int64_t limit_of(rlim_t n) {
  return n == RLIM_INFINITY || n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

static void put_descriptors(struct value *v) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return;
  value_set(v, "descriptors", value_int(limit_of(limit.rlim_cur)));
  value_set(v, "descriptors_hard", value_int(limit_of(limit.rlim_max)));
}

/* A connection to ourselves: three sockets, −1 for those that could not be had. */
static bool connect_pair(int *listener, int *from, int *to) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof at;
  *listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  *from = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  *to = -1;
  if (*listener < 0 || *from < 0 || bind(*listener, (struct sockaddr *)&at, sizeof at) != 0 ||
      listen(*listener, 1) != 0 || getsockname(*listener, (struct sockaddr *)&at, &len) != 0 ||
      connect(*from, (struct sockaddr *)&at, len) != 0)
    return false;
  *to = accept4(*listener, NULL, NULL, SOCK_CLOEXEC);
  return *to >= 0;
}

static bool has_kernel_stamps(void) {
  int listener, from, to;
  uint64_t wall_ns = 0;
  char byte = 'x';
  bool open = connect_pair(&listener, &from, &to);
  if (open)
    kstamp_enable(to);
  /* The kernel begins to stamp a little after the first socket of all has asked for it. */
  for (int i = 0; open && !wall_ns && i < STAMP_TRIES; i++) {
    struct pollfd ready = {.fd = to, .events = POLLIN};
    if (i)
      clock_sleep_ns(STAMP_PAUSE_NS);
    if (write(from, &byte, 1) != 1 || poll(&ready, 1, STAMP_MS) != 1 ||
        kstamp_recv(to, &byte, 1, 0, &wall_ns) != 1)
      break;
  }
  int fds[] = {listener, from, to};
  for (size_t i = 0; i < ARRAY_LEN(fds); i++)
    if (fds[i] >= 0)
      close(fds[i]);
  return wall_ns != 0;
}

static void put_processors(struct value *v) {
  cpu_set_t set;
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  size_t first = 0;
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    value_set(v, "cpus", value_int(CPU_COUNT(&set)));
    while (first < CPU_SETSIZE - 1 && !CPU_ISSET(first, &set))
      first++;
  }
  value_set(v, "cpus_online", value_int(online));
  char path[96], governor[64];
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%zu/cpufreq/scaling_governor", first);
  FILE *f = fopen(path, "re");
  if (!f)
    return;
  if (fgets(governor, sizeof governor, f)) {
    governor[strcspn(governor, "\n")] = '\0';
    value_set(v, "governor", value_cstring(governor));
  }
  fclose(f);
}

static int by_name(const void *a, const void *b) {
  const struct value *x = a, *y = b;
  return strcmp(value_to_string(x), value_to_string(y));
}

/* Folders of a tokenizer folder; rank files stand in one of theirs. */
static struct value names_in(const char *path) {
  struct value names = value_array();
  DIR *dir = opendir(path);
  for (struct dirent *entry; dir && (entry = readdir(dir)) && value_count(&names) < MAX_NAMES;)
    if (entry->d_name[0] != '.')
      value_push(&names, value_cstring(entry->d_name));
  if (dir)
    closedir(dir);
  if (value_count(&names) > 1)
    qsort(names.u.array.items, names.u.array.n, sizeof *names.u.array.items, by_name);
  return names;
}

static void put_tokenizers(struct value *v) {
  struct value *list = value_set(v, "tokenizers", value_array());
  struct buf path;
  buf_init(&path, 1 << 16);
  for (int i = 0; tokenfile_folder(i, &path); i++) {
    struct value entry = value_object();
    value_set(&entry, "path", value_string(path.data, path.len));
    value_set(&entry, "names", names_in(path.data));
    value_push(list, entry);
  }
  buf_free(&path);
}

struct value clientfacts_value(void) {
  struct value v = value_object();
  char net[256], versions[512];
  http_versions(net, sizeof net);
  snprintf(versions, sizeof versions, "perigee %s (%s), %s, %s", PERIGEE_VERSION, PERIGEE_COMMIT,
           net, script_lua_version());
  put_descriptors(&v);
  value_set(&v, "kernel_stamps", value_bool(has_kernel_stamps()));
  put_processors(&v);
  value_set(&v, "versions", value_cstring(versions));
  put_tokenizers(&v);
  return v;
}

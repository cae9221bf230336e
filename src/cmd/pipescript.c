/* pipescript.c: a script that comes through a pipe (`perigee run <(make_script)`) is read once.
 *
 * Every Lua state loads the script, and the results keep a copy: but a pipe gives its bytes to the
 * first who asks. So they move to a file in memory that takes the pipe's place. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bind/chunk.h"
#include "cmd/cmd.h"

/* N of /dev/fd/N and the like, −1 for other paths. */
static int descriptor_of(const char *path) {
  static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
  if (strcmp(path, "/dev/stdin") == 0)
    return STDIN_FILENO;
  for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
    size_t n = strlen(folders[i]);
    if (strncmp(path, folders[i], n) == 0 && strspn(path + n, "0123456789") == strlen(path + n))
      return atoi(path + n); // NOLINT(cert-err34-c): digits only
  }
  return -1;
}

/* Moves everything from one descriptor to the other; an errno, or 0. More than a script may have is
 * refused by whoever reads it. */
static int drain(int from, int to) {
  char piece[65536];
  for (size_t moved = 0;;) {
    if (moved > BIND_SOURCE_MAX)
      return EFBIG;
    ssize_t n = read(from, piece, sizeof piece);
    if (n == 0)
      return 0;
    if (n < 0 && errno == EINTR)
      continue;
    moved += n > 0 ? (size_t)n : 0;
    for (ssize_t at = 0, put; n > 0 && at < n; at += put)
      if ((put = write(to, piece + at, (size_t)(n - at))) <= 0)
        return errno ? errno : EIO;
    if (n < 0)
      return errno;
  }
}

int cmd_keep_script(const char **path, char *room, size_t size, struct err *err) {
  struct stat st;
  if (stat(*path, &st) || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
    return 0; /* read as often as need be, or an error elsewhere */
  int in = open(*path, O_RDONLY | O_CLOEXEC), memory = memfd_create("perigee-script", MFD_CLOEXEC);
  int why = in < 0 || memory < 0 ? errno : drain(in, memory);
  if (in >= 0)
    close(in);
  int fd = descriptor_of(*path);
  if (!why && fd >= 0) { /* the path, and with it every message, stays what it was */
    why = dup3(memory, fd, fd == STDIN_FILENO ? 0 : O_CLOEXEC) < 0 ? errno : 0;
    close(memory);
  } else if (!why) {
    snprintf(room, size, "/proc/self/fd/%d", memory);
    *path = room;
  } else if (memory >= 0) {
    close(memory);
  }
  if (why == EFBIG)
    return err_set(err, ERR_LIMIT, "%s is longer than the %zu MiB that a script may have", *path,
                   BIND_SOURCE_MAX >> 20);
  return why ? err_set(err, ERR_IO, "cannot read %s: %s", *path, strerror(why)) : 0;
}

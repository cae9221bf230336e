/* readtable.c: reading a Lua file that only says something, and the profiles that are such files.
 */
#include "cmd/readtable.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "bind/script.h"
#include "cmd/cmd.h"
#include "cmd/patience.h"

#define READ_NS (5 * NS_PER_S) /* of CPU time */

/* A reading, which may outlive its command: everything in it is its own. */
struct reading {
  char *path;
  struct value file;
  struct err err;
  int rc;
};

static void do_read(void *user) {
  struct reading *r = user;
  r->rc = script_value(r->path, &r->file, &r->err);
}

/* script_value bounds what Lua computes; a function of C that does not come back is left behind. */
int readtable(const char *option, const char *path, struct value *out, struct err *err) {
  struct reading *r = MEM_NEW(struct reading);
  r->path = mem_strdup(path);
  if (!patience_call(do_read, r, READ_NS, 0)) { /* nothing of the process may be freed */
    fprintf(
        stderr,
        "perigee: %s %s: it has not been read after %.0f s of CPU time: it is in a function that "
        "cannot be stopped from outside (a library's, string.find on a hard pattern)\n",
        option, path, (double)READ_NS / 1e9);
    _exit(EXIT_USAGE);
  }
  int rc = r->rc;
  *out = r->file;
  if (rc)
    *err = r->err;
  mem_free(r->path);
  mem_free(r);
  return rc;
}

static bool is_file(const char *profile) {
  size_t len = strlen(profile);
  return strchr(profile, '/') || (len > 4 && strcmp(profile + len - 4, ".lua") == 0);
}

int readtable_profile(const char *profile, struct simconfig *c, struct err *err) {
  if (!is_file(profile))
    return simconfig_init(c, profile, err) ? err_prefix(err, "--profile") : 0;
  struct value table = value_null();
  int rc = readtable("--profile", profile, &table, err);
  if (rc)
    return err_prefix(err, "--profile %s", profile);
  rc = simprofile_read(c, profile, &table, err);
  value_free(&table);
  return rc ? err_prefix(err, "--profile") : 0;
}

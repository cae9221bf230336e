/* cmd.c: what several commands share: saying that it failed, and commands that are written in Lua.
 */
#include "cmd/cmd.h"

#include <stdio.h>

#include "bind/script.h"

int cmd_fail(const char *name, int status, const struct err *err) {
  fprintf(stderr, "perigee %s: %s\n", name, err->text);
  return status;
}

int cmd_lua_main(const char *name, const char *module, int argc, char **argv) {
  struct err err = {0};
  int status = 0;
  int rc = script_main(module, argc, argv, &status, &err);
  if (rc)
    return cmd_fail(name, 1, &err);
  return status;
}

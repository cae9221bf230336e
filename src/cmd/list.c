/* list.c: `perigee list`: written in Lua, see lua/perigee/list.lua. */
#include "cmd/cmd.h"

int cmd_list(int argc, char **argv) {
  return cmd_lua_main("list", "perigee.list", argc, argv);
}

/* new.c: `perigee new`: written in Lua, see lua/perigee/new.lua. */
#include "cmd/cmd.h"

int cmd_new(int argc, char **argv) {
  return cmd_lua_main("new", "perigee.new", argc, argv);
}

/* types.c: `perigee types`: written in Lua, see lua/perigee/types.lua. */
#include "cmd/cmd.h"

int cmd_types(int argc, char **argv) {
  return cmd_lua_main("types", "perigee.types", argc, argv);
}

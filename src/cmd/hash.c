/* hash.c: `perigee hash`: written in Lua, see lua/perigee/hash.lua. */
#include "cmd/cmd.h"

int cmd_hash(int argc, char **argv) {
  return cmd_lua_main("hash", "perigee.hash", argc, argv);
}

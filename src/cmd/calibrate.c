/* calibrate.c: `perigee calibrate`: written in Lua, see lua/perigee/calibrate.lua. */
#include "cmd/cmd.h"

int cmd_calibrate(int argc, char **argv) {
  return cmd_lua_main("calibrate", "perigee.calibrate", argc, argv);
}

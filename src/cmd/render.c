/* render.c: `perigee render`: written in Lua, see lua/perigee/render.lua. */
#include "cmd/cmd.h"

int cmd_render(int argc, char **argv) {
  return cmd_lua_main("render", "perigee.render", argc, argv);
}

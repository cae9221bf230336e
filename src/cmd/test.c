/* test.c: `perigee test [--stress] [FILE…]`: the specs of scripts, see lua/perigee/test.lua. */
#include "cmd/cmd.h"

int cmd_test(int argc, char **argv) {
  return cmd_lua_main("test", "perigee.test", argc, argv);
}

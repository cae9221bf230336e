/* lua.c: `perigee lua [FILE.lua [ARG…]]`: a plain Lua script, or a prompt, with every perigee.*
 * module. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "bind/script.h"
#include "cmd/cmd.h"

static const struct options_command command = {
    .name = "lua",
    .summary = "run a Lua file, or a prompt, with every perigee.* module",
    .usage = "[FILE.lua [ARG...]]",
    .about = "Without a file it reads from standard input: a prompt on a terminal. `-` as the file "
             "reads a\n"
             "script from standard input. A module is there once it is required, as in\n"
             "json = require \"perigee.json\"; lua/README.md lists them. Nothing can wait here: "
             "there is no virtual user.",
};

int cmd_lua(int argc, char **argv) {
  struct err err = {0};
  if (argc > 0 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)) {
    options_print_help(&command);
    return 0;
  }
  if (argc > 0 && argv[0][0] == '-' && argv[0][1]) {
    err_set(&err, ERR_INVALID, "unknown option %s; see `perigee lua --help`", argv[0]);
    return cmd_fail("lua", EXIT_USAGE, &err);
  }
  struct stat st;
  if (argc > 0 && strcmp(argv[0], "-") != 0 &&
      (!argv[0][0] || stat(argv[0], &st) != 0 || S_ISDIR(st.st_mode))) {
    err_set(&err, ERR_NOT_FOUND, "\"%s\" is no file to read; see `perigee lua --help`", argv[0]);
    return cmd_fail("lua", EXIT_USAGE, &err);
  }
  int rc = argc > 0 ? script_file(argv[0], argc - 1, argv + 1, &err) : script_prompt(&err);
  return rc ? cmd_fail("lua", 1, &err) : 0;
}

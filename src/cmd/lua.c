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
             "script from standard input, and the first error ends it. Without a terminal, an "
             "error in\n"
             "what is read without a file makes the exit status 1. A module is there once it is "
             "required, as in\n"
             "json = require \"perigee.json\"; lua/README.md lists them. Nothing can wait here: "
             "there is no virtual user.\n"
             "Nothing bounds how long it runs, and Ctrl-C ends it, whatever it is in.",
};

int cmd_lua(int argc, char **argv) {
  struct err err = {0};
  int rc;
  if (argc > 0 && strcmp(argv[0], "--") == 0) {
    argc--, argv++;
  } else if (argc > 0 && argv[0][0] == '-' && argv[0][1]) {
    struct options_list args;
    rc = options_parse(&command, 1, argv, NULL, &args, &err);
    options_free(&command, NULL, &args);
    return rc < 0 ? cmd_fail("lua", EXIT_USAGE, &err) : 0;
  }
  struct stat st;
  if (argc > 0 && strcmp(argv[0], "-") != 0 &&
      (!argv[0][0] || stat(argv[0], &st) != 0 || S_ISDIR(st.st_mode))) {
    err_set(&err, ERR_NOT_FOUND, "\"%s\" is no file to read; see `perigee lua --help`", argv[0]);
    return cmd_fail("lua", EXIT_USAGE, &err);
  }
  bool failed = false;
  rc = argc > 0 ? script_file(argv[0], argc - 1, argv + 1, &err) : script_prompt(&failed, &err);
  return rc ? cmd_fail("lua", 1, &err) : failed ? EXIT_FAILED : 0;
}

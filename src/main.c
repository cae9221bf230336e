/* main.c: finds the command and runs it. Everything else is in cmd/, one file per command. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cmd/cmd.h"
#include "version.h"

struct command {
  const char *name;
  cmd_fn *run;
  const char *summary;
};

static const struct command commands[] = {
    {"run", cmd_run, "run a scenario and write the report"},
    {"sim", cmd_sim, "serve the built-in simulated fleet"},
    {"list", cmd_list, "the scenarios in reach"},
    {"new", cmd_new, "write the start of a scenario or a library"},
    {"types", cmd_types, "write editor settings for the Lua API"},
    {"lua", cmd_lua, "run a Lua file, or a prompt, with every perigee.* module"},
    {"test", cmd_test, "run the specs of scripts"},
};

static void print_help(FILE *out) {
  fprintf(out, "perigee: a scriptable benchmark engine for agentic LLM serving and KV-cache-aware "
               "routing\n\nUsage: perigee COMMAND [arguments]\n\nCommands:\n");
  for (size_t i = 0; i < ARRAY_LEN(commands); i++)
    fprintf(out, "  %-8s  %s\n", commands[i].name, commands[i].summary);
  fprintf(out, "\n`perigee COMMAND --help` says more. A first run on the built-in fleet:\n"
               "  perigee run chat_multi_turn\n");
}

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of write(2), not an end */
  signal(SIGXFSZ, SIG_IGN); /* and so is a file-size limit */
  const char *name = argc > 1 ? argv[1] : "";
  if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
    printf("perigee %s (%s)\n", PERIGEE_VERSION, PERIGEE_COMMIT);
    return 0;
  }
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
    print_help(stdout);
    return 0;
  }
  if (!*name) {
    print_help(stderr);
    return EXIT_USAGE;
  }
  const char *names[ARRAY_LEN(commands)];
  for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
    if (strcmp(name, commands[i].name) == 0)
      return commands[i].run(argc - 2, argv + 2);
    names[i] = commands[i].name;
  }
  const char *near = err_nearest(name, names, ARRAY_LEN(names));
  fprintf(stderr, "perigee: unknown command \"%s\"", name);
  if (near)
    fprintf(stderr, " (did you mean \"%s\"?)", near);
  fprintf(stderr, "\nsee `perigee --help`\n");
  return EXIT_USAGE;
}

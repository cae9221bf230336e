/* main.c: finds the command and runs it. Everything else is in cmd/, one file per command. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bind/script.h"
#include "cmd/cmd.h"
#include "net/http.h"
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
    {"hash", cmd_hash, "block hashes of a prompt, as routers and engines compute them"},
    {"render", cmd_render, "the text a chat template makes of a conversation"},
    {"tokenize", cmd_tokenize, "token ids of a text, and back"},
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
  fprintf(out, "  %-8s  %s\n", "version", "this version and those of the libraries in it");
  fprintf(out, "\n`perigee COMMAND --help` says more. A first run on the built-in fleet:\n"
               "  perigee run chat_multi_turn\n");
}

/* A standard descriptor that is closed would be given to the next file that is opened, and what is
 * meant for the terminal would land in the log or in the samples. */
static int open_standard(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
      return -1;
  return 0;
}

static void print_version(void) {
  char net[256];
  http_versions(net, sizeof net);
  printf("perigee %s (%s)\n%s, %s\n", PERIGEE_VERSION, PERIGEE_COMMIT, net, script_lua_version());
}

static int unknown(const char *name) {
  const char *names[ARRAY_LEN(commands) + 2] = {"help", "version"};
  for (size_t i = 0; i < ARRAY_LEN(commands); i++)
    names[i + 2] = commands[i].name;
  const char *near = err_nearest(name, names, ARRAY_LEN(names));
  fprintf(stderr, "perigee: unknown command \"%s\"", name);
  if (near)
    fprintf(stderr, " (did you mean \"%s\"?)", near);
  fprintf(stderr, "\nsee `perigee --help`\n");
  return EXIT_USAGE;
}

static int run_command(const char *name, int argc, char **argv) {
  for (size_t i = 0; i < ARRAY_LEN(commands); i++)
    if (strcmp(name, commands[i].name) == 0)
      return commands[i].run(argc, argv);
  return unknown(name);
}

static bool is_help(const char *word) {
  return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

static int dispatch(int argc, char **argv) {
  static char help[] = "--help";
  char *ask[] = {help, NULL};
  if (argc < 2 || !*argv[1]) {
    print_help(stderr);
    return EXIT_USAGE;
  }
  const char *name = argv[1];
  if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0 || strcmp(name, "version") == 0) {
    print_version();
    return 0;
  }
  if (is_help(name) && argc > 2 && !is_help(argv[2]))
    return run_command(argv[2], 1, ask);
  if (is_help(name)) {
    print_help(stdout);
    return 0;
  }
  return run_command(name, argc - 2, argv + 2);
}

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of write(2), not an end */
  signal(SIGXFSZ, SIG_IGN); /* and so is a file-size limit */
  if (open_standard())
    return EXIT_FAILED; /* there is nowhere to say it */
  return cmd_flush(dispatch(argc, argv));
}

/* main.c: finds the command and runs it. Everything else is in cmd/, one file per command. */
#include <fcntl.h>
#include <malloc.h>
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

static cmd_fn show_help, show_version;

static const struct command commands[] = {
    {"run", cmd_run, "run a scenario and write the report"},
    {"dry", cmd_dry, "the same in virtual time: an hour of load in seconds, all simulated"},
    {"sim", cmd_sim, "serve the built-in simulated fleet"},
    {"doctor", cmd_doctor, "check every server of a fleet, and say how to mend it"},
    {"calibrate", cmd_calibrate, "fit a profile of the built-in fleet from recorded runs"},
    {"list", cmd_list, "the scenarios in reach"},
    {"hash", cmd_hash, "block hashes of a prompt, as routers and engines compute them"},
    {"render", cmd_render, "the text a chat template makes of a conversation"},
    {"parity", cmd_parity, "compare token ids and counts with those of servers"},
    {"verify", cmd_verify, "hold a run against the log of the simulated fleet that answered it"},
    {"tokenize", cmd_tokenize, "token ids of a text, and back"},
    {"new", cmd_new, "write the start of a scenario or a library"},
    {"types", cmd_types, "write editor settings for the Lua API"},
    {"lua", cmd_lua, "run a Lua file, or a prompt, with every perigee.* module"},
    {"test", cmd_test, "run the specs of scripts"},
    {"version", show_version, "this version and those of the libraries in it"},
    {"help", show_help, "this list, or what `perigee COMMAND --help` says"},
};

static void print_help(FILE *out) {
  fprintf(out, "perigee: a scriptable benchmark engine for agentic LLM serving and KV-cache-aware "
               "routing\n\nUsage: perigee COMMAND [arguments]\n\nCommands:\n");
  for (size_t i = 0; i < ARRAY_LEN(commands); i++)
    fprintf(out, "  %-9s  %s\n", commands[i].name, commands[i].summary);
  fprintf(out, "\n`perigee COMMAND --help` says more. A first run on the built-in fleet:\n"
               "  perigee run tuning_loop --set duration=8s\n");
}

/* A standard descriptor that is closed would be given to the next file that is opened, and what is
 * meant for the terminal would land in the log or in the samples. Writing to one that was closed
 * goes on to fail, so that nobody takes silence for success. */
static int open_standard(void) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_RDWR : O_RDONLY) != fd)
      return -1;
  return 0;
}

static const struct options_command version_command = {
    .name = "version",
    .summary = "this version and those of the libraries in it",
    .usage = "",
};

static int show_version(int argc, char **argv) {
  struct err err = {0};
  struct options_list args;
  int rc = options_parse(&version_command, argc, argv, NULL, &args, &err);
  options_free(&version_command, NULL, &args);
  if (rc)
    return rc < 0 ? cmd_fail("version", EXIT_USAGE, &err) : 0;
  char net[256];
  http_versions(net, sizeof net);
  printf("perigee %s (%s)\n%s, %s\n", PERIGEE_VERSION, PERIGEE_COMMIT, net, script_lua_version());
  return 0;
}

static int unknown(const char *name) {
  const char *names[ARRAY_LEN(commands)];
  for (size_t i = 0; i < ARRAY_LEN(commands); i++)
    names[i] = commands[i].name;
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

/* `perigee help [COMMAND]` */
static int show_help(int argc, char **argv) {
  static char help[] = "--help";
  if (argc > 1) {
    struct err err;
    err_set(&err, ERR_INVALID, "one command at a time; see `perigee --help`");
    return cmd_fail("help", EXIT_USAGE, &err);
  }
  if (argc == 1 && !is_help(argv[0])) {
    char *ask[] = {help, NULL};
    return run_command(argv[0], 1, ask);
  }
  print_help(stdout);
  return 0;
}

static int dispatch(int argc, char **argv) {
  if (argc < 2 || !*argv[1]) {
    print_help(stderr);
    return EXIT_USAGE;
  }
  const char *name = argv[1];
  if (is_help(name))
    return show_help(argc - 2, argv + 2);
  if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
    return show_version(argc - 2, argv + 2);
  return run_command(name, argc - 2, argv + 2);
}

/* Samples and buffers come and go by the megabyte. Memory that the C library gives back to the
 * system each time costs a page fault per 4 KiB when it is wanted again: 3 % of a busy worker. */
static void keep_freed_memory(void) {
  mallopt(M_MMAP_THRESHOLD, 4 << 20);
  mallopt(M_TRIM_THRESHOLD, 16 << 20);
}

int main(int argc, char **argv) {
  keep_freed_memory();
  signal(SIGPIPE, SIG_IGN); /* a closed pipe is an error of write(2), not an end */
  signal(SIGXFSZ, SIG_IGN); /* and so is a file-size limit */
  if (open_standard())
    return EXIT_FAILED; /* there is nowhere to say it */
  return cmd_flush(dispatch(argc, argv));
}

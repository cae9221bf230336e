/* options.h: command-line options from one table per command.
 *
 * The table is also what --help prints, so an option cannot exist without its help. Accepted:
 * `--name value`,
 * `--name=value`, `--flag`, `--` (the rest is positional). An unknown option names the nearest
 * known one (or what `hints` has of it), a bad number what is allowed; an empty value is none.
 * Values point into argv. */
#ifndef CMD_OPTIONS_H
#define CMD_OPTIONS_H

#include "base/err.h"

enum options_kind {
  OPTIONS_FLAG,         /* bool */
  OPTIONS_TEXT,         /* const char *; the last one given holds */
  OPTIONS_ONE_TEXT,     /* the same; a second one is an error */
  OPTIONS_LIST,         /* struct options_list; may be repeated */
  OPTIONS_COUNT,        /* int64_t, a whole number >= 0 */
  OPTIONS_SECONDS,      /* double: "30s", "2m", "0.5" */
  OPTIONS_RATIO,        /* double: "5%" or 0.05 */
  OPTIONS_OPTIONAL_TEXT /* const char *: `--name` alone gives "", `--name=value` the value */
};

struct options_list {
  const char **items;
  size_t n, cap;
};

struct options_spec {
  const char *name; /* with its dashes: "--seed" */
  const char *arg;  /* how the help names the value: "N"; NULL for a flag */
  enum options_kind kind;
  size_t offset; /* of the field in the destination */
  const char *help;
};

/* What a number may be, both ends included; base units. A number without a range is 0 or more. */
struct options_range {
  const char *name; /* of the option */
  double least, most;
};

/* A name that another command has, or a reader would expect, and how it is written here. */
struct options_hint {
  const char *name; /* "--replicas" */
  const char *says; /* "--sim N" */
};

struct options_command {
  const char *name;    /* "run" */
  const char *summary; /* one line for `perigee help` */
  const char *usage;   /* "FILE.lua [options]" */
  const char *about;   /* a paragraph or two below the usage; examples; NULL = none */
  const struct options_spec *specs;
  size_t n_specs;
  size_t min_args, max_args; /* positional ones */
  const struct options_range *ranges;
  size_t n_ranges;
  const struct options_hint *hints; /* of options that this command does not have */
  size_t n_hints;
};

/* Fills `dest` (the caller sets defaults first) and `args` with the positional ones. Returns 0; 1
 * when help was asked for and printed on stdout; ERR_INVALID with a text that names the option.
 * Free both with options_free. */
NODISCARD int options_parse(const struct options_command *cmd, int argc, char **argv, void *dest,
                            struct options_list *args, struct err *err);
/* Frees the lists of dest and args. */
void options_free(const struct options_command *cmd, void *dest, struct options_list *args);
/* What --help prints. */
void options_print_help(const struct options_command *cmd);

#endif

/* cmd.h: the commands of the one binary, one file each, and the table that main.c dispatches by.
 *
 * A command gets the arguments behind its name and returns the process's exit status (DESIGN.md,
 * Validity): 0, 1 failed, 2 wrong usage, 98 not valid, 99 an expectation was not met, 130
 * interrupted. */
#ifndef CMD_CMD_H
#define CMD_CMD_H

#include "cmd/options.h"

enum {
  EXIT_FAILED = 1,
  EXIT_USAGE = 2,
  EXIT_NOT_VALID = 98,
  EXIT_NOT_MET = 99,
  EXIT_INTERRUPTED = 130
};

typedef int cmd_fn(int argc, char **argv);

cmd_fn cmd_run, cmd_dry, cmd_sim, cmd_lua, cmd_test, cmd_list, cmd_new, cmd_types, cmd_hash,
    cmd_tokenize, cmd_render, cmd_parity, cmd_doctor, cmd_verify, cmd_calibrate;

/* Prints "perigee NAME: text" on stderr and returns `status`. */
/* Names a descriptor that takes the errors of cmd_fail as well, a line each: of a sweep's points.
 */
#define CMD_ERRORS_ENV "PERIGEE_POINT_ERRORS"
int cmd_fail(const char *name, int status, const struct err *err);

/* Writes out what standard output still holds. Returns `status`, or, when not all of it could be
 * written, EXIT_FAILED in place of a status that weighs less (0, 98, 99), with a message on stderr;
 * a reader that has gone (`| head`) gets no message. */
int cmd_flush(int status);

/* Raises the limit of open files to the most that the system lets us have (every connection is one)
 * and makes sure that it is `need` at least. ERR_LIMIT names `what` needs them, and `ulimit -n`. */
NODISCARD int cmd_need_descriptors(size_t need, const char *what, struct err *err);
/* The limit of open files as it is now; 0 when there is none. */
uint64_t cmd_descriptor_limit(void);

/* From here on SIGINT, SIGTERM and SIGHUP (where they are not ignored) end the process with
 * EXIT_INTERRUPTED and a line on stderr: nothing has been measured that is worth keeping, and the
 * built-in fleet ends with its parent. */
void cmd_end_on_signals(void);

/* Runs `main(args)` of a module that is written in Lua (perigee.new, perigee.list …) in a plain
 * state. */
int cmd_lua_main(const char *name, const char *module, int argc, char **argv);

#endif

/* script.h: Lua outside a run: one-shot states for commands, and calls into modules written in Lua.
 *
 * Nothing can wait here: there is no virtual user. Used by `perigee lua`, `test`, `new`, `list`,
 * `types` and for the report's text. Each call opens a state and closes it. */
#ifndef BIND_SCRIPT_H
#define BIND_SCRIPT_H

#include "base/buf.h"
#include "base/err.h"
#include "text/value.h"

/* require(module).main({argv…}) in a plain state; its number result becomes *status (nil: 0, false:
 * 1). A Lua error is ERR_INVALID with message and traceback in *err (traceback cut to fit). */
NODISCARD int script_main(const char *module, int argc, char **argv, int *status, struct err *err);

/* Runs a Lua file with `arg` set as the stand-alone interpreter does; "-" reads standard input. */
NODISCARD int script_file(const char *path, int argc, char **argv, struct err *err);

/* A prompt on standard input: prints results, keeps going after errors, ends at the end of input.
 * *failed: there was an error, and nobody at a terminal to see it. */
NODISCARD int script_prompt(bool *failed, struct err *err);

/* text = require(module)[function](args…): a function of values that returns a string, appended to
 * `out`. */
NODISCARD int script_text(const char *module, const char *function, const struct value *const *args,
                          size_t n_args, struct buf *out, struct err *err);

/* Runs a Lua file that returns plain data (a fleet file) in a plain state; *out gets it (free with
 * value_free). Errors name the file and line. */
NODISCARD int script_value(const char *path, struct value *out, struct err *err);

/* "Lua 5.4.4". */
const char *script_lua_version(void);

#endif

/* readtable.h: what a Lua file returns, for options that name one (--fleet, --profile). */
#ifndef CMD_READTABLE_H
#define CMD_READTABLE_H

#include "sim/simconfig.h"
#include "text/value.h"

/* The value that the file returned; the caller frees it. Errors do not name the file. A file that
 * does not come back from a function of C ends the process with wrong usage, after a message that
 * names `option` and the file: its thread cannot be stopped. */
NODISCARD int readtable(const char *option, const char *path, struct value *out, struct err *err);

/* --profile: a built-in profile by name, or one from a file (a name that ends in .lua or holds a
 * slash). Errors name the option, the file and the field. */
NODISCARD int readtable_profile(const char *profile, struct simconfig *c, struct err *err);

#endif

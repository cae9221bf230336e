/* shipped.h: scenarios by their name alone, wherever they are. */
#ifndef CMD_SHIPPED_H
#define CMD_SHIPPED_H

#include "base/err.h"

/* A script that is no file here may be the name of a shipped scenario: NAME, NAME.lua or
 * scenarios/NAME.lua, here, in a folder of $PERIGEE_PATH, in the tree that the binary was built in,
 * or where `make install` put them. *script is then `found`. ERR_NOT_FOUND names the nearest one
 * there is. */
NODISCARD int shipped_find(const char **script, char *found, size_t size, struct err *err);

#endif

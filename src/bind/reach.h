/* reach.h: the modules that a script could have meant. */
#ifndef BIND_REACH_H
#define BIND_REACH_H

#include "base/buf.h"

/* Appends the name of the nearest module to `name` among those built in and those that `path`
 * (package.path) leads to; nothing when none is near. Reads folders; knows no Lua, raises nothing.
 */
void reach_nearest(const char *name, const char *path, struct buf *out);

#endif

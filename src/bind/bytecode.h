/* bytecode.h: what is changed in a chunk that Lua has compiled, between lua_dump and the load of
 * it.
 *
 * Room: see chunk.h; every function gets 32 registers more, and the field __concat another name.
 * Globals: what is written to one goes through an upvalue of its own, beside the _ENV through which
 * all are read. So a write can be refused (chunk.c) while reading costs what it costs in Lua: a
 * table in front of the globals would make every `ipairs` of a script dearer. The instruction is
 * SETTABUP on the chunk's own _ENV; a `local _ENV` of the script's stays what it is. Not seen:
 * `_G.x = 1`, names of more than 40 characters, functions with more than 255 constants or 254
 * upvalues. */
#ifndef BIND_BYTECODE_H
#define BIND_BYTECODE_H

#include "base/base.h"
#include "base/buf.h"

#define BYTECODE_OWN_CONCAT "__CONCAT" /* of the same length */

struct bytecode {
  bool odd;           /* not the format of Lua 5.4: nothing was copied */
  bool renamed;       /* the field __concat occurs */
  bool guarded;       /* globals are written: the chunk's last upvalue is where to */
  int crowded;        /* line of a function that joins texts and has no room for it; 0 = none */
  int most_registers; /* that a function which does may have */
};

/* Changes a dump of lua_dump, which it may write to, and appends what came of it to `out`. */
void bytecode_change(struct buf *dump, struct buf *out, struct bytecode *found);

#endif

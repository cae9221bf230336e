/* printable.h: makes a text harmless for the terminal it is about to be written to.
 *
 * Messages quote what came from outside: a server's error, a header, a path. None of it may move a
 * cursor, set a title or turn the direction of writing. The report, which is Lua, has the same in
 * lua/perigee/report_text.lua. */
#ifndef BASE_PRINTABLE_H
#define BASE_PRINTABLE_H

#include "base/base.h"

/* In place, byte for byte: control characters (C0 but tab and line feed, DEL, C1) and marks that
 * are invisible or turn the direction of writing become blanks; bytes that are no UTF-8 become "?".
 */
void printable_make(char *s, size_t len);

#endif

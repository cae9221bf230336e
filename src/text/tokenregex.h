/* tokenregex.h: regular expressions of tokenizer files, rewritten for PCRE2. */
#ifndef TEXT_TOKENREGEX_H
#define TEXT_TOKENREGEX_H

#include "base/buf.h"
#include "base/err.h"

/* Appends to `out` an expression that means in PCRE2 (UTF and UCP on) what `regex` means in the
 * reference's engine (Oniguruma, Ruby syntax, Unicode 16): classes are written out as ranges,
 * \b and \B in terms of them. ERR_UNSUPPORTED names what has no exact equal: ^ $ and \Z (they mind
 * lines), && and nested classes, {,n}, {n,m}+, \h,
 * \v, \X, \K, \R, back references, classes that ignore case, properties without tables. */
NODISCARD int tokenregex_rewrite(const char *regex, size_t len, struct buf *out, struct err *err);

#endif

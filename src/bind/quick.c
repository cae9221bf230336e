/* quick.c: string.format and tostring where nothing is left to decide.
 *
 * Sessions make a name or two per request out of whole numbers and strings, and Lua's own way there
 * is printf. What is not as plain as that is Lua's own function, called as if it had been called
 * itself. The results are the same. */
#include <lauxlib.h>
#include <string.h>

#include "bind/bind.h"
#include "bind/guard.h"

#define QUICK_MAX 256  /* bytes of a result */
#define INTEGER_MAX 20 /* digits and sign */

/* Returns the place behind it. */
static char *put_integer(char *to, lua_Integer value) {
  char digits[INTEGER_MAX], *p = digits + sizeof digits;
  lua_Unsigned n = value < 0 ? 0 - (lua_Unsigned)value : (lua_Unsigned)value;
  do
    *--p = (char)('0' + n % 10);
  while (n /= 10);
  if (value < 0)
    *--p = '-';
  size_t len = (size_t)(digits + sizeof digits - p);
  memcpy(to, p, len);
  return to + len;
}

/* Whether there is a metatable, which may say how to show the value. */
static bool has_metatable(lua_State *L, int index) {
  if (!lua_getmetatable(L, index))
    return false;
  lua_pop(L, 1);
  return true;
}

/* What %s makes of a string: itself, unless the strings' metatable has been given a word in that.
 */
static bool shows_itself(lua_State *L, int index) {
  if (luaL_getmetafield(L, index, "__tostring") == LUA_TNIL)
    return true;
  lua_pop(L, 1);
  return false;
}

/* One conversion of argument `arg` at `to`, with room for `room` bytes; NULL: it is Lua's. */
static char *convert(lua_State *L, char how, int arg, char *to, size_t room) {
  if (lua_isinteger(L, arg)) {
    if (room < INTEGER_MAX || (how == 's' && has_metatable(L, arg)))
      return NULL;
    return put_integer(to, lua_tointeger(L, arg));
  }
  if (how != 's' || lua_type(L, arg) != LUA_TSTRING || !shows_itself(L, arg))
    return NULL;
  size_t len;
  const char *s = lua_tolstring(L, arg, &len);
  if (len > room)
    return NULL;
  memcpy(to, s, len);
  return to + len;
}

/* The text of format p up to `stop`: its length in `out`; −1: it is Lua's. */
static int format_plain(lua_State *L, const char *p, const char *stop, char *out) {
  char *to = out, *end = out + QUICK_MAX;
  int arg = 1;
  for (; p < stop; p++) {
    bool converts = *p == '%';
    if (to == end || (converts && ++p == stop))
      return -1;
    if (!converts || *p == '%') {
      *to++ = *p;
      continue;
    }
    if (*p != 'd' && *p != 's')
      return -1;
    to = convert(L, *p, ++arg, to, (size_t)(end - to));
    if (!to)
      return -1;
  }
  return (int)(to - out);
}

int bind_quick_format(lua_State *L) {
  char out[QUICK_MAX];
  size_t len;
  if (lua_type(L, 1) == LUA_TSTRING) {
    const char *p = lua_tolstring(L, 1, &len);
    int n = format_plain(L, p, p + len, out);
    if (n >= 0) {
      lua_pushlstring(L, out, (size_t)n);
      return 1;
    }
  }
  return bind_timed(L);
}

int bind_quick_tostring(lua_State *L) {
  char out[INTEGER_MAX];
  if (!lua_isinteger(L, 1) || has_metatable(L, 1))
    return lua_tocfunction(L, lua_upvalueindex(1))(L); /* as if it had been called itself */
  lua_pushlstring(L, out, (size_t)(put_integer(out, lua_tointeger(L, 1)) - out));
  return 1;
}

/* base.h: what every file of perigee may assume.
 *
 * Attributes, the few macros that pay for themselves, and the standard headers that almost every
 * file needs. Nothing here has state. A module's own header comes first in its .c file, this one is
 * included by it. */
#ifndef BASE_BASE_H
#define BASE_BASE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NODISCARD __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))
#define NORETURN __attribute__((noreturn))
#define COLD __attribute__((noinline, cold))

/* Marks a C function that may leave by longjmp (lua_error and everything that can call it). */
#define MAY_RAISE

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* The structure that holds `member`, given a pointer to that member. */
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_US UINT64_C(1000)

#endif

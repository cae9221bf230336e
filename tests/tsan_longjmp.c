/* tsan_longjmp.c: linked into what is built with ThreadSanitizer.
 * Debian's liblua leaves an error or a yield through __longjmp_chk, which ThreadSanitizer does not
 * know: the frames that are left stay on its own stack of calls, and some ten thousand yields of a
 * thread later that runs over into its other data. The jump that it does know does the same. */
#include <setjmp.h>

void __longjmp_chk(jmp_buf env, int value) __attribute__((noreturn));

void __longjmp_chk(jmp_buf env, int value) {
  siglongjmp(env, value);
}

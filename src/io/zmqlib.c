/* zmqlib.c: see zmqlib.h. */
#include "io/zmqlib.h"

#include <dlfcn.h>
#include <string.h>

#define SONAME "libzmq.so.5" /* of 4.x, whose functions are all that is used */

int zmqlib_load(struct zmqlib *lib, const char *soname, struct err *err) {
  const char *name = soname ? soname : SONAME;
  void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return err_set(err, ERR_NOT_FOUND, "%.100s cannot be loaded (install libzmq5): %.200s", name,
                   dlerror());
#define ZMQLIB_LOAD(function)                                                                      \
  {                                                                                                \
    void *at = dlsym(handle, "zmq_" #function);                                                    \
    if (!at)                                                                                       \
      return err_set(err, ERR_NOT_FOUND, "%.100s has no zmq_" #function " (install libzmq5)",      \
                     name);                                                                        \
    memcpy(&lib->function, &at, sizeof at);                                                        \
  }
  ZMQLIB_FUNCTIONS(ZMQLIB_LOAD)
#undef ZMQLIB_LOAD
  return 0;
}

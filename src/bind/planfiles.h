/* planfiles.h: which files a script's plan is made of. */
#ifndef BIND_PLANFILES_H
#define BIND_PLANFILES_H

#include <lua.h>

#include "bind/plan.h"

/* Fills info->files with the paths of the modules that were loaded from disk (perigee's own are in
 * the binary), sorted. In the state that has loaded the script. */
MAY_RAISE void bind_plan_files(lua_State *L, struct plan_info *info);

#endif

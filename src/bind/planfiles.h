/* planfiles.h: which files a script's plan is made of. */
#ifndef BIND_PLANFILES_H
#define BIND_PLANFILES_H

#include "bind/plan.h"

/* Fills info->files with the paths of the Lua files that were read for the script (perigee's own
 * are in the binary), itself aside, sorted. Their bytes: store_source. After the script was loaded.
 */
void bind_plan_files(const struct plan_source *source, struct plan_info *info);

#endif

/* luatemplate.h: the templates of scripts, for what renders them without going through Lua. */
#ifndef BIND_LUATEMPLATE_H
#define BIND_LUATEMPLATE_H

#include <lua.h>

#include "text/template.h"

struct held_template;

/* The template at `index`, a userdata of perigee.template.core; NULL when it is something else. */
const struct held_template *bind_test_template(lua_State *L, int index);
/* A rendering within Lua's turn is over when that is: the reason for struct template_options. The
 * caller looks at the clock afterwards (state_check_time), which raises what ends the script. */
void bind_template_watch(struct lua_State *L, struct template_options *opts);
/* template_render_grown with the model's own special tokens, unless the chat gives some, and its
 * template for conversations with tools where it has one. */
NODISCARD int bind_template_render(const struct held_template *h, struct template_memo **memo,
                                   struct template_chat *chat, struct template_grown *grown,
                                   const struct template_options *opts, struct buf *tail,
                                   size_t *common, struct err *err);

#endif

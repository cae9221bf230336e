/* resptools.h: the tools of a Responses request: functions, which the client runs, and those that
 * the server runs itself, as a vLLM with a tool server does.
 *
 * web_search_preview (web_search), code_interpreter and mcp are shown to the model as functions of
 * that name (mcp: of the server's label). */
#ifndef SIM_RESPTOOLS_H
#define SIM_RESPTOOLS_H

#include "sim/genrequest.h"

struct resptool {
  char *name;
  enum gen_call call;
};

struct resptools { /* the server's own */
  struct resptool *items;
  size_t n, cap;
};

/* Puts the body's tools and tool_choice into the chat body. 400 for tools of other types, and for
 * names that are not there or there twice. */
NODISCARD int resptools_copy(const struct value *body, struct value *chat, struct resptools *own,
                             struct apierror *e);
void resptools_free(struct resptools *own);
/* Who runs the function of that name. */
enum gen_call resptools_find(const struct resptools *own, const char *name);

/* What a call's own item says instead of its arguments: the text under their only key; NULL when
 * they are cut off. mem_free it. */
char *resptools_text(const struct genchoice *c);

#endif

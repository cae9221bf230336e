/* conv.h: a conversation's history from the inside: what conv.c, convprompt.c and convgrown.c
 * share.
 */
#ifndef BIND_CONV_H
#define BIND_CONV_H

#include <lua.h>

#include "base/blob.h"
#include "kv/blockhash_chain.h"
#include "text/harmony_grown.h"
#include "text/promptsteps.h"
#include "text/template.h"
#include "text/value.h"

#define CONV_TOOLS_KEY 9 /* bytes of ,"tools": */

#define CONV_TYPE "perigee.conv"
#define NOT_COUNTED (-1)

enum role { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT, ROLE_TOOL };

/* A message or the tools as a template sees them (text/chatmessages.h); shared by forks. */
struct conv_prepared {
  uint32_t refs;
  uint64_t id; /* its own in this Lua state, for good */
  struct value value;
};
struct message {
  struct blob *json; /* with a leading comma unless it is the first */
  size_t text_bytes; /* of content, and of a call's name and arguments */
  enum role role;
  lua_Integer tokens;             /* of the same, by the run's tokenizer; NOT_COUNTED */
  struct conv_prepared *prepared; /* NULL until a template asks */
};

/* A chain over the beginning of the prompt that will hardly change, and what it was opened with. */
struct conv_hashing {
  struct blockhash_chain *chain;
  char *options;
  size_t n;      /* ids in it */
  size_t stable; /* leading ids that no change has touched since */
};

/* What the last rendering with a template left. All of a state's are in one list, the one used last
 * in front, so that the oldest can go when they are too many. */
struct conv_memos;
struct conv_memo {
  struct template_memo *memo; /* NULL: not in the list */
  struct conv_memos *all;
  struct conv_memo *newer, *older;
  size_t bytes;
  uint64_t changes; /* as the conversation was */
};

struct conv {
  struct blob *head;  /* {"model":"…","messages":[ */
  struct blob *tools; /* ,"tools":[…] or NULL */
  struct message *messages;
  size_t n, cap;
  size_t text_bytes;
  uint64_t changes; /* of messages and tools, counted */
  uint64_t key;     /* what scripted answers and call ids are drawn from … */
  uint64_t answers; /* … together with how many assistant messages there were */
  /* the prompt of a renderer (convprompt.c) */
  struct conv_prepared *prepared_tools;
  struct conv_list {
    struct value *items; /* borrowed from the messages' `prepared` */
    uint64_t *ids;
    size_t n, cap; /* the first n are up to date */
  } list;          /* the messages as a template gets them */
  struct promptids prompt;
  uint64_t made_by;      /* the hash of the tokenizer whose ids are in `prompt` */
  struct conv_memo memo; /* of the rendering that `prompt` is from */
  struct harmony_grown harmony;
  size_t harmony_same;      /* leading messages that are as they were for it */
  struct promptsteps steps; /* of a renderer in Lua (convgrown.c) … */
  uint64_t steps_changes;   /* … and `changes` when its call began */
  bool has_sent;
  struct conv_hashing hashing;
};

MAY_RAISE struct conv *conv_check(lua_State *L, int index);

struct conv_prepared *conv_prepared_ref(struct conv_prepared *p); /* NULL is allowed, in both */
void conv_prepared_unref(struct conv_prepared *p);
void conv_prompt_free(struct conv *c);
/* Message i and those behind it are, or will be, others. */
static inline void conv_changed(struct conv *c, size_t i) {
  c->changes++;
  c->list.n = i < c->list.n ? i : c->list.n;
  c->harmony_same = i < c->harmony_same ? i : c->harmony_same;
  c->steps.same = i < c->steps.same ? i : c->steps.same;
}
void conv_prompt_fork(const struct conv *c, struct conv *fork);

/* ---- of convprompt.c, for convgrown.c ---- */
/* The memory of sections for the tokenizer at `index` (a perigee.tokenizer; nil: the run's); the
 * conversation's prompt, at stack index 1, begins anew when its text became ids by another. */
MAY_RAISE struct promptids_memo *conv_sections(lua_State *L, int index);
/* A renderer's list of token ids, checked against the tokenizer (or the run's): pushes a userdata
 * that holds *out of them. `before` are in front of it, for errors. */
MAY_RAISE uint32_t *conv_check_ids(lua_State *L, int index, int tokenizer, size_t before,
                                   size_t *out);
/* The prompt is another, not made by a template. */
void conv_prompt_changed(struct conv *c);
/* The time for the row's costs; 0 where there is no run. */
uint64_t conv_now_ns(lua_State *L);

/* Methods of convgrown.c. */
MAY_RAISE int conv_grow(lua_State *L), conv_grow_differs(lua_State *L),
    conv_grow_from(lua_State *L), conv_place_of(lua_State *L), conv_check_time(lua_State *L);
/* Methods of convprompt.c. */
MAY_RAISE int conv_clock(lua_State *L), conv_hashes(lua_State *L), conv_is_template(lua_State *L),
    conv_harmony(lua_State *L), conv_is_harmony(lua_State *L), conv_prompt_body(lua_State *L),
    conv_prompt_ids(lua_State *L), conv_prompt_sent(lua_State *L), conv_prompt_text(lua_State *L),
    conv_prompt_tokens(lua_State *L), conv_prompt_unknown(lua_State *L), conv_render(lua_State *L),
    conv_run_reads(lua_State *L);

#endif

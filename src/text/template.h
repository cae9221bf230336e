/* template.h: a model's own chat template, executed as Jinja2 would.
 *
 * The language is Jinja2's as transformers sets it up: sandboxed and immutable, trim_blocks and
 * lstrip_blocks on, loop controls and the generation tag there, autoescape off, tojson as Python's
 * json.dumps with ensure_ascii off. Text, numbers, reprs, scopes and errors are Python's, so that
 * the rendered bytes are the very bytes a server renders (shared/facts/tokenizers.md, section 5).
 *
 * A template is read-only once loaded and may be rendered by several threads at once. A rendering
 * keeps its memory to itself and gives all of it back. */
#ifndef TEXT_TEMPLATE_H
#define TEXT_TEMPLATE_H

#include "base/buf.h"
#include "base/err.h"
#include "text/pytime.h"
#include "text/value.h"

struct template;

/* Longest source taken, in bytes; the longest template in use has 17 KB. */
#define TEMPLATE_MAX_SOURCE ((size_t)4 << 20)

/* How tojson writes where the template itself does not say: transformers' way is 0. The others are
 * those of servers that render otherwise; parity.h tries them. */
enum template_tojson {
  TEMPLATE_TOJSON_COMPACT = 1, /* no space behind , and : */
  TEMPLATE_TOJSON_ASCII = 2,   /* \u00e9 for é */
  TEMPLATE_TOJSON_SORTED = 4,  /* keys in order */
  TEMPLATE_TOJSON_HTML = 8     /* \u003c \u003e \u0026 \u0027 for < > & ' */
};

/* The bounds of a rendering that is given none. */
#define TEMPLATE_MAX_OUTPUT ((size_t)64 << 20) /* 16 million tokens and more */
#define TEMPLATE_MAX_MEMORY ((size_t)256 << 20)
#define TEMPLATE_MAX_STEPS UINT64_C(50000000) /* about half a second */

/* What bounds one rendering; 0 in a field stands for its default. */
struct template_options {
  unsigned tojson;         /* enum template_tojson, or-ed */
  struct pytime now;       /* what strftime_now tells, local time */
  bool has_now;            /* without it strftime_now is an error that says so */
  size_t max_output_bytes; /* default TEMPLATE_MAX_OUTPUT */
  size_t max_memory_bytes; /* values made while rendering; default TEMPLATE_MAX_MEMORY */
  /* Statements, expressions and items, and what work on text is worth in them; default
   * TEMPLATE_MAX_STEPS. */
  uint64_t max_steps;
  /* May be NULL. Asked every half a millisecond or so of rendering: a text ends it with that as
   * the reason. */
  const char *(*stop)(void *user);
  void *stop_user;
};

/* Reads and checks `source` (UTF-8, len bytes, copied). `name` stands in errors ("qwen3.jinja").
 * On failure *out is NULL and the error says template, line and reason, in Jinja2's words where it
 * has some: "template 'x' line 3: TemplateSyntaxError: Encountered unknown tag 'endif'.". */
NODISCARD int template_load(const char *source, size_t len, const char *name, struct template **out,
                            struct err *err);
/* One more owner; each gives it back to template_delete. Any thread. */
struct template *template_ref(const struct template *tpl);
/* NULL is allowed. The last owner's call frees. */
void template_delete(struct template *tpl);

/* The name it was loaded with. */
const char *template_name(const struct template *tpl);

/* Renders with exactly the variables of `context` (an object; its strings are borrowed, not copied)
 * and appends the text to *out. Errors are ERR_INVALID with the Python error's class and text
 * ("template 'x' line 3: TypeError: can only concatenate str (not \"int\") to str") or ERR_LIMIT
 * where a bound of `opts` (may be NULL) or of `out` is reached; *out is then as it was. */
NODISCARD int template_render(const struct template *tpl, const struct value *context,
                              const struct template_options *opts, struct buf *out,
                              struct err *err);

/* What transformers' apply_chat_template gives a template. All values are borrowed; a NULL is
 * absent. */
struct template_chat {
  const struct value *messages; /* array of objects */
  const struct value *tools;    /* array; absent and null are none */
  const struct value *special;  /* object: bos_token, eos_token, … */
  const struct value *kwargs;   /* object: further variables, over all others */
  bool add_generation_prompt;
  /* The last message stays open: the text ends with its content, as transformers 5 does it. */
  bool continue_final_message;
};

/* Renders a conversation; otherwise like template_render. */
NODISCARD int template_render_chat(const struct template *tpl, const struct template_chat *chat,
                                   const struct template_options *opts, struct buf *out,
                                   struct err *err);

/* ---- a conversation that is rendered again and again ----
 *
 * What the rounds of a template's loops over the messages depended on is remembered, so that the
 * next rendering of the same conversation runs only those that would do something else now: the
 * new messages, and the few before whose place in the conversation has changed. The text is the
 * very text that template_render_chat makes, whatever the template does; what it does decides only
 * how much is saved (tests/unit/test_jinja_memo.c counts it for all templates there are). One
 * thread's; forks of a conversation share a memo until one of them goes on. */
struct template_memo;
struct template_memo *template_memo_new(void);
struct template_memo *template_memo_ref(struct template_memo *memo); /* NULL is allowed */
void template_memo_unref(struct template_memo *memo);                /* NULL is allowed */
size_t template_memo_bytes(const struct template_memo *memo);        /* about */
/* Rounds that were passed over, and that ran, so far. */
void template_memo_stats(const struct template_memo *memo, uint64_t *skipped, uint64_t *ran);

struct template_grown {
  const struct template_chat *chat;
  const uint64_t *ids; /* of each message, not 0: the same id says the same message, for good */
  uint64_t tools_id;   /* likewise of the tools */
  bool unchanged;      /* messages and their order are those of the last rendering */
  /* The text that the last rendering with this memo gave; nothing when there is none. */
  const char *old;
  size_t old_len;
};

/* Renders: the text is the first *common bytes of the old one, then what is appended to *tail
 * (which is empty before, and after an error). `*memo` is made anew when others own it too. On
 * error the memo has forgotten everything. Errors: those of template_render_chat. */
NODISCARD int template_render_grown(const struct template *tpl, struct template_memo **memo,
                                    const struct template_grown *grown,
                                    const struct template_options *opts, struct buf *tail,
                                    size_t *common, struct err *err);

/* Reads the chat out of one JSON object with those fields (`messages, tools, special, kwargs,
 * add_generation_prompt, continue_final_message`): rows of fixtures/chat. A field of another type
 * than it should have is refused by name; other fields are left alone. */
NODISCARD int template_chat_read(const struct value *row, struct template_chat *out,
                                 struct err *err);

/* The template's text within a tokenizer_config.json: `chat_template` is a string, or a list of
 * {name, template} of which "tool_use" is taken when there are tools and it exists, else "default".
 * NULL with an error when there is none. Borrowed from `config`. */
const struct value *template_of_config(const struct value *config, bool tools, struct err *err);

#endif

/* jinja_parse.c: statements, as jinja2.parser reads them, with the loop controls and transformers'
 * generation tag. */
#include "text/jinja_ast.h"

#include "base/mem.h"
#include "text/pychar.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 150

void jparse_fail(struct jparser *p, uint32_t line, const char *fmt, ...) {
  char text[800];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  p->st->line = line;
  jraise(p->st, "TemplateSyntaxError", "%s", text);
}

void jparse_refuse(struct jparser *p, uint32_t line, const char *what, const char *name) {
  p->st->line = line;
  jraise(p->st, "SyntaxError", "%s: %s", what, name);
}

const struct jname *jintern(struct jst *st, struct jprogram *program, const char *s, size_t len) {
  uint32_t h = 5381;
  for (size_t i = 0; i < len; i++)
    h = h * 33 + (unsigned char)s[i];
  struct jname **head = &program->names[(h ^ h >> 13) % JNAME_CHAINS];
  for (struct jname *n = *head; n; n = (struct jname *)(uintptr_t)n->next)
    if (n->len == len && !memcmp(n->s, s, len))
      return n;
  struct jname *n = jalloc(st, sizeof *n);
  *n = (struct jname){jcopy(st, s, len).u.s, (uint32_t)len, program->n_names++, *head};
  *head = n;
  return n;
}

struct jnode *jnode_new(struct jparser *p, enum jkind kind, uint32_t line) {
  struct jnode *n = jalloc(p->st, sizeof *n);
  *n = (struct jnode){.kind = (uint8_t)kind, .line = line};
  return n;
}

void jnodes_add(struct jst *st, struct jnodes *list, struct jnode *node) {
  if (list->n == list->cap) {
    size_t cap = list->cap ? list->cap * 2 : 4;
    struct jnode **more = jalloc(st, cap * sizeof(struct jnode *));
    if (list->n)
      memcpy(more, list->v, list->n * sizeof(struct jnode *));
    list->v = more;
    list->cap = cap;
  }
  list->v[list->n++] = node;
}

/* ---- tokens */

const struct jtoken *jp_next(struct jparser *p) {
  const struct jtoken *t = &p->tokens[p->at];
  if (t->type != T_EOF)
    p->at++;
  return t;
}

bool jp_is(const struct jparser *p, enum jtoken_type type) {
  return p->tokens[p->at].type == type;
}

bool jp_is_name(const struct jparser *p, const char *name) {
  const struct jtoken *t = jp_token(p);
  return t->type == T_NAME && t->value.len == strlen(name) &&
         !memcmp(t->value.u.s, name, t->value.len);
}

bool jp_skip(struct jparser *p, enum jtoken_type type) {
  bool yes = jp_is(p, type);
  if (yes)
    jp_next(p);
  return yes;
}

bool jp_skip_name(struct jparser *p, const char *name) {
  bool yes = jp_is_name(p, name);
  if (yes)
    jp_next(p);
  return yes;
}

NORETURN static void unexpected(struct jparser *p, const char *expected) {
  const struct jtoken *t = jp_token(p);
  if (t->type == T_EOF)
    jparse_fail(p, t->line, "unexpected end of template, expected '%s'.", expected);
  jparse_fail(p, t->line, "expected token '%s', got '%s'", expected, jtoken_describe(p->st, t));
}

const struct jtoken *jp_expect(struct jparser *p, enum jtoken_type type) {
  if (!jp_is(p, type))
    unexpected(p, jtoken_type_describe(type));
  return jp_next(p);
}

void jp_expect_name(struct jparser *p, const char *name) {
  if (!jp_skip_name(p, name))
    unexpected(p, name);
}

void jp_deeper(struct jparser *p) {
  if (++p->depth > DEPTH_MAX)
    jparse_fail(p, jp_token(p)->line, "nested more than %d levels deep", DEPTH_MAX);
}

/* ---- bodies */

/* "'elif' or 'else' or 'endif'" */
static void put_ends(struct buf *b, const char *const *ends) {
  for (size_t i = 0; ends[i]; i++)
    buf_printf(b, "%s'%s'", i ? " or " : "", ends[i]);
}

/* The error for a tag that does not belong here (name) or for the end of the template (NULL). */
NORETURN static void fail_tag(struct jparser *p, const char *name, uint32_t line) {
  struct buf *b = jbuf_open(p->st);
  bool known = false;
  for (size_t i = 0; name && i < p->n_ends; i++)
    for (size_t k = 0; p->ends[i][k]; k++)
      known = known || !strcmp(p->ends[i][k], name);
  if (name)
    buf_printf(b, "Encountered unknown tag '%s'.", name);
  else
    buf_puts(b, "Unexpected end of template.");
  if (p->n_ends) {
    buf_puts(b, known ? " You probably made a nesting mistake. Jinja is expecting this tag, but "
                        "currently looking for "
                      : " Jinja was looking for the following tags: ");
    put_ends(b, p->ends[p->n_ends - 1]);
    buf_putc(b, '.');
  }
  if (p->n_tags)
    buf_printf(b, " The innermost block that needs to be closed is '%s'.", p->tags[p->n_tags - 1]);
  jparse_fail(p, line, "%s", b->data);
}

static void parse_statement(struct jparser *p, struct jnodes *body);

static bool at_end(struct jparser *p, const char *const *ends) {
  for (size_t i = 0; ends && ends[i]; i++)
    if (jp_is_name(p, ends[i]))
      return true;
  return false;
}

/* Up to one of the tags of `ends`, which becomes the current token; NULL: to the template's end. */
static void parse_body(struct jparser *p, const char *const *ends, struct jnodes *body) {
  struct jnode *output = NULL;
  while (!jp_is(p, T_EOF)) {
    const struct jtoken *t = jp_next(p);
    if (t->type == T_BLOCK_BEGIN) {
      output = NULL;
      if (at_end(p, ends))
        return;
      parse_statement(p, body);
      jp_expect(p, T_BLOCK_END);
      continue;
    }
    if (!output) {
      output = jnode_new(p, N_OUTPUT, t->line);
      jnodes_add(p->st, body, output);
    }
    if (t->type == T_DATA) {
      struct jnode *data = jnode_new(p, N_DATA, t->line);
      data->value = t->value;
      jnodes_add(p->st, &output->list, data);
    } else {
      jnodes_add(p->st, &output->list, jparse_tuple(p, &(struct jtuple_rules){0}));
      jp_expect(p, T_VAR_END);
    }
  }
  if (ends)
    fail_tag(p, NULL, jp_token(p)->line);
}

/* The rest of an opening tag, a body, and its end tag: skipped when `drop`. */
static void parse_statements(struct jparser *p, const char *const *ends, bool drop,
                             struct jnodes *body) {
  jp_skip(p, T_COLON);
  jp_expect(p, T_BLOCK_END);
  if (p->n_ends == sizeof p->ends / sizeof *p->ends)
    jparse_fail(p, jp_token(p)->line, "blocks are nested too deeply");
  p->ends[p->n_ends++] = ends;
  parse_body(p, ends, body);
  p->n_ends--;
  if (drop)
    jp_next(p);
}

static void store(struct jparser *p, struct jnode *target, enum jctx ctx) {
  target->ctx = (uint8_t)ctx;
  if (target->kind == N_TUPLE) {
    for (size_t i = 0; i < target->list.n; i++)
      store(p, target->list.v[i], ctx);
  } else if (target->kind != N_NAME && target->kind != N_NSREF) {
    jparse_fail(p, target->line, "can't assign to '%s'",
                target->kind == N_CONST  ? "const"
                : target->kind == N_LIST ? "list"
                                         : "dict");
  }
}

static struct jnode *name_target(struct jparser *p, enum jctx ctx) {
  const struct jtoken *t = jp_expect(p, T_NAME);
  static const char *const constants[] = {"true", "false", "none", "True", "False", "None"};
  for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
    if (t->value.len == strlen(constants[i]) && !memcmp(t->value.u.s, constants[i], t->value.len))
      jparse_fail(p, t->line, "can't assign to 'name'");
  struct jnode *n = jnode_new(p, N_NAME, t->line);
  n->name = jintern(p->st, p->program, t->value.u.s, t->value.len);
  n->ctx = (uint8_t)ctx;
  return n;
}

static struct jnode *target(struct jparser *p, const char *end_name, bool namespaces) {
  struct jtuple_rules rules = {.simplified = true, .end_name = end_name, .namespaces = namespaces};
  struct jnode *n = jparse_tuple(p, &rules);
  store(p, n, CTX_STORE);
  return n;
}

/* ---- statements */

static const char *const END_FOR[] = {"endfor", "else", NULL};
static const char *const END_FOR_ELSE[] = {"endfor", NULL};
static const char *const END_IF[] = {"elif", "else", "endif", NULL};
static const char *const END_IF_ELSE[] = {"endif", NULL};
static const char *const END_SET[] = {"endset", NULL};
static const char *const END_WITH[] = {"endwith", NULL};
static const char *const END_AUTOESCAPE[] = {"endautoescape", NULL};
static const char *const END_BLOCK[] = {"endblock", NULL};
static const char *const END_MACRO[] = {"endmacro", NULL};
static const char *const END_CALL[] = {"endcall", NULL};
static const char *const END_FILTER[] = {"endfilter", NULL};
static const char *const END_GENERATION[] = {"endgeneration", NULL};

static struct jnode *parse_for(struct jparser *p, uint32_t line) {
  struct jnode *n = jnode_new(p, N_FOR, line);
  size_t at = p->at;
  n->a = target(p, "in", false);
  size_t behind = p->at;
  jp_expect_name(p, "in");
  n->b = jparse_tuple(p, &(struct jtuple_rules){.no_cond = true, .end_name = "recursive"});
  if (jp_skip_name(p, "if")) {
    n->c = jparse_expression(p);
    size_t here = p->at; /* the test binds the target in a scope of its own */
    p->at = at;
    n->test_target = target(p, "in", false);
    assert(p->at == behind);
    p->at = here;
  }
  n->recursive = jp_skip_name(p, "recursive");
  parse_statements(p, END_FOR, false, &n->body);
  if (jp_is_name(p, "endfor")) {
    jp_next(p);
  } else {
    jp_next(p);
    parse_statements(p, END_FOR_ELSE, true, &n->orelse);
  }
  return n;
}

static struct jnode *parse_if(struct jparser *p, uint32_t line) {
  struct jnode *first = jnode_new(p, N_IF, line), *n = first;
  for (;;) {
    n->a = jparse_tuple(p, &(struct jtuple_rules){.no_cond = true});
    parse_statements(p, END_IF, false, &n->body);
    if (jp_skip_name(p, "elif")) {
      n = jnode_new(p, N_IF, jp_token(p)->line);
      jnodes_add(p->st, &first->list, n);
      continue;
    }
    if (jp_skip_name(p, "else"))
      parse_statements(p, END_IF_ELSE, true, &first->orelse);
    else
      jp_next(p);
    return first;
  }
}

static struct jnode *parse_set(struct jparser *p, uint32_t line) {
  struct jnode *n = jnode_new(p, N_SET, line);
  n->a = target(p, NULL, true);
  if (jp_skip(p, T_ASSIGN)) {
    n->b = jparse_tuple(p, &(struct jtuple_rules){0});
    return n;
  }
  n->kind = N_SETBLOCK;
  n->b = jparse_filters(p, NULL, false);
  parse_statements(p, END_SET, true, &n->body);
  return n;
}

static struct jnode *parse_with(struct jparser *p, uint32_t line) {
  struct jnode *n = jnode_new(p, N_WITH, line);
  while (!jp_is(p, T_BLOCK_END)) {
    if (n->list.n)
      jp_expect(p, T_COMMA);
    struct jnode *t = target(p, NULL, false);
    store(p, t, CTX_PARAM);
    jnodes_add(p->st, &n->list, t);
    jp_expect(p, T_ASSIGN);
    jnodes_add(p->st, &n->defaults, jparse_expression(p));
  }
  parse_statements(p, END_WITH, true, &n->body);
  return n;
}

static struct jnode *parse_autoescape(struct jparser *p, uint32_t line) {
  struct jnode *n = jnode_new(p, N_SCOPE, line);
  n->a = jparse_expression(p);
  parse_statements(p, END_AUTOESCAPE, true, &n->body);
  return n;
}

static bool is_blank(const struct jnode *output) {
  for (size_t i = 0; i < output->list.n; i++) {
    const struct jnode *d = output->list.v[i];
    if (d->kind != N_DATA)
      return false;
    size_t size;
    for (size_t k = 0; k < d->value.len; k += size)
      if (!(pychar_classes(pychar_read(d->value.u.s + k, d->value.len - k, &size)) & PYCHAR_SPACE))
        return false;
  }
  return true;
}

static struct jnode *parse_block(struct jparser *p, uint32_t line) {
  struct jnode *n = jnode_new(p, N_BLOCK, line);
  struct jv name = jp_expect(p, T_NAME)->value;
  n->name = jintern(p->st, p->program, name.u.s, name.len);
  n->scoped = jp_skip_name(p, "scoped");
  n->required = jp_skip_name(p, "required");
  if (jp_is(p, T_SUB))
    jparse_fail(p, line,
                "Block names in Jinja have to be valid Python identifiers and may not "
                "contain hyphens, use an underscore instead.");
  parse_statements(p, END_BLOCK, true, &n->body);
  for (size_t i = 0; n->required && i < n->body.n; i++)
    if (n->body.v[i]->kind != N_OUTPUT || !is_blank(n->body.v[i]))
      jparse_fail(p, line, "Required blocks can only contain comments or whitespace");
  jp_skip_name(p, n->name->s);
  jbound_names(p->st, p->program->root->list.n, "blocks");
  for (size_t i = 0; i < p->program->root->list.n; i++)
    if (p->program->root->list.v[i]->name == n->name) {
      p->st->line = line;
      jraise(p->st, "TemplateAssertionError", "block '%s' defined twice", n->name->s);
    }
  jnodes_add(p->st, &p->program->root->list, n);
  return n;
}

static void parse_signature(struct jparser *p, struct jnode *n) {
  jp_expect(p, T_LPAREN);
  while (!jp_is(p, T_RPAREN)) {
    if (n->args.n)
      jp_expect(p, T_COMMA);
    struct jnode *arg = name_target(p, CTX_PARAM);
    jbound_names(p->st, n->args.n, "parameters");
    for (size_t i = 0; i < n->args.n; i++)
      if (n->args.v[i]->name == arg->name)
        jparse_refuse(p, arg->line, "duplicate argument in function definition", arg->name->s);
    if (jp_skip(p, T_ASSIGN))
      jnodes_add(p->st, &n->defaults, jparse_expression(p));
    else if (n->defaults.n)
      jparse_fail(p, arg->line, "non-default argument follows default argument");
    jnodes_add(p->st, &n->args, arg);
  }
  jp_expect(p, T_RPAREN);
}

static struct jnode *parse_macro(struct jparser *p, uint32_t line) {
  struct jnode *n = jnode_new(p, N_MACRO, line);
  n->name = name_target(p, CTX_STORE)->name;
  parse_signature(p, n);
  parse_statements(p, END_MACRO, true, &n->body);
  return n;
}

static struct jnode *parse_call_block(struct jparser *p, uint32_t line) {
  struct jnode *n = jnode_new(p, N_CALLBLOCK, line);
  if (jp_is(p, T_LPAREN))
    parse_signature(p, n);
  n->a = jparse_expression(p);
  if (n->a->kind != N_CALL)
    jparse_fail(p, line, "expected call");
  for (size_t i = 0; i < n->a->n_kw; i++)
    if (!strcmp(n->a->kw[i].name->s, "caller"))
      jparse_refuse(p, line, "keyword argument repeated", "caller");
  parse_statements(p, END_CALL, true, &n->body);
  return n;
}

static struct jnode *parse_filter_block(struct jparser *p, uint32_t line) {
  struct jnode *n = jnode_new(p, N_FILTERBLOCK, line);
  n->b = jparse_filters(p, NULL, true);
  parse_statements(p, END_FILTER, true, &n->body);
  return n;
}

static struct jnode *parse_generation(struct jparser *p, uint32_t line) {
  struct jnode *n = jnode_new(p, N_GENERATION, line);
  parse_statements(p, END_GENERATION, true, &n->body);
  return n;
}

static struct jnode *parse_print(struct jparser *p, uint32_t line) {
  struct jnode *n = jnode_new(p, N_OUTPUT, line);
  while (!jp_is(p, T_BLOCK_END)) {
    if (n->list.n)
      jp_expect(p, T_COMMA);
    jnodes_add(p->st, &n->list, jparse_expression(p));
  }
  return n;
}

/* "with context", "without context" behind an include or import. */
static bool skip_context(struct jparser *p) {
  if (!jp_is_name(p, "with") && !jp_is_name(p, "without"))
    return false;
  p->at++;
  if (jp_skip_name(p, "context"))
    return true;
  p->at--;
  return false;
}

static void parse_imported_names(struct jparser *p, struct jnode *n) {
  jp_expect_name(p, "import");
  do {
    if (skip_context(p))
      return;
    struct jnode *name = name_target(p, CTX_STORE);
    if (name->name->s[0] == '_') {
      p->st->line = name->line;
      jraise(p->st, "TemplateAssertionError",
             "names starting with an underline can not be imported");
    }
    jnodes_add(p->st, &n->list, jp_skip_name(p, "as") ? name_target(p, CTX_STORE) : name);
    if (skip_context(p))
      return;
  } while (jp_skip(p, T_COMMA));
}

/* include, import, from, extends: read in full, refused when reached, as there is no loader. */
static struct jnode *parse_noloader(struct jparser *p, uint32_t line, const char *tag) {
  struct jnode *n = jnode_new(p, N_NOLOADER, line);
  n->a = jparse_expression(p);
  if (!strcmp(tag, "from")) {
    parse_imported_names(p, n);
  } else if (!strcmp(tag, "import")) {
    jp_expect_name(p, "as");
    jnodes_add(p->st, &n->list, name_target(p, CTX_STORE));
    skip_context(p);
  } else if (!strcmp(tag, "include")) {
    if (jp_is_name(p, "ignore")) {
      p->at++;
      if (!jp_skip_name(p, "missing"))
        p->at--;
    }
    skip_context(p);
  }
  return n;
}

static struct jnode *parse_tag(struct jparser *p, const char *tag, uint32_t line) {
  static const struct {
    const char *tag;
    struct jnode *(*parse)(struct jparser *p, uint32_t line);
  } tags[] = {{"for", parse_for},
              {"if", parse_if},
              {"set", parse_set},
              {"with", parse_with},
              {"autoescape", parse_autoescape},
              {"block", parse_block},
              {"macro", parse_macro},
              {"call", parse_call_block},
              {"filter", parse_filter_block},
              {"generation", parse_generation},
              {"print", parse_print}};
  static const char *const noloader[] = {"include", "import", "from", "extends"};
  for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
    if (!strcmp(tags[i].tag, tag))
      return tags[i].parse(p, line);
  for (size_t i = 0; i < sizeof noloader / sizeof *noloader; i++)
    if (!strcmp(noloader[i], tag))
      return parse_noloader(p, line, tag);
  if (!strcmp(tag, "break"))
    return jnode_new(p, N_BREAK, line);
  if (!strcmp(tag, "continue"))
    return jnode_new(p, N_CONTINUE, line);
  return NULL;
}

static void parse_statement(struct jparser *p, struct jnodes *body) {
  const struct jtoken *t = jp_token(p);
  if (t->type != T_NAME)
    jparse_fail(p, t->line, "tag name expected");
  const char *tag = jtoken_describe(p->st, t);
  if (p->n_tags == sizeof p->tags / sizeof *p->tags)
    jparse_fail(p, t->line, "blocks are nested too deeply");
  jp_deeper(p);
  jp_next(p);
  p->tags[p->n_tags++] = tag;
  struct jnode *n = parse_tag(p, tag, t->line);
  p->n_tags--;
  if (!n)
    fail_tag(p, tag, t->line);
  p->depth--;
  jnodes_add(p->st, body, n);
}

struct jprogram *jparse(struct jst *st, const char *source, size_t len) {
  struct jprogram *program = jalloc(st, sizeof *program);
  *program = (struct jprogram){0};
  size_t n;
  struct jparser p = {.st = st, .program = program};
  p.tokens = jlex(st, source, len, &n);
  program->root = jnode_new(&p, N_BLOCK, 1);
  parse_body(&p, NULL, &program->root->body);
  jscope_bind(st, program);
  program->by_id = jalloc(st, program->n_names * sizeof *program->by_id);
  for (size_t i = 0; i < JNAME_CHAINS; i++)
    for (const struct jname *name = program->names[i]; name; name = name->next)
      program->by_id[name->id] = name;
  return program;
}

/* jinja_expr.c: expressions, as jinja2.parser reads them.
 *
 * From loose to tight: condition, or, and, not, comparison, + -, ~, * / // %, **, unary, then
 * attributes, items and calls, then filters and tests. A filter binds tighter than a sign before
 * it. */
#include "text/jinja_ast.h"

#include <string.h>

#define HEIGHT_MAX 1000 /* `a + a + …` grows to the left without nesting in the source */

static struct jnode *parse_or(struct jparser *p);
static struct jnode *parse_unary(struct jparser *p, bool with_filter);
static struct jnode *parse_postfix(struct jparser *p, struct jnode *node);

static struct jnode *pair(struct jparser *p, enum jkind kind, uint32_t line, struct jnode *a,
                          struct jnode *b) {
  struct jnode *n = jnode_new(p, kind, line);
  uint16_t left = a ? a->height : 0, right = b ? b->height : 0;
  n->a = a;
  n->b = b;
  n->height = (uint16_t)((left > right ? left : right) + 1);
  if (n->height > HEIGHT_MAX)
    jparse_fail(p, line, "an expression of more than %d steps", HEIGHT_MAX);
  return n;
}

static uint32_t line_of(const struct jparser *p) {
  return jp_token(p)->line;
}

static struct jnode *parse_condition(struct jparser *p) {
  uint32_t line = line_of(p);
  jp_deeper(p);
  struct jnode *expr = parse_or(p);
  while (jp_skip_name(p, "if")) {
    struct jnode *n = pair(p, N_COND, line, parse_or(p), expr);
    if (jp_skip_name(p, "else"))
      n->c = parse_condition(p);
    expr = n;
    line = line_of(p);
  }
  p->depth--;
  return expr;
}

struct jnode *jparse_expression(struct jparser *p) {
  return parse_condition(p);
}

static struct jnode *parse_concat(struct jparser *p);

static struct jnode *parse_sum(struct jparser *p) {
  uint32_t line = line_of(p);
  struct jnode *left = parse_concat(p);
  while (jp_is(p, T_ADD) || jp_is(p, T_SUB)) {
    enum jop op = jp_next(p)->type == T_ADD ? OP_ADD : OP_SUB;
    left = pair(p, N_BINARY, line, left, parse_concat(p));
    left->op = (uint8_t)op;
    line = line_of(p);
  }
  return left;
}

static int compare_op(struct jparser *p) {
  switch (jp_token(p)->type) {
  case T_EQ:
    return CMP_EQ;
  case T_NE:
    return CMP_NE;
  case T_LT:
    return CMP_LT;
  case T_LE:
    return CMP_LE;
  case T_GT:
    return CMP_GT;
  case T_GE:
    return CMP_GE;
  default:
    break;
  }
  if (jp_is_name(p, "in"))
    return CMP_IN;
  if (!jp_is_name(p, "not"))
    return -1;
  p->at++;
  bool in = jp_is_name(p, "in");
  if (!in)
    p->at--;
  return in ? CMP_NOTIN : -1;
}

static struct jnode *parse_compare(struct jparser *p) {
  uint32_t line = line_of(p);
  struct jnode *expr = parse_sum(p), *n = NULL;
  uint8_t ops[64];
  for (int op; (op = compare_op(p)) >= 0;) {
    jp_next(p);
    if (!n) {
      n = jnode_new(p, N_COMPARE, line);
      n->a = expr;
    }
    if (n->list.n < sizeof ops)
      ops[n->list.n] = (uint8_t)op;
    else
      jparse_fail(p, line, "more than %zu comparisons in a row", sizeof ops);
    jnodes_add(p->st, &n->list, parse_sum(p));
  }
  if (!n)
    return expr;
  n->ops = jalloc(p->st, n->list.n);
  memcpy(n->ops, ops, n->list.n);
  return n;
}

static struct jnode *parse_not(struct jparser *p) {
  if (!jp_is_name(p, "not"))
    return parse_compare(p);
  jp_deeper(p);
  uint32_t line = jp_next(p)->line;
  struct jnode *n = pair(p, N_NOT, line, parse_not(p), NULL);
  p->depth--;
  return n;
}

static struct jnode *parse_and(struct jparser *p) {
  uint32_t line = line_of(p);
  struct jnode *left = parse_not(p);
  while (jp_skip_name(p, "and")) {
    left = pair(p, N_AND, line, left, parse_not(p));
    line = line_of(p);
  }
  return left;
}

static struct jnode *parse_or(struct jparser *p) {
  uint32_t line = line_of(p);
  struct jnode *left = parse_and(p);
  while (jp_skip_name(p, "or")) {
    left = pair(p, N_OR, line, left, parse_and(p));
    line = line_of(p);
  }
  return left;
}

static struct jnode *parse_power(struct jparser *p) {
  uint32_t line = line_of(p);
  struct jnode *left = parse_unary(p, true);
  while (jp_skip(p, T_POW)) {
    left = pair(p, N_BINARY, line, left, parse_unary(p, true));
    left->op = OP_POW;
    line = line_of(p);
  }
  return left;
}

static int product_op(enum jtoken_type t) {
  return t == T_MUL        ? OP_MUL
         : t == T_DIV      ? OP_DIV
         : t == T_FLOORDIV ? OP_FLOORDIV
         : t == T_MOD      ? OP_MOD
                           : -1;
}

static struct jnode *parse_product(struct jparser *p) {
  uint32_t line = line_of(p);
  struct jnode *left = parse_power(p);
  for (int op; (op = product_op(jp_token(p)->type)) >= 0;) {
    jp_next(p);
    left = pair(p, N_BINARY, line, left, parse_power(p));
    left->op = (uint8_t)op;
    line = line_of(p);
  }
  return left;
}

static struct jnode *parse_concat(struct jparser *p) {
  uint32_t line = line_of(p);
  struct jnode *first = parse_product(p);
  if (!jp_is(p, T_TILDE))
    return first;
  struct jnode *n = jnode_new(p, N_CONCAT, line);
  jnodes_add(p->st, &n->list, first);
  while (jp_skip(p, T_TILDE))
    jnodes_add(p->st, &n->list, parse_product(p));
  return n;
}

static struct jnode *constant(struct jparser *p, const struct jtoken *t, struct jv v) {
  struct jnode *n = jnode_new(p, N_CONST, t->line);
  n->value = v;
  return n;
}

static bool token_is(const struct jtoken *t, const char *text) {
  return t->value.len == strlen(text) && !memcmp(t->value.u.s, text, t->value.len);
}

static struct jnode *parse_name(struct jparser *p, bool namespaces) {
  const struct jtoken *t = jp_next(p);
  if (token_is(t, "true") || token_is(t, "True"))
    return constant(p, t, jbool(true));
  if (token_is(t, "false") || token_is(t, "False"))
    return constant(p, t, jbool(false));
  if (token_is(t, "none") || token_is(t, "None"))
    return constant(p, t, jnone());
  bool attribute = namespaces && jp_skip(p, T_DOT);
  struct jnode *n = jnode_new(p, attribute ? N_NSREF : N_NAME, t->line);
  n->name = jintern(p->st, p->program, t->value.u.s, t->value.len);
  if (attribute)
    n->value = jp_expect(p, T_NAME)->value;
  return n;
}

static struct jnode *parse_list(struct jparser *p) {
  struct jnode *n = jnode_new(p, N_LIST, jp_next(p)->line);
  while (!jp_is(p, T_RBRACKET)) {
    if (n->list.n)
      jp_expect(p, T_COMMA);
    if (jp_is(p, T_RBRACKET))
      break;
    jnodes_add(p->st, &n->list, jparse_expression(p));
  }
  jp_expect(p, T_RBRACKET);
  return n;
}

static struct jnode *parse_dict(struct jparser *p) {
  struct jnode *n = jnode_new(p, N_DICT, jp_next(p)->line);
  while (!jp_is(p, T_RBRACE)) {
    if (n->list.n)
      jp_expect(p, T_COMMA);
    if (jp_is(p, T_RBRACE))
      break;
    jnodes_add(p->st, &n->list, jparse_expression(p));
    jp_expect(p, T_COLON);
    jnodes_add(p->st, &n->list, jparse_expression(p));
  }
  jp_expect(p, T_RBRACE);
  return n;
}

/* "a" 'b' is one string. */
static struct jnode *parse_strings(struct jparser *p) {
  const struct jtoken *first = jp_next(p);
  struct jv s = first->value;
  while (jp_is(p, T_STRING))
    s = jconcat(p->st, s, jp_next(p)->value);
  return constant(p, first, jstr(jbytes(p->st, s), s.len));
}

struct jnode *jparse_primary(struct jparser *p, bool namespaces) {
  const struct jtoken *t = jp_token(p);
  struct jnode *n;
  switch (t->type) {
  case T_NAME:
    return parse_name(p, namespaces);
  case T_STRING:
    return parse_strings(p);
  case T_INT:
  case T_FLOAT:
    return constant(p, jp_next(p), t->value);
  case T_LPAREN:
    jp_next(p);
    n = jparse_tuple(p, &(struct jtuple_rules){.parentheses = true});
    jp_expect(p, T_RPAREN);
    return n;
  case T_LBRACKET:
    return parse_list(p);
  case T_LBRACE:
    return parse_dict(p);
  default:
    jparse_fail(p, t->line, "unexpected '%s'", jtoken_describe(p->st, t));
  }
}

static bool tuple_ends(struct jparser *p, const struct jtuple_rules *rules) {
  return jp_is(p, T_VAR_END) || jp_is(p, T_BLOCK_END) || jp_is(p, T_RPAREN) ||
         (rules->end_name && jp_is_name(p, rules->end_name));
}

struct jnode *jparse_tuple(struct jparser *p, const struct jtuple_rules *rules) {
  uint32_t line = line_of(p);
  struct jnode *n = jnode_new(p, N_TUPLE, line);
  bool is_tuple = false;
  for (;;) {
    if (n->list.n)
      jp_expect(p, T_COMMA);
    if (tuple_ends(p, rules))
      break;
    struct jnode *item;
    if (rules->simplified)
      item = jparse_primary(p, rules->namespaces);
    else if (rules->no_cond)
      item = parse_or(p);
    else
      item = jparse_expression(p);
    jnodes_add(p->st, &n->list, item);
    if (!jp_is(p, T_COMMA))
      break;
    is_tuple = true;
    n->line = line_of(p);
  }
  if (!is_tuple && n->list.n)
    return n->list.v[0];
  if (!is_tuple && !rules->parentheses)
    jparse_fail(p, line_of(p), "Expected an expression, got '%s'",
                jtoken_describe(p->st, jp_token(p)));
  return n;
}

/* ---- what follows a value */

static void need(struct jparser *p, bool ok, uint32_t line) {
  if (!ok)
    jparse_fail(p, line, "invalid syntax for function call expression");
}

static void add_keyword(struct jparser *p, struct jnode *n, const struct jname *name,
                        struct jnode *value) {
  jbound_names(p->st, n->n_kw, "keyword arguments");
  for (size_t i = 0; i < n->n_kw; i++)
    if (n->kw[i].name == name)
      jparse_refuse(p, value->line, "keyword argument repeated", name->s);
  struct jkeyword *more = jalloc(p->st, (n->n_kw + 1) * sizeof *more);
  if (n->n_kw)
    memcpy(more, n->kw, n->n_kw * sizeof *more);
  more[n->n_kw] = (struct jkeyword){name, value};
  n->kw = more;
  n->n_kw++;
}

/* "(…)" into n->list, n->kw, n->b (*args) and n->c (**kwargs). */
static void parse_arguments(struct jparser *p, struct jnode *n) {
  uint32_t line = jp_expect(p, T_LPAREN)->line;
  bool comma = false;
  while (!jp_is(p, T_RPAREN)) {
    if (comma) {
      jp_expect(p, T_COMMA);
      if (jp_is(p, T_RPAREN))
        break;
    }
    comma = true;
    if (jp_skip(p, T_MUL)) {
      need(p, !n->b && !n->c, line);
      n->b = jparse_expression(p);
    } else if (jp_skip(p, T_POW)) {
      need(p, !n->c, line);
      n->c = jparse_expression(p);
    } else if (jp_is(p, T_NAME) && p->tokens[p->at + 1].type == T_ASSIGN) {
      need(p, !n->c, line);
      struct jv key = jp_next(p)->value;
      jp_next(p);
      const struct jname *name = jintern(p->st, p->program, key.u.s, key.len);
      add_keyword(p, n, name, jparse_expression(p));
    } else {
      need(p, !n->b && !n->c && !n->n_kw, line);
      jnodes_add(p->st, &n->list, jparse_expression(p));
    }
  }
  jp_expect(p, T_RPAREN);
}

static struct jnode *parse_call(struct jparser *p, struct jnode *callee) {
  struct jnode *n = pair(p, N_CALL, line_of(p), callee, NULL);
  parse_arguments(p, n);
  return n;
}

static bool slice_ends(struct jparser *p) {
  return jp_is(p, T_RBRACKET) || jp_is(p, T_COMMA) || jp_is(p, T_COLON);
}

static struct jnode *parse_subscribed(struct jparser *p) {
  uint32_t line = line_of(p);
  struct jnode *start = NULL;
  if (!jp_is(p, T_COLON)) {
    start = jparse_expression(p);
    if (!jp_is(p, T_COLON))
      return start;
  }
  jp_next(p);
  struct jnode *n = pair(p, N_SLICE, line, start, NULL);
  if (!slice_ends(p))
    n->b = jparse_expression(p);
  if (jp_skip(p, T_COLON) && !slice_ends(p))
    n->c = jparse_expression(p);
  return n;
}

static struct jnode *parse_item(struct jparser *p, struct jnode *node, uint32_t line) {
  struct jnode *keys = jnode_new(p, N_TUPLE, line);
  while (!jp_is(p, T_RBRACKET)) {
    if (keys->list.n)
      jp_expect(p, T_COMMA);
    jnodes_add(p->st, &keys->list, parse_subscribed(p));
  }
  jp_expect(p, T_RBRACKET);
  for (size_t i = 0; keys->list.n > 1 && i < keys->list.n; i++)
    if (keys->list.v[i]->kind == N_SLICE)
      jparse_refuse(p, line, "invalid syntax", "a slice among other subscripts");
  return pair(p, N_GETITEM, line, node, keys->list.n == 1 ? keys->list.v[0] : keys);
}

static struct jnode *parse_subscript(struct jparser *p, struct jnode *node) {
  const struct jtoken *t = jp_next(p);
  if (t->type == T_LBRACKET)
    return parse_item(p, node, t->line);
  const struct jtoken *name = jp_next(p);
  if (name->type == T_INT)
    return pair(p, N_GETITEM, t->line, node, constant(p, name, name->value));
  if (name->type != T_NAME)
    jparse_fail(p, name->line, "expected name or number");
  struct jnode *n = pair(p, N_GETATTR, t->line, node, NULL);
  n->value = name->value;
  return n;
}

static struct jnode *parse_postfix(struct jparser *p, struct jnode *node) {
  for (;;) {
    if (jp_is(p, T_DOT) || jp_is(p, T_LBRACKET))
      node = parse_subscript(p, node);
    else if (jp_is(p, T_LPAREN))
      node = parse_call(p, node);
    else
      return node;
  }
}

/* "name.of.filter" as one str. */
static struct jv dotted_name(struct jparser *p) {
  struct jv name = jp_expect(p, T_NAME)->value;
  while (jp_skip(p, T_DOT)) {
    name = jconcat(p->st, name, jcstr("."));
    name = jconcat(p->st, name, jp_expect(p, T_NAME)->value);
  }
  return jstr(jbytes(p->st, name), name.len);
}

struct jnode *jparse_filters(struct jparser *p, struct jnode *node, bool start_inline) {
  while (start_inline || jp_skip(p, T_PIPE)) {
    start_inline = false;
    struct jnode *n = pair(p, N_FILTER, line_of(p), node, NULL);
    n->value = dotted_name(p);
    n->function = jfilter_find(n->value.u.s, n->value.len);
    if (jp_is(p, T_LPAREN))
      parse_arguments(p, n);
    node = n;
  }
  return node;
}

static bool begins_test_argument(struct jparser *p) {
  switch (jp_token(p)->type) {
  case T_NAME:
    return !jp_is_name(p, "else") && !jp_is_name(p, "or") && !jp_is_name(p, "and");
  case T_STRING:
  case T_INT:
  case T_FLOAT:
  case T_LBRACKET:
  case T_LBRACE:
    return true;
  default:
    return false;
  }
}

static struct jnode *parse_test(struct jparser *p, struct jnode *node) {
  uint32_t line = jp_next(p)->line;
  bool negated = jp_skip_name(p, "not");
  struct jnode *n = pair(p, N_TEST, line, node, NULL);
  n->value = dotted_name(p);
  n->function = jtest_find(n->value.u.s, n->value.len);
  if (jp_is(p, T_LPAREN)) {
    parse_arguments(p, n);
  } else if (begins_test_argument(p)) {
    if (jp_is_name(p, "is"))
      jparse_fail(p, line_of(p), "You cannot chain multiple tests with is");
    jnodes_add(p->st, &n->list, parse_postfix(p, jparse_primary(p, false)));
  }
  return negated ? pair(p, N_NOT, line, n, NULL) : n;
}

static struct jnode *parse_filters_and_tests(struct jparser *p, struct jnode *node) {
  for (;;) {
    if (jp_is(p, T_PIPE))
      node = jparse_filters(p, node, false);
    else if (jp_is_name(p, "is"))
      node = parse_test(p, node);
    else if (jp_is(p, T_LPAREN))
      node = parse_call(p, node);
    else
      return node;
  }
}

static struct jnode *parse_unary(struct jparser *p, bool with_filter) {
  uint32_t line = line_of(p);
  struct jnode *n;
  jp_deeper(p);
  if (jp_skip(p, T_SUB))
    n = pair(p, N_NEG, line, parse_unary(p, false), NULL);
  else if (jp_skip(p, T_ADD))
    n = pair(p, N_POS, line, parse_unary(p, false), NULL);
  else
    n = jparse_primary(p, false);
  n = parse_postfix(p, n);
  if (with_filter)
    n = parse_filters_and_tests(p, n);
  p->depth--;
  return n;
}

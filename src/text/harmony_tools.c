/* harmony_tools.c: the section on tools: namespaces of functions whose parameters, JSON schemas,
 * are written like TypeScript types.
 *
 * The form has its oddities (where indentation goes, which comments are kept); they are part of the
 * prompt and are kept as they are. */
#include <stdlib.h>

#include "base/mem.h"
#include "text/harmony.h"
#include "text/json.h"

static bool is_text(const struct value *v) {
  return v && v->kind == VALUE_STRING;
}

static void put_text(struct buf *b, const struct value *v) {
  buf_put(b, v->u.string.data, v->u.string.len);
}

static void put_indent(struct buf *b, size_t indent) {
  for (size_t i = 0; i < indent; i++)
    buf_putc(b, ' ');
}

/* ---- JSON as Rust writes it: compact, and floats in its own form ---- */

/* From the digits and the exponent that Python's shortest form has. */
static void put_double(struct buf *b, double d) {
  struct buf python;
  buf_init(&python, BUF_MAX_OWN);
  json_write_double(&python, d);
  char digits[32] = "";
  size_t n = 0;
  int point = 0; /* digits before the decimal point */
  bool seen_point = false;
  const char *p = python.data;
  if (*p == '-')
    buf_putc(b, *p++);
  for (; *p && *p != 'e'; p++) {
    if (*p == '.') {
      seen_point = true;
      continue;
    }
    if (n == 0 && *p == '0') { /* a leading zero */
      point -= seen_point;
      continue;
    }
    digits[n++] = *p;
    point += !seen_point;
  }
  if (*p == 'e')
    point += atoi(p + 1);
  while (n && digits[n - 1] == '0')
    n--;
  if (n == 0) {
    buf_puts(b, "0.0");
  } else if (point > 0 && point <= 16) {
    for (int i = 0; i < point; i++)
      buf_putc(b, (size_t)i < n ? digits[i] : '0');
    buf_putc(b, '.');
    if (n > (size_t)point)
      buf_put(b, digits + point, n - (size_t)point);
    else
      buf_putc(b, '0');
  } else if (point > -5 && point <= 0) {
    buf_puts(b, "0.");
    for (int i = point; i < 0; i++)
      buf_putc(b, '0');
    buf_put(b, digits, n);
  } else {
    buf_putc(b, digits[0]);
    if (n > 1) {
      buf_putc(b, '.');
      buf_put(b, digits + 1, n - 1);
    }
    buf_printf(b, "e%d", point - 1);
  }
  buf_free(&python);
}

static void put_json(struct buf *b, const struct value *v) {
  if (v->kind == VALUE_DOUBLE) {
    put_double(b, v->u.number);
  } else if (v->kind == VALUE_ARRAY) {
    buf_putc(b, '[');
    for (size_t i = 0; i < v->u.array.n; i++) {
      if (i)
        buf_putc(b, ',');
      put_json(b, &v->u.array.items[i]);
    }
    buf_putc(b, ']');
  } else if (v->kind == VALUE_OBJECT) {
    buf_putc(b, '{');
    for (size_t i = 0; i < v->u.object.n; i++) {
      const struct value_pair *p = &v->u.object.pairs[i];
      if (i)
        buf_putc(b, ',');
      json_write_string(b, p->key, p->key_len);
      buf_putc(b, ':');
      put_json(b, &p->value);
    }
    buf_putc(b, '}');
  } else {
    json_write(b, v);
  }
}

/* ---- types ---- */

static bool has_enum(const struct value *schema) {
  const struct value *e = value_get(schema, "enum");
  return e && e->kind == VALUE_ARRAY && e->u.array.n > 0;
}

static const struct value *list_of(const struct value *schema, const char *key) {
  const struct value *v = value_get(schema, key);
  return v && v->kind == VALUE_ARRAY ? v : NULL;
}

static void put_type(struct buf *b, const struct value *schema, size_t indent);

/* The type, and that it may be null where the schema says so and the type does not. */
static void put_nullable_type(struct buf *b, const struct value *schema, size_t indent) {
  static const char null[] = "null";
  size_t start = b->len;
  put_type(b, schema, indent);
  const struct value *nullable = value_get(schema, "nullable");
  bool says_null = b->len > start && memmem(b->data + start, b->len - start, null, 4) != NULL;
  if (nullable && nullable->kind == VALUE_BOOL && nullable->u.boolean && !says_null)
    buf_puts(b, " | null");
}

/* "default: …". A text is in quotes, but not one of an enum; with `json` that is one as JSON. */
static void put_default(struct buf *b, const struct value *schema, bool json) {
  const struct value *d = value_get(schema, "default");
  buf_puts(b, "default: ");
  if (is_text(d) && !has_enum(schema)) {
    buf_putc(b, '"');
    put_text(b, d);
    buf_putc(b, '"');
  } else if (is_text(d) && !json) {
    put_text(b, d);
  } else {
    put_json(b, d);
  }
}

/* " // description default: …" behind a variant. */
static void put_variant_comment(struct buf *b, const struct value *variant,
                                const struct value *description, bool json) {
  bool has_default = value_get(variant, "default") != NULL;
  if (!description && !has_default)
    return;
  buf_puts(b, " // ");
  if (description)
    put_text(b, description);
  if (description && has_default)
    buf_putc(b, ' ');
  if (has_default)
    put_default(b, variant, json);
}

/* A oneOf that stands for itself: every variant on a line of its own. */
static void put_one_of(struct buf *b, const struct value *variants, size_t indent) {
  for (size_t i = 0; i < variants->u.array.n; i++) {
    const struct value *v = &variants->u.array.items[i], *text = value_get(v, "description");
    buf_putc(b, '\n');
    put_indent(b, indent);
    buf_puts(b, " | ");
    put_nullable_type(b, v, indent + 3);
    put_variant_comment(b, v, is_text(text) ? text : NULL, true);
  }
}

static void put_comment(struct buf *b, size_t indent, const struct value *text) {
  put_indent(b, indent);
  buf_puts(b, "// ");
  put_text(b, text);
  buf_putc(b, '\n');
}

static bool is_required(const struct value *schema, const struct value_pair *property) {
  const struct value *list = list_of(schema, "required");
  for (size_t i = 0; list && i < list->u.array.n; i++) {
    const struct value *r = &list->u.array.items[i];
    if (is_text(r) && r->u.string.len == property->key_len &&
        memcmp(r->u.string.data, property->key, property->key_len) == 0)
      return true;
  }
  return false;
}

static void put_name(struct buf *b, const struct value *schema, const struct value_pair *property,
                     size_t indent) {
  put_indent(b, indent);
  buf_put(b, property->key, property->key_len);
  if (!is_required(schema, property))
    buf_putc(b, '?');
  buf_putc(b, ':');
}

static bool same_text(const struct value *a, const struct value *b) {
  return is_text(a) && is_text(b) && value_equal(a, b);
}

/* A property of several variants. Its description stands above, unless the first variant's says the
 * same; a variant's own is left out where it is that, and for the first below one that stands
 * above. */
static void put_one_of_property(struct buf *b, const struct value *schema,
                                const struct value_pair *property, const struct value *variants,
                                size_t indent) {
  const struct value *v = &property->value, *text = value_get(v, "description");
  const struct value *first = value_at(variants, 0);
  bool above = is_text(text) && !same_text(text, value_get(first, "description"));
  if (above)
    put_comment(b, indent, text);
  if (value_get(v, "default")) {
    put_indent(b, indent);
    buf_puts(b, "// ");
    put_default(b, v, false);
    buf_putc(b, '\n');
  }
  put_name(b, schema, property, indent);
  buf_putc(b, '\n');
  for (size_t i = 0; i < variants->u.array.n; i++) {
    const struct value *variant = &variants->u.array.items[i];
    const struct value *own = value_get(variant, "description");
    bool kept = is_text(own) && !same_text(own, text) && !(i == 0 && above);
    put_indent(b, indent);
    buf_puts(b, " | ");
    put_nullable_type(b, variant, indent + 3);
    put_variant_comment(b, variant, kept ? own : NULL, false);
    buf_putc(b, '\n');
  }
  put_indent(b, indent);
  buf_puts(b, ",\n");
}

/* Title, description and examples above a property. */
static void put_property_head(struct buf *b, const struct value *v, size_t indent) {
  const struct value *title = value_get(v, "title"), *text = value_get(v, "description");
  const struct value *examples = list_of(v, "examples");
  if (is_text(title)) {
    put_comment(b, indent, title);
    put_indent(b, indent);
    buf_puts(b, "//\n");
  }
  if (!value_get(v, "oneOf") && is_text(text))
    put_comment(b, indent, text);
  if (!examples || examples->u.array.n == 0)
    return;
  put_indent(b, indent);
  buf_puts(b, "// Examples:\n");
  for (size_t i = 0; i < examples->u.array.n; i++) {
    if (!is_text(&examples->u.array.items[i]))
      continue;
    put_indent(b, indent);
    buf_puts(b, "// - \"");
    put_text(b, &examples->u.array.items[i]);
    buf_puts(b, "\"\n");
  }
}

static void put_property(struct buf *b, const struct value *schema,
                         const struct value_pair *property, size_t indent) {
  const struct value *v = &property->value, *variants = list_of(v, "oneOf");
  put_property_head(b, v, indent);
  if (variants) {
    put_one_of_property(b, schema, property, variants, indent);
    return;
  }
  put_name(b, schema, property, indent);
  buf_putc(b, ' ');
  put_nullable_type(b, v, indent + 4);
  buf_putc(b, ',');
  if (!value_get(v, "oneOf") && value_get(v, "default")) {
    buf_puts(b, " // ");
    put_default(b, v, false);
  }
  buf_putc(b, '\n');
}

static void put_object(struct buf *b, const struct value *schema, size_t indent) {
  const struct value *text = value_get(schema, "description");
  const struct value *properties = value_get(schema, "properties");
  if (is_text(text))
    put_comment(b, indent, text);
  buf_puts(b, "{\n");
  if (properties && properties->kind == VALUE_OBJECT)
    for (size_t i = 0; i < properties->u.object.n; i++)
      put_property(b, schema, &properties->u.object.pairs[i], indent);
  put_indent(b, indent);
  buf_putc(b, '}');
}

/* "a" | "b"; false when the enum has no texts. */
static bool put_enum(struct buf *b, const struct value *schema) {
  const struct value *list = list_of(schema, "enum");
  bool any = false;
  for (size_t i = 0; list && i < list->u.array.n; i++) {
    if (!is_text(&list->u.array.items[i]))
      continue;
    buf_puts(b, any ? " | \"" : "\"");
    put_text(b, &list->u.array.items[i]);
    buf_putc(b, '"');
    any = true;
  }
  return any;
}

static bool named(const struct value *v, const char *name) {
  return v->u.string.len == strlen(name) && memcmp(v->u.string.data, name, v->u.string.len) == 0;
}

/* Several types by name; false when none of them is a text. */
static bool put_union(struct buf *b, const struct value *types) {
  bool any = false;
  for (size_t i = 0; i < types->u.array.n; i++) {
    const struct value *t = &types->u.array.items[i];
    if (!is_text(t))
      continue;
    if (any)
      buf_puts(b, " | ");
    if (named(t, "integer"))
      buf_puts(b, "number");
    else
      put_text(b, t);
    any = true;
  }
  return any;
}

static void put_type(struct buf *b, const struct value *schema, size_t indent) {
  const struct value *variants = list_of(schema, "oneOf"), *type = value_get(schema, "type");
  if (variants) {
    put_one_of(b, variants, indent);
    return;
  }
  if (type && type->kind == VALUE_ARRAY && put_union(b, type))
    return;
  if (!is_text(type)) {
    buf_puts(b, "any");
  } else if (named(type, "object")) {
    put_object(b, schema, indent);
  } else if (named(type, "string")) {
    if (!put_enum(b, schema))
      buf_puts(b, "string");
  } else if (named(type, "number") || named(type, "integer")) {
    buf_puts(b, "number");
  } else if (named(type, "boolean")) {
    buf_puts(b, "boolean");
  } else if (named(type, "array") && value_get(schema, "items")) {
    put_type(b, value_get(schema, "items"), indent);
    buf_puts(b, "[]");
  } else {
    buf_puts(b, named(type, "array") ? "Array<any>" : "any");
  }
}

/* ---- namespaces ---- */

/* Each line of a text behind a prefix; a last line break begins no line. */
static void put_lines(struct buf *b, const struct value *text, const char *prefix) {
  const char *p = text->u.string.data, *end = p + text->u.string.len;
  while (p < end) {
    const char *eol = memchr(p, '\n', (size_t)(end - p)), *next = eol ? eol + 1 : end;
    if (!eol)
      eol = end;
    else if (eol > p && eol[-1] == '\r')
      eol--;
    buf_puts(b, prefix);
    buf_put(b, p, (size_t)(eol - p));
    buf_putc(b, '\n');
    p = next;
  }
}

static int put_tool(struct buf *b, const struct value *tool, const char *where, const char *space,
                    size_t number, struct err *err) {
  const struct value *name = value_get(tool, "name"), *text = value_get(tool, "description");
  const struct value *parameters = value_get(tool, "parameters");
  if (!is_text(name) || !is_text(text))
    return err_set(err, ERR_INVALID,
                   "%s: tool %zu of namespace \"%.80s\" needs a name and a "
                   "description, both texts",
                   where, number, space);
  put_lines(b, text, "// ");
  buf_puts(b, "type ");
  put_text(b, name);
  buf_puts(b, " = (");
  if (parameters && parameters->kind != VALUE_NULL) {
    buf_puts(b, "_: ");
    put_type(b, parameters, 0);
  }
  buf_puts(b, ") => any;\n\n");
  return 0;
}

static int put_namespace(struct buf *b, const struct value *space, const char *where,
                         struct err *err) {
  const struct value *name = value_get(space, "name"), *text = value_get(space, "description");
  const struct value *tools = value_get(space, "tools");
  if (!is_text(name) || !tools || tools->kind != VALUE_ARRAY ||
      (text && text->kind != VALUE_NULL && !is_text(text)))
    return err_set(err, ERR_INVALID,
                   "%s: a namespace of tools is {name = text, description = text or null, tools = "
                   "list}",
                   where);
  bool any = tools->u.array.n > 0;
  buf_puts(b, "\n\n## ");
  put_text(b, name);
  buf_puts(b, "\n\n");
  if (is_text(text))
    put_lines(b, text, any ? "// " : "");
  if (any) {
    buf_puts(b, "namespace ");
    put_text(b, name);
    buf_puts(b, " {\n\n");
    for (size_t i = 0; i < tools->u.array.n; i++) {
      int rc = put_tool(b, &tools->u.array.items[i], where, name->u.string.data, i + 1, err);
      if (rc)
        return rc;
    }
    buf_puts(b, "} // namespace ");
    put_text(b, name);
    buf_putc(b, '\n');
  }
  b->len--; /* the last line has no break */
  b->data[b->len] = '\0';
  return 0;
}

static int by_key(const void *a, const void *b) {
  const struct value_pair *const *x = a, *const *y = b;
  size_t n = (*x)->key_len < (*y)->key_len ? (*x)->key_len : (*y)->key_len;
  int order = memcmp((*x)->key, (*y)->key, n);
  return order ? order : ((*x)->key_len > (*y)->key_len) - ((*x)->key_len < (*y)->key_len);
}

int harmony_put_tools(struct buf *b, const struct value *namespaces, const char *where,
                      struct err *err) {
  if (namespaces->kind != VALUE_OBJECT)
    return err_set(err, ERR_INVALID, "%s: tools is an object, namespace -> its tools", where);
  size_t n = namespaces->u.object.n;
  const struct value_pair **sorted = mem_calloc(n, sizeof *sorted);
  for (size_t i = 0; i < n; i++)
    sorted[i] = &namespaces->u.object.pairs[i];
  qsort(sorted, n, sizeof *sorted, by_key);
  buf_puts(b, "# Tools");
  int rc = 0;
  for (size_t i = 0; !rc && i < n; i++)
    rc = put_namespace(b, &sorted[i]->value, where, err);
  mem_free(sorted);
  return rc;
}

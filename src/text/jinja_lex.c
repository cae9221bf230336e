/* jinja_lex.c: a template's source as tokens, white space control included.
 *
 * Follows jinja2.lexer with trim_blocks and lstrip_blocks on and keep_trailing_newline off: \r\n
 * and \r are \n, one newline at the end goes, a block eats the newline behind it and the blanks
 * before it when it stands first on its line. */
#include "text/jinja_ast.h"
#include "text/pychar.h"

#include <stdio.h>
#include <string.h>

struct lexer {
  struct jst *st;
  const char *start, *p, *end;
  uint32_t line;
  const char *line_at; /* up to here newlines are counted in `line` */
  struct jtoken *tokens;
  size_t n, cap;
  char stack[256]; /* the closing brackets waited for */
  size_t depth;
  bool line_starting;
};

NORETURN static void fail(struct lexer *lx, const char *at, const char *text) {
  for (const char *p = lx->line_at; p < at; p++)
    lx->line += *p == '\n';
  lx->st->line = lx->line;
  jraise(lx->st, "TemplateSyntaxError", "%s", text);
}

static void add(struct lexer *lx, enum jtoken_type type, const char *at, struct jv value) {
  for (; lx->line_at < at; lx->line_at++)
    lx->line += *lx->line_at == '\n';
  if (lx->n == lx->cap) {
    size_t cap = lx->cap ? lx->cap * 2 : 64;
    struct jtoken *more = jalloc(lx->st, cap * sizeof *more);
    if (lx->n)
      memcpy(more, lx->tokens, lx->n * sizeof *more);
    lx->tokens = more;
    lx->cap = cap;
  }
  lx->tokens[lx->n++] = (struct jtoken){type, lx->line, value};
}

static bool starts(const char *p, const char *end, const char *with) {
  size_t n = strlen(with);
  return (size_t)(end - p) >= n && !memcmp(p, with, n);
}

static const char *skip_space(const char *p, const char *end) {
  while (p < end) {
    size_t size;
    uint32_t c = pychar_read(p, (size_t)(end - p), &size);
    if (!(pychar_classes(c) & PYCHAR_SPACE))
      break;
    p += size;
  }
  return p;
}

/* Where the white space that ends s[0..) before `end` begins. */
static const char *strip_back(const char *s, const char *end) {
  while (end > s) {
    const char *p = end - 1;
    while (p > s && ((unsigned char)*p & 0xc0) == 0x80)
      p--;
    size_t size;
    uint32_t c = pychar_read(p, (size_t)(end - p), &size);
    if (p + size != end || !(pychar_classes(c) & PYCHAR_SPACE))
      break;
    end = p;
  }
  return end;
}

/* "-%}" and its white space, "+%}", "%}" and one newline. Returns what is behind, NULL when p is at
 * none of them. */
static const char *block_end(const char *p, const char *end, const char *close) {
  if (p < end && *p == '-' && starts(p + 1, end, close))
    return skip_space(p + 3, end);
  if (p < end && *p == '+' && starts(p + 1, end, close))
    return p + 3;
  if (!starts(p, end, close))
    return NULL;
  p += 2;
  return p < end && *p == '\n' ? p + 1 : p;
}

/* "raw %}" behind an opening and its sign; NULL when something else stands there. */
static const char *raw_begin(const char *p, const char *end) {
  p = skip_space(p, end);
  if (!starts(p, end, "raw"))
    return NULL;
  p = skip_space(p + 3, end);
  if (starts(p, end, "-%}"))
    return skip_space(p + 3, end);
  return starts(p, end, "%}") ? p + 2 : NULL;
}

/* The data before a tag at `tag` whose sign is `sign`; is_block: lstrip_blocks applies. */
static void add_data(struct lexer *lx, const char *tag, char sign, bool is_block) {
  const char *from = lx->p, *to = tag;
  if (sign == '-') {
    to = strip_back(from, to);
  } else if (sign != '+' && is_block) {
    const char *line = to;
    while (line > from && line[-1] != '\n')
      line--;
    if ((line > from || lx->line_starting) && strip_back(line, to) == line && line < to)
      to = line;
  }
  if (to > from)
    add(lx, T_DATA, from, jstr(from, (size_t)(to - from)));
}

static const char *lex_comment(struct lexer *lx, const char *tag, const char *p) {
  for (const char *q = p; q < lx->end; q++) {
    const char *behind = *q == '#' || *q == '-' || *q == '+' ? block_end(q, lx->end, "#}") : NULL;
    if (behind)
      return behind;
  }
  fail(lx, tag, "Missing end of comment tag");
}

static const char *lex_raw(struct lexer *lx, const char *tag, const char *p) {
  for (const char *q = p; q < lx->end; q++) {
    if (!starts(q, lx->end, "{%"))
      continue;
    const char *r = q + 2;
    char sign = r < lx->end && (*r == '-' || *r == '+') ? *r++ : 0;
    r = skip_space(r, lx->end);
    if (!starts(r, lx->end, "endraw"))
      continue;
    const char *behind = block_end(skip_space(r + 6, lx->end), lx->end, "%}");
    if (!behind)
      continue;
    lx->p = p;
    add_data(lx, q, sign, true);
    return behind;
  }
  fail(lx, tag, "Missing end of raw directive");
}

static bool is_digit(const char *p, const char *end) {
  return p < end && *p >= '0' && *p <= '9';
}

/* Digits of a base with single underscores between; what is behind them, p when there are none. */
static const char *skip_digits(const char *p, const char *end, int base) {
  const char *last = p;
  while (p < end) {
    const char *q = *p == '_' ? p + 1 : p;
    char c = q < end ? *q : 0;
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : 99;
    if (digit >= base)
      break;
    last = p = q + 1;
  }
  return last;
}

/* (\d+_)*\d+ : as above, but an underscore never leads. */
static const char *skip_decimal(const char *p, const char *end) {
  return is_digit(p, end) ? skip_digits(p, end, 10) : p;
}

static const char *match_float(const char *p, const char *start, const char *end) {
  if (p > start && p[-1] == '.')
    return NULL;
  const char *q = skip_decimal(p, end);
  if (q == p)
    return NULL;
  bool real = false;
  if (q < end && *q == '.' && is_digit(q + 1, end)) {
    q = skip_decimal(q + 1, end);
    real = true;
  }
  if (q < end && (*q == 'e' || *q == 'E')) {
    const char *r = q + 1;
    if (r < end && (*r == '+' || *r == '-'))
      r++;
    if (is_digit(r, end)) {
      q = skip_decimal(r, end);
      real = true;
    }
  }
  return real ? q : NULL;
}

static const char *match_int(const char *p, const char *end, int *base) {
  *base = 10;
  if (*p == '0') {
    char kind = p + 1 < end ? (char)(p[1] | 32) : 0;
    int b = kind == 'b' ? 2 : kind == 'o' ? 8 : kind == 'x' ? 16 : 0;
    const char *q = b ? skip_digits(p + 2, end, b) : p;
    if (b && q > p + 2) {
      *base = b;
      return q;
    }
    return skip_digits(p, end, 1); /* zeros alone */
  }
  return skip_decimal(p, end);
}

static void add_number(struct lexer *lx, const char *p, const char *to, bool real, int base) {
  struct buf *digits = jbuf_open(lx->st);
  for (const char *q = base == 10 ? p : p + 2; q < to; q++)
    if (*q != '_')
      jputc(lx->st, digits, *q);
  struct jv text = jbuf_close(lx->st, digits), v = jnone();
  const char *s = jbytes(lx->st, text);
  double d;
  bool ok = true;
  if (real) {
    ok = jread_float(s, text.len, &d);
    v = jfloat(d);
  } else if (!jread_int(lx->st, s, text.len, base, &v)) {
    fail(lx, p, "an integer of so many digits is beyond what Python reads");
  }
  if (!ok)
    fail(lx, p, "not a number");
  add(lx, real ? T_FLOAT : T_INT, p, v);
}

static const char *lex_name(struct lexer *lx, const char *p) {
  const char *q = p;
  bool valid = true;
  while (q < lx->end) {
    size_t size;
    uint32_t c = pychar_read(q, (size_t)(lx->end - q), &size);
    unsigned classes = pychar_classes(c);
    if (!(classes & (PYCHAR_WORD | PYCHAR_IDENT)))
      break;
    valid = valid && classes & (q == p ? PYCHAR_IDENT_START : PYCHAR_IDENT);
    q += size;
  }
  if (q == p)
    return NULL;
  if (!valid)
    fail(lx, p, "Invalid character in identifier");
  add(lx, T_NAME, p, jstr(p, (size_t)(q - p)));
  return q;
}

static int hex_digits(const char *p, const char *end, int n, uint32_t *out) {
  *out = 0;
  int i = 0;
  for (; i < n && p + i < end; i++) {
    char c = p[i];
    int d = c >= '0' && c <= '9'   ? c - '0'
            : c >= 'a' && c <= 'f' ? c - 'a' + 10
            : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                   : -1;
    if (d < 0)
      break;
    *out = *out << 4 | (uint32_t)d;
  }
  return i;
}

static const char *put_hex_escape(struct lexer *lx, struct buf *b, const char *p, const char *end) {
  int n = *p == 'x' ? 2 : *p == 'u' ? 4 : 8;
  uint32_t c;
  if (hex_digits(p + 1, end, n, &c) < n)
    fail(lx, p,
         n == 2   ? "truncated \\xXX escape"
         : n == 4 ? "truncated \\uXXXX escape"
                  : "truncated \\UXXXXXXXX escape");
  if (c > 0x10ffff)
    fail(lx, p, "illegal Unicode character");
  jput_char(lx->st, b, c);
  return p + 1 + n;
}

/* One escape, p behind its backslash. */
static const char *put_escape(struct lexer *lx, struct buf *b, const char *p, const char *end) {
  static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
  const char *simple = *p ? strchr(from, *p) : NULL;
  if (*p == '\n')
    return p + 1;
  if (simple) {
    jputc(lx->st, b, to[simple - from]);
    return p + 1;
  }
  if (*p >= '0' && *p <= '7') {
    uint32_t c = 0;
    for (int i = 0; i < 3 && p < end && *p >= '0' && *p <= '7'; i++)
      c = c * 8 + (uint32_t)(*p++ - '0');
    jput_char(lx->st, b, c);
    return p;
  }
  if (*p == 'x' || *p == 'u' || *p == 'U')
    return put_hex_escape(lx, b, p, end);
  if (*p == 'N')
    fail(lx, p, "\\N{...} escapes are not supported here; write the character itself or \\uXXXX");
  jputc(lx->st, b, '\\');
  if ((unsigned char)*p < 0x80) {
    jputc(lx->st, b, *p);
    return p + 1;
  }
  /* Jinja2 writes characters beyond ASCII as escapes before it reads the escapes, so that the
   * backslash here takes the other one with it. */
  size_t size;
  uint32_t c = pychar_read(p, (size_t)(end - p), &size);
  char text[16];
  snprintf(text, sizeof text, c < 0x100 ? "x%02x" : c < 0x10000 ? "u%04x" : "U%08x", c);
  jputs(lx->st, b, text);
  return p + size;
}

static const char *lex_string(struct lexer *lx, const char *p) {
  char quote = *p;
  bool plain = true;
  const char *q = p + 1;
  while (q < lx->end && *q != quote) {
    if (*q == '\\') {
      plain = false;
      q++;
    }
    q++;
  }
  if (q >= lx->end)
    return NULL;
  if (plain) {
    add(lx, T_STRING, p, jstr(p + 1, (size_t)(q - p - 1)));
    return q + 1;
  }
  struct buf *b = jbuf_open(lx->st);
  for (const char *r = p + 1; r < q;) {
    if (*r == '\\')
      r = put_escape(lx, b, r + 1, q);
    else
      jputc(lx->st, b, *r++);
  }
  add(lx, T_STRING, p, jbuf_close(lx->st, b));
  return q + 1;
}

struct operator{
  char text[3];
  enum jtoken_type type;
};
static const struct operator OPERATORS[] = {
    {"//", T_FLOORDIV}, {"**", T_POW},   {"==", T_EQ},      {"!=", T_NE},      {">=", T_GE},
    {"<=", T_LE},       {"+", T_ADD},    {"-", T_SUB},      {"/", T_DIV},      {"*", T_MUL},
    {"%", T_MOD},       {"~", T_TILDE},  {"[", T_LBRACKET}, {"]", T_RBRACKET}, {"(", T_LPAREN},
    {")", T_RPAREN},    {"{", T_LBRACE}, {"}", T_RBRACE},   {">", T_GT},       {"<", T_LT},
    {"=", T_ASSIGN},    {".", T_DOT},    {":", T_COLON},    {"|", T_PIPE},     {",", T_COMMA},
    {";", T_SEMICOLON}};

static void balance(struct lexer *lx, const char *p) {
  char close = *p == '{' ? '}' : *p == '(' ? ')' : *p == '[' ? ']' : 0;
  char text[64];
  if (close) {
    if (lx->depth == sizeof lx->stack)
      fail(lx, p, "brackets are nested too deeply");
    lx->stack[lx->depth++] = close;
  } else if (*p == '}' || *p == ')' || *p == ']') {
    snprintf(text, sizeof text, "unexpected '%c'", *p);
    if (!lx->depth)
      fail(lx, p, text);
    char expected = lx->stack[--lx->depth];
    snprintf(text, sizeof text, "unexpected '%c', expected '%c'", *p, expected);
    if (expected != *p)
      fail(lx, p, text);
  }
}

static const char *lex_operator(struct lexer *lx, const char *p) {
  for (size_t i = 0; i < sizeof OPERATORS / sizeof *OPERATORS; i++) {
    const struct operator* op = & OPERATORS[i];
    if (!starts(p, lx->end, op->text))
      continue;
    if (strlen(op->text) == 1)
      balance(lx, p);
    add(lx, op->type, p, jcstr(op->text));
    return p + strlen(op->text);
  }
  return NULL;
}

static const char *lex_one(struct lexer *lx, const char *p) {
  int base;
  const char *q = match_float(p, lx->start, lx->end);
  if (q) {
    add_number(lx, p, q, true, 10);
    return q;
  }
  if (is_digit(p, lx->end)) {
    q = match_int(p, lx->end, &base);
    add_number(lx, p, q, false, base);
    return q;
  }
  q = lex_name(lx, p);
  if (!q && (*p == '"' || *p == '\''))
    q = lex_string(lx, p);
  return q ? q : lex_operator(lx, p);
}

/* The tokens of a statement or a print up to its end. */
static const char *lex_tag(struct lexer *lx, const char *p, bool block) {
  for (;;) {
    if (p >= lx->end)
      return p;
    if (!lx->depth) {
      const char *behind = NULL;
      if (block)
        behind = block_end(p, lx->end, "%}");
      else if (starts(p, lx->end, "-}}"))
        behind = skip_space(p + 3, lx->end);
      else if (starts(p, lx->end, "}}"))
        behind = p + 2;
      if (behind) {
        add(lx, block ? T_BLOCK_END : T_VAR_END, p, jstr(p, 0));
        return behind;
      }
    }
    const char *q = skip_space(p, lx->end);
    if (q == p) {
      q = lex_one(lx, p);
      if (!q) {
        size_t size;
        pychar_read(p, (size_t)(lx->end - p), &size);
        struct jv text = jstr(p, size);
        char message[96];
        snprintf(message, sizeof message, "unexpected char %s at %zu", jrepr_c(lx->st, text),
                 (size_t)(p - lx->start));
        fail(lx, p, message);
      }
    }
    p = q;
  }
}

/* \r\n and \r become \n, one newline at the end goes. */
static void normalise(struct lexer *lx, const char *source, size_t len) {
  char *text = jalloc(lx->st, len + 1);
  size_t n = 0;
  for (size_t i = 0; i < len; i++) {
    if (source[i] == '\r') {
      text[n++] = '\n';
      i += i + 1 < len && source[i + 1] == '\n';
    } else {
      text[n++] = source[i];
    }
  }
  if (n && text[n - 1] == '\n')
    n--;
  text[n] = '\0';
  lx->start = lx->p = lx->line_at = text;
  lx->end = text + n;
}

struct jtoken *jlex(struct jst *st, const char *source, size_t len, size_t *n) {
  struct lexer lx = {.st = st, .line = 1, .line_starting = true};
  normalise(&lx, source, len);
  while (lx.p < lx.end) {
    const char *tag = lx.p;
    while (tag < lx.end && !(tag + 1 < lx.end && tag[0] == '{' &&
                             (tag[1] == '{' || tag[1] == '%' || tag[1] == '#')))
      tag++;
    if (tag == lx.end) {
      add(&lx, T_DATA, lx.p, jstr(lx.p, (size_t)(lx.end - lx.p)));
      break;
    }
    const char *p = tag + 2;
    char kind = tag[1], sign = p < lx.end && (*p == '-' || *p == '+') ? *p++ : 0;
    add_data(&lx, tag, sign, kind != '{');
    const char *raw = kind == '%' ? raw_begin(p, lx.end) : NULL;
    if (kind == '#') {
      lx.p = lex_comment(&lx, tag, p);
    } else if (raw) {
      lx.line_starting = raw[-1] == '\n';
      lx.p = lex_raw(&lx, tag, raw);
    } else {
      add(&lx, kind == '%' ? T_BLOCK_BEGIN : T_VAR_BEGIN, tag, jstr(tag, 2));
      lx.p = lex_tag(&lx, p, kind == '%');
    }
    lx.line_starting = lx.p > lx.start && lx.p[-1] == '\n';
  }
  add(&lx, T_EOF, lx.end, jstr(lx.end, 0));
  *n = lx.n;
  return lx.tokens;
}

const char *jtoken_type_describe(enum jtoken_type t) {
  switch (t) {
  case T_EOF:
    return "end of template";
  case T_DATA:
    return "template data / text";
  case T_VAR_BEGIN:
    return "begin of print statement";
  case T_VAR_END:
    return "end of print statement";
  case T_BLOCK_BEGIN:
    return "begin of statement block";
  case T_BLOCK_END:
    return "end of statement block";
  case T_NAME:
    return "name";
  case T_STRING:
    return "string";
  case T_INT:
    return "integer";
  case T_FLOAT:
    return "float";
  default:
    for (size_t i = 0; i < sizeof OPERATORS / sizeof *OPERATORS; i++)
      if (OPERATORS[i].type == t)
        return OPERATORS[i].text;
    return "?";
  }
}

const char *jtoken_describe(struct jst *st, const struct jtoken *t) {
  if (t->type != T_NAME)
    return jtoken_type_describe(t->type);
  char *text = jalloc(st, t->value.len + 1);
  memcpy(text, jbytes(st, t->value), t->value.len);
  text[t->value.len] = '\0';
  return text;
}

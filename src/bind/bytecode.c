/* bytecode.c: reads a dump from front to back, changes it in place, and copies it with one upvalue
 * more where globals are written (bytecode.h says what for). The format is that of all 5.4
 * releases. */
#include "bind/bytecode.h"

#include <string.h>

#include "base/mem.h"

/* The function and its two operands, the 20 slots a C function is promised, and some. */
#define HEADROOM 32
#define MOST_REGISTERS 255
#define MOST_UPVALUES 255
#define NONE MOST_UPVALUES /* as the number of an upvalue */
#define CONCAT "__concat"
#define OWN_CONCAT BYTECODE_OWN_CONCAT

enum { OP_GETFIELD = 14, OP_SETTABUP = 15, OP_SETFIELD = 18, OP_CONCAT = 53 };
enum { K_NIL = 0, K_FALSE = 1, K_INTEGER = 3, K_SHORT = 4, K_TRUE = 17, K_FLOAT = 19, K_LONG = 20 };

/* One upvalue more for a function: behind `list_end`, and its count is at `count`. */
struct edit {
  const char *count, *list, *list_end;
  unsigned n; /* upvalues so far */
  char entry[3];
  bool wanted;
};

struct dump {
  char *p, *end;
  bool odd;           /* not what is expected */
  bool renamed;       /* a __concat was found */
  int crowded;        /* line of a function that leaves no room; 0 = none */
  struct edit *edits; /* in the order of the functions */
  size_t n_edits, cap_edits;
};

static char *take(struct dump *d, size_t n) {
  if (d->odd || (size_t)(d->end - d->p) < n) {
    d->odd = true;
    return NULL;
  }
  char *at = d->p;
  d->p += n;
  return at;
}

static size_t take_size(struct dump *d) {
  size_t n = 0;
  for (const char *b; (b = take(d, 1));) {
    if (n >> 56) {
      d->odd = true;
      break;
    }
    n = n << 7 | ((unsigned char)*b & 0x7F);
    if (*b & 0x80)
      return n;
  }
  return 0;
}

static char *take_string(struct dump *d, size_t *len) {
  size_t n = take_size(d);
  *len = n ? n - 1 : 0;
  return n ? take(d, n - 1) : NULL;
}

static void take_many(struct dump *d, size_t size) {
  size_t n = take_size(d);
  if (n > (size_t)(d->end - d->p) / size)
    d->odd = true;
  take(d, n * size);
}

static uint32_t instruction(const char *code, size_t i) {
  uint32_t word;
  memcpy(&word, code + 4 * i, 4);
  return word;
}

/* Whether constant number k is the name of a field somewhere in this code. */
static bool names_field(const char *code, size_t n, size_t k) {
  for (size_t i = 0; i < n; i++) {
    uint32_t word = instruction(code, i), op = word & 0x7F;
    if ((op == OP_SETFIELD && (word >> 16 & 0xFF) == k) || (op == OP_GETFIELD && word >> 24 == k))
      return true;
  }
  return false;
}

static bool has_concat(const char *code, size_t n) {
  for (size_t i = 0; i < n; i++)
    if ((instruction(code, i) & 0x7F) == OP_CONCAT)
      return true;
  return false;
}

static void take_constants(struct dump *d, const char *code, size_t n_code) {
  size_t n = take_size(d), len;
  for (size_t k = 0; k < n && !d->odd; k++) {
    const char *type = take(d, 1);
    switch (type ? *type : K_NIL) {
    case K_NIL:
    case K_FALSE:
    case K_TRUE:
      break;
    case K_INTEGER:
    case K_FLOAT:
      take(d, 8);
      break;
    case K_SHORT:
    case K_LONG: {
      char *s = take_string(d, &len);
      if (s && len == sizeof CONCAT - 1 && memcmp(s, CONCAT, len) == 0 &&
          names_field(code, n_code, k)) {
        memcpy(s, OWN_CONCAT, len);
        d->renamed = true;
      }
      break;
    }
    default:
      d->odd = true;
    }
  }
}

/* Line numbers, names of variables. */
static void take_debug(struct dump *d) {
  size_t len;
  take_many(d, 1);
  for (size_t n = take_size(d); n > 0 && !d->odd; n--) {
    take_size(d);
    take_size(d);
  }
  for (size_t n = take_size(d); n > 0 && !d->odd; n--) {
    take_string(d, &len);
    take_size(d);
    take_size(d);
  }
  for (size_t n = take_size(d); n > 0 && !d->odd; n--)
    take_string(d, &len);
}

/* ---- writes to globals ---- */

/* Writes through upvalue number `env` go through `guard` from now on; whether there are any. */
static bool redirect(char *code, size_t n, unsigned env, unsigned guard) {
  bool any = false;
  for (size_t i = 0; i < n; i++) {
    uint32_t word = instruction(code, i);
    if ((word & 0x7F) != OP_SETTABUP || (word >> 7 & 0xFF) != env)
      continue;
    word = (word & ~((uint32_t)0xFF << 7)) | (uint32_t)guard << 7;
    memcpy(code + 4 * i, &word, 4);
    any = true;
  }
  return any;
}

/* Where the enclosing function has the chunk's _ENV and the guard; the chunk itself has neither. */
struct outer {
  bool is_main;
  unsigned env, guard;
};

/* The upvalues of a function: which is the chunk's _ENV, and what one more would be. */
static struct outer take_upvalues(struct dump *d, const struct outer *o) {
  struct outer own = {.env = NONE, .guard = NONE};
  const char *count = d->p;
  size_t n = take_size(d);
  const char *list = d->p;
  if (n > MOST_UPVALUES || !take(d, n * 3)) {
    d->odd = true;
    return own;
  }
  for (size_t i = 0; i < n && own.env == NONE; i++)
    if (o->is_main || (!list[3 * i] && o->env != NONE && (unsigned char)list[3 * i + 1] == o->env))
      own.env = (unsigned)i;
  if (own.env != NONE && n < MOST_UPVALUES && (o->is_main || o->guard != NONE))
    own.guard = (unsigned)n;
  MEM_GROW(d->edits, d->n_edits, d->cap_edits);
  d->edits[d->n_edits++] = (struct edit){
      .count = count,
      .list = list,
      .list_end = d->p,
      .n = (unsigned)n,
      /* the chunk's first two upvalues are its caller's to set, like those of any main function */
      .entry = {o->is_main, o->is_main ? 0 : (char)o->guard, 0},
  };
  return own;
}

/* One function and those inside it; Lua's parser bounds how deep they nest. Whether it needs the
 * guard. */
static bool take_function(struct dump *d, const struct outer *o) { // NOLINT(misc-no-recursion)
  size_t len;
  take_string(d, &len); /* source */
  size_t line = take_size(d);
  take_size(d);
  char *head = take(d, 3); /* parameters, whether vararg, maxstacksize */
  size_t n_code = take_size(d);
  if (n_code > (size_t)(d->end - d->p) / 4)
    d->odd = true;
  char *code = take(d, n_code * 4);
  if (!head || !code)
    return false;
  unsigned registers = (unsigned char)head[2], most = MOST_REGISTERS - HEADROOM;
  if (registers > most && has_concat(code, n_code) && !d->crowded)
    d->crowded = (int)line + (line == 0);
  head[2] = (char)(registers > most ? MOST_REGISTERS : registers + HEADROOM);
  take_constants(d, code, n_code);
  size_t edit = d->n_edits;
  struct outer own = take_upvalues(d, o);
  bool needs = own.guard != NONE && redirect(code, n_code, own.env, own.guard);
  for (size_t n = take_size(d); n > 0 && !d->odd; n--)
    needs |= take_function(d, &own);
  take_debug(d);
  if (needs)
    d->edits[edit].wanted = true;
  return needs;
}

/* As lua_dump writes a size: seven bits a byte, the last one marked. */
static void put_size(struct buf *out, size_t n) {
  char bytes[10];
  size_t at = sizeof bytes;
  bytes[--at] = (char)((n & 0x7F) | 0x80);
  while (n >>= 7)
    bytes[--at] = (char)(n & 0x7F);
  buf_put(out, bytes + at, sizeof bytes - at);
}

static void copy_edited(const struct dump *d, const struct buf *from, struct buf *out) {
  const char *at = from->data;
  for (size_t i = 0; i < d->n_edits; i++) {
    const struct edit *e = &d->edits[i];
    if (!e->wanted)
      continue;
    buf_put(out, at, (size_t)(e->count - at));
    put_size(out, e->n + 1);
    buf_put(out, e->list, (size_t)(e->list_end - e->list));
    buf_put(out, e->entry, sizeof e->entry);
    at = e->list_end;
  }
  buf_put(out, at, (size_t)(from->data + from->len - at));
}

void bytecode_change(struct buf *dump, struct buf *out, struct bytecode *found) {
  static const size_t header = 4 + 1 + 1 + 6 + 3 + 8 + 8;
  struct dump d = {.p = dump->data, .end = dump->data + dump->len};
  take(&d, header);
  char *n_upvalues = take(&d, 1);
  bool guarded = take_function(&d, &(struct outer){.is_main = true, .env = NONE, .guard = NONE});
  *found = (struct bytecode){.odd = d.odd || d.p != d.end,
                             .renamed = d.renamed,
                             .guarded = guarded,
                             .crowded = d.crowded,
                             .most_registers = MOST_REGISTERS - HEADROOM};
  if (!found->odd) {
    if (guarded)
      ++*n_upvalues;
    copy_edited(&d, dump, out);
  }
  mem_free(d.edits);
}

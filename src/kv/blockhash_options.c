/* blockhash_options.c: a chain's options, from a JSON-like object to checked settings.
 *
 * Every parameter of every scheme is one line of a table: its name, what it is, where it goes. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "kv/blockhash_scheme.h"
#include "text/json.h"

enum kind { KIND_TEXT, KIND_WORD, KIND_NUMBER, KIND_HEX64, KIND_FLAG, KIND_OTHER };

struct spec {
  const char *name;
  enum kind kind;
  size_t offset;     /* in the settings */
  const char *words; /* of KIND_WORD: what it can be, between spaces */
  int (*read)(struct blockhash_settings *s, const struct value *v, struct err *err);
};

static int read_mm(struct blockhash_settings *s, const struct value *v, struct err *err);
static int read_embeds(struct blockhash_settings *s, const struct value *v, struct err *err);
static int read_block_mm(struct blockhash_settings *s, const struct value *v, struct err *err);

#define AT(field) offsetof(struct blockhash_settings, field)

static const struct spec specs[PARAM_COUNT] = {
    [PARAM_SEED_NUMBER] = {"seed", KIND_NUMBER, AT(seed), NULL, NULL},
    [PARAM_SEED_TEXT] = {"seed", KIND_TEXT, AT(seed_text), NULL, NULL},
    [PARAM_NONE_HASH] = {"none_hash", KIND_TEXT, AT(none_hash), NULL, NULL},
    [PARAM_NONE_HASH_STRING] = {"none_hash_string", KIND_TEXT, AT(none_hash_string), NULL, NULL},
    [PARAM_PYTHONHASHSEED] = {"pythonhashseed", KIND_TEXT, AT(pythonhashseed), NULL, NULL},
    [PARAM_HASH_SEED] = {"hash_seed", KIND_TEXT, AT(hash_seed), NULL, NULL},
    [PARAM_MODEL] = {"model", KIND_TEXT, AT(model), NULL, NULL},
    [PARAM_PARENT_HEX] = {"parent", KIND_HEX64, AT(parent), NULL, NULL},
    [PARAM_PARENT_NUMBER] = {"parent", KIND_NUMBER, AT(parent), NULL, NULL},
    [PARAM_PARENT_PREFIX] = {"parent_prefix", KIND_HEX64, AT(parent), NULL, NULL},
    [PARAM_ADDITIONAL_SALT] = {"additional_salt", KIND_TEXT, AT(additional_salt), NULL, NULL},
    [PARAM_CACHE_SALT] = {"cache_salt", KIND_TEXT, AT(cache_salt), NULL, NULL},
    [PARAM_LORA_NAME] = {"lora_name", KIND_TEXT, AT(lora_name), NULL, NULL},
    [PARAM_MM] = {"mm", KIND_OTHER, 0, NULL, read_mm},
    [PARAM_MM_FORM] = {"mm_form", KIND_WORD, AT(mm_form), "tuple bare", NULL},
    [PARAM_PROMPT_EMBEDS] = {"prompt_embeds_sha256", KIND_OTHER, 0, NULL, read_embeds},
    [PARAM_CACHE_NAMESPACE] = {"cache_namespace", KIND_TEXT, AT(cache_namespace), NULL, NULL},
    [PARAM_BLOCK_MM] = {"block_mm", KIND_OTHER, 0, NULL, read_block_mm},
    [PARAM_IS_EAGLE] = {"is_eagle", KIND_FLAG, AT(is_eagle), NULL, NULL},
    [PARAM_BIGRAM] = {"bigram", KIND_FLAG, AT(bigram), NULL, NULL},
    [PARAM_PARTIAL] = {"partial", KIND_WORD, AT(partial), "drop hash", NULL},
    [PARAM_CHAIN] = {"chain", KIND_WORD, AT(chain), "event storage", NULL},
    [PARAM_EXTRA_KEY] = {"extra_key", KIND_TEXT, AT(extra_key), NULL, NULL},
    [PARAM_VARIANT_EPP] = {"variant", KIND_WORD, AT(variant),
                           "gie-v1.1-v1.5 llm-d-sched-2026-05 gie-v1.0 gie-v0.5", NULL},
    [PARAM_VARIANT_PSTACK] = {"variant", KIND_WORD, AT(variant), "python go", NULL},
    [PARAM_MAX_BLOCKS] = {"max_blocks", KIND_NUMBER, AT(max_blocks), NULL, NULL},
    [PARAM_PREFIX_TOKEN_COUNT] = {"prefix_token_count", KIND_NUMBER, AT(prefix), NULL, NULL},
    [PARAM_PREFIX_TOKEN_LENGTH] = {"prefix_token_length", KIND_NUMBER, AT(prefix), NULL, NULL},
    [PARAM_ALGORITHM] = {"algorithm", KIND_WORD, AT(algorithm),
                         "sha256 sha256_cbor xxhash xxhash_cbor", NULL},
    [PARAM_SAVE_UNFULL_CHUNK] = {"save_unfull_chunk", KIND_FLAG, AT(save_unfull_chunk), NULL, NULL},
};

const char *blockhash_scheme_param(const struct blockhash_scheme *s, size_t i, bool *json) {
  for (int p = 0; p < PARAM_COUNT; p++)
    if (s->params >> p & 1 && i-- == 0) {
      if (json)
        *json = specs[p].kind == KIND_FLAG || specs[p].kind == KIND_OTHER;
      return specs[p].name;
    }
  return NULL;
}

static const char *kind_name(const struct value *v) {
  static const char *const names[] = {"null",   "a boolean", "a number", "a number",
                                      "a text", "a list",    "an object"};
  return names[v->kind];
}

/* A value that is of the wrong kind, or says the wrong thing. */
static int refuse(const struct blockhash_settings *s, const char *param, const struct value *v,
                  const char *want, struct err *err) {
  if (v->kind == VALUE_STRING)
    return err_set(err, ERR_INVALID, "%s: %s is \"%.80s\"; it must be %s", s->scheme->name, param,
                   v->u.string.data, want);
  if (v->kind == VALUE_INT)
    return err_set(err, ERR_INVALID, "%s: %s is %" PRId64 "; it must be %s", s->scheme->name, param,
                   v->u.integer, want);
  return err_set(err, ERR_INVALID, "%s: %s is %s; it must be %s", s->scheme->name, param,
                 kind_name(v), want);
}

static struct blockhash_text text_of(const struct value *v) {
  return (struct blockhash_text){v->u.string.data, v->u.string.len};
}

bool blockhash_from_hex(struct blockhash_text text, uint8_t *out, size_t n) {
  if (!text.data || text.len != 2 * n)
    return false;
  for (size_t i = 0; i < 2 * n; i++) {
    char c = text.data[i];
    int x = c >= '0' && c <= '9'   ? c - '0'
            : c >= 'a' && c <= 'f' ? c - 'a' + 10
            : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                   : -1;
    if (x < 0)
      return false;
    out[i / 2] = (uint8_t)(i % 2 ? out[i / 2] | x : x << 4);
  }
  return true;
}

static bool hex64(const struct value *v, uint64_t *out) {
  uint8_t bytes[8];
  if (v->kind != VALUE_STRING || !blockhash_from_hex(text_of(v), bytes, sizeof bytes))
    return false;
  *out = blockhash_be64(bytes);
  return true;
}

/* A whole number below 2^64: an integer, or decimal digits. */
static bool number(const struct value *v, uint64_t *out) {
  int64_t i;
  if (v->kind != VALUE_STRING) {
    if (!value_to_int(v, &i) || i < 0)
      return false;
    *out = (uint64_t)i;
    return true;
  }
  const char *p = v->u.string.data;
  uint64_t x = 0;
  for (size_t k = 0; k < v->u.string.len; k++) {
    if (p[k] < '0' || p[k] > '9')
      return false;
    uint64_t digit = (uint64_t)(p[k] - '0');
    if (x > (UINT64_MAX - digit) / 10)
      return false;
    x = x * 10 + digit;
  }
  *out = x;
  return v->u.string.len > 0;
}

static int read_word(struct blockhash_settings *s, const struct spec *spec, const struct value *v,
                     struct err *err) {
  char words[128], *list[8];
  size_t n = 0;
  memcpy(words, spec->words, strlen(spec->words) + 1);
  for (char *p = words; p && n < ARRAY_LEN(list); n++) {
    list[n] = p;
    p = strchr(p, ' ');
    if (p)
      *p++ = '\0';
  }
  for (size_t i = 0; i < n && v->kind == VALUE_STRING; i++)
    if (blockhash_text_is(text_of(v), list[i])) {
      *(struct blockhash_text *)(void *)((char *)s + spec->offset) = text_of(v);
      return 0;
    }
  char want[192] = "one of: ";
  strncat(want, spec->words, sizeof want - strlen(want) - 1);
  return refuse(s, spec->name, v, want, err);
}

static int read_param(struct blockhash_settings *s, const struct spec *spec, const struct value *v,
                      struct err *err) {
  void *field = (char *)s + spec->offset;
  struct blockhash_number *n = field;
  switch (spec->kind) {
  case KIND_TEXT:
    if (v->kind != VALUE_STRING)
      return refuse(s, spec->name, v, "a text (a number in quotes is one)", err);
    if (json_utf8_valid(v->u.string.data, v->u.string.len) < v->u.string.len)
      return err_set(err, ERR_INVALID, "%s: %s is not UTF-8", s->scheme->name, spec->name);
    *(struct blockhash_text *)field = text_of(v);
    return 0;
  case KIND_WORD:
    return read_word(s, spec, v, err);
  case KIND_NUMBER:
    n->given = true;
    return number(v, &n->value) ? 0
                                : refuse(s, spec->name, v,
                                         "a whole number from 0 to 2^64 - 1 (large ones as a text "
                                         "of decimal digits)",
                                         err);
  case KIND_HEX64:
    n->given = true;
    return hex64(v, &n->value) ? 0 : refuse(s, spec->name, v, "a text of 16 hex digits", err);
  case KIND_FLAG:
    if (v->kind != VALUE_BOOL)
      return refuse(s, spec->name, v, "true or false", err);
    *(bool *)field = v->u.boolean;
    return 0;
  case KIND_OTHER:
    return spec->read(s, v, err);
  }
  assert(0 && "no such kind");
  return 0;
}

/* ---- lists and objects ---- */

/* An empty table of Lua is an object. */
static bool is_list(const struct value *v) {
  return v->kind == VALUE_ARRAY || (v->kind == VALUE_OBJECT && v->u.object.n == 0);
}

static int by_offset(const void *a, const void *b) {
  const struct blockhash_mm *x = a, *y = b;
  if (x->offset != y->offset)
    return x->offset < y->offset ? -1 : 1;
  return x->id.data < y->id.data ? -1 : 1; /* as given */
}

static int read_mm(struct blockhash_settings *s, const struct value *v, struct err *err) {
  static const char want[] = "a list of {identifier = text, offset = token, length = tokens}";
  if (!is_list(v))
    return refuse(s, "mm", v, want, err);
  s->n_mm = value_count(v);
  s->mm = mem_calloc(s->n_mm, sizeof *s->mm);
  for (size_t i = 0; i < s->n_mm; i++) {
    const struct value *item = value_at(v, i), *id = value_get(item, "identifier");
    int64_t offset, length;
    if (value_count(item) != 3 || !id || id->kind != VALUE_STRING ||
        !value_to_int(value_get(item, "offset"), &offset) ||
        !value_to_int(value_get(item, "length"), &length))
      return err_set(err, ERR_INVALID, "%s: mm: item %zu is not as it should be: %s",
                     s->scheme->name, i + 1, want);
    if (offset < 0 || length < 1 || offset > INT32_MAX || length > INT32_MAX)
      return err_set(err, ERR_INVALID,
                     "%s: mm: item %zu lies over %" PRId64 " tokens from token %" PRId64
                     "; both are whole numbers below 2^31, the length at least 1",
                     s->scheme->name, i + 1, length, offset);
    s->mm[i] = (struct blockhash_mm){text_of(id), (uint64_t)offset, (uint64_t)length};
  }
  qsort(s->mm, s->n_mm, sizeof *s->mm, by_offset);
  return 0;
}

static int read_embeds(struct blockhash_settings *s, const struct value *v, struct err *err) {
  static const char want[] = "a list with the SHA-256 of each block's embeds, 64 hex digits each";
  if (!is_list(v))
    return refuse(s, "prompt_embeds_sha256", v, want, err);
  s->n_embeds = value_count(v);
  s->embeds = mem_calloc(s->n_embeds, sizeof *s->embeds);
  for (size_t i = 0; i < s->n_embeds; i++) {
    const struct value *item = value_at(v, i);
    if (item->kind != VALUE_STRING ||
        !blockhash_from_hex(text_of(item), s->embeds[i], sizeof s->embeds[i]))
      return refuse(s, "an item of prompt_embeds_sha256", item, "64 hex digits", err);
  }
  return 0;
}

static int by_block(const void *a, const void *b) {
  const struct blockhash_block_mm *x = a, *y = b;
  if (x->block != y->block)
    return x->block < y->block ? -1 : 1;
  return x->hash < y->hash ? -1 : x->hash > y->hash;
}

static int read_block_mm(struct blockhash_settings *s, const struct value *v, struct err *err) {
  static const char want[] = "an object: block number from 0, as a text -> list of multimodal "
                             "hashes, 16 hex digits each";
  if (v->kind != VALUE_OBJECT)
    return refuse(s, "block_mm", v, want, err);
  size_t cap = 0;
  for (size_t i = 0; i < v->u.object.n; i++) {
    const struct value_pair *p = &v->u.object.pairs[i];
    struct value key = value_string(p->key, p->key_len);
    uint64_t block;
    bool ok = number(&key, &block) && p->value.kind == VALUE_ARRAY;
    value_free(&key);
    if (!ok)
      return err_set(err, ERR_INVALID, "%s: block_mm: \"%.40s\" does not do; it must be %s",
                     s->scheme->name, p->key, want);
    for (size_t k = 0; k < value_count(&p->value); k++) {
      MEM_GROW(s->block_mm, s->n_block_mm, cap);
      struct blockhash_block_mm *m = &s->block_mm[s->n_block_mm++];
      m->block = block;
      if (!hex64(value_at(&p->value, k), &m->hash))
        return refuse(s, "an item of block_mm", value_at(&p->value, k), "16 hex digits", err);
    }
  }
  if (s->n_block_mm)
    qsort(s->block_mm, s->n_block_mm, sizeof *s->block_mm, by_block);
  return 0;
}

bool blockhash_mm_in_block(const struct blockhash_settings *s, const struct blockhash_mm *m,
                           uint64_t block) {
  uint64_t start = block * s->block_size;
  return start + s->block_size > m->offset && start < m->offset + m->length;
}

/* ---- all of them ---- */

static int read_block_size(struct blockhash_settings *s, const struct value *v, struct err *err) {
  uint64_t n = 0;
  if (!number(v, &n) || n > BLOCKHASH_MAX_BLOCK)
    return refuse(s, "block_size", v, "a whole number from 1 to 1048576", err);
  if (s->scheme->block_size == 0) {
    if (n)
      return refuse(s, "block_size", v, "left out: the scheme hashes no blocks", err);
  } else if (n == 0 && !(s->scheme->params & PARAM(ADDITIONAL_SALT))) {
    /* Mooncake's conductor takes 0 and then has no blocks; nobody else does. */
    return refuse(s, "block_size", v, "a whole number from 1 to 1048576", err);
  }
  s->block_size = (uint32_t)n;
  return 0;
}

static int unknown_param(const struct blockhash_settings *s, const char *name, struct err *err) {
  const char *names[PARAM_COUNT + 1] = {"block_size"};
  char known[512] = "block_size";
  size_t n = 1;
  for (const char *p; (p = blockhash_scheme_param(s->scheme, n - 1, NULL)); n++) {
    names[n] = p;
    size_t len = strlen(known);
    strncat(known, ", ", sizeof known - len - 1);
    strncat(known, p, sizeof known - len - 3);
  }
  const char *near = err_nearest(name, names, n);
  if (near)
    return err_set(err, ERR_INVALID, "%s knows no parameter '%s' (did you mean '%s'?)",
                   s->scheme->name, name, near);
  return err_set(err, ERR_INVALID, "%s knows no parameter '%s' (it knows: %s)", s->scheme->name,
                 name, known);
}

static const struct spec *find_spec(const struct blockhash_scheme *s, const char *name) {
  for (int p = 0; p < PARAM_COUNT; p++)
    if (s->params >> p & 1 && strcmp(specs[p].name, name) == 0)
      return &specs[p];
  return NULL;
}

int blockhash_settings_read(struct blockhash_settings *s, const struct value *options,
                            struct err *err) {
  s->block_size = s->scheme->block_size;
  s->options = options ? value_copy(options) : value_object();
  if (s->options.kind != VALUE_OBJECT)
    return err_set(err, ERR_INVALID, "%s: the options are %s; they must be an object",
                   s->scheme->name, kind_name(&s->options));
  for (size_t i = 0; i < s->options.u.object.n; i++) {
    const struct value_pair *p = &s->options.u.object.pairs[i];
    const struct spec *spec = find_spec(s->scheme, p->key);
    int rc;
    if (strcmp(p->key, "block_size") == 0)
      rc = read_block_size(s, &p->value, err);
    else if (!spec)
      rc = unknown_param(s, p->key, err);
    else if (p->value.kind == VALUE_NULL)
      rc = 0; /* not given */
    else
      rc = read_param(s, spec, &p->value, err);
    if (rc)
      return rc;
  }
  if (s->max_blocks.given && s->max_blocks.value == 0)
    return err_set(err, ERR_INVALID, "%s: max_blocks is 0; leave it out for no limit",
                   s->scheme->name);
  s->cap = s->max_blocks.value;
  return 0;
}

int blockhash_settings_need(const struct blockhash_settings *s, const struct blockhash_text *text,
                            const char *param, const char *why, struct err *err) {
  if (text->data)
    return 0;
  return err_set(err, ERR_INVALID, "%s: %s is missing: %s", s->scheme->name, param, why);
}

void blockhash_settings_unref(struct blockhash_settings *s) {
  if (--s->refs)
    return;
  value_free(&s->options);
  mem_free(s->mm);
  mem_free(s->block_mm);
  mem_free(s->embeds);
  mem_free(s);
}

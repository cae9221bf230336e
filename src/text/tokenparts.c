/* tokenparts.c: the components of a tokenizer.json around its vocabulary.
 *
 * Each is checked field by field: what is not known, or not done exactly, is refused by name. The
 * format is what the reference's serializer writes, old forms included. */
#include "text/tokenizer.h"

#include "base/mem.h"
#include "text/unicode.h"
#include "text/utf8.h"

static const char *type_of(const struct value *v) {
  const char *type = value_to_string(value_get(v, "type"));
  return type ? type : "";
}

static bool is(const struct value *v, const char *type) {
  return strcmp(type_of(v), type) == 0;
}

static int refuse_type(const char *part, const struct value *v, const char *known,
                       struct err *err) {
  return err_set(err, ERR_UNSUPPORTED, "%s: type \"%s\" is not supported (known: %s)", part,
                 type_of(v), known);
}

static int refuse_field(const char *part, const struct value *v, const char *field, const char *why,
                        struct err *err) {
  return err_set(err, ERR_UNSUPPORTED, "%s: %s: %s: %s", part, type_of(v), field, why);
}

/* Every key must be "type" or one of `keys` (separated by spaces). */
static int check_keys(const char *part, const struct value *v, const char *keys, struct err *err) {
  for (size_t i = 0; i < value_count(v); i++) {
    const char *key = v->u.object.pairs[i].key;
    size_t n = v->u.object.pairs[i].key_len;
    bool found = strcmp(key, "type") == 0;
    for (const char *k = keys; !found && *k; k += strcspn(k, " ") + (k[strcspn(k, " ")] != 0))
      found = strcspn(k, " ") == n && memcmp(k, key, n) == 0;
    if (!found)
      return refuse_field(part, v, key, "this field is not known here", err);
  }
  return 0;
}

/* A boolean field; `missing` when it is absent or null. */
static int get_bool(const char *part, const struct value *v, const char *key, bool missing,
                    bool *out, struct err *err) {
  const struct value *x = value_get(v, key);
  *out = missing;
  if (!x || x->kind == VALUE_NULL)
    return 0;
  if (x->kind != VALUE_BOOL)
    return refuse_field(part, v, key, "must be true or false", err);
  *out = x->u.boolean;
  return 0;
}

static int get_text(const char *part, const struct value *v, const char *key, char **out,
                    size_t *len, struct err *err) {
  const struct value *x = value_get(v, key);
  if (!x || x->kind != VALUE_STRING)
    return refuse_field(part, v, key, "must be a string", err);
  *len = x->u.string.len;
  *out = mem_strndup(x->u.string.data, *len);
  return 0;
}

#define EMPTY_MATCH "it can match nothing at all, which has no exact equal here"

static int get_pattern(const char *part, const struct value *v, struct pattern *out,
                       struct err *err) {
  const struct value *p = value_get(v, "pattern"), *s = value_get(p, "String"),
                     *r = value_get(p, "Regex");
  if (value_count(p) == 1 && s && s->kind == VALUE_STRING) {
    if (!s->u.string.len)
      return refuse_field(part, v, "pattern", EMPTY_MATCH, err);
    *out = pattern_string(s->u.string.data, s->u.string.len);
    return 0;
  }
  if (value_count(p) != 1 || !r || r->kind != VALUE_STRING)
    return refuse_field(part, v, "pattern", "must be {\"String\": …} or {\"Regex\": …}", err);
  int rc = pattern_regex(out, r->u.string.data, r->u.string.len, err);
  return rc ? err_prefix(err, "%s: %s", part, type_of(v)) : 0;
}

/* What is replaced: the same, but nothing is no match. */
static int get_replaced(const char *part, const struct value *v, struct pattern *out,
                        struct err *err) {
  int rc = get_pattern(part, v, out, err);
  return !rc && pattern_may_be_empty(out) ? refuse_field(part, v, "pattern", EMPTY_MATCH, err) : rc;
}

/* ------------------------------------------------------------------------------- normalizers */

static int norm_one(struct tokenizer *t, const struct value *v, struct err *err) {
  static const char part[] = "normalizer";
  struct normsteps *n = &t->norm;
  MEM_GROW(n->steps, n->n, n->cap);
  struct normstep *step = &n->steps[n->n];
  *step = (struct normstep){0};
  n->n++;
  int rc;
  if (is(v, "NFC") || is(v, "NFD") || is(v, "Lowercase")) {
    step->kind = is(v, "NFC") ? NORM_NFC : is(v, "NFD") ? NORM_NFD : NORM_LOWER;
    return check_keys(part, v, "", err);
  }
  if (is(v, "Prepend")) {
    step->kind = NORM_PREPEND;
    rc = check_keys(part, v, "prepend", err);
    return rc ? rc : get_text(part, v, "prepend", &step->content, &step->content_len, err);
  }
  if (is(v, "Replace")) {
    step->kind = NORM_REPLACE;
    rc = check_keys(part, v, "pattern content", err);
    if (!rc)
      rc = get_replaced(part, v, &step->pattern, err);
    return rc ? rc : get_text(part, v, "content", &step->content, &step->content_len, err);
  }
  if (is(v, "Strip")) {
    step->kind = NORM_STRIP;
    rc = check_keys(part, v, "strip_left strip_right", err);
    if (!rc)
      rc = get_bool(part, v, "strip_left", true, &step->left, err);
    return rc ? rc : get_bool(part, v, "strip_right", true, &step->right, err);
  }
  return refuse_type(part, v, "Sequence NFC NFD Lowercase Prepend Replace Strip", err);
}

/* Runs `one` on a component, or on each of a Sequence's, in order. */
static int each(struct tokenizer *t, const char *part, const char *list, const struct value *v,
                int (*one)(struct tokenizer *, const struct value *, struct err *),
                struct err *err) {
  if (!v || v->kind == VALUE_NULL)
    return 0;
  if (v->kind != VALUE_OBJECT)
    return err_set(err, ERR_INVALID, "%s: must be an object or null", part);
  if (!is(v, "Sequence"))
    return one(t, v, err);
  const struct value *items = value_get(v, list);
  if (!items || items->kind != VALUE_ARRAY)
    return refuse_field(part, v, list, "must be a list", err);
  int rc = check_keys(part, v, list, err);
  for (size_t i = 0; i < value_count(items) && !rc; i++)
    rc = value_at(items, i)->kind == VALUE_NULL
             ? err_set(err, ERR_INVALID, "%s: null in a Sequence", part)
             : each(t, part, list, value_at(items, i), one, err);
  return rc;
}

int tokenparts_normalizer(struct tokenizer *t, const struct value *v, struct err *err) {
  return each(t, "normalizer", "normalizers", v, norm_one, err);
}

/* ---------------------------------------------------------------------------- pre-tokenizers */

static const char pre_part[] = "pre_tokenizer";

static int pre_behavior(const struct value *v, struct prestep *step, struct err *err) {
  static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext",
                                      "Contiguous"};
  const char *name = value_to_string(value_get(v, "behavior"));
  for (size_t i = 0; name && i < ARRAY_LEN(names); i++)
    if (strcmp(names[i], name) == 0) {
      step->behavior = (enum pre_behavior)i;
      step->splits = true;
      return 0;
    }
  return refuse_field(pre_part, v, "behavior",
                      "must be Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous",
                      err);
}

static int pre_split(const struct value *v, struct prestep *step, struct err *err) {
  int rc = check_keys(pre_part, v, "pattern behavior invert", err);
  if (!rc)
    rc = get_bool(pre_part, v, "invert", false, &step->invert, err);
  if (!rc)
    rc = get_pattern(pre_part, v, &step->pattern, err);
  return rc ? rc : pre_behavior(v, step, err);
}

static int pre_bytes(struct tokenizer *t, const struct value *v, struct prestep *step,
                     struct err *err) {
  bool space, regex;
  int rc = check_keys(pre_part, v, "add_prefix_space trim_offsets use_regex", err);
  if (!rc)
    rc = get_bool(pre_part, v, "add_prefix_space", true, &space, err);
  if (!rc)
    rc = get_bool(pre_part, v, "use_regex", true, &regex, err);
  if (rc)
    return rc;
  t->bpe.bytes = true;
  step->change = space ? PRE_SPACE_FIRST : PRE_AS_IS;
  step->splits = regex;
  step->pattern = pattern_splitter(SPLITTER_GPT2);
  return 0;
}

/* The one character of a field, NUL-terminated. */
static int get_character(const char *part, const struct value *v, const char *key, char out[5],
                         struct err *err) {
  const struct value *x = value_get(v, key);
  uint32_t cp;
  if (!x || x->kind != VALUE_STRING || !x->u.string.len || x->u.string.len > 4 ||
      utf8_decode(x->u.string.data, x->u.string.data + x->u.string.len, &cp) != x->u.string.len)
    return refuse_field(part, v, key, "must be one character", err);
  memcpy(out, x->u.string.data, x->u.string.len);
  out[x->u.string.len] = '\0';
  return 0;
}

/* The prepend_scheme of a Metaspace, whose old form is add_prefix_space. */
static int get_scheme(const char *part, const struct value *v, enum pre_change *out,
                      struct err *err) {
  const char *scheme = value_to_string(value_get(v, "prepend_scheme"));
  bool space;
  int rc = get_bool(part, v, "add_prefix_space", true, &space, err);
  if (rc)
    return rc;
  if (!scheme)
    scheme = space ? "always" : "never";
  *out = PRE_META_NEVER;
  if (strcmp(scheme, "always") == 0)
    *out = PRE_META_ALWAYS;
  else if (strcmp(scheme, "first") == 0)
    *out = PRE_META_FIRST;
  else if (strcmp(scheme, "never") != 0)
    return refuse_field(part, v, "prepend_scheme", "must be always, first or never", err);
  if (!space && *out != PRE_META_NEVER)
    return refuse_field(part, v, "add_prefix_space", "contradicts prepend_scheme", err);
  return 0;
}

static int pre_metaspace(const struct value *v, struct prestep *step, struct err *err) {
  int rc =
      check_keys(pre_part, v, "replacement prepend_scheme split add_prefix_space str_rep", err);
  if (!rc)
    rc = get_character(pre_part, v, "replacement", step->meta, err);
  if (!rc)
    rc = get_scheme(pre_part, v, &step->change, err);
  if (!rc)
    rc = get_bool(pre_part, v, "split", true, &step->splits, err);
  if (rc)
    return rc;
  step->pattern = pattern_string(step->meta, strlen(step->meta));
  step->behavior = PRE_MERGED_WITH_NEXT;
  return 0;
}

static int pre_one(struct tokenizer *t, const struct value *v, struct err *err) {
  if (t->bpe.bytes)
    return err_set(err, ERR_UNSUPPORTED, "%s: %s after ByteLevel, which must be the last", pre_part,
                   type_of(v));
  if (t->pre.n == PRESTEPS_MAX)
    return err_set(err, ERR_LIMIT, "%s: more than %d steps", pre_part, PRESTEPS_MAX);
  struct prestep *step = &t->pre.steps[t->pre.n++];
  *step = (struct prestep){0};
  bool single = false;
  int rc;
  if (is(v, "Split"))
    return pre_split(v, step, err);
  if (is(v, "Metaspace"))
    return pre_metaspace(v, step, err);
  if (is(v, "ByteLevel")) {
    rc = pre_bytes(t, v, step, err);
    if (!rc && step->change == PRE_AS_IS && !step->splits)
      t->pre.n--; /* nothing to do: bytes are what the vocabulary takes */
    return rc;
  }
  if (is(v, "Digits")) {
    rc = check_keys(pre_part, v, "individual_digits", err);
    if (!rc)
      rc = get_bool(pre_part, v, "individual_digits", false, &single, err);
    step->splits = true;
    step->pattern = pattern_class(UNICODE_NUMBER);
    step->behavior = single ? PRE_ISOLATED : PRE_CONTIGUOUS;
    return rc;
  }
  if (is(v, "Punctuation")) {
    step->pattern = pattern_punctuation();
    rc = check_keys(pre_part, v, "behavior", err);
    return rc ? rc : pre_behavior(v, step, err);
  }
  if (is(v, "WhitespaceSplit")) {
    step->splits = true;
    step->pattern = pattern_class(UNICODE_SPACE);
    step->behavior = PRE_REMOVED;
    return check_keys(pre_part, v, "", err);
  }
  return refuse_type(pre_part, v,
                     "Sequence Split ByteLevel Metaspace Digits Punctuation WhitespaceSplit", err);
}

int tokenparts_pre_tokenizer(struct tokenizer *t, const struct value *v, struct err *err) {
  return each(t, pre_part, "pretokenizers", v, pre_one, err);
}

/* ---------------------------------------------------------------------------------- decoders */

static int get_size(const char *part, const struct value *v, const char *key, size_t *out,
                    struct err *err) {
  int64_t n;
  if (!value_to_int(value_get(v, key), &n) || n < 0)
    return refuse_field(part, v, key, "must be a whole number", err);
  *out = (size_t)n;
  return 0;
}

static int deco_step(const struct value *v, struct decostep *step, struct err *err) {
  static const char part[] = "decoder";
  char one[5];
  int rc;
  if (is(v, "ByteFallback") || is(v, "Fuse")) {
    step->kind = is(v, "Fuse") ? DECO_FUSE : DECO_FALLBACK;
    return check_keys(part, v, "", err);
  }
  if (is(v, "Replace")) {
    step->kind = DECO_REPLACE;
    rc = check_keys(part, v, "pattern content", err);
    if (!rc)
      rc = get_replaced(part, v, &step->pattern, err);
    return rc ? rc : get_text(part, v, "content", &step->content, &step->content_len, err);
  }
  if (is(v, "Strip")) {
    step->kind = DECO_STRIP;
    rc = check_keys(part, v, "content start stop", err);
    if (!rc)
      rc = get_character(part, v, "content", one, err);
    if (!rc)
      rc = get_size(part, v, "start", &step->start, err);
    if (!rc)
      rc = get_size(part, v, "stop", &step->stop, err);
  } else if (is(v, "Metaspace")) {
    enum pre_change scheme = PRE_META_NEVER;
    step->kind = DECO_META;
    rc = check_keys(part, v, "replacement prepend_scheme split add_prefix_space str_rep", err);
    if (!rc)
      rc = get_character(part, v, "replacement", one, err);
    if (!rc)
      rc = get_scheme(part, v, &scheme, err);
    step->drop_first = scheme != PRE_META_NEVER;
  } else {
    return refuse_type(part, v, "Sequence ByteLevel ByteFallback Fuse Replace Strip Metaspace",
                       err);
  }
  if (rc)
    return rc;
  step->content = mem_strdup(one);
  step->content_len = strlen(one);
  return 0;
}

static int deco_one(struct tokenizer *t, const struct value *v, struct err *err) {
  if (is(v, "ByteLevel")) {
    if (t->deco_way != DECO_WAY_SPACES)
      return err_set(err, ERR_UNSUPPORTED,
                     "decoder: ByteLevel that is not the first of a Sequence");
    t->deco_way = DECO_WAY_BYTES;
    return check_keys("decoder", v, "add_prefix_space trim_offsets use_regex", err);
  }
  if (t->deco_way == DECO_WAY_BYTES)
    return is(v, "Fuse") ? 0
                         : err_set(err, ERR_UNSUPPORTED, "decoder: %s after ByteLevel", type_of(v));
  t->deco_way = DECO_WAY_STEPS;
  MEM_GROW(t->deco.steps, t->deco.n, t->deco.cap);
  t->deco.steps[t->deco.n] = (struct decostep){0};
  return deco_step(v, &t->deco.steps[t->deco.n++], err);
}

int tokenparts_decoder(struct tokenizer *t, const struct value *v, struct err *err) {
  return each(t, "decoder", "decoders", v, deco_one, err);
}

/* tokenjson.c: reading a Hugging Face tokenizer.json.
 *
 * Vocabulary and merges, nearly all of the file, are read where they stand; everything else becomes
 * JSON values for tokenparts.c. The order matters: merges and added tokens are looked up by the
 * texts of the file, which a byte-level vocabulary then gives up for bytes. */
#include "text/tokenizer.h"

#include "base/mem.h"
#include "text/json.h"
#include "text/json_scan.h"
#include "text/unicode.h"
#include "text/utf8.h"

enum part { P_ADDED, P_NORMALIZER, P_PRE, P_POST, P_DECODER, P_MODEL, P_PARTS };

struct loading {
  struct tokenizer *t;
  struct jsonslice parts[P_PARTS], vocab, merges;
  struct buf left, right;
  struct err *err;
};

/* Says where a text is not JSON; `part` when only its meaning is wrong. */
static int not_json(struct loading *l, const char *part, struct jsonslice s) {
  struct value v = value_null();
  int rc = json_parse(s.p, (size_t)(s.end - s.p), &v, l->err);
  value_free(&v);
  if (rc)
    return err_prefix(l->err, "%s", part);
  return err_set(l->err, ERR_INVALID, "%s: not of the form a tokenizer.json has", part);
}

/* The value of a part; null when it is absent. */
static int parse(struct loading *l, const char *part, struct jsonslice s, struct value *v) {
  *v = value_null();
  if (!s.p)
    return 0;
  int rc = json_parse(s.p, (size_t)(s.end - s.p), v, l->err);
  return rc ? err_prefix(l->err, "%s", part) : 0;
}

/* Fields that say nothing about ids here, but which the reference reads and refuses when they are
 * of another form; one that it does not know ends its reading. */
static int check_rest(struct loading *l, struct jsonslice key, struct jsonslice value) {
  bool none = value.end - value.p == 4 && memcmp(value.p, "null", 4) == 0;
  struct jsonwalk w;
  if (jsonwalk_is(key, "version")) {
    if (jsonwalk_is(value, "1.0"))
      return 0;
    return err_set(l->err, ERR_UNSUPPORTED, "version: %.*s is not known: \"1.0\" is the only one",
                   (int)(value.end - value.p < 40 ? value.end - value.p : 40), value.p);
  }
  if (jsonwalk_is(key, "truncation") || jsonwalk_is(key, "padding")) {
    if (none || jsonwalk_begin(&w, value, '{'))
      return 0;
    return err_set(l->err, ERR_INVALID, "%.*s: must be an object or null",
                   (int)(key.end - key.p - 2), key.p + 1);
  }
  return err_set(l->err, ERR_UNSUPPORTED, "%.*s: this field is not known here",
                 (int)(key.end - key.p < 60 ? key.end - key.p : 60), key.p);
}

static int find_parts(struct loading *l, struct jsonslice whole) {
  static const char *const names[P_PARTS] = {"added_tokens",   "normalizer", "pre_tokenizer",
                                             "post_processor", "decoder",    "model"};
  struct jsonwalk w;
  struct jsonslice key, value;
  int more, rc = 0;
  if (!jsonwalk_begin(&w, whole, '{'))
    return err_set(l->err, ERR_INVALID, "not a tokenizer.json: it does not begin with {");
  while ((more = jsonwalk_next(&w, &key, &value)) > 0)
    for (int i = 0; i < P_PARTS; i++)
      if (jsonwalk_is(key, names[i]))
        l->parts[i] = value;
  if (more < 0)
    return not_json(l, "not a tokenizer.json", whole);
  if (!l->parts[P_MODEL].p)
    return err_set(l->err, ERR_INVALID,
                   "no \"model\" in it: not a tokenizer.json (a tekken.json, a vocab.json and a "
                   "tokenizer_config.json are other things)");
  (void)jsonwalk_begin(&w, whole, '{');
  while (!rc && jsonwalk_next(&w, &key, &value) > 0) {
    int i = 0;
    while (i < P_PARTS && !jsonwalk_is(key, names[i]))
      i++;
    if (i == P_PARTS)
      rc = check_rest(l, key, value);
  }
  return rc;
}

static int load_vocab(struct loading *l) {
  struct jsonwalk w;
  struct jsonslice key, value;
  int more = -1, rc = 0;
  if (!jsonwalk_begin(&w, l->vocab, '{'))
    return not_json(l, "model: vocab", l->vocab);
  while (!rc && (more = jsonwalk_next(&w, &key, &value)) > 0) {
    struct json_number n;
    buf_reset(&l->left);
    if (!jsonwalk_string(key, &l->left))
      return not_json(l, "model: vocab", l->vocab);
    if (json_scan_number(value.p, value.end, &n) != value.end || !n.is_int || n.integer < 0 ||
        n.integer > UINT32_MAX)
      return err_set(l->err, ERR_INVALID,
                     "model: vocab: the id of \"%.*s\" is %.*s, not a whole number below 2^32",
                     (int)(l->left.len < 60 ? l->left.len : 60), l->left.data ? l->left.data : "",
                     (int)(value.end - value.p < 40 ? value.end - value.p : 40), value.p);
    rc = bpe_add(&l->t->bpe, (uint32_t)n.integer, l->left.data ? l->left.data : "", l->left.len,
                 l->err);
  }
  if (!rc && more < 0)
    return not_json(l, "model: vocab", l->vocab);
  if (!rc)
    rc = bpe_seal(&l->t->bpe, l->err);
  return rc ? err_prefix(l->err, "model: vocab") : 0;
}

/* The two texts of a merge, which is "left right" or ["left", "right"], into l->left and right. */
static bool merge_texts(struct loading *l, struct jsonslice item) {
  struct jsonwalk w;
  struct jsonslice key, a, b;
  buf_reset(&l->left);
  buf_reset(&l->right);
  if (jsonwalk_begin(&w, item, '['))
    return jsonwalk_next(&w, &key, &a) > 0 && jsonwalk_string(a, &l->left) &&
           jsonwalk_next(&w, &key, &b) > 0 && jsonwalk_string(b, &l->right) &&
           jsonwalk_next(&w, &key, &b) == 0;
  if (!jsonwalk_string(item, &l->left) || !l->left.len)
    return false;
  const char *space = memchr(l->left.data, ' ', l->left.len);
  size_t at = space ? (size_t)(space - l->left.data) : 0, n = l->left.len - at - 1;
  if (!space || memchr(space + 1, ' ', n))
    return false;
  buf_put(&l->right, space + 1, n);
  l->left.len = at;
  return true;
}

struct merge {
  uint32_t left, right, id;
};

static int find_merge(struct loading *l, size_t number, struct merge *m) {
  const struct bpe *b = &l->t->bpe;
  const char *right = l->right.len ? l->right.data : "";
  m->left = bpe_find(b, l->left.len ? l->left.data : "", l->left.len);
  m->right = bpe_find(b, right, l->right.len);
  size_t n = l->left.len;
  buf_put(&l->left, right, l->right.len);
  m->id = bpe_find(b, l->left.data, l->left.len);
  if (m->left != BPE_NONE && m->right != BPE_NONE && m->id != BPE_NONE && n && l->right.len)
    return 0;
  return err_set(l->err, ERR_INVALID,
                 "model: merges: number %zu, \"%.*s\" with \"%.*s\": %s is not in the vocabulary",
                 number, (int)(n < 60 ? n : 60), l->left.data,
                 (int)(l->right.len < 60 ? l->right.len : 60), right,
                 m->left == BPE_NONE    ? "the first"
                 : m->right == BPE_NONE ? "the second"
                                        : "the result");
}

static int load_merges(struct loading *l) {
  struct merge *merges = NULL;
  size_t n = 0, cap = 0, number = 0;
  struct jsonwalk w;
  struct jsonslice key, item;
  int more = -1, rc = 0;
  if (!jsonwalk_begin(&w, l->merges, '['))
    return not_json(l, "model: merges", l->merges);
  while (!rc && (more = jsonwalk_next(&w, &key, &item)) > 0) {
    if (item.end - item.p > 9 && memcmp(item.p, "\"#version", 9) == 0)
      continue; /* the first line of a merges.txt, as the reference skips it */
    if (!merge_texts(l, item)) {
      rc = err_set(l->err, ERR_INVALID,
                   "model: merges: number %zu is neither \"left right\" nor [\"left\", \"right\"]",
                   number + 1);
      break;
    }
    MEM_GROW(merges, n, cap);
    rc = find_merge(l, ++number, &merges[n++]);
  }
  if (!rc && more < 0)
    rc = not_json(l, "model: merges", l->merges);
  if (!rc) {
    bpe_pairs_reserve(&l->t->bpe, n);
    for (size_t i = 0; i < n; i++)
      bpe_pairs_add(&l->t->bpe, merges[i].left, merges[i].right, (uint32_t)i, merges[i].id);
  }
  mem_free(merges);
  return rc;
}

static int model_flag(struct loading *l, const char *name, const struct value *v, bool *out) {
  if (v->kind == VALUE_NULL)
    return 0;
  if (v->kind != VALUE_BOOL)
    return err_set(l->err, ERR_INVALID, "model: %s: must be true or false", name);
  *out = v->u.boolean;
  return 0;
}

/* One field of the model beside vocabulary and merges. */
static int model_field(struct loading *l, const char *name, const struct value *v) {
  struct bpe *b = &l->t->bpe;
  bool none = v->kind == VALUE_NULL;
  const char *text = value_to_string(v);
  double d;
  if (strcmp(name, "type") == 0) {
    if (text && strcmp(text, "BPE") == 0)
      return 0;
    return err_set(l->err, ERR_UNSUPPORTED,
                   "model: type \"%s\" is not supported: BPE is the only one", text ? text : "?");
  }
  if (strcmp(name, "dropout") == 0) {
    if (none || (value_to_double(v, &d) && d == 0))
      return 0;
    return err_set(l->err, ERR_UNSUPPORTED,
                   "model: dropout: ids would be random; only null and 0 are supported");
  }
  if (strcmp(name, "continuing_subword_prefix") == 0 || strcmp(name, "end_of_word_suffix") == 0) {
    if (none || (text && !*text))
      return 0;
    return err_set(l->err, ERR_UNSUPPORTED, "model: %s \"%s\" is not supported (null or \"\")",
                   name, text ? text : "?");
  }
  if (strcmp(name, "unk_token") == 0) {
    if (none)
      return 0;
    b->unk = text ? bpe_find(b, text, v->u.string.len) : BPE_NONE;
    return b->unk != BPE_NONE
               ? 0
               : err_set(l->err, ERR_INVALID, "model: unk_token \"%s\" is not in the vocabulary",
                         text ? text : "?");
  }
  if (strcmp(name, "fuse_unk") == 0)
    return model_flag(l, name, v, &b->fuse_unk);
  if (strcmp(name, "byte_fallback") == 0)
    return model_flag(l, name, v, &b->byte_fallback);
  if (strcmp(name, "ignore_merges") == 0)
    return model_flag(l, name, v, &b->ignore_merges);
  return err_set(l->err, ERR_UNSUPPORTED, "model: %s: this field is not known here", name);
}

static int load_model(struct loading *l) {
  struct jsonslice model = l->parts[P_MODEL], key, value, type = {0};
  struct jsonwalk w;
  int more, rc = 0;
  if (!jsonwalk_begin(&w, model, '{'))
    return not_json(l, "model", model);
  while ((more = jsonwalk_next(&w, &key, &value)) > 0) {
    if (jsonwalk_is(key, "vocab"))
      l->vocab = value;
    else if (jsonwalk_is(key, "merges"))
      l->merges = value;
    else if (jsonwalk_is(key, "type"))
      type = value;
  }
  if (more < 0)
    return not_json(l, "model", model);
  if (type.p && !jsonwalk_is(type, "BPE"))
    return err_set(l->err, ERR_UNSUPPORTED,
                   "model: type %.*s is not supported: BPE is the only one",
                   (int)(type.end - type.p < 40 ? type.end - type.p : 40), type.p);
  if (!l->vocab.p || !l->merges.p)
    return err_set(l->err, ERR_UNSUPPORTED,
                   "model: %s is missing: only BPE models are supported, with vocab and merges",
                   l->vocab.p ? "merges" : "vocab");
  rc = load_vocab(l);
  (void)jsonwalk_begin(&w, model, '{');
  while (!rc && jsonwalk_next(&w, &key, &value) > 0) {
    struct value v;
    if (value.p == l->vocab.p || value.p == l->merges.p)
      continue;
    buf_reset(&l->left);
    if (!jsonwalk_string(key, &l->left) || !l->left.len)
      return not_json(l, "model", model);
    rc = parse(l, "model", value, &v);
    if (!rc)
      rc = model_field(l, l->left.data, &v);
    value_free(&v);
  }
  return rc ? rc : load_merges(l);
}

static int added_flags(const struct value *v, struct added_token *flags, bool *normalized,
                       struct err *err) {
  static const char *const names[] = {"special", "single_word", "lstrip", "rstrip", "normalized"};
  bool *const to[] = {&flags->special, &flags->single_word, &flags->lstrip, &flags->rstrip,
                      normalized};
  for (size_t i = 0; i < value_count(v); i++) {
    const struct value_pair *pair = &v->u.object.pairs[i];
    bool known = strcmp(pair->key, "id") == 0 || strcmp(pair->key, "content") == 0;
    for (size_t k = 0; k < ARRAY_LEN(names) && !known; k++)
      if (strcmp(pair->key, names[k]) == 0 && pair->value.kind == VALUE_BOOL) {
        *to[k] = pair->value.u.boolean;
        known = true;
      }
    if (!known)
      return err_set(err, ERR_UNSUPPORTED,
                     "added_tokens: the one with id %u: field \"%.60s\" is not known, or its value",
                     flags->id, pair->key);
  }
  return 0;
}

/* A token of white space that takes the white space beside it along: the reference's matches then
 * lie over each other, and what comes of that is not done here. */
static int check_blank(const struct value *text, const struct added_token *flags, struct err *err) {
  const char *p = text->u.string.data, *end = p + text->u.string.len;
  bool blank = flags->lstrip || flags->rstrip;
  while (blank && p < end)
    blank = unicode_class_fast(utf8_take(&p)) & UNICODE_SPACE;
  if (!blank)
    return 0;
  return err_set(
      err, ERR_UNSUPPORTED,
      "added_tokens: the one with id %u is white space and has %s, which has no exact equal here",
      flags->id, flags->lstrip ? "lstrip" : "rstrip");
}

/* The reference does not take the file's id: a token that is in the vocabulary keeps its id there,
 * another gets the next free one. A file that says otherwise would be read differently by others.
 */
static int check_id(struct loading *l, const struct value *text, uint32_t id, uint32_t *next) {
  const struct bpe *b = &l->t->bpe;
  uint32_t is = bpe_find(b, text->u.string.data, text->u.string.len);
  if (is == BPE_NONE)
    is = (*next)++;
  else if (is >= *next)
    *next = is + 1;
  if (is == id)
    return 0;
  return err_set(l->err, ERR_UNSUPPORTED,
                 "added_tokens: \"%s\" has id %u in the file, but gets %u from the reference",
                 text->u.string.data, id, is);
}

static int load_added(struct loading *l) {
  struct value list;
  int rc = parse(l, "added_tokens", l->parts[P_ADDED], &list);
  uint32_t next = l->t->bpe.n_tokens;
  if (!rc && list.kind != VALUE_ARRAY && l->parts[P_ADDED].p)
    rc = err_set(l->err, ERR_INVALID, "added_tokens: must be a list");
  for (size_t i = 0; i < value_count(&list) && !rc; i++) {
    const struct value *v = value_at(&list, i), *text = value_get(v, "content");
    int64_t id;
    if (!text || text->kind != VALUE_STRING || !value_to_int(value_get(v, "id"), &id) || id < 0 ||
        id >= BPE_MAX_IDS) {
      rc = err_set(l->err, ERR_INVALID, "added_tokens: number %zu lacks its content or its id",
                   i + 1);
      break;
    }
    if (!text->u.string.len)
      continue; /* as the reference */
    const struct value *special = value_get(v, "special");
    bool normalized = !(special && special->kind == VALUE_BOOL && special->u.boolean);
    struct added_token flags = {.id = (uint32_t)id};
    rc = added_flags(v, &flags, &normalized, l->err);
    if (!rc)
      rc = check_blank(text, &flags, l->err);
    if (!rc)
      rc = check_id(l, text, flags.id, &next);
    if (!rc)
      rc = tokenizer_add(l->t, text->u.string.data, text->u.string.len, &flags, normalized, l->err);
  }
  value_free(&list);
  return rc;
}

/* Parses a part and gives it to its reader. */
static int load_part(struct loading *l, enum part part, const char *name,
                     int (*read)(struct tokenizer *, const struct value *, struct err *)) {
  struct value v;
  int rc = parse(l, name, l->parts[part], &v);
  if (!rc)
    rc = read(l->t, &v, l->err);
  value_free(&v);
  return rc;
}

/* Combinations whose parts are fine. */
static int check_whole(struct loading *l) {
  const struct tokenizer *t = l->t;
  bool first = false, prepend = false, strip = false;
  for (size_t i = 0; i < t->pre.n; i++)
    first = first || t->pre.steps[i].change == PRE_META_FIRST;
  for (size_t i = 0; i < t->norm.n; i++) {
    prepend = prepend || t->norm.steps[i].kind == NORM_PREPEND;
    strip = strip || t->norm.steps[i].kind == NORM_STRIP;
  }
  if (first && prepend && strip) /* where the text then begins is not followed */
    return err_set(l->err, ERR_UNSUPPORTED,
                   "pre_tokenizer: Metaspace: prepend_scheme: \"first\" with the normalizers "
                   "Prepend and Strip is not supported");
  if (t->bpe.bytes == (t->deco_way == DECO_WAY_BYTES))
    return 0;
  return err_set(l->err, ERR_UNSUPPORTED, "decoder: %s",
                 t->bpe.bytes ? "a ByteLevel pre_tokenizer without the ByteLevel decoder"
                              : "ByteLevel without a ByteLevel pre_tokenizer");
}

int tokenjson_load(struct tokenizer *t, const char *text, size_t len, struct err *err) {
  struct loading l = {.t = t, .err = err};
  buf_init(&l.left, 1 << 24);
  buf_init(&l.right, 1 << 24);
  struct jsonslice whole = jsonwalk_value(text, text + len);
  int rc = whole.p && json_skip_space(whole.end, text + len) == text + len
               ? find_parts(&l, whole)
               : not_json(&l, "not a tokenizer.json", (struct jsonslice){text, text + len});
  if (!rc)
    rc = load_model(&l);
  if (!rc)
    rc = load_part(&l, P_PRE, "pre_tokenizer", tokenparts_pre_tokenizer);
  if (!rc)
    rc = load_part(&l, P_NORMALIZER, "normalizer", tokenparts_normalizer);
  if (!rc)
    rc = load_added(&l);
  if (!rc)
    rc = load_part(&l, P_DECODER, "decoder", tokenparts_decoder);
  if (!rc)
    rc = load_part(&l, P_POST, "post_processor", tokenparts_post_processor);
  if (!rc)
    rc = check_whole(&l);
  if (!rc && t->bpe.bytes)
    bpe_to_bytes(&t->bpe);
  buf_free(&l.left);
  buf_free(&l.right);
  return rc;
}

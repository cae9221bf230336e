/* tokenizer.c: encoding and decoding with a model's tokenizer; see tokenizer.h.
 *
 * A text is cut at the raw added tokens, each section is normalized and cut at the normalized
 * ones, and what is left between goes through the pre-tokenizers into the vocabulary. */
#include "text/tokenizer.h"

#include <stdlib.h>

#include "base/mem.h"
#include "text/json.h"
#include "text/utf8.h"

#define TEXT_MAX ((size_t)800 << 20)

struct encoder {
  struct tokens_encoder base;
  struct bpe_scratch *scratch;
  struct buf repaired, norm[2], pre[PRESTEPS_MAX];
  struct tokens_list counted;
};

static const struct tokenizer *of(const struct tokens *t) {
  return CONTAINER_OF(t, struct tokenizer, base);
}

static struct tokens_encoder *encoder_new(const struct tokens *t, bool lasting) {
  struct encoder *e = MEM_NEW(struct encoder);
  e->base.tokens = t;
  e->scratch = bpe_scratch_new(&of(t)->bpe, lasting);
  buf_init(&e->repaired, TEXT_MAX * 3);
  buf_init(&e->norm[0], UINT32_MAX - 1);
  buf_init(&e->norm[1], UINT32_MAX - 1);
  for (size_t i = 0; i < PRESTEPS_MAX; i++)
    buf_init(&e->pre[i], UINT32_MAX - 1);
  return &e->base;
}

static void encoder_delete(struct tokens_encoder *base) {
  struct encoder *e = CONTAINER_OF(base, struct encoder, base);
  bpe_scratch_delete(e->scratch);
  buf_free(&e->repaired);
  buf_free(&e->norm[0]);
  buf_free(&e->norm[1]);
  for (size_t i = 0; i < PRESTEPS_MAX; i++)
    buf_free(&e->pre[i]);
  tokens_list_free(&e->counted);
  mem_free(e);
}

/* Buffers grow with the longest text; what a huge one left is given back. */
static void trim(struct buf *b) {
  if (b->cap > 16 << 20)
    buf_free(b);
}

static void trim_all(struct encoder *e) {
  trim(&e->repaired);
  trim(&e->norm[0]);
  trim(&e->norm[1]);
  for (size_t i = 0; i < of(e->base.tokens)->pre.n; i++)
    trim(&e->pre[i]);
}

/* What one call of encode works with. */
struct work {
  const struct tokenizer *t;
  struct encoder *e;
  bool special;
  struct prerun run;
  struct err *err;
};

static void put_id(struct tokens_list *out, uint32_t id) {
  tokens_list_reserve(out, 1);
  out->ids[out->n++] = id;
}

static int encode_normalized(struct work *w, const char *text, size_t len, bool first) {
  struct added_place place = {0};
  struct added_match m;
  size_t done = 0;
  int rc = 0;
  while (!rc && addedtokens_next(&w->t->normalized, text, len, w->special, &place, &m)) {
    if (m.start > done)
      rc = presteps_run(&w->run, text + done, m.start - done, first && done == 0);
    put_id(w->run.out, m.id);
    done = m.end;
  }
  if (!rc && done < len)
    rc = presteps_run(&w->run, text + done, len - done, first && done == 0);
  return rc;
}

static int encode_section(struct work *w, const char *text, size_t len, bool first) {
  int rc = 0;
  if (w->t->norm.n)
    rc = normsteps_run(&w->t->norm, text, len, w->e->norm, &text, &len, &first, w->err);
  if (!rc)
    rc = encode_normalized(w, text, len, first);
  return rc ? err_prefix(w->err, "tokenizer %s", w->t->base.name) : 0;
}

int tokenizer_encode_section(struct tokens_encoder *be, const char *text, size_t len, bool first,
                             struct tokens_list *out, struct err *err) {
  const struct tokenizer *t = of(be->tokens);
  struct encoder *e = CONTAINER_OF(be, struct encoder, base);
  struct work w = {t, e, true, {&t->pre, &t->bpe, e->scratch, e->pre, out, err}, err};
  size_t before = out->n;
  int rc = encode_section(&w, text, len, first);
  if (rc)
    out->n = before;
  trim_all(e);
  return rc;
}

static void put_all(struct tokens_list *out, const struct tokens_list *ids) {
  tokens_list_reserve(out, ids->n);
  if (ids->n)
    memcpy(out->ids + out->n, ids->ids, ids->n * sizeof *out->ids);
  out->n += ids->n;
}

/* Each wrong sequence becomes U+FFFD. */
static void repair(struct buf *b, const char *text, size_t len) {
  const char *p = text, *end = text + len;
  buf_reset(b);
  while (p < end) {
    size_t good = json_utf8_valid(p, (size_t)(end - p));
    buf_put(b, p, good);
    p += good;
    if (p < end) {
      buf_put(b, "\xef\xbf\xbd", 3);
      p += utf8_bad_len(p, end);
    }
  }
}

static int encode(const struct tokens *base, struct tokens_encoder *be, const char *text,
                  size_t len, const struct tokens_options *options, struct tokens_list *out,
                  struct err *err) {
  const struct tokenizer *t = of(base);
  struct encoder *e = CONTAINER_OF(be, struct encoder, base);
  struct work w = {t, e, options->special, {&t->pre, &t->bpe, e->scratch, e->pre, out, err}, err};
  size_t before = out->n, done = 0;
  struct added_place place = {0};
  struct added_match m;
  int rc = 0;
  if (len >= TEXT_MAX)
    return err_set(err, ERR_LIMIT, "a text of %zu bytes is too long (below %zu)", len, TEXT_MAX);
  if (len && json_utf8_valid(text, len) < len) {
    repair(&e->repaired, text, len);
    text = e->repaired.data;
    len = e->repaired.len;
  }
  if (options->add_special)
    put_all(out, &t->before);
  while (!rc && addedtokens_next(&t->raw, text, len, w.special, &place, &m)) {
    if (m.start > done)
      rc = encode_section(&w, text + done, m.start - done, done == 0);
    put_id(out, m.id);
    done = m.end;
  }
  if (!rc && done < len)
    rc = encode_section(&w, text + done, len - done, done == 0);
  if (options->add_special)
    put_all(out, &t->after);
  if (rc)
    out->n = before;
  trim_all(e);
  return rc;
}

static int count(const struct tokens *t, struct tokens_encoder *be, const char *text, size_t len,
                 const struct tokens_options *options, size_t *out, struct err *err) {
  struct encoder *e = CONTAINER_OF(be, struct encoder, base);
  e->counted.n = 0;
  int rc = encode(t, be, text, len, options, &e->counted, err);
  *out = e->counted.n;
  if (e->counted.cap > 4 << 20)
    tokens_list_free(&e->counted);
  return rc;
}

static int by_id(const void *a, const void *b) {
  uint32_t x = ((const struct added_text *)a)->id, y = ((const struct added_text *)b)->id;
  return x < y ? -1 : x > y;
}

/* What an id is called; NULL when there is none. */
static const char *text_of(const struct tokenizer *t, uint32_t id, size_t *len) {
  size_t lo = 0, hi = t->n_added;
  while (lo < hi) {
    size_t mid = (lo + hi) / 2;
    if (t->added[mid].id < id)
      lo = mid + 1;
    else
      hi = mid;
  }
  if (lo < t->n_added && t->added[lo].id == id) {
    *len = t->added[lo].len;
    return t->added[lo].text;
  }
  return bpe_text(&t->bpe, id, len);
}

static int decode(const struct tokens *base, const uint32_t *ids, size_t n, struct buf *out,
                  struct err *err) {
  const struct tokenizer *t = of(base);
  struct decopieces pieces;
  size_t before = out->len;
  int rc = 0;
  bool steps = t->deco_way == DECO_WAY_STEPS;
  decopieces_init(&pieces, out->max);
  for (size_t i = 0; i < n && !rc; i++) {
    size_t len;
    const char *text = text_of(t, ids[i], &len);
    if (!text) {
      rc = err_set(err, ERR_INVALID, "token %zu: id %u is not in the vocabulary of \"%s\"", i,
                   ids[i], base->name);
      break;
    }
    if (!steps && i && t->deco_way == DECO_WAY_SPACES)
      rc = buf_add_byte(out, ' ');
    if (!rc)
      rc = steps ? decopieces_add(&pieces, text, len) : buf_add(out, text, len);
  }
  if (!rc && steps) {
    rc = decosteps_run(&t->deco, &pieces, err);
    if (!rc && pieces.text.len)
      rc = buf_add(out, pieces.text.data, pieces.text.len);
  }
  decopieces_free(&pieces);
  if (rc && rc != ERR_INVALID)
    err_set(err, rc, "decoding %zu tokens: more than %zu bytes", n, out->max);
  if (rc) {
    out->len = before;
    if (out->data)
      out->data[before] = '\0';
  }
  return rc;
}

static int name(const struct tokens *base, uint32_t id, struct buf *out, struct err *err) {
  const struct tokenizer *t = of(base);
  size_t len, of_vocabulary;
  const char *text = text_of(t, id, &len);
  if (!text)
    return err_set(err, ERR_INVALID, "id %u is not in the vocabulary of \"%s\"", id, base->name);
  bool added = text != bpe_text(&t->bpe, id, &of_vocabulary);
  int rc = added ? buf_add(out, text, len) : bpe_put_name(&t->bpe, id, out);
  return rc ? err_set(err, rc, "the name of token %u: more than %zu bytes", id, out->max) : 0;
}

static void add_owner(struct tokens *base) {
  struct tokenizer *t = CONTAINER_OF(base, struct tokenizer, base);
  __atomic_add_fetch(&t->refs, 1, __ATOMIC_RELAXED);
}

bool tokenizer_has_owners(const struct tokens *t) {
  return __atomic_load_n(&of(t)->refs, __ATOMIC_ACQUIRE) > 1;
}

static void drop_owner(struct tokens *base) {
  struct tokenizer *t = CONTAINER_OF(base, struct tokenizer, base);
  if (__atomic_sub_fetch(&t->refs, 1, __ATOMIC_ACQ_REL))
    return;
  bpe_free(&t->bpe);
  addedtokens_free(&t->raw);
  addedtokens_free(&t->normalized);
  for (size_t i = 0; i < t->n_added; i++)
    mem_free(t->added[i].text);
  mem_free(t->added);
  normsteps_free(&t->norm);
  presteps_free(&t->pre);
  decosteps_free(&t->deco);
  tokens_list_free(&t->before);
  tokens_list_free(&t->after);
  mem_free((char *)t->base.name);
  mem_free(t);
}

static const struct tokens_ops tokenizer_ops = {.encode = encode,
                                                .count = count,
                                                .decode = decode,
                                                .name = name,
                                                .encoder_new = encoder_new,
                                                .encoder_delete = encoder_delete,
                                                .ref = add_owner,
                                                .close = drop_owner};

struct tokenizer *tokenizer_new(const char *name) {
  struct tokenizer *t = MEM_NEW(struct tokenizer);
  t->base = (struct tokens){.kind = TOKENS_BPE, .ops = &tokenizer_ops, .name = mem_strdup(name)};
  t->refs = 1;
  bpe_init(&t->bpe);
  addedtokens_init(&t->raw);
  addedtokens_init(&t->normalized);
  return t;
}

int tokenizer_add(struct tokenizer *t, const char *text, size_t len,
                  const struct added_token *flags, bool normalized, struct err *err) {
  if (flags->id >= BPE_MAX_IDS)
    return err_set(err, ERR_INVALID, "added token \"%.*s\": id %u is too large (below %u)",
                   (int)(len < 60 ? len : 60), text, flags->id, BPE_MAX_IDS);
  MEM_GROW(t->added, t->n_added, t->cap_added);
  t->added[t->n_added++] = (struct added_text){flags->id, mem_strndup(text, len), len};
  if (!normalized) {
    addedtokens_add(&t->raw, text, len, flags);
    return 0;
  }
  struct buf bufs[2];
  buf_init(&bufs[0], 1 << 20);
  buf_init(&bufs[1], 1 << 20);
  bool first = true;
  int rc = normsteps_run(&t->norm, text, len, bufs, &text, &len, &first, err);
  if (!rc)
    addedtokens_add(&t->normalized, text, len, flags);
  buf_free(&bufs[0]);
  buf_free(&bufs[1]);
  return rc;
}

int tokenizer_finish(struct tokenizer *t, struct err *err) {
  t->base.vocab_size = t->bpe.n_ids;
  if (t->n_added)
    qsort(t->added, t->n_added, sizeof *t->added, by_id);
  for (size_t i = 0; i < t->n_added; i++)
    if (t->added[i].id >= t->base.vocab_size)
      t->base.vocab_size = t->added[i].id + 1;
  return bpe_finish(&t->bpe, err);
}

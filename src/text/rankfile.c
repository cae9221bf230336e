/* rankfile.c: reading tiktoken rank files: a line per token, its bytes in base64 and its rank.
 *
 * The file says neither the pattern nor the special tokens; the family's name does. Rank is id, and
 * a piece of text that is a token is that token. */
#include "text/tokenizer.h"

#include <stdio.h>

struct special {
  const char *text;
  uint32_t id;
};

static const struct special cl100k[] = {{"<|endoftext|>", 100257},
                                        {"<|fim_prefix|>", 100258},
                                        {"<|fim_middle|>", 100259},
                                        {"<|fim_suffix|>", 100260},
                                        {"<|endofprompt|>", 100276}};
static const struct special o200k[] = {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}};
static const struct special harmony[] = {{"<|startoftext|>", 199998}, {"<|endoftext|>", 199999},
                                         {"<|return|>", 200002},      {"<|constrain|>", 200003},
                                         {"<|channel|>", 200005},     {"<|start|>", 200006},
                                         {"<|end|>", 200007},         {"<|message|>", 200008},
                                         {"<|call|>", 200012},        {"<|endofprompt|>", 200018}};
static const struct special llama4[] = {{"<|begin_of_text|>", 200000}};
static const struct special kimi[] = {{"[BOS]", 163584}, {"[EOS]", 163585}, {"<|im_end|>", 163586}};

/* Ids from..to without a name of their own are <|reserved_N|>. */
static const struct family {
  const char *name;
  enum splitter splitter;
  const struct special *special;
  size_t n_special;
  uint32_t reserved_from, reserved_to;
  size_t ranks; /* of its file */
} families[] = {
    {"cl100k_base", SPLITTER_CL100K, cl100k, ARRAY_LEN(cl100k), 1, 0, 100256},
    {"o200k_base", SPLITTER_O200K, o200k, ARRAY_LEN(o200k), 1, 0, 199998},
    {"o200k_harmony", SPLITTER_O200K, harmony, ARRAY_LEN(harmony), 200000, 201087, 199998},
    {"llama4", SPLITTER_O200K, llama4, ARRAY_LEN(llama4), 1, 0, 200000},
    {"kimi_k2", SPLITTER_KIMI, kimi, ARRAY_LEN(kimi), 1, 0, 163584},
};

const char *rankfile_families(void) {
  return "cl100k_base, o200k_base, o200k_harmony, llama4, kimi_k2";
}

static const struct family *family_named(const char *name) {
  for (size_t i = 0; i < ARRAY_LEN(families); i++)
    if (strcmp(families[i].name, name) == 0)
      return &families[i];
  return NULL;
}

const char *rankfile_file(const char *family) {
  const struct family *f = family_named(family);
  return !f ? NULL : f->special == harmony ? "o200k_base" : f->name;
}

static int base64_value(char c) {
  if (c >= 'A' && c <= 'Z')
    return c - 'A';
  if (c >= 'a' && c <= 'z')
    return c - 'a' + 26;
  if (c >= '0' && c <= '9')
    return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes the base64 at p; returns where it ends, NULL when it is not base64. */
static const char *read_base64(const char *p, const char *end, struct buf *out) {
  uint32_t bits = 0;
  unsigned n = 0, pad = 0;
  int v;
  buf_reset(out);
  for (; p < end && (v = base64_value(*p)) >= 0; p++) {
    bits = bits << 6 | (uint32_t)v;
    unsigned ready = ++n % 4; /* of four characters each but the first completes a byte */
    if (ready != 1 && buf_add_byte(out, (char)(bits >> (ready == 2 ? 4 : ready == 3 ? 2 : 0))))
      return NULL;
  }
  for (; p < end && *p == '='; p++)
    pad++;
  return n && n % 4 != 1 && pad < 3 && (n + pad) % 4 == 0 ? p : NULL;
}

static int bad_line(struct err *err, size_t line, const char *what) {
  return err_set(err, ERR_INVALID,
                 "line %zu: %s; a rank file has lines like \"SGVsbG8= 9906\" (bytes in base64, "
                 "rank)",
                 line, what);
}

static int read_line(struct tokenizer *t, const char *p, const char *end, size_t line,
                     struct buf *bytes, struct err *err) {
  const char *q = read_base64(p, end, bytes);
  uint64_t rank = 0;
  if (!q)
    return bad_line(err, line, "no base64");
  if (q == end || *q != ' ' || ++q == end)
    return bad_line(err, line, "no rank");
  for (; q < end && *q >= '0' && *q <= '9' && rank <= UINT32_MAX; q++)
    rank = rank * 10 + (uint64_t)(*q - '0');
  if (q < end || rank > UINT32_MAX)
    return bad_line(err, line, "the rank is no number below 2^32");
  int rc = bpe_add(&t->bpe, (uint32_t)rank, bytes->data, bytes->len, err);
  return rc ? err_prefix(err, "line %zu", line) : 0;
}

static int read_lines(struct tokenizer *t, const char *text, size_t len, size_t *ranks,
                      struct err *err) {
  const char *p = text, *end = text + len;
  struct buf bytes;
  int rc = 0;
  buf_init(&bytes, 1 << 17);
  for (size_t line = 1; p < end && !rc; line++) {
    const char *stop = memchr(p, '\n', (size_t)(end - p));
    if (!stop)
      stop = end;
    const char *last = stop > p && stop[-1] == '\r' ? stop - 1 : stop;
    if (last > p)
      rc = read_line(t, p, last, line, &bytes, err);
    *ranks += last > p;
    p = stop < end ? stop + 1 : end;
  }
  buf_free(&bytes);
  return rc;
}

/* A file of exactly as many ranks as another family has is that one's. */
static int check_size(const struct family *f, size_t ranks, struct err *err) {
  for (size_t i = 0; i < ARRAY_LEN(families) && ranks != f->ranks; i++)
    if (families[i].ranks == ranks)
      return err_set(err, ERR_INVALID,
                     "it has %zu ranks, as %s has; %s has %zu: another family's file?", ranks,
                     families[i].name, f->name, f->ranks);
  return 0;
}

static int add_special(struct tokenizer *t, const char *text, uint32_t id, struct err *err) {
  size_t n;
  if (bpe_text(&t->bpe, id, &n))
    return err_set(err, ERR_INVALID,
                   "rank %u is the family's special token %s: another family's file?", id, text);
  return tokenizer_add(t, text, strlen(text), &(struct added_token){.id = id, .special = true},
                       false, err);
}

static int add_specials(struct tokenizer *t, const struct family *f, struct err *err) {
  int rc = 0;
  for (size_t i = 0; i < f->n_special && !rc; i++)
    rc = add_special(t, f->special[i].text, f->special[i].id, err);
  for (uint32_t id = f->reserved_from; id <= f->reserved_to && !rc; id++) {
    char name[32];
    bool named = false;
    for (size_t i = 0; i < f->n_special; i++)
      named = named || f->special[i].id == id;
    snprintf(name, sizeof name, "<|reserved_%u|>", id);
    if (!named)
      rc = add_special(t, name, id, err);
  }
  return rc;
}

int rankfile_load(struct tokenizer *t, const char *text, size_t len, const char *family,
                  struct err *err) {
  const struct family *f = family_named(family);
  if (!f)
    return err_set(err, ERR_INVALID, "family \"%s\" is not known (%s)", family,
                   rankfile_families());
  t->bpe.bytes = t->bpe.ignore_merges = true;
  t->deco_way = DECO_WAY_BYTES;
  t->pre.n = 1;
  t->pre.steps[0] = (struct prestep){.splits = true, .pattern = pattern_splitter(f->splitter)};
  size_t ranks = 0;
  int rc = read_lines(t, text, len, &ranks, err);
  if (!rc)
    rc = check_size(f, ranks, err);
  if (!rc)
    rc = add_specials(t, f, err);
  if (!rc)
    rc = bpe_seal(&t->bpe, err);
  for (int i = 0; i < 256 && !rc; i++)
    if (bpe_find(&t->bpe, &(char){(char)i}, 1) == BPE_NONE)
      rc = err_set(err, ERR_INVALID, "no rank for the byte 0x%02x: not a whole rank file", i);
  if (!rc)
    bpe_pairs_from_ranks(&t->bpe);
  return rc;
}

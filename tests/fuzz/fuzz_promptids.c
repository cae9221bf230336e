/* fuzz_promptids.c: a prompt that is edited, forked and rendered anew, through memos too small to
 * keep everything: after each step its ids are those of the whole text, and its JSON theirs.
 *
 * Each step is a byte: append the bytes up to the next zero, append a special token, cut the end
 * off, cut out of the middle, fork, go on with the other prompt, set ids. The first chooses the
 * tokenizer. */
#include "fuzz_model.h"

#include "text/promptids.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static struct model {
  const struct tokens *tokens;
  struct tokens_encoder *encoder;
} models[3];

int LLVMFuzzerInitialize(int *argc, char ***argv) {
  static const char *const names[] = {"split_qwen2", "llama", "flags"};
  (void)argc, (void)argv;
  for (size_t i = 0; i < ARRAY_LEN(models); i++) {
    models[i].tokens = fuzz_model_tokens(names[i]);
    models[i].encoder = tokens_encoder_new(models[i].tokens);
  }
  return 0;
}

/* What is edited: a text, and the prompt that was made of it. */
struct side {
  struct promptids prompt;
  char text[4096];
  size_t len;
};

static void check_json(struct promptids *p) {
  struct buf all, want;
  buf_init(&all, BUF_MAX_OWN);
  buf_init(&want, BUF_MAX_OWN);
  promptids_write(p);
  for (size_t i = 0; i < p->n_parts; i++)
    buf_put(&all, p->parts[i].json->data, p->parts[i].json->len);
  for (size_t i = 0; i < p->n; i++)
    buf_printf(&want, "%s%u", i ? "," : "", promptids_ids(p)[i]);
  require(all.len == want.len && (!all.len || memcmp(all.data, want.data, all.len) == 0));
  buf_free(&all);
  buf_free(&want);
}

static size_t common(const struct promptids *a, const struct promptids *b) {
  size_t n = 0;
  while (n < a->n && n < b->n && promptids_ids(a)[n] == promptids_ids(b)[n])
    n++;
  return n;
}

static void set(struct side *s, struct promptids_memo *memo, const struct model *m) {
  static const struct tokens_options special = {.special = true};
  struct tokens_list want = {0};
  struct promptids before;
  struct err err;
  promptids_fork(&s->prompt, &before);
  promptids_send(&s->prompt);
  require(promptids_set_text(&s->prompt, memo, s->text, s->len, &err) == 0);
  require(tokens_encode(m->tokens, s->text, s->len, &special, &want, &err) == 0);
  require(s->prompt.n == want.n);
  require(!want.n || memcmp(promptids_ids(&s->prompt), want.ids, want.n * sizeof *want.ids) == 0);
  require(s->prompt.kept <= common(&before, &s->prompt));
  require(promptids_survived(&s->prompt) == common(&before, &s->prompt));
  require(promptids_firm(&s->prompt, 2) <= s->prompt.n);
  tokens_list_free(&want);
  promptids_free(&before);
}

static void add(struct side *s, const void *bytes, size_t n) {
  if (n > sizeof s->text - s->len)
    n = sizeof s->text - s->len;
  memcpy(s->text + s->len, bytes, n);
  s->len += n;
}

/* One step at data[*at]. */
static void step(struct side *sides, size_t *now, const uint8_t *data, size_t size, size_t *at) {
  static const char *const marks[] = {"<|end|>", "<|im|>", "<|s|>", "<|end|>more", " <pad>",
                                      "<mask> ", "both",   "word",  "Norm",        "\n\n"};
  struct side *s = &sides[*now];
  uint8_t op = data[(*at)++];
  const uint8_t *rest = data + *at, *zero = memchr(rest, 0, size - *at);
  size_t n = op >> 3, run = zero ? (size_t)(zero - rest) : size - *at;
  switch (op & 7) {
  case 1:
    n %= ARRAY_LEN(marks);
    add(s, marks[n], strlen(marks[n]));
    break;
  case 2:
    s->len -= n < s->len ? n : s->len;
    break;
  case 3:
    n = n * 8 < s->len ? n * 8 : s->len;
    memmove(s->text, s->text + n, s->len - n);
    s->len -= n;
    break;
  case 4:
    promptids_free(&sides[1 - *now].prompt);
    promptids_fork(&s->prompt, &sides[1 - *now].prompt);
    memcpy(sides[1 - *now].text, s->text, s->len);
    sides[1 - *now].len = s->len;
    *now = 1 - *now;
    break;
  case 5:
    *now = 1 - *now;
    break;
  case 6: {
    const uint32_t ids[] = {1, op, 3};
    promptids_set_ids(&s->prompt, ids, n % 4);
    require(s->prompt.n == n % 4);
    break;
  }
  default:
    add(s, rest, run);
    *at += run + (zero != NULL);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size || size > 4000)
    return 0;
  const struct model *m = &models[data[0] % ARRAY_LEN(models)];
  struct promptids_memo *memo = promptids_memo_new(m->encoder, data[0] & 128 ? 1 << 20 : 700);
  static struct side sides[2];
  size_t now = 0, at = 1, steps = 0;
  for (int i = 0; i < 2; i++) {
    promptids_init(&sides[i].prompt);
    sides[i].len = 0;
  }
  while (at < size && steps++ < 100) {
    step(sides, &now, data, size, &at);
    set(&sides[now], memo, m);
    if (steps % 4 == 0)
      check_json(&sides[now].prompt);
  }
  promptids_free(&sides[0].prompt);
  promptids_free(&sides[1].prompt);
  promptids_memo_delete(memo);
  return 0;
}

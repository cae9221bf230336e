/* Prompts that grow, change and fork: their ids are always those of the whole text, and little is
 * tokenized to get them. */
#include "check.h"
#include "tokenize_rows.h"
#include "tokenizer_cases.h"

#include "base/rng.h"
#include "text/promptids.h"
#include "text/tokenizer.h"

#define FORKS 6

static void check_ids(struct tokens_encoder *e, const struct promptids *p, const char *text,
                      size_t len) {
  const struct tokens_options options = {.special = true};
  struct tokens_list whole = {0};
  struct err err;
  check_ok(tokens_encoder_encode(e, text, len, &options, &whole, &err), &err);
  bool same = p->n == whole.n;
  for (size_t i = 0; same && i < whole.n; i++)
    same = promptids_ids(p)[i] == whole.ids[i];
  if (!same)
    fail_msg("%s: %zu ids, %zu of the whole, for %.*s", e->tokens->name, p->n, whole.n, (int)len,
             text);
  tokens_list_free(&whole);
}

/* The parts say the ids, with commas. */
static void check_parts(struct promptids *p) {
  struct buf parts, all;
  buf_init(&parts, BUF_MAX_OWN);
  buf_init(&all, BUF_MAX_OWN);
  promptids_write(p);
  for (size_t i = 0; i < p->n_parts; i++)
    buf_put(&parts, p->parts[i].json->data, p->parts[i].json->len);
  for (size_t i = 0; i < p->n; i++) {
    if (i)
      buf_putc(&all, ',');
    buf_put_uint(&all, promptids_ids(p)[i]);
  }
  assert_int_equal(parts.len, all.len);
  if (all.len)
    assert_string_equal(parts.data, all.data);
  buf_free(&parts);
  buf_free(&all);
}

/* Pieces that meet badly: white space, word characters, halves of characters, special tokens. */
static void put_piece(struct buf *b, const struct tokens *t, struct rng *rng) {
  static const char *const pieces[] = {
      " ",    "\n", "a",    "word",  " hello", "\xc3\xa9",     "\xc3",      "\t  ", "x_",
      "1234", "<",  "<|im", "it's ", "\xff",   "\xe2\x96\x81", "e\xcc\x81", ">",    "..."};
  const struct addedtokens *raw = t->kind == TOKENS_BPE ? &tokenizer_of(t)->raw : NULL;
  if (raw && raw->n && rng_int(rng, 0, 2) == 0) {
    const struct added_token *a = &raw->tokens[rng_int(rng, 0, (int64_t)raw->n - 1)];
    /* also a part of one */
    buf_put(b, a->text, rng_int(rng, 0, 5) ? a->len : (size_t)rng_int(rng, 1, (int64_t)a->len));
    return;
  }
  /* invalid bytes are rare: with them everything is tokenized */
  size_t i = (size_t)rng_int(rng, 0, (int64_t)ARRAY_LEN(pieces) - 1);
  if ((unsigned char)pieces[i][strlen(pieces[i]) - 1] >= 0xc0 && rng_int(rng, 0, 9))
    i = 0;
  buf_puts(b, pieces[i]);
}

static void change(struct buf *b, const struct tokens *t, struct rng *rng) {
  struct buf tail;
  buf_init(&tail, BUF_MAX_OWN);
  size_t at = b->len ? (size_t)rng_int(rng, 0, (int64_t)b->len) : 0, drop = 0;
  switch (rng_int(rng, 0, 3)) {
  case 0: /* goes on */
  case 1:
    at = b->len;
    break;
  case 2: /* cut */
    drop = b->len - at;
    break;
  default: /* changed in the middle */
    drop = b->len - at < 3 ? b->len - at : 3;
  }
  buf_put(&tail, b->data + at + drop, b->len - at - drop);
  b->len = at;
  for (int64_t n = rng_int(rng, 0, 12); n > 0; n--)
    put_piece(b, t, rng);
  if (tail.len)
    buf_put(b, tail.data, tail.len);
  buf_free(&tail);
}

struct fork {
  struct promptids p;
  struct buf text;
  uint32_t *sent;
  size_t n_sent;
};

static void copy_fork(struct fork *to, const struct fork *from) {
  promptids_free(&to->p);
  promptids_fork(&from->p, &to->p);
  buf_reset(&to->text);
  buf_put(&to->text, from->text.data, from->text.len);
  to->sent = realloc(to->sent, (from->n_sent + 1) * sizeof *to->sent);
  to->n_sent = from->n_sent;
  if (to->n_sent)
    memcpy(to->sent, from->sent, to->n_sent * sizeof *to->sent);
}

static size_t same_ids(const uint32_t *ids, size_t n, const struct promptids *p) {
  size_t i = 0;
  while (i < n && i < p->n && ids[i] == promptids_ids(p)[i])
    i++;
  return i;
}

static void send(struct fork *f) {
  promptids_send(&f->p);
  f->sent = realloc(f->sent, (f->p.n + 1) * sizeof *f->sent);
  f->n_sent = f->p.n;
  if (f->n_sent)
    memcpy(f->sent, promptids_ids(&f->p), f->n_sent * sizeof *f->sent);
}

static void random_changes(const struct tokens *t, uint64_t seed, int steps, size_t memo_bytes) {
  struct tokens_encoder *e = tokens_encoder_new(t);
  struct promptids_memo *m = promptids_memo_new(e, memo_bytes);
  struct fork forks[FORKS];
  struct rng rng;
  struct err err;
  rng_init(&rng, seed, 0);
  for (size_t i = 0; i < FORKS; i++) {
    forks[i] = (struct fork){.n_sent = 0};
    promptids_init(&forks[i].p);
    buf_init(&forks[i].text, BUF_MAX_OWN);
    buf_put(&forks[i].text, "", 0);
  }
  for (int i = 0; i < steps; i++) {
    struct fork *f = &forks[rng_int(&rng, 0, FORKS - 1)], *g = &forks[rng_int(&rng, 0, FORKS - 1)];
    if (f != g && rng_int(&rng, 0, 9) == 0)
      copy_fork(f, g);
    struct promptids before;
    promptids_fork(&f->p, &before);
    change(&f->text, t, &rng);
    check_ok(promptids_set_text(&f->p, m, f->text.data, f->text.len, &err), &err);
    check_ids(e, &f->p, f->text.data, f->text.len);
    size_t common = same_ids(promptids_ids(&before), before.n, &f->p);
    assert_true(f->p.kept <= common);
    promptids_free(&before);
    assert_int_equal(promptids_survived(&f->p), same_ids(f->sent, f->n_sent, &f->p));
    if (rng_int(&rng, 0, 3) == 0)
      send(f);
    if (rng_int(&rng, 0, 3) == 0)
      check_parts(&f->p);
    check_ids(e, &g->p, g->text.data, g->text.len); /* nobody else's changed */
  }
  for (size_t i = 0; i < FORKS; i++) {
    check_ids(e, &forks[i].p, forks[i].text.data, forks[i].text.len);
    check_parts(&forks[i].p);
    promptids_free(&forks[i].p);
    buf_free(&forks[i].text);
    free(forks[i].sent);
  }
  promptids_memo_delete(m);
  tokens_encoder_delete(e);
}

static void test_random_changes(void **state) {
  (void)state;
  struct cases c;
  cases_open(&c);
  for (size_t i = 0; cases_at(&c, i); i++) {
    const struct tokens *t = cases_tokens(&c, cases_at(&c, i));
    random_changes(t, i, 150, i % 3 ? 1 << 20 : 2000);
    tokens_close(t);
  }
  cases_close(&c);
}

static void test_random_changes_of_bytes(void **state) {
  (void)state;
  const struct tokens *t;
  struct err err;
  check_ok(tokens_open("bytes", NULL, &t, &err), &err);
  random_changes(t, 1, 2000, 1 << 20);
  tokens_close(t);
}

static void test_random_changes_with_a_model(void **state) {
  (void)state;
  char path[4096];
  bool any = false;
  for (size_t i = 0; i < ARRAY_LEN(rows_models); i++) {
    const struct tokens *t;
    struct err err;
    if (rows_models[i].family || !rows_find(&rows_models[i], path, sizeof path) || i > 6)
      continue;
    any = true;
    check_ok(tokens_load(path, NULL, &t, &err), &err);
    random_changes(t, i, CHECK_SANITIZED ? 300 : 1500, 1 << 16);
    tokens_close(t);
  }
  if (!any)
    skip();
}

/* A small tokenizer with chat tokens. */
static const struct tokens *chat_tokens(void) {
  static const char file[] =
      "{\"added_tokens\":[{\"id\":256,\"content\":\"<|a|>\",\"special\":true,\"normalized\":false},"
      "{\"id\":257,\"content\":\"<|b|>\",\"special\":true,\"normalized\":false}],"
      "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},"
      "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{";
  struct buf b;
  const struct tokens *t;
  struct err err;
  struct cases c;
  buf_init(&b, BUF_MAX_OWN);
  buf_puts(&b, file);
  cases_open(&c);
  const struct value *vocab = value_get(value_get(&c.bases, "bytes"), "vocab");
  size_t n = 0;
  for (size_t i = 0; i < vocab->u.object.n && n < 256; i++, n++) {
    if (n)
      buf_putc(&b, ',');
    json_write_string(&b, vocab->u.object.pairs[i].key, vocab->u.object.pairs[i].key_len);
    buf_printf(&b, ":%zu", n);
  }
  buf_puts(&b, "}}}");
  cases_close(&c);
  check_ok(tokens_load_text("chat", b.data, b.len, NULL, &t, &err), &err);
  buf_free(&b);
  return t;
}

static void set(struct promptids *p, struct promptids_memo *m, const char *text) {
  struct err err;
  check_ok(promptids_set_text(p, m, text, strlen(text), &err), &err);
}

static void test_what_is_tokenized(void **state) {
  (void)state;
  const struct tokens *t = chat_tokens();
  struct tokens_encoder *e = tokens_encoder_new(t);
  struct promptids_memo *m = promptids_memo_new(e, 1 << 20);
  struct promptids p, f;
  uint64_t found, made;
  promptids_init(&p);
  set(&p, m, "<|a|>one<|b|><|a|>two<|b|><|a|>");
  promptids_memo_stats(m, &found, &made);
  assert_int_equal(found, 0);
  assert_int_equal(made, 2);
  assert_int_equal(p.n, 11);
  set(&p, m, "<|a|>one<|b|><|a|>two<|b|><|a|>three<|b|>");
  promptids_memo_stats(m, &found, &made);
  assert_int_equal(made, 3);
  assert_int_equal(found, 1);
  assert_int_equal(p.kept, 11); /* two is looked up again: another token could have begun */
  set(&p, m, "<|a|>ONE<|b|><|a|>two<|b|><|a|>three<|b|>");
  promptids_memo_stats(m, &found, &made);
  assert_int_equal(made, 4); /* ONE */
  assert_int_equal(found, 3);
  assert_int_equal(p.kept, 1);
  promptids_fork(&p, &f);
  const uint32_t *ids = promptids_ids(&p);
  assert_ptr_equal(promptids_ids(&f), ids); /* shared */
  set(&f, m, "<|a|>ONE<|b|><|a|>two<|b|><|a|>three<|b|>four");
  assert_int_equal(same_ids(promptids_ids(&p), p.n, &f), p.n);
  check_ids(e, &p, "<|a|>ONE<|b|><|a|>two<|b|><|a|>three<|b|>", 41);
  set(&p, m, "<|a|>ONE<|b|><|a|>two<|b|><|a|>three<|b|>other");
  check_ids(e, &f, "<|a|>ONE<|b|><|a|>two<|b|><|a|>three<|b|>four", 45);
  promptids_write(&p);
  set(&p, m, "<|a|>ONE<|b|><|a|>two<|b|><|a|>three<|b|>other<|b|> and <|b|>");
  promptids_write(&p);
  check_parts(&p);
  promptids_set_ids(&p, (const uint32_t[]){256, 7, 8}, 3);
  assert_int_equal(p.kept, 1);
  check_parts(&p);
  assert_string_equal(p.parts[0].json->data, "256,7,8");
  set(&p, m, "<|a|>");
  check_ids(e, &p, "<|a|>", 5);
  promptids_free(&p);
  promptids_free(&f);
  promptids_memo_delete(m);
  tokens_encoder_delete(e);
  tokens_close(t);
}

/* What was written once stays the same piece, for the requests that hold it. */
static void test_parts_are_kept(void **state) {
  (void)state;
  const struct tokens *t = chat_tokens();
  struct tokens_encoder *e = tokens_encoder_new(t);
  struct promptids_memo *m = promptids_memo_new(e, 1 << 20);
  struct promptids p, f;
  struct buf text;
  struct err err;
  buf_init(&text, BUF_MAX_OWN);
  promptids_init(&p);
  for (int i = 0; i < 3000; i++)
    buf_puts(&text, "<|a|>abc");
  check_ok(promptids_set_text(&p, m, text.data, text.len, &err), &err);
  promptids_write(&p);
  assert_int_equal(p.n, 12000);
  assert_int_equal(p.n_parts, 3);
  const struct blob *parts[] = {p.parts[0].json, p.parts[1].json};
  promptids_fork(&p, &f);
  for (size_t i = 0; i < 2; i++) {
    buf_puts(&text, i ? "<|b|>" : "<|a|>and more<|b|>");
    check_ok(promptids_set_text(&f, m, text.data, text.len, &err), &err);
    assert_true(f.ids == p.ids); /* grown in place, not copied */
    assert_true(f.text == p.text && f.marks == p.marks);
  }
  promptids_write(&f);
  assert_ptr_equal(f.parts[0].json, parts[0]);
  assert_ptr_equal(f.parts[1].json, parts[1]);
  check_parts(&f);
  check_parts(&p);
  promptids_free(&p);
  promptids_free(&f);
  buf_free(&text);
  promptids_memo_delete(m);
  tokens_encoder_delete(e);
  tokens_close(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_changes),
      cmocka_unit_test(test_random_changes_of_bytes),
      cmocka_unit_test(test_random_changes_with_a_model),
      cmocka_unit_test(test_what_is_tokenized),
      cmocka_unit_test(test_parts_are_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

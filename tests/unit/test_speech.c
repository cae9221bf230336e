/* test_speech.c: words that stay themselves, with every small tokenizer there is. */
#include "tokenizer_cases.h"

#include "sim/speech.h"

static bool has_words(const struct tokens *t, struct tokens_encoder *e, struct speech *s) {
  struct err err = {0};
  struct speech_options none = {0};
  int rc = speech_init(s, t, e, &none, &err);
  if (rc) {
    assert_int_equal(rc, ERR_UNSUPPORTED);
    check_has(err.text, "none of the simulated model's words stays itself");
  }
  return rc == 0;
}

static void free_answer(struct speech_answer *a) {
  mem_free(a->ids);
  mem_free(a->shown);
  mem_free(a->text);
}

static bool is_boundary(const char *text, uint32_t at) {
  return ((unsigned char)text[at] & 0xc0) != 0x80;
}

static void check_answer(const struct tokens *t, struct tokens_encoder *e, const struct speech *s,
                         uint64_t key, const char *name) {
  struct speech_answer a;
  struct tokens_list ids = {0};
  struct buf text;
  struct err err = {0};
  struct speech_ask ask = {.key = key, .natural = 600, .most = 5000, .ends = true};
  speech_say(s, &ask, &a);
  assert_true(a.ended && a.n >= 600 && a.n < 680);
  assert_int_equal(a.shown[a.n - 1], strlen(a.text));
  check_ok(tokens_encoder_encode(e, a.text, strlen(a.text), NULL, &ids, &err), &err);
  if (ids.n != a.n || memcmp(ids.ids, a.ids, a.n * sizeof *a.ids) != 0)
    fail_msg("%s: \"%s\" has other ids when it is encoded again", name, a.text);
  buf_init(&text, BUF_MAX_OWN);
  check_ok(tokens_decode(t, a.ids, a.n, &text, &err), &err);
  if (strcmp(text.data, a.text) != 0)
    fail_msg("%s: \"%s\" is decoded to \"%s\"", name, a.text, text.data);
  for (uint32_t i = 0; i < a.n; i++) {
    assert_true(is_boundary(a.text, a.shown[i]));
    assert_true(!i || a.shown[i] >= a.shown[i - 1]);
  }
  buf_free(&text);
  tokens_list_free(&ids);
  free_answer(&a);
}

static void test_every_tokenizer(void **state) {
  (void)state;
  struct cases c;
  size_t with = 0, without = 0;
  cases_open(&c);
  for (size_t i = 0; cases_at(&c, i); i++) {
    const struct value *one = cases_at(&c, i);
    const struct tokens *t = cases_tokens(&c, one);
    struct tokens_encoder *e = tokens_encoder_new(t);
    struct speech s;
    if (has_words(t, e, &s)) {
      for (uint64_t key = 1; key <= 20; key++)
        check_answer(t, e, &s, key * UINT64_C(0x9e3779b97f4a7c15), t->name);
      speech_free(&s);
      with++;
    } else {
      without++;
    }
    tokens_encoder_delete(e);
    tokens_close(t);
  }
  cases_close(&c);
  if (with < 3 * without)
    fail_msg("%zu tokenizers can speak, %zu cannot", with, without);
}

struct fixture {
  struct cases c;
  const struct tokens *t;
  struct tokens_encoder *e;
  struct speech s;
};

static void setup(struct fixture *f, const struct speech_options *o) {
  struct err err = {0};
  cases_open(&f->c);
  f->t = cases_tokens(&f->c, cases_named(&f->c, "split_qwen2"));
  f->e = tokens_encoder_new(f->t);
  check_ok(speech_init(&f->s, f->t, f->e, o, &err), &err);
}

static void teardown(struct fixture *f) {
  speech_free(&f->s);
  tokens_encoder_delete(f->e);
  tokens_close(f->t);
  cases_close(&f->c);
}

static void test_lengths(void **state) {
  (void)state;
  struct fixture f;
  struct speech_options o = {.eos = "."};
  setup(&f, &o);
  assert_true(f.s.has_eos);
  struct speech_answer a, b;
  struct speech_ask ask = {.key = 5, .natural = 40, .most = 500, .ends = true};
  speech_say(&f.s, &ask, &a);
  assert_true(a.ended && a.n >= 40);
  assert_int_equal(a.ids[a.n - 1], f.s.eos);
  assert_int_equal(a.shown[a.n - 1], a.shown[a.n - 2]); /* the end has no text */
  ask.ends = false;
  for (uint32_t most = 1; most < 60; most++) {
    ask.most = most;
    speech_say(&f.s, &ask, &b);
    assert_int_equal(b.n, most);
    assert_false(b.ended);
    uint32_t same = most < a.n - 1 ? most : a.n - 1;
    assert_memory_equal(a.ids, b.ids, same * sizeof *a.ids);
    assert_memory_equal(a.shown, b.shown, same * sizeof *a.shown);
    assert_memory_equal(a.text, b.text, a.shown[same - 1]);
    free_answer(&b);
  }
  /* No room for the whole of the last word: cut, not ended. */
  ask = (struct speech_ask){.key = 5, .natural = 40, .most = 40, .ends = true};
  speech_say(&f.s, &ask, &b);
  assert_int_equal(b.n, 40);
  assert_int_equal(b.ended, b.ids[39] == f.s.eos);
  free_answer(&a);
  free_answer(&b);
  teardown(&f);
}

static void test_a_header(void **state) {
  (void)state;
  struct fixture f;
  struct speech_options o = {.header = "the cache", .opening = "x y"};
  setup(&f, &o);
  uint32_t n = f.s.header.n;
  assert_true(n >= 2 && f.s.opening.n >= 2);
  struct speech_answer a;
  struct speech_ask ask = {.key = 9, .most = 50, .header = true};
  speech_say(&f.s, &ask, &a);
  assert_memory_equal(a.ids, f.s.header.ids, n * sizeof *a.ids);
  assert_int_equal(a.hidden, n);
  assert_int_equal(a.shown[n - 1], 0);
  free_answer(&a);
  ask.show_header = true;
  speech_say(&f.s, &ask, &a);
  assert_int_equal(a.hidden, 0);
  assert_memory_equal(a.text, "the cache", 9);
  assert_int_equal(a.shown[n - 1], 9);
  free_answer(&a);
  teardown(&f);
}

static void test_thoughts(void **state) {
  (void)state;
  struct fixture f;
  struct speech_options o = {.header = "the cache",
                             .think = "<|I think:|>",
                             .answer = "<|so|> the cache",
                             .opening = "x y"};
  setup(&f, &o);
  struct speech_answer a, b;
  struct speech_ask ask = {.key = 9, .natural = 5, .most = 200, .ends = true, .header = true};
  ask.think = f.s.think.n + 9;
  speech_say(&f.s, &ask, &a);
  assert_memory_equal(a.ids, f.s.think.ids, f.s.think.n * sizeof *a.ids);
  assert_int_equal(a.hidden, f.s.think.n);
  uint32_t from = 0; /* where the thoughts end in tokens, and the answer's opening comes */
  while (from < a.n && memcmp(a.ids + from, f.s.answer.ids, f.s.answer.n * sizeof *a.ids) != 0)
    from++;
  assert_in_range(from, ask.think, ask.think + 8);
  assert_in_range(a.thought, 1, strlen(a.text) - 1);
  assert_int_equal(a.shown[from - 1], a.thought);
  assert_int_equal(a.shown[from + f.s.answer.n - 1], a.thought);
  assert_int_equal(a.ended, true);
  ask.most = from + 2; /* cut off in between */
  speech_say(&f.s, &ask, &b);
  assert_int_equal(b.n, from + 2);
  assert_int_equal(strlen(b.text), b.thought);
  free_answer(&b);
  ask.most = 200;
  ask.show_header = ask.show_special = true;
  speech_say(&f.s, &ask, &b);
  assert_int_equal(b.hidden, 0);
  assert_int_equal(b.thought, 0);
  assert_int_equal(strlen(b.text), strlen(a.text) + strlen("<|I think:|><|so|> the cache"));
  free_answer(&a);
  free_answer(&b);
  ask.header = false; /* a prompt that does not ask for one */
  speech_say(&f.s, &ask, &a);
  assert_int_equal(a.thought, 0);
  assert_true(f.s.think.ids[0] != a.ids[0]);
  free_answer(&a);
  teardown(&f);
}

static void test_an_end_that_is_no_token(void **state) {
  (void)state;
  struct fixture f;
  struct speech_options o = {0};
  struct speech s;
  struct err err = {0};
  setup(&f, &o);
  o.eos = "<|return|>";
  assert_int_equal(speech_init(&s, f.t, f.e, &o, &err), ERR_INVALID);
  check_has(err.text, "the model's last token <|return|> is ");
  teardown(&f);
}

/* A template that writes an answer with `front` before it, into `user`'s tokenizer. */
struct chat {
  struct fixture *f;
  const char *front;
  bool trims;
};

static int chat(void *user, const struct value *messages, struct tokens_list *out) {
  const struct chat *c = user;
  struct buf text;
  struct err err;
  buf_init(&text, BUF_MAX_OWN);
  for (size_t i = 0; i < value_count(messages); i++) {
    const struct value *m = value_at(messages, i);
    const char *content = value_to_string(value_get(m, "content"));
    bool answer = strcmp(value_to_string(value_get(m, "role")), "assistant") == 0;
    if (answer)
      content += c->trims ? strspn(content, " ") : 0;
    buf_printf(&text, "%s%s%s", answer ? "" : "\nQ", answer ? c->front : " ", content);
    if (!answer)
      buf_puts(&text, "\nA");
  }
  int rc = tokens_encoder_encode(c->f->e, text.data, text.len, NULL, out, &err);
  buf_free(&text);
  return rc;
}

static void test_fitting_a_template(void **state) {
  (void)state;
  struct fixture f;
  struct speech_options o = {0};
  setup(&f, &o);
  size_t n = f.s.first.n;
  struct chat c = {.f = &f, .front = "#"};
  speech_fit(&f.s, chat, &c);
  assert_false(f.s.repeats); /* the question mark stands between question and answer */
  assert_int_equal(f.s.first.n, n);
  c.front = " ";
  c.trims = true;
  speech_fit(&f.s, chat, &c);
  assert_true(f.s.repeats); /* it puts a space in front: so do answers now */
  assert_true(f.s.first.n > 0);
  for (size_t i = 0; i < f.s.first.n; i++)
    assert_int_equal(f.s.first.items[i].text[0], ' ');
  teardown(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_tokenizer),
      cmocka_unit_test(test_lengths),
      cmocka_unit_test(test_a_header),
      cmocka_unit_test(test_thoughts),
      cmocka_unit_test(test_an_end_that_is_no_token),
      cmocka_unit_test(test_fitting_a_template),
  };
  return cmocka_run_group_tests_name("speech", tests, NULL, NULL);
}

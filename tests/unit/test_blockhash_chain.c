/* Every golden vector in every field, incremental = whole at every split, forks, and what is fed
 * wrongly. */
#include "check.h"

#include "base/mem.h"
#include "kv/blockhash_chain.h"
#include "text/json.h"

struct vectors {
  struct value all;
  char *text;
};

static int read_vectors(void **state) {
  struct vectors *v = MEM_NEW(struct vectors);
  struct err err;
  size_t len;
  v->text = check_read_file("tests/data/blockhash/vectors.json", &len);
  check_ok(json_parse(v->text, len, &v->all, &err), &err);
  *state = v;
  return 0;
}

static int free_vectors(void **state) {
  struct vectors *v = *state;
  value_free(&v->all);
  free(v->text);
  mem_free(v);
  return 0;
}

/* The vector's parameters and its block size, as options. */
static struct value options_of(const struct value *v) {
  struct value options = value_copy(value_get(v, "params"));
  value_set(&options, "block_size", value_copy(value_get(v, "block_size")));
  return options;
}

static const char *label(const struct value *v) {
  static char text[200];
  snprintf(text, sizeof text, "%s, %s", value_to_string(value_get(v, "scheme")),
           value_to_string(value_get(v, "name")));
  return text;
}

static struct blockhash_chain *open_vector(const struct value *v) {
  struct value options = options_of(v);
  struct blockhash_chain *c;
  struct err err;
  if (blockhash_chain_open(value_to_string(value_get(v, "scheme")), &options, &c, &err))
    fail_msg("%s: %s", label(v), err.text);
  value_free(&options);
  return c;
}

/* The vector's input from unit `from` to unit `to`; text is cut between characters. */
static size_t input_units(const struct value *v) {
  const struct value *text = value_get(v, "text");
  return text ? text->u.string.len : value_count(value_get(v, "tokens"));
}

static void feed(struct blockhash_chain *c, const struct value *v, size_t from, size_t to) {
  const struct value *text = value_get(v, "text"), *tokens = value_get(v, "tokens");
  struct err err;
  if (text) {
    check_ok(blockhash_chain_add_text(c, text->u.string.data + from, to - from, &err), &err);
    return;
  }
  int64_t *ids = mem_calloc(to - from, sizeof *ids);
  for (size_t i = from; i < to; i++)
    assert_true(value_to_int(value_at(tokens, i), &ids[i - from]));
  check_ok(blockhash_chain_add_signed(c, ids, to - from, &err), &err);
  mem_free(ids);
}

static bool starts_character(const struct value *v, size_t at) {
  const struct value *text = value_get(v, "text");
  return !text || at >= text->u.string.len ||
         ((unsigned char)text->u.string.data[at] & 0xc0) != 0x80;
}

/* One field against the vector's. */
static void check_field(struct blockhash_chain *c, const struct value *v, const char *name,
                        const struct value *want) {
  char got[BLOCKHASH_MAX_TEXT];
  struct err err;
  int field;
  bool list;
  if (blockhash_chain_field(c, name, &field, &list, &err))
    fail_msg("%s: %s", label(v), err.text);
  assert_int_equal(list, want->kind == VALUE_ARRAY);
  if (list && value_count(want) != blockhash_chain_count(c))
    fail_msg("%s: %zu of %s, expected %zu", label(v), blockhash_chain_count(c), name,
             value_count(want));
  for (size_t i = 0; i < (list ? value_count(want) : 1); i++) {
    const char *expected = value_to_string(list ? value_at(want, i) : want);
    size_t len = blockhash_chain_text(c, field, i, got);
    assert_int_equal(len, strlen(got));
    if (strcmp(got, expected) != 0)
      fail_msg("%s: %s %zu is %s, expected %s", label(v), name, i, got, expected);
  }
}

static int check_fields(struct blockhash_chain *c, const struct value *v) {
  static const char *const not_fields[] = {"scheme", "name", "block_size", "params",
                                           "tokens", "text", "origin",     "published_fields"};
  int n = 0;
  for (size_t i = 0; i < v->u.object.n; i++) {
    const struct value_pair *p = &v->u.object.pairs[i];
    bool skip = false;
    for (size_t k = 0; k < ARRAY_LEN(not_fields); k++)
      skip |= strcmp(p->key, not_fields[k]) == 0;
    if (skip)
      continue;
    check_field(c, v, p->key, &p->value);
    n++;
  }
  return n;
}

static void every_vector(void **state) {
  struct vectors *all = *state;
  int fields = 0;
  assert_int_equal(value_count(&all->all), 637);
  for (size_t i = 0; i < value_count(&all->all); i++) {
    const struct value *v = value_at(&all->all, i);
    struct blockhash_chain *c = open_vector(v);
    feed(c, v, 0, input_units(v));
    fields += check_fields(c, v);
    blockhash_chain_delete(c);
  }
  assert_int_equal(fields, 1225);
}

/* Two pieces at every split for short inputs, at many for long ones; a fork at the split goes on
 * with the rest while the trunk goes elsewhere; and one unit at a time. */
static void check_splits(const struct value *v) {
  size_t n = input_units(v), step = n > 300 ? 37 : 1;
  for (size_t split = 0; split <= n; split += step) {
    if (!starts_character(v, split))
      continue;
    struct blockhash_chain *c = open_vector(v), *f;
    feed(c, v, 0, split);
    if (split % 2)
      blockhash_chain_count(c); /* reading in between changes nothing */
    f = blockhash_chain_fork(c);
    size_t other = n < 40 ? n : 40;
    while (!starts_character(v, other))
      other++;
    feed(c, v, 0, other); /* the trunk takes another way */
    feed(f, v, split, n);
    check_fields(f, v);
    blockhash_chain_delete(c);
    check_fields(f, v);
    blockhash_chain_delete(f);
  }
  struct blockhash_chain *c = open_vector(v);
  for (size_t i = 0, next; i < n; i = next) {
    for (next = i + 1; !starts_character(v, next);)
      next++;
    feed(c, v, i, next);
    blockhash_chain_count(c);
  }
  check_fields(c, v);
  blockhash_chain_delete(c);
}

static void any_split_is_the_whole(void **state) {
  struct vectors *all = *state;
  for (size_t i = 0; i < value_count(&all->all); i++)
    check_splits(value_at(&all->all, i));
}

/* Both ways in for ids agree, and the bytes are those of the text. */
static void ids_of_either_width(void **state) {
  (void)state;
  uint32_t ids[3000];
  int64_t wide[ARRAY_LEN(ids)];
  struct err err;
  for (uint32_t i = 0; i < ARRAY_LEN(ids); i++)
    wide[i] = ids[i] = i * UINT32_C(2654435761);
  struct value options = value_object();
  value_set(&options, "block_size", value_int(24));
  const struct blockhash_scheme *s;
  for (size_t i = 0; (s = blockhash_scheme_at(i)); i++) {
    struct blockhash_chain *a, *b;
    const char *name = blockhash_scheme_name(s);
    const struct value *o = blockhash_scheme_block_size(s) ? &options : NULL;
    if (blockhash_chain_open(name, o, &a, &err))
      continue; /* it needs more to open */
    check_ok(blockhash_chain_open(name, o, &b, &err), &err);
    if (blockhash_chain_add(a, ids, ARRAY_LEN(ids), &err)) {
      check_has(err.text, "hashes the prompt's text, not token ids");
    } else {
      check_ok(blockhash_chain_add_signed(b, wide, ARRAY_LEN(ids), &err), &err);
      assert_int_equal(blockhash_chain_count(a), blockhash_chain_count(b));
      for (size_t k = 0; k < blockhash_chain_count(a); k++) {
        char x[BLOCKHASH_MAX_TEXT], y[BLOCKHASH_MAX_TEXT];
        uint8_t bytes[BLOCKHASH_MAX_WIDTH];
        size_t len = blockhash_chain_text(a, 0, k, x);
        blockhash_chain_text(b, 0, k, y);
        assert_string_equal(x, y);
        assert_int_equal(blockhash_chain_bytes(a, k, bytes) * 2, len);
        for (size_t j = 0; j < len / 2; j++) {
          char hex[3];
          snprintf(hex, sizeof hex, "%02x", bytes[j]);
          assert_memory_equal(hex, x + 2 * j, 2);
        }
      }
    }
    blockhash_chain_delete(a);
    blockhash_chain_delete(b);
  }
  value_free(&options);
}

static void events(void **state) {
  (void)state;
  static const struct {
    const char *scheme, *options, *field;
  } cases[] = {{"vllm-sha256", "{\"seed\":\"0\"}", "event_hashes"},
               {"sglang", "{}", "event_i64"},
               {"lmcache-builtin", "{\"none_hash\":\"0\"}", "int_hashes"},
               {"ic-xxh3", "{}", "block_hashes"},
               {"dynamo", "{}", "block_hashes"}};
  for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
    struct value options;
    struct blockhash_chain *c;
    struct err err;
    int field;
    bool list;
    check_ok(json_parse(cases[i].options, strlen(cases[i].options), &options, &err), &err);
    check_ok(blockhash_chain_open(cases[i].scheme, &options, &c, &err), &err);
    check_ok(blockhash_chain_field(c, cases[i].field, &field, &list, &err), &err);
    assert_int_equal(blockhash_chain_event_field(c), field);
    blockhash_chain_delete(c);
    value_free(&options);
  }
}

static void what_does_not_fit_is_refused(void **state) {
  (void)state;
  struct blockhash_chain *c;
  struct err err;
  int64_t ids[] = {1, -1, INT64_C(1) << 32};
  int field;
  bool list;
  check_ok(blockhash_chain_open("ic-xxh3", NULL, &c, &err), &err);
  assert_int_equal(blockhash_chain_add_signed(c, ids, 2, &err), ERR_INVALID);
  assert_string_equal(err.text, "token 2 is -1; ids of ic-xxh3 lie between 0 and 4294967295");
  assert_int_equal(blockhash_chain_add_signed(c, ids + 2, 1, &err), ERR_INVALID);
  assert_string_equal(err.text,
                      "token 1 is 4294967296; ids of ic-xxh3 lie between 0 and 4294967295");
  assert_int_equal(blockhash_chain_add_text(c, "hello", 5, &err), ERR_INVALID);
  assert_string_equal(err.text, "ic-xxh3 hashes token ids, not text: tokenize it first");
  assert_int_equal(blockhash_chain_count(c), 0);
  assert_int_equal(blockhash_chain_field(c, "content_hash", &field, &list, &err), ERR_NOT_FOUND);
  assert_string_equal(err.text, "ic-xxh3 has no field 'content_hash', did you mean "
                                "'content_hashes'? (it has: block_hashes, content_hashes)");
  blockhash_chain_delete(c);

  check_ok(blockhash_chain_open("smg-path-hash", NULL, &c, &err), &err);
  check_ok(blockhash_chain_add_text(c, "a", 1, &err), &err);
  assert_int_equal(blockhash_chain_add_signed(c, ids, 1, &err), ERR_INVALID);
  assert_string_equal(err.text,
                      "smg-path-hash: a chain is made of tokens alone; it began with text");
  blockhash_chain_delete(c);
  blockhash_chain_delete(NULL);

  assert_int_equal(blockhash_chain_open("ic-xxh", NULL, &c, &err), ERR_NOT_FOUND);
  assert_string_equal(err.text, "unknown scheme \"ic-xxh\"; there are ic-xxh3");
  assert_int_equal(blockhash_chain_open("nothing at all", NULL, &c, &err), ERR_NOT_FOUND);
  check_has(err.text, "lists the 25 there are");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_vector),
      cmocka_unit_test(any_split_is_the_whole),
      cmocka_unit_test(ids_of_either_width),
      cmocka_unit_test(events),
      cmocka_unit_test(what_does_not_fit_is_refused),
  };
  return cmocka_run_group_tests(tests, read_vectors, free_vectors);
}

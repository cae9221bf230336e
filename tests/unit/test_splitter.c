/* The hand-written splitters against the patterns themselves, run by PCRE2 after tokenregex.c wrote
 * their classes out: all pieces of all texts of the golden rows, and of random ones. */
#include "check.h"

#include "base/rng.h"
#include "text/json.h"
#include "text/pattern.h"
#include "text/splitter.h"
#include "text/utf8.h"

#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define PREFIX "[^\\r\\n\\p{L}\\p{N}]?"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(c) PREFIX UPPER "*" LOWER "+" c "|" PREFIX UPPER "+" LOWER "*" c
#define NOT_HAN "(?:(?!\\p{Han})"

static const struct {
  enum splitter splitter;
  const char *known, *equal; /* `equal`: the same for PCRE2 where the known text is not */
} patterns[] = {
    {SPLITTER_CL100K,
     CONTRACTION "|" PREFIX "\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES, NULL},
    {SPLITTER_CL100K_NEW,
     "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| "
     "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s",
     "(?i:'s|'d|'m|'t|'ll|'ve|'re)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}++|(?>\\p{N}{1,3})| "
     "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++\\z|\\s*[\\r\\n]|\\s+(?!\\S)|\\s"},
    {SPLITTER_QWEN2, CONTRACTION "|" PREFIX "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES,
     NULL},
    {SPLITTER_QWEN35,
     CONTRACTION "|" PREFIX "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES,
     NULL},
    {SPLITTER_O200K, CASED(CONTRACTION "?") "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES,
     NULL},
    {SPLITTER_TEKKEN, CASED("") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES, NULL},
    {SPLITTER_KIMI,
     "[\\p{Han}]+|" PREFIX
     "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*[\\p{Ll}\\p{Lm}\\p{Lo}"
     "\\p{M}&&[^\\p{Han}]]+" CONTRACTION "?|" PREFIX
     "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]"
     "*" CONTRACTION "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES,
     "[\\p{Han}]+|" PREFIX NOT_HAN UPPER ")*" NOT_HAN LOWER ")+" CONTRACTION
     "?|" PREFIX NOT_HAN UPPER ")+" NOT_HAN LOWER ")*" CONTRACTION
     "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES},
    {SPLITTER_GPT2,
     "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", NULL},
    {SPLITTER_DEEPSEEK_TEXT,
     "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}"
     "]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
     NULL},
    {SPLITTER_DEEPSEEK_CJK, "[一-龥\u3040-ゟ゠-ヿ]+", NULL},
    {SPLITTER_NUMBERS3, "\\p{N}{1,3}", NULL},
};

static void test_known(void **state) {
  (void)state;
  for (size_t i = 0; i < ARRAY_LEN(patterns); i++)
    assert_int_equal(splitter_for(patterns[i].known, strlen(patterns[i].known)),
                     patterns[i].splitter);
  assert_int_equal(splitter_for("\\p{N}{1,3}", 10), SPLITTER_NUMBERS3);
  assert_int_equal(splitter_for("\\p{N}{1,3}", 9), SPLITTER_NONE);
  assert_int_equal(splitter_for("", 0), SPLITTER_NONE);
}

/* The pattern as PCRE2 runs it: in a group, so that it is not recognised. */
static struct pattern compile(size_t i) {
  struct pattern p;
  struct err err;
  char text[2000];
  snprintf(text, sizeof text, "(?:%s)", patterns[i].equal ? patterns[i].equal : patterns[i].known);
  check_ok(pattern_regex(&p, text, strlen(text), &err), &err);
  assert_int_equal(p.kind, PATTERN_REGEX);
  return p;
}

static void compare(const struct pattern *p, enum splitter s, const char *text, size_t len) {
  struct err err;
  struct pattern_search search;
  size_t start, end, at = 0, n = 0, k = 0, from = 0, hs, he;
  uint32_t ends[7];
  pattern_begin(&search, p, text, len);
  int rc;
  while ((rc = pattern_next(&search, &start, &end, &err)) > 0) {
    if (!splitter_find(s, text, len, at, &hs, &he) || hs != start || he != end)
      fail_msg("splitter %d, text \"%.*s\": expected a match %zu..%zu, found %zu..%zu", s, (int)len,
               text, start, end, hs, he);
    at = end;
    if (!splitter_tiles(s))
      continue;
    if (k == n) { /* in batches of seven */
      n = splitter_ends(s, text, len, from, ends, ARRAY_LEN(ends));
      k = 0;
    }
    assert_true(k < n);
    assert_int_equal(ends[k], end);
    from = ends[k++];
  }
  assert_int_equal(rc, 0);
  assert_false(splitter_find(s, text, len, at, &hs, &he));
  if (splitter_tiles(s)) {
    assert_int_equal(at, len);
    assert_int_equal(splitter_ends(s, text, len, len, ends, ARRAY_LEN(ends)), 0);
  }
  pattern_end(&search);
}

static void test_golden_texts(void **state) {
  (void)state;
  size_t len, rows = 0;
  struct err err;
  char *file = check_read_file("tests/data/tokenize/qwen3.jsonl", &len);
  struct pattern compiled[ARRAY_LEN(patterns)];
  for (size_t i = 0; i < ARRAY_LEN(patterns); i++)
    compiled[i] = compile(i);
  for (char *line = file, *stop; (stop = strchr(line, '\n')); line = stop + 1) {
    struct value row;
    check_ok(json_parse(line, (size_t)(stop - line), &row, &err), &err);
    const struct value *text = value_get(&row, "text");
    for (size_t i = 0; text && i < ARRAY_LEN(patterns); i++)
      compare(&compiled[i], patterns[i].splitter, text->u.string.data, text->u.string.len);
    rows += text != NULL;
    value_free(&row);
  }
  for (size_t i = 0; i < ARRAY_LEN(patterns); i++)
    pattern_free(&compiled[i]);
  assert_true(rows > 700);
  free(file);
}

/* Short texts over characters of every class: every alternative meets every neighbour. */
static void test_random_texts(void **state) {
  (void)state;
  static const uint32_t pool[] = {'a',    'Z',    's',    'L',     'l',    'v',    'e',    '\'',
                                  ' ',    ' ',    '\n',   '\r',    '\t',   '1',    '7',    '!',
                                  '/',    '$',    '_',    0x301,   0x17f,  0x1c5,  0x2b0,  0x5d0,
                                  0x4e2d, 0x3042, 0x3007, 0x2e80,  0x0661, 0xb2,   0x3000, 0x85,
                                  0x180e, 0x200b, 0,      0x1f600, 0x30fb, 0x3099, 0x20d0};
  struct rng rng;
  rng_init(&rng, 7, 0);
  for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
    struct pattern p = compile(i);
    for (int round = 0; round < 6000; round++) {
      char text[64];
      size_t len = 0;
      for (int64_t n = rng_int(&rng, 1, 10); n > 0; n--)
        len += utf8_encode(pool[rng_int(&rng, 0, ARRAY_LEN(pool) - 1)], text + len);
      compare(&p, patterns[i].splitter, text, len);
    }
    pattern_free(&p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_known),
                                     cmocka_unit_test(test_golden_texts),
                                     cmocka_unit_test(test_random_texts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

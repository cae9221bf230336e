/* gentokens.c: generated text of exactly so many tokens of a model's tokenizer.
 *
 * Words are drawn as for any generated text and taken by what they cost alone, which is what they
 * cost in a text wherever a tokenizer cuts at spaces; then the whole text is counted once. Where
 * the count is off, words are dropped from the end and small ones tried until it is met, counting
 * the whole each time: whatever the tokenizer does at the seams, the result is exact. */
#include "bind/gentokens.h"

#include <string.h>

#include "base/mem.h"

#define MOST_RETREATS 64
#define SMALL_ENDS ".,;:!?-'abcdefghijklmnopqrstuvwxyz0123456789"

struct maker {
  struct tokens_encoder *e;
  struct gen_costs *costs;
  struct buf *b;
  size_t start, n;
  struct err *err;
};

static int count(const struct maker *m, const char *text, size_t len, size_t *out) {
  const struct tokens_options options = {.special = true};
  return tokens_encoder_count(m->e, text, len, &options, out, m->err);
}

static int count_all(const struct maker *m, size_t *out) {
  return count(m, m->b->data + m->start, m->b->len - m->start, out);
}

/* What a word with the space before it costs alone; kept. */
static int cost_of(const struct maker *m, unsigned word, bool capital, size_t *out) {
  uint8_t *known = &m->costs->of[word][capital];
  if (!*known) {
    struct buf b;
    buf_init(&b, BUF_MAX_OWN);
    buf_putc(&b, ' ');
    text_put_word(&b, word, capital);
    size_t n = 0;
    int rc = count(m, b.data, b.len, &n);
    buf_free(&b);
    if (rc)
      return rc;
    *known = (uint8_t)(n < 1 ? 1 : n > UINT8_MAX ? UINT8_MAX : n);
  }
  *out = *known;
  return 0;
}

static void put_word(const struct maker *m, unsigned word, bool capital) {
  if (m->b->len > m->start)
    buf_putc(m->b, ' ');
  text_put_word(m->b, word, capital);
}

/* Words until the next one costs too much; the point that ends a sentence is taken to cost 1. */
static int put_words(const struct maker *m, struct text_words *source) {
  size_t sum = 0, cost = 0;
  bool capital = true, ends = false;
  for (;;) {
    unsigned word = text_next_word(source, &ends);
    int rc = cost_of(m, word, capital, &cost);
    if (rc)
      return rc;
    sum += cost;
    if (sum > m->n)
      return 0;
    put_word(m, word, capital);
    capital = ends && sum < m->n;
    if (capital) {
      buf_putc(m->b, '.');
      sum++;
    }
    if (sum == m->n)
      return 0;
  }
}

static void cut(const struct maker *m, size_t len) {
  m->b->len = m->start + len;
  if (m->b->data)
    m->b->data[m->b->len] = '\0';
}

/* Drops the last word. */
static void drop_word(const struct maker *m) {
  size_t len = m->b->len - m->start;
  while (len && m->b->data[m->start + len - 1] != ' ')
    len--;
  cut(m, len ? len - 1 : 0);
}

/* Whether what was appended behind `len` brings the count from `have` nearer to n; undone if not.
 */
static int try_it(const struct maker *m, size_t len, size_t *have, bool *took) {
  size_t now = 0;
  int rc = count_all(m, &now);
  *took = !rc && now > *have && now <= m->n;
  if (*took)
    *have = now;
  else
    cut(m, len);
  return rc;
}

/* One more word or letter that fits; *took false: none does. */
static int put_small(const struct maker *m, unsigned from, size_t *have, bool *took) {
  size_t len = m->b->len - m->start, cost = 0;
  int rc = 0;
  *took = false;
  for (unsigned i = 0; i < TEXT_WORDS_COUNT && !rc && !*took; i++) {
    unsigned word = (from + i) % TEXT_WORDS_COUNT;
    rc = cost_of(m, word, false, &cost);
    if (rc || cost > m->n - *have)
      continue;
    put_word(m, word, false);
    rc = try_it(m, len, have, took);
  }
  for (size_t i = 0; SMALL_ENDS[i] && !rc && !*took; i++) {
    buf_putc(m->b, SMALL_ENDS[i]);
    rc = try_it(m, len, have, took);
  }
  return rc;
}

int text_write_tokens(struct buf *b, size_t n, struct rng *rng, struct tokens_encoder *e,
                      struct gen_costs *costs, struct err *err) {
  struct maker m = {e, costs, b, b->len, n, err};
  struct text_words source = {.rng = rng};
  size_t have = 0;
  int rc = put_words(&m, &source);
  unsigned from = (unsigned)(source.bits & 255);
  if (!rc)
    rc = count_all(&m, &have);
  for (int retreats = 0; !rc && have != n; retreats++) {
    while (!rc && (have > n || (retreats && have))) {
      drop_word(&m);
      rc = count_all(&m, &have);
      if (have <= n)
        break;
    }
    bool took = true;
    while (!rc && have < n && took)
      rc = put_small(&m, from + (unsigned)retreats, &have, &took);
    if (!rc && have != n && retreats == MOST_RETREATS)
      rc = err_set(err, ERR_UNSUPPORTED, "no text of exactly %zu tokens was found for %s", n,
                   e->tokens->name);
  }
  if (rc)
    cut(&m, 0);
  return rc;
}

/* parityrest.c: causes of a difference that no rendering of ours gives: what can be seen from the
 * two lists of ids and the texts they stand for. See parity.h. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "text/parity_impl.h"

#define SHOWN 160 /* bytes of a text within a cause */

static bool has_exact(const struct parity_result *out) {
  for (size_t i = 0; i < out->n_causes; i++)
    if (out->causes[i].strength == PARITY_EXACT)
      return true;
  return false;
}

/* The one cause: what explains only a part of the difference is dropped. */
static void set_cause(struct parity_result *out, const char *name, const char *text,
                      const char *test) {
  for (size_t i = 0; i < out->n_causes; i++) {
    mem_free(out->causes[i].text);
    mem_free(out->causes[i].test);
    mem_free(out->causes[i].fix);
  }
  out->n_causes = 0;
  parity_add_cause(out, name, PARITY_EXACT, text, test);
}

void parity_add_vocabulary(const struct parity_trial *t, const char *test,
                           struct parity_result *out) {
  char text[200];
  snprintf(text, sizeof text, "the server's ids are of another vocabulary than %.80s",
           t->local->encoder->tokens->name);
  set_cause(out, "vocabulary", text, test);
}

/* ---- another vocabulary ---- */

static const char *text_of(const struct buf *b) {
  return b->data ? b->data : "";
}

/* Whether less than half of our text stands in the server's at its two ends. */
static bool is_another_text(const struct parity_trial *t) {
  const struct buf *a = &t->our_text, *b = &t->server_text;
  size_t most = a->len < b->len ? a->len : b->len, same = t->common_bytes, end = 0;
  while (same + end < most && text_of(a)[a->len - 1 - end] == text_of(b)[b->len - 1 - end])
    end++;
  return 2 * (same + end) < a->len;
}

static bool is_white(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Whether a user's message stands in the server's text, as every template writes it. */
static bool holds_a_message(const struct parity_trial *t) {
  const struct value *messages = t->c->chat.messages;
  bool any = false;
  for (size_t i = 0; i < value_count(messages); i++) {
    const struct value *content = value_get(value_at(messages, i), "content");
    const char *p = value_to_string(content);
    size_t n = p ? content->u.string.len : 0;
    for (; n && is_white(*p); n--)
      p++;
    while (n && is_white(p[n - 1]))
      n--;
    any = any || n;
    if (n && memmem(text_of(&t->server_text), t->server_text.len, p, n))
      return true;
  }
  return !any; /* nothing can be said */
}

/* Ids that stand for something else here than the text that was sent. */
static bool is_another_vocabulary(const struct parity_trial *t) {
  return is_another_text(t) && (t->c->form == PARITY_PROMPT || !holds_a_message(t));
}

static void add_unread(const struct parity_trial *t, struct parity_result *out) {
  char test[240];
  size_t n = t->server_text.len < 40 ? t->server_text.len : 40;
  char *quoted = parity_quote(text_of(&t->server_text), n);
  snprintf(test, sizeof test, "read with the vocabulary that is here, its ids give %.150s%s",
           quoted, n < t->server_text.len ? "…" : "");
  mem_free(quoted);
  parity_add_vocabulary(t, test, out);
}

/* ---- the same text ---- */

/* Messages that are tokenized one by one here (Harmony), on the server the whole text at once. */
static bool is_whole(const struct parity_trial *t) {
  const struct tokens_options options = {.special = true};
  struct tokens_list ids = {0};
  struct err err;
  bool same = tokens_encoder_encode(t->local->encoder, text_of(&t->our_text), t->our_text.len,
                                    &options, &ids, &err) == 0 &&
              ids.n == t->server_n &&
              parity_common(ids.ids, ids.n, t->server, t->server_n) == ids.n;
  tokens_list_free(&ids);
  return same;
}

static void try_same_text(const struct parity_trial *t, struct parity_result *out) {
  if (t->c->form == PARITY_MESSAGES && is_whole(t))
    set_cause(out, "special_text",
              "the server tokenizes the rendered text as a whole, and special tokens' text in a "
              "message becomes special tokens; here each message is tokenized by itself (the "
              "server renders with a Jinja template, and here it is Harmony?)",
              "our text, tokenized as a whole: equal to the server's ids");
  else if (t->c->form == PARITY_PROMPT) /* nothing is rendered: it is the tokenizer's doing */
    set_cause(out, "tokenizer",
              "the server cuts the same text into other tokens: another version of the tokenizer's "
              "file, of its pattern or of the library that reads it",
              "a plain prompt, and both lists of ids decode to the same bytes");
}

/* ---- something more, or something less ---- */

/* Our ids with a piece put in, or taken out, in one place. */
static bool try_piece(const struct parity_trial *t, struct parity_result *out) {
  size_t n = t->ours->n, m = t->server_n, most = (n < m ? n : m) - t->common, end = 0;
  while (end < most && t->ours->ids[n - 1 - end] == t->server[m - 1 - end])
    end++;
  if (n == m || end < most)
    return false;
  bool more = m > n;
  const uint32_t *piece = (more ? t->server : t->ours->ids) + t->common;
  size_t count = more ? m - n : n - m;
  struct buf bytes;
  struct err err;
  char text[600], test[160];
  buf_init(&bytes, BUF_MAX_OWN);
  bool good = tokens_decode(t->local->encoder->tokens, piece, count, &bytes, &err) == 0;
  if (good) {
    char *quoted = parity_quote(text_of(&bytes), bytes.len < SHOWN ? bytes.len : SHOWN);
    snprintf(text, sizeof text,
             more ? "the server puts in what nobody sent, %zu tokens: %.400s%s%s"
                  : "the server leaves out what is here %zu tokens: %.400s%s%s",
             count, quoted, bytes.len > SHOWN ? "…" : "",
             more && t->c->form == PARITY_MESSAGES
                 ? " (another template, or a default system prompt)"
                 : "");
    snprintf(test, sizeof test,
             "our ids with %zu %s behind the first %zu: equal to the server's ids", count,
             more ? "put in" : "taken out", t->common);
    set_cause(out, more ? "extra_text" : "missing_text", text, test);
    mem_free(quoted);
  }
  buf_free(&bytes);
  return good;
}

/* Whether the server's ids are the beginning of ours, or the end. An end that begins as our prompt
 * does is no cut: a template that begins every message alike leaves one out. */
static bool is_cut(const struct parity_trial *t) {
  size_t n = t->server_n, all = t->ours->n;
  bool end = memcmp(t->server, t->ours->ids + all - n, n * sizeof *t->server) == 0;
  return t->common == n || (end && (t->c->form == PARITY_PROMPT || !t->common));
}

void parity_try_rest(const struct parity_trial *t, struct parity_result *out) {
  char test[160];
  size_t n = t->server_n, all = t->ours->n;
  if (has_exact(out) || !n)
    return;
  if (n < all && is_cut(t)) {
    snprintf(test, sizeof test, "the server's %zu ids are our %s %zu of %zu", n,
             t->common == n ? "first" : "last", n, all);
    set_cause(out, "truncated",
              "the server cuts the prompt off (truncate_prompt_tokens, its longest input)", test);
  } else if (out->same_text) {
    try_same_text(t, out);
  } else if (!try_piece(t, out) && t->decoded && is_another_vocabulary(t)) {
    add_unread(t, out);
  }
}

/* addedtokens.c: the trie of added tokens and the search in it; see addedtokens.h.
 *
 * From each place the text is followed down the trie as far as it goes, so the first match found is
 * the leftmost and the deepest token on the way the longest. Most places fail on their first byte.
 */
#include "text/addedtokens.h"

#include "base/mem.h"
#include "text/unicode.h"
#include "text/utf8.h"

#include <string.h>

struct added_edge {
  uint32_t node, to; /* to 0: free (the root is nobody's child) */
  unsigned char byte;
};

void addedtokens_init(struct addedtokens *a) {
  *a = (struct addedtokens){.n_nodes = 1, .cap_nodes = 8, .edge_mask = 15};
  a->ends = mem_calloc(a->cap_nodes, sizeof *a->ends);
  a->edges = mem_calloc(a->edge_mask + 1, sizeof *a->edges);
}

void addedtokens_free(struct addedtokens *a) {
  for (size_t i = 0; i < a->n; i++)
    mem_free(a->tokens[i].text);
  mem_free(a->tokens);
  mem_free(a->edges);
  mem_free(a->ends);
  *a = (struct addedtokens){0};
}

static struct added_edge *edge_at(const struct addedtokens *a, uint32_t node, unsigned char byte) {
  size_t i = ((uint64_t)(node * 256u + byte) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & a->edge_mask;
  while (a->edges[i].to && (a->edges[i].node != node || a->edges[i].byte != byte))
    i = (i + 1) & a->edge_mask;
  return &a->edges[i];
}

static uint32_t child_of(struct addedtokens *a, uint32_t node, unsigned char byte) {
  struct added_edge *e = edge_at(a, node, byte);
  if (e->to)
    return e->to;
  if ((a->n_edges + 1) * 2 > a->edge_mask) {
    struct added_edge *old = a->edges;
    size_t size = a->edge_mask + 1;
    a->edge_mask = size * 2 - 1;
    a->edges = mem_calloc(size * 2, sizeof *a->edges);
    for (size_t i = 0; i < size; i++)
      if (old[i].to)
        *edge_at(a, old[i].node, old[i].byte) = old[i];
    mem_free(old);
    e = edge_at(a, node, byte);
  }
  MEM_GROW(a->ends, a->n_nodes, a->cap_nodes);
  a->ends[a->n_nodes] = 0;
  *e = (struct added_edge){.node = node, .to = (uint32_t)a->n_nodes++, .byte = byte};
  a->n_edges++;
  return e->to;
}

void addedtokens_add(struct addedtokens *a, const char *text, size_t len,
                     const struct added_token *flags) {
  if (!len)
    return;
  uint32_t node = 0;
  for (size_t i = 0; i < len; i++)
    node = child_of(a, node, (unsigned char)text[i]);
  if (a->ends[node])
    return;
  MEM_GROW(a->tokens, a->n, a->cap);
  a->tokens[a->n] = *flags;
  a->tokens[a->n].text = mem_strndup(text, len);
  a->tokens[a->n].len = len;
  a->ends[node] = (uint32_t)++a->n;
  unsigned char first = (unsigned char)text[0];
  if (!a->first[first]) {
    a->first[first] = true;
    a->n_first++;
    a->only_first = first;
  }
}

/* The longest token at p; 0 when there is none, else its number + 1. */
static uint32_t longest_at(const struct addedtokens *a, const char *p, const char *end) {
  uint32_t node = 0, found = 0;
  for (; p < end; p++) {
    node = edge_at(a, node, (unsigned char)*p)->to;
    if (!node)
      break;
    if (a->ends[node])
      found = a->ends[node];
  }
  return found;
}

/* The leftmost-longest token from `at` on. */
static const struct added_token *find(const struct addedtokens *a, const char *text, size_t len,
                                      size_t at, size_t *start) {
  const char *p = text + at, *end = text + len;
  while (p < end) {
    if (a->n_first == 1) {
      p = memchr(p, a->only_first, (size_t)(end - p));
      if (!p)
        return NULL;
    } else {
      while (p < end && !a->first[(unsigned char)*p])
        p++;
      if (p == end)
        return NULL;
    }
    uint32_t found = longest_at(a, p, end);
    if (found) {
      *start = (size_t)(p - text);
      return &a->tokens[found - 1];
    }
    p++;
  }
  return NULL;
}

static uint32_t char_before(const char *text, size_t at, size_t *start) {
  do
    at--;
  while (at && ((unsigned char)text[at] & 0xc0) == 0x80);
  *start = at;
  const char *p = text + at;
  return utf8_take(&p);
}

/* \w of the engine that these rules are written for: that of patterns, and the two joiners. */
static bool is_word(uint32_t cp) {
  size_t n;
  const uint32_t *ranges = unicode_ranges("w", 1, &n);
  return cp == 0x200c || cp == 0x200d || unicode_in_ranges(ranges, n, cp);
}

static bool stands_alone(const char *text, size_t len, size_t start, size_t end) {
  size_t before;
  if (start && is_word(char_before(text, start, &before)))
    return false;
  const char *p = text + end;
  return end == len || !is_word(utf8_take(&p));
}

bool addedtokens_next(const struct addedtokens *a, const char *text, size_t len, bool special,
                      struct added_place *place, struct added_match *match) {
  const struct added_token *t;
  size_t start;
  while (a->n && (t = find(a, text, len, place->at, &start))) {
    size_t end = start + t->len;
    place->at = end;
    if ((t->special && !special) || (t->single_word && !stands_alone(text, len, start, end)))
      continue;
    if (t->lstrip) {
      size_t before;
      while (start > place->taken &&
             (unicode_class(char_before(text, start, &before)) & UNICODE_SPACE))
        start = before;
    }
    if (t->rstrip) {
      const char *p = text + end;
      while (end < len && (unicode_class(utf8_take(&p)) & UNICODE_SPACE))
        end = (size_t)(p - text);
    }
    *match = (struct added_match){start, end, t->id};
    place->taken = end;
    return true;
  }
  return false;
}

/* harmony_grown.c: the Harmony prompt of a chat that grows; see harmony_grown.h.
 *
 * What later messages decide of earlier ones is one thing: analysis is left out up to the last
 * final answer. What earlier ones decide of later ones is the name that a tool's answer bears: a
 * piece keeps the one it was rendered with. Date, effort, identity and tools are in the head. */
#include "text/harmony_grown.h"

#include <string.h>

#include "base/mem.h"
#include "text/harmony_impl.h"
#include "text/json.h"
#include "text/sectionmemo.h"

/* ---- pieces: what is known of a message for as long as it is there ---- */

struct call {
  struct value id, name;
};

struct harmony_piece {
  uint32_t refs;
  bool final;    /* it has a final answer … */
  bool analysis; /* … and analysis */
  struct blob *json;
  struct value answers, name; /* of a tool's answer: the call's id and name; else null */
  struct call *calls;         /* those that can be answered */
  size_t n_calls;
};

struct harmony_place {
  struct harmony_piece *piece;
  size_t end;              /* ids up to here are of this message or in front of it */
  size_t analysis, length; /* ids of its analysis that are there, and where they begin */
  bool dropped;            /* it has analysis that is left out */
};

static struct harmony_piece *piece_ref(struct harmony_piece *p) {
  p->refs++;
  return p;
}

static void piece_unref(struct harmony_piece *p) {
  if (!p || --p->refs)
    return;
  for (size_t i = 0; i < p->n_calls; i++) {
    value_free(&p->calls[i].id);
    value_free(&p->calls[i].name);
  }
  mem_free(p->calls);
  value_free(&p->answers);
  value_free(&p->name);
  blob_unref(p->json);
  mem_free(p);
}

static void drop_places(struct harmony_grown *g, size_t keep) {
  while (g->n > keep)
    piece_unref(g->places[--g->n].piece);
}

void harmony_grown_free(struct harmony_grown *g) {
  drop_places(g, 0);
  mem_free(g->places);
  mem_free(g->date);
  mem_free(g->effort);
  mem_free(g->identity);
  mem_free(g->content_type);
  blob_unref(g->tools);
  *g = (struct harmony_grown){0};
}

static char *copy(const char *s) {
  return s ? mem_strdup(s) : NULL;
}

void harmony_grown_fork(const struct harmony_grown *g, struct harmony_grown *out) {
  *out = *g;
  out->date = copy(g->date);
  out->effort = copy(g->effort);
  out->identity = copy(g->identity);
  out->content_type = copy(g->content_type);
  out->tools = g->tools ? blob_ref(g->tools) : NULL;
  out->cap = g->n;
  out->places = g->n ? mem_dup(g->places, g->n * sizeof *g->places) : NULL;
  for (size_t i = 0; i < g->n; i++)
    (void)piece_ref(out->places[i].piece);
}

/* ---- the memo, and the change under way ---- */

/* A message behind the first change: segments of the memo's prompt, or ids that are there. */
struct item {
  struct harmony_piece *piece; /* owned */
  bool made, dropped;
  size_t segment, segment_end, analysis, analysis_end; /* made: places in the prompt's segments */
  size_t at;                                           /* not made: its index in g->places */
};

struct harmony_memo {
  struct tokens_encoder *e;
  struct sectionmemo sections;
  struct mark {
    char text[16];
    uint32_t id;
  } marks[16]; /* special tokens that were asked for */
  size_t n_marks;
  uint64_t rendered, tokenized;
  /* the change under way */
  struct harmony_prompt fresh;
  struct item *items; /* first those in front of `first`, then the others */
  size_t n_items, cap_items;
  size_t from, first;   /* messages before these are as they were; have the same content */
  size_t n_final;       /* as in harmony_grown */
  bool usable, leads;   /* what *g says holds */
  bool has_head;        /* the head is rendered anew … */
  size_t head_segments; /* … in the first so many segments */
  struct tokens_list ids;
};

struct harmony_memo *harmony_memo_new(struct tokens_encoder *e, size_t max_bytes) {
  struct harmony_memo *m = MEM_NEW(struct harmony_memo);
  m->e = e;
  sectionmemo_init(&m->sections, max_bytes);
  harmony_init(&m->fresh);
  return m;
}

static void drop_items(struct harmony_memo *m) {
  while (m->n_items)
    piece_unref(m->items[--m->n_items].piece);
}

void harmony_memo_delete(struct harmony_memo *m) {
  if (!m)
    return;
  drop_items(m);
  mem_free(m->items);
  sectionmemo_free(&m->sections);
  harmony_free(&m->fresh);
  tokens_list_free(&m->ids);
  mem_free(m);
}

void harmony_memo_stats(const struct harmony_memo *m, uint64_t *rendered, uint64_t *tokenized) {
  *rendered = m->rendered;
  *tokenized = m->tokenized;
}

static void begin_change(struct harmony_memo *m) {
  drop_items(m);
  buf_reset(&m->fresh.text);
  m->fresh.n = 0;
}

/* ---- comparing ---- */

static bool same_blob(const struct blob *a, const struct blob *b) {
  if (a == b)
    return true;
  return a && b && a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

static bool same_text(const char *a, const char *b) {
  return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_value(const struct value *a, const struct value *b) {
  return a->kind == b->kind && value_equal(a, b);
}

static bool same_options(const struct harmony_grown *g, const struct harmony_history *h) {
  return same_text(g->date, h->chat.date) && same_text(g->effort, h->chat.reasoning_effort) &&
         same_text(g->identity, h->chat.model_identity) && same_blob(g->tools, h->tools);
}

/* The first message that is another. */
static size_t first_other(const struct harmony_grown *g, const struct harmony_history *h) {
  size_t i = h->same < g->n ? h->same : g->n;
  i = i < h->n ? i : h->n;
  while (i < g->n && i < h->n && same_blob(g->places[i].piece->json, h->message(h->of, i)))
    i++;
  return i;
}

/* ---- rendering ---- */

static const struct harmony_piece *piece_at(const struct harmony_grown *g,
                                            const struct harmony_memo *m, size_t i) {
  return i < m->first ? g->places[i].piece : m->items[i - m->first].piece;
}

/* The name of the call with that id before message i; NULL: there is none. */
static const struct value *called_name(const struct harmony_grown *g, const struct harmony_memo *m,
                                       size_t i, const struct value *id) {
  while (id && id->kind == VALUE_STRING && i-- > 0) {
    const struct harmony_piece *p = piece_at(g, m, i);
    for (size_t k = 0; k < p->n_calls; k++)
      if (value_equal(&p->calls[k].id, id))
        return &p->calls[k].name;
  }
  return NULL;
}

static int parse(const struct harmony_history *h, size_t i, struct value *out, struct err *err) {
  const struct blob *json = h->message(h->of, i);
  size_t comma = i ? 1 : 0;
  int rc = json_parse(json->data + comma, json->len - comma, out, err);
  return rc ? err_prefix(err, "message %zu", i + 1) : 0;
}

/* The message's segments; what of them is analysis, and whether there is a final answer. */
static int put_segments(struct harmony_memo *m, struct item *item, const struct value *message,
                        size_t i, const struct value *name, const char *content_type,
                        struct err *err) {
  struct value list = value_array();
  int rc = harmony_chat_message(&list, message, i + 1, name, content_type, err);
  item->segment = item->analysis = item->analysis_end = m->fresh.n;
  item->piece->final = item->piece->analysis = false;
  for (size_t k = 0; !rc && k < list.u.array.n; k++) {
    const struct value *part = &list.u.array.items[k], *channel = value_get(part, "channel");
    size_t before = m->fresh.n;
    rc = harmony_put_message(&m->fresh, part, i + 1, false, err);
    if (harmony_is(channel, "analysis")) {
      item->analysis = before;
      item->analysis_end = m->fresh.n;
      item->piece->analysis = true;
    }
    item->piece->final |= harmony_is(channel, "final");
  }
  item->segment_end = m->fresh.n;
  item->made = true;
  m->rendered++;
  value_free(&list);
  return rc;
}

static void keep_calls(struct harmony_piece *p, const struct value *message) {
  const struct value *calls = value_get(message, "tool_calls");
  size_t n = value_count(calls);
  p->calls = n ? mem_calloc(n, sizeof *p->calls) : NULL;
  for (size_t i = 0; i < n; i++) {
    const struct value *call = value_at(calls, i), *id = value_get(call, "id");
    const struct value *name = value_get(value_get(call, "function"), "name");
    if (id && id->kind == VALUE_STRING && name && name->kind == VALUE_STRING)
      p->calls[p->n_calls++] = (struct call){value_copy(id), value_copy(name)};
  }
}

/* Message i anew, parsed already. */
static int make_message(const struct harmony_grown *g, struct harmony_memo *m,
                        const struct harmony_history *h, size_t i, const struct value *message,
                        struct err *err) {
  struct harmony_piece *p = MEM_NEW(struct harmony_piece);
  *p = (struct harmony_piece){.refs = 1, .json = blob_ref(h->message(h->of, i))};
  const struct value *name = NULL;
  if (harmony_is(value_get(message, "role"), "tool")) {
    const struct value *id = value_get(message, "tool_call_id");
    name = called_name(g, m, i, id);
    p->answers = id ? value_copy(id) : value_null();
    p->name = name ? value_copy(name) : value_null();
  }
  keep_calls(p, message);
  MEM_GROW(m->items, m->n_items, m->cap_items);
  struct item *item = &m->items[m->n_items++];
  *item = (struct item){.piece = p};
  if (i == 0 && m->leads) { /* it is in the head */
    item->segment = item->segment_end = item->analysis = item->analysis_end = m->fresh.n;
    item->made = true;
    return 0;
  }
  return put_segments(m, item, message, i, name, h->chat.call_content_type, err);
}

/* Whether message i is there already, as it would be rendered. */
static bool is_there(const struct harmony_grown *g, const struct harmony_memo *m,
                     const struct harmony_history *h, size_t i) {
  static const struct value none = {.kind = VALUE_NULL};
  if (!m->usable || i >= g->n || i == 0)
    return false;
  const struct harmony_piece *p = g->places[i].piece;
  if (!same_blob(p->json, h->message(h->of, i)))
    return false;
  if (p->answers.kind != VALUE_STRING)
    return true;
  const struct value *name = called_name(g, m, i, &p->answers);
  return same_value(name ? name : &none, &p->name);
}

/* A message that is the same, at its index in g->places. */
static struct item *reuse(const struct harmony_grown *g, struct harmony_memo *m, size_t i) {
  MEM_GROW(m->items, m->n_items, m->cap_items);
  struct item *item = &m->items[m->n_items++];
  *item = (struct item){.piece = piece_ref(g->places[i].piece), .at = i};
  return item;
}

/* `lead`: the first message, NULL when it is as it was. */
static int render_head(struct harmony_memo *m, const struct harmony_history *h,
                       const struct value *lead, struct err *err) {
  struct value first = value_null(), tools = value_null(), list = value_array();
  int rc = 0;
  if (!lead && m->leads) {
    rc = parse(h, 0, &first, err);
    lead = &first;
  }
  if (!rc && h->tools)
    rc = json_parse(h->tools->data + h->tools_skip, h->tools->len - h->tools_skip, &tools, err);
  struct harmony_chat chat = h->chat;
  chat.tools = &tools;
  if (!rc)
    rc = harmony_chat_head(&list, m->leads ? value_get(lead, "content") : NULL, &chat, err);
  bool functions = !rc && harmony_has_function_tools(&list);
  for (size_t i = 0; !rc && i < list.u.array.n; i++)
    rc = harmony_put_message(&m->fresh, &list.u.array.items[i], i + 1, functions, err);
  m->head_segments = m->fresh.n;
  value_free(&list);
  value_free(&tools);
  value_free(&first);
  return rc;
}

/* Messages from the first that is another on, and the head where it is another. */
static int render_messages(const struct harmony_grown *g, struct harmony_memo *m,
                           const struct harmony_history *h, struct err *err) {
  struct value lead = value_null();
  int rc = 0;
  bool anew = m->first == 0 && h->n;
  if (anew)
    rc = parse(h, 0, &lead, err);
  m->leads = anew ? harmony_leads(&lead) : h->n && g->leads;
  m->has_head = !m->usable || !same_options(g, h) || m->leads != g->leads || (anew && m->leads);
  m->head_segments = 0;
  if (!rc && m->has_head)
    rc = render_head(m, h, anew ? &lead : NULL, err);
  for (size_t i = m->first; !rc && i < h->n; i++) {
    struct value message = value_null();
    if (is_there(g, m, h, i)) {
      (void)reuse(g, m, i);
      continue;
    }
    rc = i == 0 ? 0 : parse(h, i, &message, err);
    if (!rc)
      rc = make_message(g, m, h, i, i == 0 ? &lead : &message, err);
    value_free(&message);
  }
  value_free(&lead);
  return rc;
}

/* Messages up to the last one with a final answer. */
static size_t count_final(const struct harmony_grown *g, const struct harmony_memo *m, size_t n) {
  while (n > m->first && !piece_at(g, m, n - 1)->final)
    n--;
  if (n <= m->first && m->usable && g->n_final <= n)
    return g->n_final;
  while (n && !piece_at(g, m, n - 1)->final)
    n--;
  return n;
}

/* The first message in front of `from` whose analysis comes or goes, else `from`. */
static size_t first_moved(const struct harmony_grown *g, const struct harmony_memo *m,
                          size_t from) {
  size_t less = g->n_final < m->n_final ? g->n_final : m->n_final;
  size_t most = g->n_final + m->n_final - less;
  for (size_t i = less; i < most && i < from; i++)
    if (g->places[i].piece->analysis && g->places[i].dropped != (i < m->n_final))
      return i;
  return from;
}

/* A message that is there, but not with its analysis. */
static int make_again(struct harmony_memo *m, const struct harmony_history *h, struct item *item,
                      size_t i, struct err *err) {
  struct value message;
  int rc = parse(h, i, &message, err);
  if (rc)
    return rc;
  const struct value *name = item->piece->name.kind == VALUE_STRING ? &item->piece->name : NULL;
  rc = put_segments(m, item, &message, i, name, h->chat.call_content_type, err);
  value_free(&message);
  return rc;
}

/* Decides which analysis is left out; in front of the first other message some may come or go. */
static int place_analysis(const struct harmony_grown *g, struct harmony_memo *m,
                          const struct harmony_history *h, struct err *err) {
  size_t behind = m->n_items;
  int rc = 0;
  m->n_final = count_final(g, m, h->n);
  m->from = m->has_head && m->usable ? 0 : m->first;
  if (m->usable)
    m->from = first_moved(g, m, m->from);
  for (size_t i = m->from; i < m->first; i++)
    (void)reuse(g, m, i);
  for (size_t k = 0; !rc && k < m->n_items; k++) {
    struct item *item = &m->items[k];
    size_t i = k < behind ? m->first + k : m->from + (k - behind);
    item->dropped = item->piece->analysis && i < m->n_final;
    if (!item->made && g->places[item->at].dropped && !item->dropped)
      rc = make_again(m, h, item, i, err);
  }
  return rc;
}

int harmony_grown_render(const struct harmony_grown *g, const struct promptids *p,
                         struct harmony_memo *m, const struct harmony_history *h, struct err *err) {
  begin_change(m);
  m->usable = g->changes == p->changes && p->n && g->tokenizer == m->e->tokens->hash &&
              same_text(g->content_type, h->chat.call_content_type);
  m->first = m->usable ? first_other(g, h) : 0;
  int rc = render_messages(g, m, h, err);
  if (!rc)
    rc = place_analysis(g, m, h, err);
  if (rc)
    begin_change(m);
  else
    harmony_put_start(&m->fresh);
  return rc;
}

/* ---- tokenizing ---- */

static int add_special(struct harmony_memo *m, const char *text, size_t len, struct err *err) {
  for (size_t i = 0; i < m->n_marks; i++)
    if (strlen(m->marks[i].text) == len && memcmp(m->marks[i].text, text, len) == 0) {
      tokens_list_reserve(&m->ids, 1);
      m->ids.ids[m->ids.n++] = m->marks[i].id;
      return 0;
    }
  int rc = harmony_encode_special(m->e, text, len, &m->ids, err);
  if (!rc && m->n_marks < ARRAY_LEN(m->marks) && len < sizeof m->marks->text) {
    struct mark *mark = &m->marks[m->n_marks++];
    memcpy(mark->text, text, len);
    mark->text[len] = '\0';
    mark->id = m->ids.ids[m->ids.n - 1];
  }
  return rc;
}

/* Ids of the segments from..to of the memo's prompt. */
static int add_segments(struct harmony_memo *m, size_t from, size_t to, struct err *err) {
  for (size_t i = from; i < to; i++) {
    const struct harmony_segment *s = &m->fresh.segments[i];
    const char *text = m->fresh.text.data + s->start;
    size_t before = m->ids.n;
    int rc = 0;
    if (s->special) {
      rc = add_special(m, text, s->len, err);
    } else if (!sectionmemo_get(&m->sections, text, s->len, false, &m->ids)) {
      rc = tokens_encoder_encode(m->e, text, s->len, NULL, &m->ids, err);
      m->tokenized += s->len;
      if (!rc)
        sectionmemo_put(&m->sections, text, s->len, false, m->ids.ids + before, m->ids.n - before);
    }
    if (rc)
      return rc;
  }
  return 0;
}

static void add_ids(struct tokens_list *to, const uint32_t *ids, size_t n) {
  tokens_list_reserve(to, n);
  if (n)
    memcpy(to->ids + to->n, ids, n * sizeof *ids);
  to->n += n;
}

/* The ids of a message; *place becomes where they are, `base` ids being in front of the list. */
static int add_item(const struct harmony_grown *g, const struct promptids *p,
                    struct harmony_memo *m, const struct item *item, size_t base,
                    struct harmony_place *place, struct err *err) {
  int rc = 0;
  *place = (struct harmony_place){.piece = item->piece, .dropped = item->dropped};
  if (item->made) {
    rc = add_segments(m, item->segment, item->analysis, err);
    place->analysis = base + m->ids.n;
    if (!rc && !item->dropped)
      rc = add_segments(m, item->analysis, item->analysis_end, err);
    place->length = base + m->ids.n - place->analysis;
    if (!rc)
      rc = add_segments(m, item->analysis_end, item->segment_end, err);
  } else {
    const struct harmony_place *old = &g->places[item->at];
    const uint32_t *ids = promptids_ids(p);
    size_t start = item->at ? g->places[item->at - 1].end : g->head;
    size_t cut = old->length ? old->analysis : old->end, behind = cut + old->length;
    add_ids(&m->ids, ids + start, cut - start);
    place->analysis = base + m->ids.n;
    place->length = item->dropped ? 0 : old->length;
    add_ids(&m->ids, ids + cut, place->length);
    add_ids(&m->ids, ids + behind, old->end - behind);
  }
  place->end = base + m->ids.n;
  return rc;
}

/* What is behind the first `from` places becomes these, which are taken over. */
static void take_places(struct harmony_grown *g, size_t from, const struct harmony_place *places,
                        size_t n) {
  drop_places(g, from);
  if (g->cap < from + n) {
    g->cap = from + n > g->cap * 2 ? from + n : g->cap * 2;
    g->places = mem_resize(g->places, g->cap, sizeof *g->places);
  }
  if (n)
    memcpy(g->places + from, places, n * sizeof *places);
  for (size_t i = 0; i < n; i++)
    (void)piece_ref(places[i].piece);
  g->n = from + n;
}

static void take_text(char **at, const char *s) {
  if (same_text(*at, s))
    return;
  mem_free(*at);
  *at = copy(s);
}

static void take_options(struct harmony_grown *g, const struct harmony_history *h) {
  take_text(&g->date, h->chat.date);
  take_text(&g->effort, h->chat.reasoning_effort);
  take_text(&g->identity, h->chat.model_identity);
  take_text(&g->content_type, h->chat.call_content_type);
  if (g->tools == h->tools)
    return;
  blob_unref(g->tools);
  g->tools = h->tools ? blob_ref(h->tools) : NULL;
}

int harmony_grown_tokenize(struct harmony_grown *g, struct promptids *p, struct harmony_memo *m,
                           const struct harmony_history *h, struct err *err) {
  size_t before = m->first - m->from, n = m->n_items, head = m->has_head ? 0 : g->head;
  size_t keep = m->from ? g->places[m->from - 1].end : head;
  struct harmony_place *places = mem_calloc(n ? n : 1, sizeof *places);
  m->ids.n = 0;
  int rc = add_segments(m, 0, m->head_segments, err);
  head += m->ids.n;
  for (size_t k = 0; !rc && k < n; k++) /* those in front of `first` are the last in the list */
    rc = add_item(g, p, m, &m->items[k < before ? n - before + k : k - before], keep, &places[k],
                  err);
  size_t start = m->fresh.n - 2; /* <|start|> and "assistant" */
  if (!rc)
    rc = add_segments(m, start, m->fresh.n, err);
  if (!rc) {
    promptids_set_behind(p, keep, m->ids.ids, m->ids.n);
    take_places(g, m->from, places, n);
    take_options(g, h);
    g->tokenizer = m->e->tokens->hash;
    g->changes = p->changes;
    g->leads = m->leads;
    g->head = head;
    g->n_final = m->n_final;
  }
  mem_free(places);
  drop_items(m);
  return rc;
}

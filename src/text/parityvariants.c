/* parityvariants.c: our side once more, done as servers have been seen to do it: what then equals
 * the server's ids names the cause. See parity.h; the list: shared/facts/tokenizers.md, section 6.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/json.h"
#include "text/parity_impl.h"
#include "text/template.h"

enum { PROMPT = 1, MESSAGES = 2, BOTH = 3 };

/* What a recipe turns; two of one kind exclude each other. */
enum dimension { SPECIAL, GENERATION, RENDERER, KWARGS, TOJSON, TOOLS, DATE, END, PLAIN };

enum ids_change { KEEP, TWICE_FIRST, DROP_FIRST, DROP_LAST, PUT_FIRST, PUT_LAST };

/* The model's own first and last token; −1: it has none. */
struct ends {
  int64_t first, last;
};

struct variant {
  struct parity_case c; /* a copy, changed */
  const struct chattemplate *chat;
  bool plain; /* special tokens' text in a prompt stays text */
  enum ids_change change;
  struct value tools, kwargs; /* owned; null while the request's own stand */
  char note[160];             /* what exactly, behind the recipe's text */
};

struct recipe {
  const char *name;
  enum dimension dimension;
  unsigned forms;
  int arg;
  /* Changes *v; false when it has no meaning for this request. */
  bool (*apply)(const struct parity_trial *t, const struct ends *ends, int arg, struct variant *v);
  const char *text, *test;
};

/* ---- the model's first and last token ---- */

static bool is_chat(const struct parity_trial *t) {
  return t->c->form == PARITY_MESSAGES;
}

static int64_t special_id(const struct parity_trial *t, const char *which) {
  const char *text = t->local->chat ? chattemplate_special(t->local->chat, which) : NULL;
  const struct tokens_options options = {.special = true};
  struct tokens_list ids = {0};
  struct err err;
  int64_t id = -1;
  if (text && *text &&
      !tokens_encoder_encode(t->local->encoder, text, strlen(text), &options, &ids, &err) &&
      ids.n == 1)
    id = ids.ids[0];
  tokens_list_free(&ids);
  return id;
}

/* What the tokenizer puts around a text, else what the template's configuration names. */
static struct ends find_ends(const struct parity_trial *t) {
  struct tokens_options bare = {0}, around = {.add_special = true};
  struct tokens_list a = {0}, b = {0};
  struct ends ends = {-1, -1};
  struct err err;
  if (!tokens_encoder_encode(t->local->encoder, "x", 1, &bare, &a, &err) &&
      !tokens_encoder_encode(t->local->encoder, "x", 1, &around, &b, &err) && b.n > a.n) {
    size_t front = 0;
    while (front < b.n - a.n && memcmp(b.ids + front, a.ids, a.n * sizeof *a.ids) != 0)
      front++;
    if (front)
      ends.first = b.ids[0];
    if (front + a.n < b.n)
      ends.last = b.ids[b.n - 1];
  }
  tokens_list_free(&a);
  tokens_list_free(&b);
  if (ends.first < 0)
    ends.first = special_id(t, "bos_token");
  if (ends.last < 0)
    ends.last = special_id(t, "eos_token");
  return ends;
}

static bool begins_with(const struct tokens_list *ids, size_t at, int64_t id) {
  return id >= 0 && ids->n > at && ids->ids[at] == (uint64_t)id;
}

static void note_token(const struct parity_trial *t, int64_t id, struct variant *v) {
  struct buf text, quoted;
  struct err err;
  uint32_t one = (uint32_t)id;
  buf_init(&text, BUF_MAX_OWN);
  buf_init(&quoted, BUF_MAX_OWN);
  if (!tokens_decode(t->local->encoder->tokens, &one, 1, &text, &err))
    json_write_string(&quoted, text.data ? text.data : "", text.len);
  snprintf(v->note, sizeof v->note, "it is %.100s, id %u", quoted.data ? quoted.data : "", one);
  buf_free(&text);
  buf_free(&quoted);
}

static bool apply_ends(const struct parity_trial *t, const struct ends *ends, int arg,
                       struct variant *v) {
  bool last = arg == DROP_LAST || arg == PUT_LAST;
  int64_t id = last ? ends->last : ends->first;
  v->change = (enum ids_change)arg;
  if (id < 0)
    return false;
  bool at_start = begins_with(t->ours, 0, id);
  bool at_end = t->ours->n && t->ours->ids[t->ours->n - 1] == (uint64_t)id;
  note_token(t, id, v);
  switch (v->change) {
  case TWICE_FIRST:
    return at_start;
  case DROP_FIRST:
    return at_start && !begins_with(t->ours, 1, id);
  case PUT_FIRST:
    return !at_start;
  case DROP_LAST:
    return at_end;
  default:
    return !at_end;
  }
}

static bool apply_twice_here(const struct parity_trial *t, const struct ends *ends, int arg,
                             struct variant *v) {
  (void)arg;
  v->change = DROP_FIRST;
  if (!begins_with(t->ours, 0, ends->first) || !begins_with(t->ours, 1, ends->first))
    return false;
  note_token(t, ends->first, v);
  return true;
}

static bool apply_special(const struct parity_trial *t, const struct ends *ends, int arg,
                          struct variant *v) {
  (void)t, (void)ends, (void)arg;
  bool *flag = &v->c.chat.add_special_tokens;
  *flag = !*flag;
  snprintf(v->note, sizeof v->note, "the server as if add_special_tokens were %s, here it is %s",
           *flag ? "true" : "false", *flag ? "false" : "true");
  return true;
}

static bool apply_plain(const struct parity_trial *t, const struct ends *ends, int arg,
                        struct variant *v) {
  (void)t, (void)ends, (void)arg;
  v->plain = true;
  return true;
}

/* ---- the template's variables and filters ---- */

static bool apply_generation(const struct parity_trial *t, const struct ends *ends, int arg,
                             struct variant *v) {
  (void)t, (void)ends, (void)arg;
  bool *flag = &v->c.chat.add_generation_prompt;
  if (v->c.chat.continue_final_message)
    return false;
  *flag = !*flag;
  snprintf(v->note, sizeof v->note,
           *flag ? "the server adds one and we do not" : "we add one and the server does not");
  return true;
}

static bool apply_renderer(const struct parity_trial *t, const struct ends *ends, int arg,
                           struct variant *v) {
  (void)ends;
  if ((size_t)arg >= t->local->n_others || t->local->others[arg] == t->local->chat)
    return false;
  v->chat = t->local->others[arg];
  snprintf(v->note, sizeof v->note, "the server's is %.120s", chattemplate_name(v->chat));
  return true;
}

static bool apply_tojson(const struct parity_trial *t, const struct ends *ends, int arg,
                         struct variant *v) {
  (void)t, (void)ends;
  v->c.chat.tojson = (unsigned)arg;
  return true;
}

static void set_kwarg(struct variant *v, const char *key, struct value item) {
  if (v->kwargs.kind != VALUE_OBJECT) {
    const struct value *own = v->c.chat.kwargs;
    v->kwargs = own && own->kind == VALUE_OBJECT ? value_copy(own) : value_object();
  }
  value_set(&v->kwargs, key, item);
}

static bool apply_kwarg(const struct parity_trial *t, const struct ends *ends, int arg,
                        struct variant *v) {
  static const char *const names[] = {"enable_thinking", "thinking"};
  static const char *const efforts[] = {"low", "medium", "high"};
  (void)t, (void)ends;
  if (arg >= 4) {
    v->c.chat.reasoning_effort = efforts[arg - 4];
    snprintf(v->note, sizeof v->note, "reasoning_effort \"%s\"", efforts[arg - 4]);
    return true;
  }
  set_kwarg(v, names[arg / 2], value_bool(arg % 2));
  snprintf(v->note, sizeof v->note, "%s %s", names[arg / 2], arg % 2 ? "true" : "false");
  return true;
}

/* ---- tools ---- */

static int by_key(const void *a, const void *b) {
  const struct value_pair *x = a, *y = b;
  return strcmp(x->key, y->key);
}

static struct value sorted(const struct value *v) {
  if (v->kind == VALUE_OBJECT) {
    struct value out = value_object();
    size_t n = value_count(v);
    if (!n)
      return out;
    struct value_pair *pairs = mem_alloc(n * sizeof *pairs);
    memcpy(pairs, v->u.object.pairs, n * sizeof *pairs);
    qsort(pairs, n, sizeof *pairs, by_key);
    for (size_t i = 0; i < n; i++)
      value_set_len(&out, pairs[i].key, pairs[i].key_len, sorted(&pairs[i].value));
    mem_free(pairs);
    return out;
  }
  if (v->kind != VALUE_ARRAY)
    return value_copy(v);
  struct value out = value_array();
  for (size_t i = 0; i < value_count(v); i++)
    value_push(&out, sorted(value_at(v, i)));
  return out;
}

static const char *tool_name(const struct value *tool) {
  const struct value *f = value_get(tool, "function");
  const char *name = value_to_string(value_get(f ? f : tool, "name"));
  return name ? name : "";
}

static int by_tool_name(const void *a, const void *b) {
  return strcmp(tool_name(a), tool_name(b));
}

enum {
  LIST_SORTED = 1,
  LIST_REVERSED = 2,
  KEYS_SORTED = 4,
  IGNORED = 8,
  AS_SENT = 16,
  AS_VLLM = 32
};

static bool apply_tools(const struct parity_trial *t, const struct ends *ends, int arg,
                        struct variant *v) {
  const struct value *own = t->c->chat.tools;
  (void)ends;
  if (!value_count(own))
    return false;
  if (arg & AS_SENT)
    v->c.chat.tools_as_sent = true;
  if (arg & IGNORED)
    v->c.chat.tools = NULL;
  if (!(arg & (LIST_SORTED | LIST_REVERSED | KEYS_SORTED)))
    return true;
  v->tools = arg & KEYS_SORTED ? sorted(own) : value_copy(own);
  /* vLLM puts some keys in order again, behind whoever sorted them */
  v->c.chat.tools_as_sent = (arg & KEYS_SORTED) && !(arg & AS_VLLM);
  struct value *items = v->tools.u.array.items;
  size_t n = value_count(&v->tools);
  if (arg & LIST_SORTED)
    qsort(items, n, sizeof *items, by_tool_name);
  for (size_t i = 0; (arg & LIST_REVERSED) && i < n / 2; i++) {
    struct value kept = items[i];
    items[i] = items[n - 1 - i];
    items[n - 1 - i] = kept;
  }
  return true;
}

static bool apply_as_sent(const struct parity_trial *t, const struct ends *ends, int arg,
                          struct variant *v) {
  (void)t, (void)ends;
  v->c.chat.messages_as_sent = true;
  v->c.chat.tools_as_sent = arg;
  return true;
}

static bool apply_append(const struct parity_trial *t, const struct ends *ends, int arg,
                         struct variant *v) {
  (void)t, (void)ends, (void)arg;
  v->c.chat.append = "\n";
  return true;
}

/* ---- dates ---- */

static bool dates_at_difference(const struct parity_trial *t, struct paritydate *server,
                                struct paritydate *ours) {
  return t->decoded &&
         paritydate_find(t->server_text.data ? t->server_text.data : "", t->server_text.len,
                         t->common_bytes, server) &&
         paritydate_find(t->our_text.data ? t->our_text.data : "", t->our_text.len, t->common_bytes,
                         ours);
}

/* arg 0: the server's clock; 1: a date_string of its own; 2: no date at all. */
static bool apply_date(const struct parity_trial *t, const struct ends *ends, int arg,
                       struct variant *v) {
  struct paritydate server, ours;
  (void)ends;
  if (arg == 2) {
    bool had = v->c.chat.has_now;
    v->c.chat.has_now = false;
    snprintf(v->note, sizeof v->note, "the server says none");
    return had;
  }
  if (!dates_at_difference(t, &server, &ours))
    return false;
  snprintf(v->note, sizeof v->note, "the server says %.*s, here it is %.*s", (int)server.len,
           t->server_text.data + server.start, (int)ours.len, t->our_text.data + ours.start);
  if (arg == 0) {
    v->c.chat.has_now = true;
    v->c.chat.now = server.time;
  } else {
    set_kwarg(v, "date_string", value_string(t->server_text.data + server.start, server.len));
  }
  return true;
}

/* ---- the list, likeliest first ---- */

#define COMPACT TEMPLATE_TOJSON_COMPACT
#define ASCII TEMPLATE_TOJSON_ASCII
#define SORTED TEMPLATE_TOJSON_SORTED
#define HTML TEMPLATE_TOJSON_HTML

#define SPACING "the template's tojson writes other JSON on the server"
#define REORDERED "the server puts the tools in another order"
#define KWARGS_TEXT "the server renders with other chat_template_kwargs or defaults"
#define DATE_TEXT "the date in the prompt differs (clock, time zone, or a date that is set)"
#define END_TEXT "the model's last token"

static const struct recipe recipes[] = {
    {"double_bos", SPECIAL, BOTH, TWICE_FIRST, apply_ends,
     "the server puts the first token in front twice: its template writes it and its tokenizer "
     "adds "
     "it (add_special_tokens)",
     "our ids with the first one twice"},
    {"double_bos_here", SPECIAL, BOTH, 0, apply_twice_here,
     "our ids begin with the first token twice, the server's once: add_special_tokens false",
     "our ids without the first one"},
    {"add_special_tokens", SPECIAL, BOTH, 0, apply_special,
     "the two sides disagree on add_special_tokens", "add_special_tokens the other way round"},
    {"bos_missing", SPECIAL, BOTH, DROP_FIRST, apply_ends,
     "the server leaves the model's first token out", "our ids without the first one"},
    {"bos_extra", SPECIAL, BOTH, PUT_FIRST, apply_ends,
     "the server puts the model's first token in front and we do not",
     "our ids with the model's first token in front"},
    {"eos_missing", SPECIAL, BOTH, DROP_LAST, apply_ends, "the server leaves " END_TEXT " out",
     "our ids without the last one"},
    {"eos_extra", SPECIAL, BOTH, PUT_LAST, apply_ends, "the server puts " END_TEXT " behind",
     "our ids with the model's last token behind"},
    {"special_text", PLAIN, PROMPT, 0, apply_plain,
     "the server takes special tokens' text in a prompt for plain text",
     "special tokens not found"},
    {"generation_prompt", GENERATION, MESSAGES, 0, apply_generation,
     "the beginning of the assistant's answer (add_generation_prompt)",
     "add_generation_prompt the other way round"},
    {"date", DATE, MESSAGES, 0, apply_date, DATE_TEXT, "rendered at the server's date"},
    {"date", DATE, MESSAGES, 1, apply_date, DATE_TEXT, "rendered with the server's date_string"},
    {"date", DATE, MESSAGES, 2, apply_date, DATE_TEXT, "rendered without a date"},
    {"renderer", RENDERER, MESSAGES, 0, apply_renderer, "another renderer",
     "rendered with that one"},
    {"renderer", RENDERER, MESSAGES, 1, apply_renderer, "another renderer",
     "rendered with that one"},
    {"renderer", RENDERER, MESSAGES, 2, apply_renderer, "another renderer",
     "rendered with that one"},
    {"renderer", RENDERER, MESSAGES, 3, apply_renderer, "another renderer",
     "rendered with that one"},
    {"tojson", TOJSON, MESSAGES, COMPACT, apply_tojson, SPACING, "no space behind , and :"},
    {"tojson", TOJSON, MESSAGES, ASCII | SORTED | HTML, apply_tojson,
     SPACING " (Jinja2's own filter, not transformers')",
     "keys sorted, everything but ASCII and < > & ' escaped"},
    {"tojson", TOJSON, MESSAGES, COMPACT | HTML, apply_tojson, SPACING " (minijinja's filter)",
     "no space behind , and :, and < > & ' escaped"},
    {"tojson", TOJSON, MESSAGES, COMPACT | SORTED | HTML, apply_tojson,
     SPACING " (as Go's encoding/json)", "no space behind , and :, keys sorted, < > & ' escaped"},
    {"tojson", TOJSON, MESSAGES, COMPACT | SORTED, apply_tojson, SPACING,
     "no space behind , and :, keys sorted"},
    {"tojson", TOJSON, MESSAGES, ASCII, apply_tojson, SPACING " (ensure_ascii)",
     "everything but ASCII escaped"},
    {"tojson", TOJSON, MESSAGES, HTML, apply_tojson, SPACING, "< > & ' escaped"},
    {"tool_order", TOOLS, MESSAGES, LIST_SORTED, apply_tools, REORDERED, "tools sorted by name"},
    {"tool_order", TOOLS, MESSAGES, LIST_REVERSED, apply_tools, REORDERED, "tools in reverse"},
    {"tool_keys", TOOLS, MESSAGES, KEYS_SORTED, apply_tools, "the server sorts the keys of tools",
     "keys of the tools sorted"},
    {"tool_keys", TOOLS, MESSAGES, KEYS_SORTED | AS_VLLM, apply_tools,
     "someone in front of the server sorts the keys of tools",
     "keys of the tools sorted, then as vLLM hands them on"},
    {"tool_keys", TOOLS, MESSAGES, AS_SENT, apply_tools,
     "the server keeps the tools' keys as they were sent (vLLM puts type, name, description, "
     "parameters first)",
     "tools as they were sent"},
    {"tool_keys", TOOLS, MESSAGES, KEYS_SORTED | LIST_SORTED, apply_tools,
     "the server sorts the tools and their keys", "tools and their keys sorted"},
    {"tojson", TOJSON, MESSAGES, SORTED, apply_tojson, SPACING " (sort_keys)", "keys sorted"},
    {"tools_ignored", TOOLS, MESSAGES, IGNORED, apply_tools,
     "the server leaves the tools out (no tool parser or template for them?)",
     "rendered without tools"},
    {"as_sent", KWARGS, MESSAGES, 0, apply_as_sent,
     "the server hands messages to the template as they were sent: arguments of tool calls stay "
     "text, contents stay null or lists",
     "messages as they were sent"},
    {"as_sent", KWARGS, MESSAGES, 1, apply_as_sent,
     "the server hands messages and tools to the template as they were sent",
     "messages and tools as they were sent"},
    {"kwargs", KWARGS, MESSAGES, 0, apply_kwarg, KWARGS_TEXT, "rendered with it"},
    {"kwargs", KWARGS, MESSAGES, 1, apply_kwarg, KWARGS_TEXT, "rendered with it"},
    {"kwargs", KWARGS, MESSAGES, 2, apply_kwarg, KWARGS_TEXT, "rendered with it"},
    {"kwargs", KWARGS, MESSAGES, 3, apply_kwarg, KWARGS_TEXT, "rendered with it"},
    {"kwargs", KWARGS, MESSAGES, 4, apply_kwarg, KWARGS_TEXT, "rendered with it"},
    {"kwargs", KWARGS, MESSAGES, 5, apply_kwarg, KWARGS_TEXT, "rendered with it"},
    {"kwargs", KWARGS, MESSAGES, 6, apply_kwarg, KWARGS_TEXT, "rendered with it"},
    {"trailing_newline", END, MESSAGES, 0, apply_append,
     "the server keeps the line end at the end of the template (keep_trailing_newline)",
     "rendered with a line end behind"},
};
#define N_RECIPES (sizeof recipes / sizeof *recipes)

/* ---- trying ---- */

static void change_ids(const struct variant *v, const struct ends *ends, struct tokens_list *ids) {
  size_t n = ids->n;
  bool put = v->change == TWICE_FIRST || v->change == PUT_FIRST;
  if (put || v->change == PUT_LAST) {
    tokens_list_reserve(ids, 1);
    if (put)
      memmove(ids->ids + 1, ids->ids, n * sizeof *ids->ids);
    ids->ids[put ? 0 : n] = (uint32_t)(put ? ends->first : ends->last);
    ids->n++;
  } else if (v->change == DROP_FIRST && n) {
    memmove(ids->ids, ids->ids + 1, (n - 1) * sizeof *ids->ids);
    ids->n--;
  } else if (v->change == DROP_LAST && n) {
    ids->n--;
  }
}

static int encode(const struct parity_trial *t, struct variant *v, const struct ends *ends,
                  struct tokens_list *out) {
  struct parity_local local = *t->local;
  struct tokens_options options = {.add_special = v->c.chat.add_special_tokens};
  struct err err;
  local.chat = v->chat;
  if (v->tools.kind == VALUE_ARRAY)
    v->c.chat.tools = &v->tools;
  if (v->kwargs.kind == VALUE_OBJECT)
    v->c.chat.kwargs = &v->kwargs;
  out->n = 0;
  int rc = v->plain ? tokens_encoder_encode(local.encoder, v->c.text, v->c.len, &options, out, &err)
                    : parity_encode(&local, &v->c, out, &err);
  if (!rc)
    change_ids(v, ends, out);
  return rc;
}

enum outcome { NOTHING, SAME, CLOSER, HIT };

struct search {
  const struct parity_trial *t;
  struct ends ends;
  struct tokens_list ids;
  enum outcome outcome[N_RECIPES];
  size_t common[N_RECIPES]; /* of the variant's ids and the server's */
};

/* Applies recipe i, then j where it is not i; *why (free) gets the notes. */
static enum outcome try(struct search *s, size_t i, size_t j, size_t *common, char *why,
                        size_t size) {
  const struct parity_trial *t = s->t;
  struct variant v = {.c = *t->c, .chat = t->local->chat};
  char first[sizeof v.note] = "";
  enum outcome outcome = NOTHING;
  bool ok = recipes[i].apply(t, &s->ends, recipes[i].arg, &v);
  if (ok && j != i) {
    memcpy(first, v.note, sizeof first);
    v.note[0] = '\0';
    ok = recipes[j].apply(t, &s->ends, recipes[j].arg, &v);
  }
  if (ok && encode(t, &v, &s->ends, &s->ids) == 0) {
    bool as_ours = parity_common(s->ids.ids, s->ids.n, t->ours->ids, t->ours->n) == t->ours->n &&
                   s->ids.n == t->ours->n;
    *common = t->server ? parity_common(s->ids.ids, s->ids.n, t->server, t->server_n) : 0;
    bool hit = s->ids.n == t->server_n && (!t->server || *common == t->server_n);
    outcome = hit ? HIT : as_ours ? NOTHING : *common > t->common ? CLOSER : SAME;
    snprintf(why, size, "%s%s%s", first, first[0] && v.note[0] ? "; " : "", v.note);
  }
  value_free(&v.tools);
  value_free(&v.kwargs);
  return outcome;
}

static void add(const struct search *s, struct parity_result *out, size_t i, size_t j,
                size_t common, const char *why) {
  char text[600], test[400];
  const struct recipe *a = &recipes[i], *b = &recipes[j];
  bool counts = !s->t->server, hit = counts || common == s->t->server_n;
  int n = snprintf(text, sizeof text, "%s", a->text);
  if (i != j)
    n += snprintf(text + n, sizeof text - (size_t)n, "; and %s", b->text);
  if (why[0])
    snprintf(text + n, sizeof text - (size_t)n, ": %s", why);
  n = snprintf(test, sizeof test, "%s", a->test);
  if (i != j)
    n += snprintf(test + n, sizeof test - (size_t)n, ", and %s", b->test);
  if (counts)
    snprintf(test + n, sizeof test - (size_t)n, ": as many tokens as the server's, %zu",
             s->t->server_n);
  else if (hit)
    snprintf(test + n, sizeof test - (size_t)n, ": equal to the server's ids");
  else
    snprintf(test + n, sizeof test - (size_t)n,
             ": the first difference moves from token %zu to %zu", s->t->common, common);
  enum parity_strength strength = counts ? PARITY_BY_COUNT : hit ? PARITY_EXACT : PARITY_PARTIAL;
  parity_add_cause(out, a->name, strength, text, test);
  if (i != j)
    parity_add_cause(out, b->name, strength, text, test);
}

static bool fits(const struct parity_trial *t, size_t i) {
  return recipes[i].forms & (is_chat(t) ? MESSAGES : PROMPT) && (!is_chat(t) || t->local->chat);
}

/* What trying pairs may cost, in tokens: of a prompt of 100,000 tokens no more than 200 are tried.
 */
#define PAIRS_TOKENS ((size_t)20000000)

static bool try_pairs(struct search *s, struct parity_result *out) {
  char why[400];
  size_t common, left = PAIRS_TOKENS / (s->t->ours->n + 1);
  for (size_t i = 0; i < N_RECIPES; i++)
    for (size_t j = i + 1; j < N_RECIPES && left; j++) {
      if (s->outcome[i] == NOTHING || s->outcome[j] == NOTHING ||
          recipes[i].dimension == recipes[j].dimension)
        continue;
      left--;
      if (try(s, i, j, &common, why, sizeof why) == HIT) {
        add(s, out, i, j, common, why);
        return true;
      }
    }
  return false;
}

/* The one that gets furthest, when none explains everything. */
static void add_closest(struct search *s, struct parity_result *out) {
  char why[400];
  size_t best = N_RECIPES;
  for (size_t i = 0; i < N_RECIPES; i++)
    if (s->outcome[i] == CLOSER && (best == N_RECIPES || s->common[i] > s->common[best]))
      best = i;
  if (best == N_RECIPES)
    return;
  size_t common;
  try(s, best, best, &common, why, sizeof why);
  add(s, out, best, best, common, why);
}

void parity_try_variants(const struct parity_trial *t, struct parity_result *out) {
  struct search s = {.t = t, .ends = find_ends(t)};
  char why[400];
  bool found = false;
  for (size_t i = 0; i < N_RECIPES; i++) {
    if (!fits(t, i))
      continue;
    s.outcome[i] = try(&s, i, i, &s.common[i], why, sizeof why);
    if (s.outcome[i] == HIT) {
      add(&s, out, i, i, s.common[i], why);
      found = true;
    }
  }
  if (!found && t->server)
    found = try_pairs(&s, out);
  if (!found && t->server && !out->same_text)
    add_closest(&s, out);
  tokens_list_free(&s.ids);
}

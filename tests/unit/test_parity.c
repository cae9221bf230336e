/* test_parity.c: ids against a server's: the verdict, the first difference in words, and causes,
 * each of which must be found by trying it. Also what parityvariants.c, parityrest.c and
 * parityfix.c do. */
#include "chatmodel.h"

#include "text/harmony.h"
#include "text/parity.h"
#include "text/paritycases.h"
#include "text/template.h"

/* Everything a server may do otherwise shows in it. */
static const char template_text[] =
    "{%- if first %}{{ bos_token }}{% endif -%}"
    "{%- if dated %}<|im|>date {{ date_string or strftime_now('%d %b %Y') }}<|end|>{% endif -%}"
    "{%- if tools %}<|im|>tools\n{% for t in tools %}{{ t | tojson }}\n{% endfor %}<|end|>\n"
    "{% endif -%}"
    "{%- for m in messages %}<|im|>{{ m.role }}\n{{ m.content }}"
    "{%- for c in m.tool_calls or [] %}[{{ c.function.arguments | tojson }}]{% endfor -%}"
    "<|end|>\n{% endfor -%}"
    "{%- if enable_thinking is defined and not enable_thinking %}<think></think>{% endif -%}"
    "{%- if add_generation_prompt %}<|im|>assistant\n{% endif -%}";

static struct chatmodel model;
static const struct tokens *tokens, *bytes;
static struct tokens_encoder *encoder, *byte_encoder;
static struct chattemplate *chat;

static int start(void **state) {
  (void)state;
  struct err err = {0};
  chatmodel_make(&model, template_text);
  check_ok(tokens_open(model.folder, &tokens, &err), &err);
  check_ok(tokens_open("bytes", &bytes, &err), &err);
  check_ok(chattemplate_load(model.folder, NULL, &chat, &err), &err);
  encoder = tokens_encoder_new(tokens);
  byte_encoder = tokens_encoder_new(bytes);
  return 0;
}

static int stop(void **state) {
  (void)state;
  chattemplate_delete(chat);
  tokens_encoder_delete(encoder);
  tokens_encoder_delete(byte_encoder);
  tokens_close(tokens);
  chatmodel_remove(&model);
  return 0;
}

/* ---- one comparison: ours, and a server that has another case, or other ids of its own ---- */

struct trial {
  struct parity_local local;
  struct paritycases cases;
  struct tokens_list ours, server;
  struct parity_result result;
};

static void trial_open(struct trial *t, const char *json) {
  struct err err = {0};
  *t = (struct trial){.local = {.encoder = encoder, .chat = chat}};
  check_ok(paritycases_add_messages(&t->cases, "case", json, strlen(json), &err), &err);
  struct pytime now = {.year = 2026, .month = 11, .day = 29, .hour = 12};
  paritycases_set_now(&t->cases, &now);
}

static struct parity_case *case_of(struct trial *t) {
  return &t->cases.items[0];
}

static void trial_judge(struct trial *t, bool ids) {
  struct err err = {0};
  check_ok(parity_encode(&t->local, case_of(t), &t->ours, &err), &err);
  parity_compare(&t->local, case_of(t), &t->ours, ids ? t->server.ids : NULL, t->server.n,
                 &t->result);
  assert_int_equal(t->result.local_n, t->ours.n);
  assert_int_equal(t->result.server_n, t->server.n);
}

static void trial_close(struct trial *t) {
  parity_result_free(&t->result);
  tokens_list_free(&t->ours);
  tokens_list_free(&t->server);
  paritycases_free(&t->cases);
}

/* The server's ids of a case that differs from ours. */
static void served(struct trial *t, const struct parity_case *c) {
  struct err err = {0};
  t->server.n = 0;
  check_ok(parity_encode(&t->local, c, &t->server, &err), &err);
}

static void put(struct tokens_list *list, size_t at, uint32_t id) {
  tokens_list_reserve(list, 1);
  memmove(list->ids + at + 1, list->ids + at, (list->n - at) * sizeof *list->ids);
  list->ids[at] = id;
  list->n++;
}

static void check_cause(const struct parity_result *r, size_t i, const char *name,
                        enum parity_strength strength, const char *text, const char *test) {
  if (r->n_causes <= i)
    fail_msg("%zu causes, number %zu (%s) is missing; the first is %s", r->n_causes, i, name,
             r->n_causes ? r->causes[0].name : "none");
  assert_string_equal(r->causes[i].name, name);
  assert_int_equal(r->causes[i].strength, strength);
  check_has(r->causes[i].text, text);
  check_has(r->causes[i].test, test);
}

#define HELLO "[{\"role\":\"user\",\"content\":\"Hello <you>\"}]"
#define TOOLS                                                                                      \
  "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"write\",\"description\":\"it's < é" \
  "\",\"parameters\":{\"type\":\"object\",\"properties\":{\"b\":{\"type\":\"string\"},\"a\":{"     \
  "\"type\":\"string\"}}}}},{\"type\":\"function\",\"function\":{\"name\":\"read\","               \
  "\"description\":"                                                                               \
  "\"r\",\"parameters\":{\"type\":\"object\",\"properties\":{}}}}]"
#define WITH_TOOLS "{\"messages\":" HELLO "," TOOLS "}"

static void test_equal(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, HELLO);
  served(&t, case_of(&t));
  trial_judge(&t, true);
  assert_int_equal(t.result.verdict, PARITY_EQUAL);
  assert_false(t.result.has_difference);
  assert_int_equal(t.result.n_causes, 0);
  struct value difference = parity_difference_value(&t.result);
  assert_int_equal(difference.kind, VALUE_NULL);
  trial_close(&t);
}

static void test_equal_counts(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, HELLO);
  served(&t, case_of(&t));
  trial_judge(&t, false);
  assert_int_equal(t.result.verdict, PARITY_COUNT);
  assert_int_equal(t.result.n_causes, 0);
  trial_close(&t);
}

/* The one id of a letter. */
static uint32_t id_of(const char *letter) {
  struct tokens_list ids = {0};
  struct err err = {0};
  check_ok(tokens_encoder_encode(encoder, letter, 1, NULL, &ids, &err), &err);
  assert_int_equal(ids.n, 1);
  uint32_t id = ids.ids[0];
  tokens_list_free(&ids);
  return id;
}

static void test_first_difference_in_words(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, HELLO);
  served(&t, case_of(&t));
  t.server.ids[1] = id_of("X");
  trial_judge(&t, true);
  assert_int_equal(t.result.verdict, PARITY_DIFFERS);
  assert_true(t.result.has_difference);
  assert_int_equal(t.result.index, 1);
  assert_int_equal(t.result.local_id, t.ours.ids[1]);
  assert_int_equal(t.result.server_id, id_of("X"));
  assert_string_equal(t.result.before, "\"<|im|>\"");
  assert_int_equal(strncmp(t.result.server_text, "\"X", 2), 0);
  assert_int_equal(strncmp(t.result.local_text, "\"user", 5), 0);
  assert_false(t.result.same_text);
  struct value v = parity_difference_value(&t.result);
  int64_t index;
  assert_true(value_to_int(value_get(&v, "index"), &index));
  assert_int_equal(index, 1);
  assert_string_equal(value_to_string(value_get(&v, "before")), "\"<|im|>\"");
  value_free(&v);
  assert_int_equal(t.result.n_causes, 0); /* no cause is made up */
  trial_close(&t);
}

static void test_double_bos(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, "{\"messages\":" HELLO ",\"chat_template_kwargs\":{\"first\":true}}");
  served(&t, case_of(&t));
  assert_int_equal(t.server.ids[0], CHATMODEL_BOS);
  put(&t.server, 0, CHATMODEL_BOS);
  trial_judge(&t, true);
  assert_int_equal(t.result.index, 1);
  check_cause(&t.result, 0, "double_bos", PARITY_EXACT, "twice",
              "our ids with the first one twice");
  check_has(t.result.causes[0].text, "\"<s>\", id 676");
  check_cause(&t.result, 1, "add_special_tokens", PARITY_EXACT,
              "as if add_special_tokens were true, here it is false", "equal to the server's ids");
  assert_int_equal(t.result.n_causes, 2);
  trial_close(&t);
}

static void test_double_bos_here(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, "{\"messages\":" HELLO ",\"chat_template_kwargs\":{\"first\":true},"
                 "\"add_special_tokens\":true}");
  struct parity_case other = *case_of(&t);
  other.chat.add_special_tokens = false;
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "double_bos_here", PARITY_EXACT, "our ids begin with the first token",
              "our ids without the first one: equal");
  check_cause(&t.result, 1, "add_special_tokens", PARITY_EXACT, "were false, here it is true", "");
  trial_close(&t);
}

static void test_bos_missing_and_extra(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, "{\"messages\":" HELLO ",\"chat_template_kwargs\":{\"first\":true}}");
  struct parity_case other = *case_of(&t);
  other.chat.kwargs = NULL;
  served(&t, &other);
  trial_judge(&t, true);
  assert_int_equal(t.result.index, 0);
  check_cause(&t.result, 0, "bos_missing", PARITY_EXACT, "leaves the model's first token out",
              "our ids without the first one");
  trial_close(&t);

  trial_open(&t, HELLO);
  served(&t, case_of(&t));
  put(&t.server, 0, CHATMODEL_BOS);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "add_special_tokens", PARITY_EXACT, "were true, here it is false", "");
  check_cause(&t.result, 1, "bos_extra", PARITY_EXACT, "in front and we do not", "in front");
  trial_close(&t);
}

static void test_eos(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, HELLO);
  served(&t, case_of(&t));
  put(&t.server, t.server.n, CHATMODEL_END);
  trial_judge(&t, true);
  assert_int_equal(t.result.local_id, -1); /* ours have ended */
  assert_string_equal(t.result.local_text, "\"\"");
  check_cause(&t.result, 0, "eos_extra", PARITY_EXACT, "the model's last token", "behind: equal");
  check_has(t.result.causes[0].text, "\"<|end|>\", id 678");
  trial_close(&t);
}

static void test_generation_prompt(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, HELLO);
  struct parity_case other = *case_of(&t);
  other.chat.add_generation_prompt = false;
  served(&t, &other);
  trial_judge(&t, true);
  assert_int_equal(t.result.server_id, -1);
  check_cause(&t.result, 0, "generation_prompt", PARITY_EXACT, "we add one and the server does not",
              "add_generation_prompt the other way round: equal to the server's ids");
  assert_int_equal(t.result.n_causes, 1);
  trial_close(&t);
}

static void test_date(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, "{\"messages\":" HELLO ",\"chat_template_kwargs\":{\"dated\":true}}");
  struct parity_case other = *case_of(&t);
  other.chat.now.day = 30;
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "date", PARITY_EXACT,
              "the server says 30 Nov 2026, here it is 29 Nov 2026",
              "rendered at the server's date: equal");
  trial_close(&t);
}

static void test_fixed_date(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, "{\"messages\":" HELLO
                 ",\"chat_template_kwargs\":{\"dated\":true,\"date_string\":\"26 Jul 2024\"}}");
  struct parity_case other = *case_of(&t);
  struct value kwargs = value_copy(other.chat.kwargs);
  value_set(&kwargs, "date_string", value_cstring("29 Nov 2026"));
  other.chat.kwargs = &kwargs;
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "date", PARITY_EXACT,
              "the server says 29 Nov 2026, here it is 26 Jul 2024", "the server's date_string");
  trial_close(&t);
  value_free(&kwargs);
}

/* Each way of tojson that servers have. */
static void test_tojson(void **state) {
  (void)state;
  static const struct {
    unsigned flags;
    const char *text, *test;
  } ways[] = {
      {TEMPLATE_TOJSON_COMPACT, "writes other JSON", "no space behind , and :: equal"},
      {TEMPLATE_TOJSON_ASCII | TEMPLATE_TOJSON_SORTED | TEMPLATE_TOJSON_HTML, "Jinja2's own filter",
       "keys sorted, everything but ASCII"},
      {TEMPLATE_TOJSON_COMPACT | TEMPLATE_TOJSON_HTML, "minijinja", "and < > & ' escaped"},
      {TEMPLATE_TOJSON_COMPACT | TEMPLATE_TOJSON_SORTED | TEMPLATE_TOJSON_HTML, "Go's", "sorted"},
      {TEMPLATE_TOJSON_ASCII, "ensure_ascii", "everything but ASCII escaped"},
      {TEMPLATE_TOJSON_HTML, "writes other JSON", "< > & ' escaped"},
  };
  for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
    struct trial t;
    trial_open(&t, WITH_TOOLS);
    struct parity_case other = *case_of(&t);
    other.chat.tojson = ways[i].flags;
    served(&t, &other);
    trial_judge(&t, true);
    check_cause(&t.result, 0, "tojson", PARITY_EXACT, ways[i].text, ways[i].test);
    trial_close(&t);
  }
}

static void tools_swapped(const struct value *tools, struct value *out) {
  *out = value_array();
  value_push(out, value_copy(value_at(tools, 1)));
  value_push(out, value_copy(value_at(tools, 0)));
}

static void test_tools(void **state) {
  (void)state;
  struct trial t;
  struct value swapped;
  trial_open(&t, WITH_TOOLS);
  struct parity_case other = *case_of(&t);
  tools_swapped(other.chat.tools, &swapped);
  other.chat.tools = &swapped;
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "tool_order", PARITY_EXACT, "another order", "tools sorted by name");
  trial_close(&t);
  value_free(&swapped);

  trial_open(&t, WITH_TOOLS);
  other = *case_of(&t);
  other.chat.tools = NULL;
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "tools_ignored", PARITY_EXACT, "leaves the tools out",
              "rendered without tools");
  trial_close(&t);

  trial_open(&t, WITH_TOOLS);
  other = *case_of(&t);
  other.chat.tojson = TEMPLATE_TOJSON_SORTED; /* sorted keys, whoever did it */
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "tool_keys", PARITY_EXACT, "sorts the keys of tools",
              "keys of the tools");
  trial_close(&t);

  trial_open(&t, "{\"messages\":" HELLO ",\"tools\":[{\"function\":{\"parameters\":{\"type\":"
                 "\"object\"},\"name\":\"f\"},\"type\":\"function\"}]}");
  other = *case_of(&t);
  other.chat.tools_as_sent = true;
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "tool_keys", PARITY_EXACT, "as they were sent",
              "tools as they were sent");
  trial_close(&t);
}

static void test_messages_as_sent(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, "[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"\","
                 "\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"f\","
                 "\"arguments\":\"{\\\"a\\\": 1}\"}}]}]");
  struct parity_case other = *case_of(&t);
  other.chat.messages_as_sent = true;
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "as_sent", PARITY_EXACT, "arguments of tool calls stay text",
              "messages as they were sent: equal");
  trial_close(&t);
}

static void test_kwargs_and_newline(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, HELLO);
  struct parity_case other = *case_of(&t);
  struct value kwargs = value_object();
  value_set(&kwargs, "enable_thinking", value_bool(false));
  other.chat.kwargs = &kwargs;
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "kwargs", PARITY_EXACT, "enable_thinking false", "rendered with it");
  trial_close(&t);
  value_free(&kwargs);

  trial_open(&t, HELLO);
  other = *case_of(&t);
  other.chat.append = "\n";
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "trailing_newline", PARITY_EXACT, "keep_trailing_newline", "line end");
  trial_close(&t);
}

static void test_other_renderer(void **state) {
  (void)state;
  struct chatmodel second;
  struct chattemplate *plain;
  struct err err = {0};
  struct trial t;
  chatmodel_make(&second, chatmodel_template);
  check_ok(chattemplate_load(second.config, NULL, &plain, &err), &err);
  trial_open(&t, "[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"\","
                 "\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"f\","
                 "\"arguments\":\"{\\\"x\\\": 1}\"}}]}]");
  struct chattemplate *all[] = {chat, plain};
  t.local.chat = plain;
  served(&t, case_of(&t));
  t.local.chat = chat;
  t.local.others = all;
  t.local.n_others = 2;
  trial_judge(&t, true);
  check_cause(&t.result, 0, "renderer", PARITY_EXACT, "the server's is /tmp/perigee-chatmodel",
              "rendered with that one: equal");
  trial_close(&t);
  chattemplate_delete(plain);
  chatmodel_remove(&second);
}

static void test_two_causes_together(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, "{\"messages\":" HELLO "," TOOLS ",\"chat_template_kwargs\":{\"first\":true}}");
  struct parity_case other = *case_of(&t);
  other.chat.tojson = TEMPLATE_TOJSON_COMPACT;
  served(&t, &other);
  put(&t.server, 0, CHATMODEL_BOS);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "double_bos", PARITY_EXACT, "twice", "no space behind , and :: equal");
  check_cause(&t.result, 1, "tojson", PARITY_EXACT, "", "our ids with the first one twice, and no");
  assert_int_equal(t.result.n_causes, 2);
  trial_close(&t);
}

static void test_partial_cause(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, "{\"messages\":" HELLO ",\"chat_template_kwargs\":{\"first\":true}}");
  served(&t, case_of(&t));
  put(&t.server, 0, CHATMODEL_BOS);
  t.server.ids[t.server.n - 3] = 0; /* and something that no one knows */
  trial_judge(&t, true);
  char moved[80];
  snprintf(moved, sizeof moved, "moves from token 1 to %zu", t.server.n - 3);
  check_cause(&t.result, 0, "double_bos", PARITY_PARTIAL, "twice", moved);
  assert_int_equal(t.result.n_causes, 1);
  trial_close(&t);
}

static void test_causes_by_count(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, "{\"messages\":" HELLO ",\"chat_template_kwargs\":{\"first\":true}}");
  served(&t, case_of(&t));
  t.server.n++;
  trial_judge(&t, false);
  assert_int_equal(t.result.verdict, PARITY_DIFFERS);
  assert_false(t.result.has_difference);
  check_cause(&t.result, 0, "double_bos", PARITY_BY_COUNT, "twice",
              "as many tokens as the server's");
  trial_close(&t);
}

/* What a server counts, of the very request whose ids it told and of the same asked otherwise. */
static void test_usage(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, HELLO);
  served(&t, case_of(&t));
  trial_judge(&t, true);
  parity_judge_usage(&t.result, t.server.n, true);
  assert_int_equal(t.result.verdict, PARITY_EQUAL);
  assert_int_equal(t.result.n_causes, 0);
  parity_judge_usage(&t.result, t.server.n + 1, true);
  assert_int_equal(t.result.verdict, PARITY_DIFFERS);
  assert_false(t.result.has_difference);
  check_cause(&t.result, 0, "usage", PARITY_EXACT, "counts 1 more than the ids that the same reply",
              "usage.prompt_tokens");
  trial_close(&t);
  trial_open(&t, HELLO);
  served(&t, case_of(&t));
  t.server.n -= 2;
  trial_judge(&t, false);
  size_t others = t.result.n_causes;
  parity_judge_usage(&t.result, t.server.n, false);
  check_cause(&t.result, others, "usage", PARITY_BY_COUNT,
              "counts 2 fewer than the ids that the server gives of the same request", "ids");
  trial_close(&t);
}

static void test_truncated(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, HELLO);
  served(&t, case_of(&t));
  memmove(t.server.ids, t.server.ids + 3, (t.server.n - 3) * sizeof *t.server.ids);
  t.server.n -= 3;
  trial_judge(&t, true);
  check_cause(&t.result, 0, "truncated", PARITY_EXACT, "cuts the prompt off", "are our last");
  trial_close(&t);
}

/* A token of two letters at least becomes one for each letter. */
static void spell_out(struct tokens_list *ids) {
  struct buf one;
  struct err err = {0};
  buf_init(&one, BUF_MAX_OWN);
  for (size_t at = 0; at < ids->n; at++) {
    buf_reset(&one);
    check_ok(tokens_decode(tokens, &ids->ids[at], 1, &one, &err), &err);
    if (one.len < 2 || ids->ids[at] >= CHATMODEL_BOS)
      continue;
    ids->ids[at] = id_of(one.data);
    for (size_t i = 1; i < one.len; i++)
      put(ids, at + i, id_of(one.data + i));
    buf_free(&one);
    return;
  }
  fail_msg("no token of two letters");
}

static void test_same_text_other_tokens(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, "[{\"role\":\"user\",\"content\":\"the hello of the and in to\"}]");
  served(&t, case_of(&t));
  spell_out(&t.server);
  trial_judge(&t, true);
  assert_true(t.result.same_text);
  assert_int_equal(t.result.n_causes, 0); /* rendered: it may be the renderer's doing as well */
  trial_close(&t);
  /* Where nothing is rendered, it is the tokenizer. */
  t = (struct trial){.local = {.encoder = encoder, .chat = chat}};
  paritycases_add_prompt(&t.cases, "p", "the hello of the and in to", 26);
  served(&t, case_of(&t));
  spell_out(&t.server);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "tokenizer", PARITY_EXACT, "cuts the same text into other tokens",
              "decode to the same bytes");
  check_has(t.result.causes[0].fix, "--tokenizer");
  assert_int_equal(t.result.n_causes, 1);
  trial_close(&t);
}

/* A piece that the server puts in, or leaves out: a default system prompt, say. */
static void test_pieces(void **state) {
  (void)state;
  struct trial t;
  struct err err = {0};
  struct paritycases more = {0}, hello = {0};
  static const char json[] = "[{\"role\":\"system\",\"content\":\"Be good.\"},{\"role\":\"user\","
                             "\"content\":\"Hello <you>\"}]";
  check_ok(paritycases_add_messages(&more, "more", json, sizeof json - 1, &err), &err);
  check_ok(paritycases_add_messages(&hello, "hello", HELLO, strlen(HELLO), &err), &err);
  trial_open(&t, HELLO);
  served(&t, &more.items[0]);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "extra_text", PARITY_EXACT, "system\\nBe good.<|end|>", "put in");
  check_has(t.result.causes[0].text, "default system prompt");
  check_has(t.result.causes[0].fix, "--template");
  assert_int_equal(t.result.n_causes, 1);
  trial_close(&t);
  static const char two[] = "[{\"role\":\"user\",\"content\":\"Be good.\"},{\"role\":\"user\","
                            "\"content\":\"Hello <you>\"}]";
  trial_open(&t, two);
  struct trial other;
  trial_open(&other, "[{\"role\":\"user\",\"content\":\"Be good.Hello <you>\"}]");
  served(&t, case_of(&other));
  trial_close(&other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "missing_text", PARITY_EXACT, "<|end|>\\n<|im|>user", "taken out");
  trial_close(&t);
  trial_open(&t, json); /* the end of ours, and yet not cut off */
  served(&t, &hello.items[0]);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "missing_text", PARITY_EXACT, "Be good.<|end|>", "taken out");
  trial_close(&t);
  paritycases_free(&more);
  paritycases_free(&hello);
}

/* Ids of another vocabulary that are all in the range of ours. */
static void test_ids_that_read_as_another_text(void **state) {
  (void)state;
  struct trial t = {.local = {.encoder = encoder, .chat = chat}};
  paritycases_add_prompt(&t.cases, "p", "the hello of the and in to", 26);
  served(&t, case_of(&t));
  for (size_t i = 0; i < t.server.n; i++)
    t.server.ids[i] = (uint32_t)(7 + 3 * i);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "vocabulary", PARITY_EXACT, "of another vocabulary than",
              "read with the vocabulary that is here");
  check_has(t.result.causes[0].fix, "--tokenizer");
  assert_int_equal(t.result.n_causes, 1);
  trial_close(&t);
  trial_open(&t, HELLO);
  served(&t, case_of(&t));
  for (size_t i = 0; i < t.server.n; i++)
    t.server.ids[i] = (uint32_t)(7 + 3 * i);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "vocabulary", PARITY_EXACT, "another vocabulary", "read with");
  trial_close(&t);
  /* Once it is known, nothing else is tried. */
  trial_open(&t, HELLO);
  t.local.other_vocabulary = true;
  struct parity_case bare = *case_of(&t);
  bare.chat.add_generation_prompt = false;
  served(&t, &bare);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "vocabulary", PARITY_EXACT, "another vocabulary", "another request");
  assert_int_equal(t.result.n_causes, 1);
  trial_close(&t);
}

static void test_other_vocabulary(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, HELLO);
  served(&t, case_of(&t));
  t.server.ids[2] = 151644;
  trial_judge(&t, true);
  check_cause(&t.result, 0, "vocabulary", PARITY_EXACT, "another vocabulary than", "151644");
  check_has(t.result.server_text, "<id 151644>");
  trial_close(&t);
}

static void test_prompts(void **state) {
  (void)state;
  static const char text[] = "a <|end|> b";
  struct parity_local local = {.encoder = encoder};
  struct paritycases cases = {0};
  struct tokens_list ours = {0}, server = {0};
  struct parity_result r;
  struct err err = {0};
  paritycases_add_prompt(&cases, "p", text, sizeof text - 1);
  check_ok(parity_encode(&local, &cases.items[0], &ours, &err), &err);
  assert_int_equal(ours.ids[0], CHATMODEL_BOS); /* a prompt gets the model's first token */
  struct tokens_options plain = {.add_special = true};
  check_ok(tokens_encoder_encode(encoder, text, sizeof text - 1, &plain, &server, &err), &err);
  parity_compare(&local, &cases.items[0], &ours, server.ids, server.n, &r);
  check_cause(&r, 0, "special_text", PARITY_EXACT, "for plain text", "special tokens not found");
  parity_result_free(&r);
  parity_compare(&local, &cases.items[0], &ours, ours.ids + 1, ours.n - 1, &r);
  check_cause(&r, 0, "add_special_tokens", PARITY_EXACT, "were false, here it is true", "equal");
  check_cause(&r, 1, "bos_missing", PARITY_EXACT, "", "");
  parity_result_free(&r);
  tokens_list_free(&ours);
  tokens_list_free(&server);
  paritycases_free(&cases);
}

static void test_messages_need_a_template(void **state) {
  (void)state;
  struct trial t;
  struct err err = {0};
  trial_open(&t, HELLO);
  t.local.chat = NULL;
  assert_int_equal(parity_encode(&t.local, case_of(&t), &t.ours, &err), ERR_UNSUPPORTED);
  check_has(err.text, "no chat template");
  trial_close(&t);
}

/* `bytes` has no first token and no special ones; quoted bytes that are no character. */
static void test_bytes(void **state) {
  (void)state;
  struct parity_local local = {.encoder = byte_encoder};
  struct paritycases cases = {0};
  struct tokens_list ours = {0};
  struct parity_result r;
  struct err err = {0};
  paritycases_add_prompt(&cases, "p", "caf\xc3\xa9", 5);
  check_ok(parity_encode(&local, &cases.items[0], &ours, &err), &err);
  assert_int_equal(ours.n, 5);
  const uint32_t server[] = {'c', 'a', 'f', 0xc3};
  parity_compare(&local, &cases.items[0], &ours, server, 4, &r);
  assert_int_equal(r.index, 4);
  assert_string_equal(r.before, "\"caf\\xc3\"");
  assert_string_equal(r.local_text, "\"\\xa9\"");
  assert_int_equal(r.server_id, -1);
  check_cause(&r, 0, "truncated", PARITY_EXACT, "cuts", "our first 4 of 5");
  parity_result_free(&r);
  parity_compare(&local, &cases.items[0], &ours, NULL, 7, &r);
  assert_int_equal(r.verdict, PARITY_DIFFERS);
  assert_int_equal(r.n_causes, 0);
  parity_result_free(&r);
  parity_compare(&local, &cases.items[0], &ours, server, 0, &r); /* a server with nothing */
  assert_int_equal(r.index, 0);
  assert_int_equal(r.n_causes, 0);
  parity_result_free(&r);
  tokens_list_free(&ours);
  paritycases_free(&cases);
}

static void test_harmony(void **state) {
  (void)state;
  const struct tokens *o200k;
  struct chattemplate *harmony;
  struct err err = {0};
  if (tokens_open("o200k_harmony", &o200k, &err)) {
    print_message("o200k_harmony is not there (make deps): skipped\n");
    skip();
  }
  check_ok(chattemplate_load("harmony", NULL, &harmony, &err), &err);
  struct trial t;
  trial_open(&t, HELLO);
  t.local.encoder = tokens_encoder_new(o200k);
  t.local.chat = harmony;
  struct parity_case other = *case_of(&t);
  other.chat.now.month = 12;
  other.chat.now.day = 1;
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "date", PARITY_EXACT,
              "the server says 2026-12-01, here it is 2026-11-29", "at the server's date");
  parity_result_free(&t.result);
  t.ours.n = 0;
  other.chat.has_now = false;
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "date", PARITY_EXACT, "the server says none", "without a date");
  parity_result_free(&t.result);
  t.ours.n = 0;
  other = *case_of(&t);
  other.chat.reasoning_effort = "high";
  served(&t, &other);
  trial_judge(&t, true);
  check_cause(&t.result, 0, "kwargs", PARITY_EXACT, "reasoning_effort \"high\"", "");
  struct tokens_encoder *e = t.local.encoder;
  trial_close(&t);
  /* A server with a template tokenizes the whole text: the tokenizer is the same. */
  trial_open(&t, "[{\"role\":\"user\",\"content\":\"What is <|end|>?\"}]");
  t.local.encoder = e;
  t.local.chat = harmony;
  served(&t, case_of(&t));
  struct buf whole;
  const struct tokens_options options = {.special = true};
  buf_init(&whole, BUF_MAX_OWN);
  check_ok(tokens_decode(o200k, t.server.ids, t.server.n, &whole, &err), &err);
  t.server.n = 0;
  check_ok(tokens_encoder_encode(e, whole.data, whole.len, &options, &t.server, &err), &err);
  buf_free(&whole);
  trial_judge(&t, true);
  assert_true(t.result.same_text);
  check_cause(&t.result, 0, "special_text", PARITY_EXACT, "tokenizes the rendered text as a whole",
              "tokenized as a whole");
  assert_int_equal(t.result.n_causes, 1);
  trial_close(&t);
  tokens_encoder_delete(e);
  chattemplate_delete(harmony);
  tokens_close(o200k);
}

static void test_values(void **state) {
  (void)state;
  struct trial t;
  trial_open(&t, HELLO);
  struct parity_case other = *case_of(&t);
  other.chat.add_generation_prompt = false;
  served(&t, &other);
  trial_judge(&t, true);
  struct value difference = parity_difference_value(&t.result),
               causes = parity_causes_value(&t.result);
  assert_int_equal(value_get(&difference, "server_id")->kind, VALUE_NULL);
  assert_string_equal(value_to_string(value_get(value_at(&causes, 0), "name")),
                      "generation_prompt");
  assert_string_equal(value_to_string(value_get(value_at(&causes, 0), "strength")), "exact");
  value_free(&difference);
  value_free(&causes);
  trial_close(&t);
  assert_string_equal(parity_form_name(PARITY_PROMPT), "prompt");
  assert_string_equal(parity_form_name(PARITY_MESSAGES), "messages");
  assert_string_equal(parity_verdict_name(PARITY_DIFFERS), "differs");
  assert_string_equal(parity_strength_name(PARITY_BY_COUNT), "count");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_equal),
      cmocka_unit_test(test_equal_counts),
      cmocka_unit_test(test_first_difference_in_words),
      cmocka_unit_test(test_double_bos),
      cmocka_unit_test(test_double_bos_here),
      cmocka_unit_test(test_bos_missing_and_extra),
      cmocka_unit_test(test_eos),
      cmocka_unit_test(test_generation_prompt),
      cmocka_unit_test(test_date),
      cmocka_unit_test(test_fixed_date),
      cmocka_unit_test(test_tojson),
      cmocka_unit_test(test_tools),
      cmocka_unit_test(test_messages_as_sent),
      cmocka_unit_test(test_kwargs_and_newline),
      cmocka_unit_test(test_other_renderer),
      cmocka_unit_test(test_two_causes_together),
      cmocka_unit_test(test_partial_cause),
      cmocka_unit_test(test_causes_by_count),
      cmocka_unit_test(test_usage),
      cmocka_unit_test(test_truncated),
      cmocka_unit_test(test_same_text_other_tokens),
      cmocka_unit_test(test_pieces),
      cmocka_unit_test(test_ids_that_read_as_another_text),
      cmocka_unit_test(test_other_vocabulary),
      cmocka_unit_test(test_prompts),
      cmocka_unit_test(test_messages_need_a_template),
      cmocka_unit_test(test_bytes),
      cmocka_unit_test(test_harmony),
      cmocka_unit_test(test_values),
  };
  return cmocka_run_group_tests(tests, start, stop);
}

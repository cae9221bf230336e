/* parity_check.h: a small model with a template in which everything a server may do otherwise
 * shows, and one comparison with such a server. */
#ifndef TESTS_UNIT_PARITY_CHECK_H
#define TESTS_UNIT_PARITY_CHECK_H

#include "chatmodel.h"

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

static inline int parity_start(void **state) {
  (void)state;
  struct err err = {0};
  chatmodel_make(&model, template_text);
  check_ok(tokens_open(model.folder, NULL, &tokens, &err), &err);
  check_ok(tokens_open("bytes", NULL, &bytes, &err), &err);
  check_ok(chattemplate_load(model.folder, NULL, &chat, &err), &err);
  encoder = tokens_encoder_new(tokens);
  byte_encoder = tokens_encoder_new(bytes);
  return 0;
}

static inline int parity_stop(void **state) {
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

static inline void trial_open(struct trial *t, const char *json) {
  struct err err = {0};
  *t = (struct trial){.local = {.encoder = encoder, .chat = chat}};
  check_ok(paritycases_add_messages(&t->cases, "case", json, strlen(json), &err), &err);
  struct pytime now = {.year = 2026, .month = 11, .day = 29, .hour = 12};
  paritycases_set_now(&t->cases, &now);
}

static inline struct parity_case *case_of(struct trial *t) {
  return &t->cases.items[0];
}

static inline void trial_judge(struct trial *t, bool ids) {
  struct err err = {0};
  check_ok(parity_encode(&t->local, case_of(t), &t->ours, &err), &err);
  parity_compare(&t->local, case_of(t), &t->ours, ids ? t->server.ids : NULL, t->server.n,
                 &t->result);
  assert_int_equal(t->result.local_n, t->ours.n);
  assert_int_equal(t->result.server_n, t->server.n);
}

static inline void trial_close(struct trial *t) {
  parity_result_free(&t->result);
  tokens_list_free(&t->ours);
  tokens_list_free(&t->server);
  paritycases_free(&t->cases);
}

/* The server's ids of a case that differs from ours. */
static inline void served(struct trial *t, const struct parity_case *c) {
  struct err err = {0};
  t->server.n = 0;
  check_ok(parity_encode(&t->local, c, &t->server, &err), &err);
}

static inline void put(struct tokens_list *list, size_t at, uint32_t id) {
  tokens_list_reserve(list, 1);
  memmove(list->ids + at + 1, list->ids + at, (list->n - at) * sizeof *list->ids);
  list->ids[at] = id;
  list->n++;
}

static inline void check_cause(const struct parity_result *r, size_t i, const char *name,
                               enum parity_strength strength, const char *text, const char *test) {
  if (r->n_causes <= i)
    fail_msg("%zu causes, number %zu (%s) is missing; the first is %s", r->n_causes, i, name,
             r->n_causes ? r->causes[0].name : "none");
  assert_string_equal(r->causes[i].name, name);
  assert_int_equal(r->causes[i].strength, strength);
  const struct parity_cause *c = &r->causes[i];
  check_has((c->text ? c->text : ""), text);
  check_has((c->test ? c->test : ""), test);
}

#define HELLO "[{\"role\":\"user\",\"content\":\"Hello <you>\"}]"
#define TOOLS                                                                                      \
  "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"write\",\"description\":\"it's < é" \
  "\",\"parameters\":{\"type\":\"object\",\"properties\":{\"b\":{\"type\":\"string\"},\"a\":{"     \
  "\"type\":\"string\"}}}}},{\"type\":\"function\",\"function\":{\"name\":\"read\","               \
  "\"description\":"                                                                               \
  "\"r\",\"parameters\":{\"type\":\"object\",\"properties\":{}}}}]"
#define WITH_TOOLS "{\"messages\":" HELLO "," TOOLS "}"

/* The one id of a letter. */
static inline uint32_t id_of(const char *letter) {
  struct tokens_list ids = {0};
  struct err err = {0};
  check_ok(tokens_encoder_encode(encoder, letter, 1, NULL, &ids, &err), &err);
  assert_int_equal(ids.n, 1);
  uint32_t id = ids.ids[0];
  tokens_list_free(&ids);
  return id;
}

#endif

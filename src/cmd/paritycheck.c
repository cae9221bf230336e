/* paritycheck.c: servers' ids held against ours, as one value; see paritycheck.h. */
#include "cmd/paritycheck.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cmd/parityask.h"
#include "out/tokenparity.h"
#include "text/json.h"
#include "text/template.h"

struct pass {
  const struct paritycheck *check;
  struct parity_local local;
  const struct parity_server *server;
  const struct parity_question *questions;
  size_t n_questions;
};

struct tally {
  int64_t compared, differ, by_count, undecided;
  const char *why;     /* of the first that could not be compared; borrowed */
  const char *refused; /* the same of the first that both sides refuse */
};

/* ---- one comparison ---- */

static struct value count_value(size_t n) {
  return value_int((int64_t)n);
}

static void set_verdict(struct value *v, const char *verdict, const char *reason) {
  value_set(v, "verdict", value_cstring(verdict));
  value_set(v, "reason", value_cstring(reason));
  value_set(v, "difference", value_null());
  value_set(v, "causes", value_array());
}

/* Whether the server gave ids of the case when it was asked otherwise (before `number`), and they
 * are these. */
static bool has_proved(const struct pass *p, size_t number, const struct tokens_list *ours) {
  for (size_t i = 0; i < number; i++) {
    const struct parity_answer *a = &p->server->answers[i];
    if (p->questions[i].c == p->questions[number].c && a->ids && a->n == ours->n)
      return memcmp(a->ids, ours->ids, ours->n * sizeof *ours->ids) == 0;
  }
  return false;
}

static bool is_vocabulary(const struct parity_result *r) {
  return r->n_causes && strcmp(r->causes[0].name, "vocabulary") == 0;
}

static void compare(struct pass *p, size_t number, const struct tokens_list *ours, struct value *v,
                    struct tally *tally) {
  const struct parity_answer *a = &p->server->answers[number];
  struct parity_result result;
  parity_compare(&p->local, p->questions[number].c, ours, a->ids, a->n, &result);
  bool proved = has_proved(p, number, ours);
  if (a->usage >= 0 && (a->ids || proved))
    parity_judge_usage(&result, (size_t)a->usage, a->ids != NULL);
  p->local.other_vocabulary = p->local.other_vocabulary || is_vocabulary(&result);
  tally->compared++;
  tally->differ += result.verdict == PARITY_DIFFERS;
  tally->by_count += result.verdict == PARITY_COUNT && !proved;
  value_set(v, "verdict", value_cstring(parity_verdict_name(result.verdict)));
  value_set(v, "reason", value_null());
  value_set(v, "difference", parity_difference_value(&result));
  value_set(v, "causes", parity_causes_value(&result));
  parity_result_free(&result);
}

/* Where one side has no ids to compare. */
static void judge_one_sided(const struct pass *p, const struct parity_question *q,
                            const struct parity_answer *a, const char *problem, struct value *v,
                            struct tally *tally) {
  char text[1400];
  if (q->c->form == PARITY_MESSAGES && !p->local.chat) {
    set_verdict(v, "skipped", "no chat template is known here (--template)");
  } else if (problem && a->step != ASK_NOBODY) {
    snprintf(text, sizeof text, "the server makes %zu tokens of it, and here: %s", a->n, problem);
    tally->compared++;
    tally->differ++;
    set_verdict(v, "differs", text);
  } else if (problem && a->refused) {
    snprintf(text, sizeof text, "here: %s; the server: %s", problem, a->reason);
    set_verdict(v, "refused", text);
    if (!tally->refused)
      tally->refused = value_to_string(value_get(v, "reason"));
  } else {
    set_verdict(v, "error",
                a->reason ? a->reason : "the server has no way to say a prompt's tokens");
    tally->undecided++;
    if (!tally->why)
      tally->why = value_to_string(value_get(v, "reason"));
  }
}

static void judge(struct pass *p, size_t number, struct value *list, struct tally *tally) {
  const struct parity_question *q = &p->questions[number];
  const struct parity_answer *a = &p->server->answers[number];
  struct tokens_list ours = {0};
  struct err err;
  int rc = parity_encode(&p->local, q->c, &ours, &err);
  bool answered = a->step != ASK_NOBODY;
  struct value *v = value_push(list, value_object());
  value_set(v, "case", value_cstring(q->c->name));
  value_set(v, "form", value_cstring(parity_form_name(q->c->form)));
  value_set(v, "evidence", value_cstring(parityask_evidence(a)));
  value_set(v, "local_tokens", rc ? value_null() : count_value(ours.n));
  value_set(v, "server_tokens", answered ? count_value(a->n) : value_null());
  value_set(v, "odd", value_cstring(a->odd));
  value_set(v, "usage_tokens", a->usage >= 0 ? value_int(a->usage) : value_null());
  if (!rc && answered)
    compare(p, number, &ours, v, tally);
  else
    judge_one_sided(p, q, a, rc ? err.text : NULL, v, tally);
  tokens_list_free(&ours);
}

/* ---- one server and renderer ---- */

static const char *overall(const struct tally *t, bool gone) {
  if (t->differ)
    return "differs";
  if (!t->compared || (gone && t->undecided))
    return "unknown";
  return t->by_count ? "count" : "equal";
}

/* A second look by a completion says nothing new where the first one was by a completion. */
static bool is_repeat(const struct pass *p, size_t number) {
  const struct parity_question *q = &p->questions[number];
  if (!q->completion)
    return false;
  for (size_t i = 0; i < number; i++)
    if (p->questions[i].c == q->c) {
      enum parityask_step step = p->server->answers[i].step;
      return step == ASK_COMPLETION_IDS || step == ASK_COMPLETION;
    }
  return false;
}

static struct pytime local_now(void) {
  uint64_t ns = clock_wall_ns();
  time_t seconds = (time_t)(ns / NS_PER_S);
  struct tm local;
  localtime_r(&seconds, &local);
  return pytime_from_epoch(seconds, (int)local.tm_gmtoff);
}

/* The fleet's present is what its servers render with, where it is known (--now). */
static struct pytime now_of(const struct fleet *fleet) {
  struct pytime now;
  struct err err;
  if (fleet->now && !pytime_parse(fleet->now, strlen(fleet->now), &now, &err))
    return now;
  return local_now();
}

static struct value now_value(const struct fleet *f) {
  struct pytime now = now_of(f);
  char text[40];
  snprintf(text, sizeof text, "%04d-%02d-%02d", now.year, now.month, now.day);
  return value_cstring(text);
}

static const char *source_of(const struct fleet *f, const char *what, const char *otherwise) {
  return value_get(&f->taken, what) ? "server" : otherwise;
}

static struct value sources_value(const struct pass *p) {
  const struct fleet *f = p->check->fleet;
  bool first = p->check->n_templates && p->local.chat == p->check->templates[0];
  struct value v = value_object();
  value_set(&v, "tokenizer", value_cstring(source_of(f, "tokenizer", "option")));
  value_set(&v, "renderer",
            value_cstring(!p->local.chat          ? NULL
                          : first && !f->template ? "tokenizer"
                          : first                 ? source_of(f, "template", "option")
                                                  : "option"));
  value_set(&v, "now", value_cstring(source_of(f, "now", f->now ? "option" : "clock")));
  return v;
}

static struct value announced_value(const struct fleet *f, const char *url) {
  const struct value *said = value_get(&f->announced, url);
  return said ? value_copy(said) : value_null();
}

static void judge_server(struct pass *p, struct value *out) {
  const struct fleet *f = p->check->fleet;
  struct tally tally = {0};
  struct value list = value_array();
  for (size_t i = 0; i < p->n_questions; i++)
    if (!is_repeat(p, i))
      judge(p, i, &list, &tally);
  struct value *v = value_push(out, value_object());
  value_set(v, "arm", value_cstring(p->check->arm));
  value_set(v, "server", value_cstring(p->server->id));
  value_set(v, "url", value_cstring(p->server->url));
  value_set(v, "model", value_cstring(f->model));
  value_set(v, "tokenizer", value_cstring(f->tokenizer));
  value_set(v, "renderer", value_cstring(p->local.chat ? chattemplate_name(p->local.chat) : NULL));
  value_set(v, "sources", sources_value(p));
  value_set(v, "now", now_value(f));
  value_set(v, "announced", announced_value(f, p->server->url));
  value_set(v, "verdict", value_cstring(overall(&tally, p->server->gone != NULL)));
  value_set(v, "compared", value_int(tally.compared));
  value_set(v, "differ", value_int(tally.differ));
  value_set(v, "by_count", value_int(tally.by_count));
  value_set(v, "requests", value_int(p->server->sent)); /* the same for each renderer */
  value_set(v, "reason",
            value_cstring(tally.why        ? tally.why
                          : tally.compared ? NULL
                          : tally.refused
                              ? tally.refused
                              : "no case could be compared: no template is known here"));
  value_set(v, "cases", list);
}

/* ---- all of them ---- */

static size_t list_servers(const struct paritycheck *check, struct parity_server *out) {
  const struct fleet *f = check->fleet;
  size_t n = 0;
  for (size_t i = 0; i < (f->gateway ? 1 : f->n_replicas - f->n_spares); i++) {
    const char *id = f->gateway ? "gateway" : f->replicas[i].id;
    const char *url = f->gateway ? f->gateway : f->replicas[i].url;
    if (!check->only || strcmp(check->only, id) == 0 || strcmp(check->only, url) == 0)
      out[n++] = (struct parity_server){.id = id, .url = url};
  }
  return n;
}

/* Whether a case is asked at all: messages need a template here. */
static bool is_asked(const struct paritycheck *check, const struct parity_case *c) {
  return c->form == PARITY_PROMPT || check->n_templates > 0;
}

/* The cases; with completions the first of each form once more, by one; with a count one of them.
 */
static size_t list_questions(const struct paritycheck *check, const struct parity_case *cases,
                             size_t n, struct parity_question *out) {
  const struct parity_case *first[2] = {NULL, NULL};
  size_t m = 0;
  for (size_t i = 0; i < n; i++) {
    if (!is_asked(check, &cases[i]))
      continue;
    out[m++] = (struct parity_question){.c = &cases[i]};
    if (!first[cases[i].form])
      first[cases[i].form] = &cases[i];
  }
  bool generate = check->generate, chat = first[PARITY_MESSAGES] != NULL;
  for (int form = 0; form < 2; form++)
    if (first[form] && (generate || (check->count && chat == (form == PARITY_MESSAGES))))
      out[m++] = (struct parity_question){.c = first[form], .completion = true};
  return m;
}

/* A template of a server does next to nothing for a conversation of a few words: what it may take
 * grows with the conversation, so that one that hardly ends does not do so a thousand times, once
 * for each cause that is tried. */
#define TRIAL_STEPS 2000000
#define TRIAL_STEPS_PER_BYTE 1000
#define TRIAL_BYTES ((size_t)4 << 20)
#define TRIAL_BYTES_PER_BYTE 100

static size_t size_of(const struct value *v) {
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  if (v)
    json_write(&text, v);
  size_t len = text.len;
  buf_free(&text);
  return len;
}

static void bound(struct chattemplate_request *r) {
  size_t n = size_of(r->messages) + size_of(r->tools) + size_of(r->documents) + size_of(r->kwargs);
  uint64_t steps = TRIAL_STEPS + (uint64_t)n * TRIAL_STEPS_PER_BYTE;
  size_t bytes = TRIAL_BYTES + n * TRIAL_BYTES_PER_BYTE;
  r->max_steps = steps < TEMPLATE_MAX_STEPS ? steps : TEMPLATE_MAX_STEPS;
  r->max_output_bytes = bytes < TEMPLATE_MAX_OUTPUT ? bytes : TEMPLATE_MAX_OUTPUT;
}

/* Each conversation once on this side, before anyone is asked: a template that does not come to an
 * end, or that refuses them all, is no matter of any server. */
static int try_template(const struct chattemplate *chat, struct tokens_encoder *encoder,
                        const struct parity_case *cases, size_t n, struct err *err) {
  struct err first = {0};
  struct tokens_list ids = {0};
  size_t refused = 0, all = 0;
  for (size_t i = 0; i < n && first.code != ERR_LIMIT; i++) {
    struct err why = {0};
    if (cases[i].form != PARITY_MESSAGES)
      continue;
    all++;
    ids.n = 0;
    int rc = chattemplate_encode(chat, encoder, &cases[i].chat, &ids, &why);
    refused += rc != 0;
    if (rc == ERR_LIMIT || (rc && !first.code))
      first = why;
  }
  tokens_list_free(&ids);
  if (first.code != ERR_LIMIT && (!all || refused < all))
    return 0;
  return err_set(err, first.code, "%s: %s",
                 first.code == ERR_LIMIT ? "a conversation of a few words is too much for it"
                                         : "it renders none of the conversations that are compared",
                 first.text);
}

static int try_templates(const struct paritycheck *check, const struct parity_case *cases, size_t n,
                         struct err *err) {
  struct tokens_encoder *encoder = tokens_encoder_new(check->fleet->tokens);
  int rc = 0;
  for (size_t i = 0; i < check->n_templates && !rc; i++)
    rc = try_template(check->templates[i], encoder, cases, n, err);
  tokens_encoder_delete(encoder);
  return rc ? err_prefix(err, "the template") : 0;
}

static struct parity_case *copy_cases(const struct paritycases *p, const struct fleet *fleet) {
  struct parity_case *copy = mem_calloc(p->n ? p->n : 1, sizeof *copy);
  struct pytime now = now_of(fleet);
  for (size_t i = 0; i < p->n; i++) {
    copy[i] = p->items[i];
    if (!copy[i].chat.has_now)
      copy[i].chat.now = now;
    copy[i].chat.has_now = true;
    if (copy[i].form == PARITY_MESSAGES)
      bound(&copy[i].chat);
  }
  return copy;
}

static int ask_and_judge(const struct paritycheck *check, const struct paritycases *cases,
                         struct value *out, struct err *err) {
  const struct fleet *f = check->fleet;
  struct parity_case *items = copy_cases(cases, f);
  struct parity_question *questions = mem_calloc(cases->n + 2, sizeof *questions);
  size_t n_questions = list_questions(check, items, cases->n, questions);
  struct parity_server *servers = mem_calloc(f->n_replicas + 1, sizeof *servers);
  size_t n = list_servers(check, servers);
  int rc = n ? 0 : err_set(err, ERR_NOT_FOUND, "no server \"%s\" in the fleet", check->only);
  if (!rc)
    rc = try_templates(check, items, cases->n, err);
  if (!rc)
    rc = parityask_run(f, servers, n, questions, n_questions, check->generate, check->timeout_ns,
                       err);
  struct tokens_encoder *encoder = tokens_encoder_new(f->tokens);
  for (size_t i = 0; i < n && !rc; i++)
    for (size_t r = 0; r < (check->n_templates ? check->n_templates : 1); r++) {
      struct pass pass = {.check = check,
                          .local = {.encoder = encoder,
                                    .chat = check->n_templates ? check->templates[r] : NULL,
                                    .others = check->templates,
                                    .n_others = check->n_templates},
                          .server = &servers[i],
                          .questions = questions,
                          .n_questions = n_questions};
      judge_server(&pass, out);
    }
  tokens_encoder_delete(encoder);
  parityask_free(servers, n, n_questions);
  mem_free(servers);
  mem_free(questions);
  mem_free(items);
  return rc;
}

int paritycheck_run(const struct paritycheck *check, struct value *out, struct err *err) {
  assert(check->fleet->tokens);
  if (!check->fleet->model)
    return err_set(err, ERR_INVALID, "the model's name is needed (--model)");
  if (check->cases)
    return ask_and_judge(check, check->cases, out, err);
  struct paritycases quick = paritycases_quick();
  int rc = ask_and_judge(check, &quick, out, err);
  paritycases_free(&quick);
  return rc;
}

bool paritycheck_proven(const struct value *list, const char *arm) {
  return tokenparity_proven(list, arm);
}

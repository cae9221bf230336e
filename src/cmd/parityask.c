/* parityask.c: asking servers for the ids of a prompt, in the ways there are; see parityask.h. */
#include "cmd/parityask.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "io/loop.h"
#include "net/http.h"
#include "text/json.h"

#define TIMEOUT_NS (10 * NS_PER_S)
/* A reply is bounded by the question: ids are a few bytes for each of its bytes, a template's and
 * the tokens' texts come on top. */
#define REPLY_BYTES ((size_t)1 << 20)
#define REPLY_PER_BYTE 64

struct asking {
  struct loop *loop;
  struct http_client *client;
  const struct fleet *fleet;
  struct parity_server *servers;
  struct http_target **targets; /* of the servers */
  size_t n, left;
  char *headers;
  uint64_t timeout_ns;
  bool generate;
};

struct ask {
  struct http_request request;
  struct asking *all;
  struct blob *body;
  bool over;
};

const char *parityask_evidence(const struct parity_answer *a) {
  switch (a->step) {
  case ASK_TOKENIZE:
  case ASK_TOKENIZE_CONTENT:
    return "tokenize";
  case ASK_RENDER:
    return "render";
  case ASK_COMPLETION_IDS:
  case ASK_COMPLETION:
    return a->ids ? "inference" : "usage";
  default:
    return NULL;
  }
}

/* ---- a request ---- */

static const char *path_of(enum parityask_step step, enum parity_form form) {
  bool chat = form == PARITY_MESSAGES;
  if (step == ASK_RENDER)
    return chat ? "/v1/chat/completions/render" : "/v1/completions/render";
  if (step >= ASK_COMPLETION_IDS)
    return chat ? "/v1/chat/completions" : "/v1/completions";
  return "/tokenize";
}

static void put_content_body(const struct parity_case *c, struct buf *out) {
  buf_puts(out, "{\"content\":");
  json_write_string(out, c->text, c->len);
  buf_printf(out, ",\"add_special\":%s,\"parse_special\":true}",
             c->chat.add_special_tokens ? "true" : "false");
}

static struct blob *body_of(const struct parity_case *c, enum parityask_step step,
                            const char *model) {
  struct buf text;
  buf_init(&text, BUF_MAX_OWN);
  if (step == ASK_TOKENIZE)
    paritycases_tokenize_body(c, model, &text);
  else if (step == ASK_TOKENIZE_CONTENT)
    put_content_body(c, &text);
  else
    paritycases_completion_body(c, model, step == ASK_COMPLETION_IDS, &text);
  struct blob *body = blob_new(text.data, text.len);
  buf_free(&text);
  return body;
}

static void on_done(struct http_request *r) {
  struct ask *ask = r->user;
  ask->over = true;
  if (--ask->all->left == 0)
    loop_stop(ask->all->loop);
}

static int start(struct asking *a, struct ask *ask, size_t server, const struct parity_case *c,
                 enum parityask_step step, struct err *err) {
  struct http_request *r = &ask->request;
  http_request_init(r);
  ask->all = a;
  ask->body = body_of(c, step, a->fleet->model);
  r->target = a->targets[server];
  r->method = "POST";
  r->path = path_of(step, c->form);
  r->headers = a->headers;
  r->parts = &ask->body;
  r->n_parts = 1;
  r->timeouts.total_ns = a->timeout_ns;
  r->max_body = REPLY_BYTES + REPLY_PER_BYTE * ask->body->len;
  r->done = on_done;
  r->user = ask;
  int rc = http_request_start(a->client, r, err);
  if (!rc)
    a->left++;
  return rc;
}

/* ---- a reply ---- */

static bool read_ids(const struct value *list, struct parity_answer *out) {
  size_t n = value_count(list);
  if (!list || list->kind != VALUE_ARRAY)
    return false;
  uint32_t *ids = mem_alloc((n ? n : 1) * sizeof *ids);
  for (size_t i = 0; i < n; i++) {
    int64_t id;
    if (!value_to_int(value_at(list, i), &id) || id < 0 || id > UINT32_MAX) {
      mem_free(ids);
      return false;
    }
    ids[i] = (uint32_t)id;
  }
  out->ids = ids;
  out->n = n;
  return true;
}

/* What /tokenize says of its own answer: how many there are. */
static void check_count(const struct value *v, const struct http_request *r,
                        struct parity_answer *out) {
  int64_t count;
  char text[160];
  if (!out->odd && value_to_int(value_get(v, "count"), &count) && count != (int64_t)out->n) {
    snprintf(text, sizeof text, "POST %s: count says %" PRId64 ", and it lists %zu ids", r->path,
             count, out->n);
    out->odd = mem_strdup(text);
  }
}

/* The ids, or the count, that a reply of this step holds; both of a completion. */
static bool read_reply(const struct value *v, enum parityask_step step, struct parity_answer *out) {
  if (step == ASK_TOKENIZE || step == ASK_TOKENIZE_CONTENT)
    return read_ids(value_get(v, "tokens"), out);
  if (step == ASK_RENDER)
    return read_ids(value_get(v->kind == VALUE_ARRAY ? value_at(v, 0) : v, "token_ids"), out);
  const struct value *choice = value_at(value_get(v, "choices"), 0);
  int64_t count;
  if (value_to_int(value_get(value_get(v, "usage"), "prompt_tokens"), &count) && count >= 0)
    out->usage = count;
  if (read_ids(value_get(v, "prompt_token_ids"), out) ||
      read_ids(value_get(choice, "prompt_token_ids"), out))
    return true;
  if (out->usage >= 0)
    out->n = (size_t)out->usage;
  return out->usage >= 0;
}

/* What an error reply says, short: its message, or how it begins. */
static void describe_error(const struct http_request *r, char *out, size_t size) {
  struct value v;
  const char *text = NULL;
  int n = snprintf(out, size, "POST %s: status %d", r->path, r->status);
  if (r->body.len && json_parse(r->body.data, r->body.len, &v, NULL) == 0) {
    const struct value *error = value_get(&v, "error");
    text = value_to_string(value_get(error ? error : &v, "message"));
    if (!text)
      text = value_to_string(error);
    if (!text)
      text = value_to_string(value_get(&v, "detail"));
    if (text)
      snprintf(out + n, size - (size_t)n, ": %.200s", text);
    value_free(&v);
  }
}

static void set_reason(struct parity_answer *a, const char *text) {
  if (!a->reason)
    a->reason = mem_strdup(text);
}

/* A reason that is more than "there is no such way here": kept when another way answers. */
static void set_odd(struct parity_answer *a, const char *text) {
  if (!a->odd)
    a->odd = mem_strdup(text);
  set_reason(a, text);
}

/* A reply of 200 that is no JSON. */
static void describe_unreadable(const struct http_request *r, char *out, size_t size) {
  if (r->error == SAMPLE_STREAM_ERROR && r->body.len >= REPLY_BYTES)
    snprintf(out, size, "POST %s: the reply is longer than %zu MiB, far more than the question",
             r->path, r->max_body >> 20);
  else
    snprintf(out, size, "POST %s: the reply is no JSON%s%.200s", r->path, r->detail[0] ? ": " : "",
             r->detail);
}

/* Takes a reply into the answer; whether the question is answered. */
static bool take(struct parity_server *s, const struct parity_case *c, enum parityask_step step,
                 const struct http_request *r, struct parity_answer *out) {
  char text[400];
  struct value v;
  if (r->status == 0) {
    s->gone = mem_strdup(r->detail);
    return false;
  }
  if (r->status != 200) {
    describe_error(r, text, sizeof text);
    if (r->status == 404 || r->status == 405 || r->status == 501) {
      set_reason(out, text);
      s->unknown[c->form] |=
          step == ASK_TOKENIZE ? 1u << step | 1u << ASK_TOKENIZE_CONTENT : 1u << step;
      return false;
    }
    if (step == ASK_COMPLETION_IDS && r->status < 500) /* a strict server, of the wanted ids */
      set_reason(out, text);
    else
      set_odd(out, text);
    if (r->status >= 400 && r->status < 500 && r->status != 401 && r->status != 403 &&
        r->status != 429)
      out->refused = true;
    return false;
  }
  bool json = r->body.len && json_parse(r->body.data, r->body.len, &v, NULL) == 0, good = false;
  const char *field = step >= ASK_COMPLETION_IDS ? "usage.prompt_tokens"
                      : step == ASK_RENDER       ? "token_ids"
                                                 : "tokens";
  snprintf(text, sizeof text, "POST %s: the reply has no %s", r->path, field);
  if (json) {
    good = read_reply(&v, step, out);
    if (good && step <= ASK_TOKENIZE_CONTENT)
      check_count(&v, r, out);
    else if (!good && step <= ASK_RENDER && value_get(&v, field)) {
      snprintf(text, sizeof text, "POST %s: its %s are no list of ids", r->path, field);
      set_odd(out, text);
    }
    value_free(&v);
  } else {
    describe_unreadable(r, text, sizeof text);
    set_odd(out, text);
  }
  /* No ids for a text: the field that it came in is not known there (llama.cpp, messages). */
  if (good && step == ASK_TOKENIZE && !out->n && (c->form == PARITY_MESSAGES || c->len)) {
    mem_free(out->ids);
    out->ids = NULL;
    good = false;
  }
  if (!good) {
    set_reason(out, text);
    s->unknown[c->form] |= 1u << step;
    return false;
  }
  out->step = step;
  return true;
}

/* ---- all of it ---- */

static bool asks(const struct asking *a, const struct parity_server *s,
                 const struct parity_question *q, enum parityask_step step) {
  if (s->gone || (s->unknown[q->c->form] & 1u << step))
    return false;
  if (step == ASK_TOKENIZE_CONTENT)
    return !q->completion && q->c->form == PARITY_PROMPT && /* only once the other form is known to
                                                                be none */
           (s->unknown[q->c->form] & 1u << ASK_TOKENIZE);
  if (step >= ASK_COMPLETION_IDS)
    return a->generate || q->completion;
  return !q->completion;
}

static int ask_step(struct asking *a, const struct parity_question *q, size_t number,
                    enum parityask_step step, struct err *err) {
  struct ask *list = mem_calloc(a->n, sizeof *list);
  int rc = 0;
  size_t started = 0;
  bool *used = mem_calloc(a->n, sizeof *used);
  for (size_t i = 0; i < a->n && !rc; i++) {
    struct parity_server *s = &a->servers[i];
    if (s->answers[number].step != ASK_NOBODY || !asks(a, s, q, step))
      continue;
    rc = start(a, &list[i], i, q->c, step, err);
    used[i] = true;
    started += !rc;
    s->sent += !rc;
  }
  if (started && a->left)
    loop_run(a->loop);
  for (size_t i = 0; i < a->n; i++) {
    if (!used[i])
      continue;
    if (list[i].over)
      take(&a->servers[i], q->c, step, &list[i].request, &a->servers[i].answers[number]);
    http_request_free(&list[i].request);
    blob_unref(list[i].body);
  }
  mem_free(used);
  mem_free(list);
  return rc;
}

static int find_targets(struct asking *a, struct err *err) {
  const struct fleet *f = a->fleet;
  for (size_t i = 0; i < a->n; i++) {
    struct http_target_options options = {
        .url = a->servers[i].url,
        .tls = {f->ca_file, f->cert_file, f->key_file, f->insecure},
        .proxy = f->proxy,
        .http2 = f->http2};
    int rc = http_client_target(a->client, &options, &a->targets[i], err);
    if (rc)
      return rc;
  }
  return 0;
}

static void finish_answers(struct asking *a, size_t n_questions) {
  for (size_t i = 0; i < a->n; i++)
    for (size_t j = 0; j < n_questions; j++) {
      struct parity_answer *answer = &a->servers[i].answers[j];
      if (answer->step != ASK_NOBODY) {
        mem_free(answer->reason); /* of ways that did not work before one did */
        answer->reason = NULL;
        answer->refused = false;
      } else if (a->servers[i].gone) {
        set_reason(answer, a->servers[i].gone);
      }
    }
}

int parityask_run(const struct fleet *fleet, struct parity_server *servers, size_t n,
                  const struct parity_question *questions, size_t n_questions, bool generate,
                  uint64_t timeout_ns, struct err *err) {
  struct asking a = {.fleet = fleet,
                     .servers = servers,
                     .n = n,
                     .generate = generate,
                     .timeout_ns = timeout_ns ? timeout_ns : TIMEOUT_NS,
                     .loop = loop_new(err)};
  struct buf headers;
  for (size_t i = 0; i < n; i++) {
    servers[i].answers = mem_calloc(n_questions, sizeof *servers[i].answers);
    for (size_t j = 0; j < n_questions; j++) {
      servers[i].answers[j].step = ASK_NOBODY;
      servers[i].answers[j].usage = -1;
    }
  }
  if (!a.loop)
    return err->code;
  buf_init(&headers, BUF_MAX_OWN);
  buf_puts(&headers, fleet->headers ? fleet->headers : "");
  buf_puts(&headers, "Content-Type: application/json\r\n");
  a.headers = buf_take(&headers, NULL);
  a.targets = mem_calloc(n, sizeof *a.targets);
  a.client = http_client_new(&(struct http_client_options){.loop = a.loop}, err);
  int rc = a.client ? find_targets(&a, err) : err->code;
  for (size_t q = 0; q < n_questions && !rc; q++)
    for (int step = ASK_TOKENIZE; step < ASK_NOBODY && !rc; step++)
      rc = ask_step(&a, &questions[q], q, (enum parityask_step)step, err);
  if (!rc)
    finish_answers(&a, n_questions);
  http_client_delete(a.client);
  mem_free(a.targets);
  if (a.headers)
    explicit_bzero(a.headers, strlen(a.headers)); /* keys may be in it */
  mem_free(a.headers);
  loop_delete(a.loop);
  return rc;
}

void parityask_free(struct parity_server *servers, size_t n, size_t n_questions) {
  for (size_t i = 0; i < n; i++) {
    for (size_t j = 0; servers[i].answers && j < n_questions; j++) {
      mem_free(servers[i].answers[j].ids);
      mem_free(servers[i].answers[j].reason);
      mem_free(servers[i].answers[j].odd);
    }
    mem_free(servers[i].answers);
    mem_free(servers[i].gone);
  }
}

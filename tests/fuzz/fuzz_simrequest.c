/* fuzz_simrequest.c: any bytes as the body of a generation request and as a fault. The first byte
 * chooses. What is accepted must be consistent; what is refused must say why, with a status. */
#include "sim/face.h"
#include "sim/faults.h"
#include "sim/genrequest.h"
#include "sim/genturns.h"
#include "sim/reply.h"
#include "text/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
  if (!ok)
    abort();
}

/* Every event is a line of JSON, or the end marker. */
static void check_events(const struct events *ev, size_t mark) {
  struct value v;
  struct err err;
  for (size_t i = 0; i < ev->n; i++) {
    size_t len;
    const char *data = events_at(ev, i, &len);
    require(len > 8 && memcmp(data, "data: ", mark) == 0);
    require(memcmp(data + len - 2, "\n\n", 2) == 0);
    if (ev->marks[i].kind == TRUTH_DONE)
      continue;
    require(json_parse(data + mark, len - mark, &v, &err) == 0);
    value_free(&v);
  }
}

static void check_reply(const struct genrequest *r, const struct genmodel *model,
                        enum face_kind face) {
  struct reply reply;
  struct reply_options o = {.form = face_get(face)->form,
                            .model_of = model,
                            .model = "sim-model",
                            .id = "id",
                            .created_s = 1};
  struct reply_facts f = {.cached = 16, .completion = r->choices->output_len};
  struct events ev;
  struct buf out;
  struct value v;
  struct err err;
  reply_init(&reply, r, &o);
  buf_init(&out, BUF_MAX_OWN);
  events_init(&ev);
  o.form->whole(&reply, &f, &out);
  require(json_parse(out.data, out.len, &v, &err) == 0);
  require(value_count(value_get(&v, "choices")) == r->n_choices);
  value_free(&v);
  o.form->first(&reply, &f, &ev);
  for (uint32_t i = 0; i < r->n_choices; i++) {
    o.form->tokens(&reply, i, 0, 1, r->choices[i].output_len == 1, &f, &ev);
    if (r->choices[i].output_len > 1)
      o.form->tokens(&reply, i, 1, r->choices[i].output_len, true, &f, &ev);
  }
  o.form->end(&reply, &f, &ev);
  check_events(&ev, face == FACE_TGI ? 5 : 6);
  events_free(&ev);
  buf_free(&out);
  reply_free(&reply);
}

static void check_choice(const struct genchoice *c, const struct genmodel *model) {
  require(c->prompt_len >= 1 && c->output_len >= 1 && c->output_len <= c->max_tokens);
  require(c->prompt_len + c->max_tokens <= model->max_model_len);
  require(c->call_name || c->visible <= c->output_len);
  require(strcmp(c->finish, "stop") == 0 || strcmp(c->finish, "length") == 0 ||
          strcmp(c->finish, "tool_calls") == 0);
  for (uint32_t i = 0; i < c->prompt_len; i++)
    require(c->tokens[i] < model->tokenizer->vocab_size);
}

static void try_request(enum gen_api api, const char *body, size_t len) {
  struct genmodel model = {.name = "sim-model", .max_model_len = 4096, .seed = 1};
  struct genrequest r;
  struct apierror e = {0};
  struct err err;
  struct adapters adapters = {.items = &(struct adapter){(char[]){"a"}, (char[]){"a"}, 1}, .n = 1};
  model.adapters = &adapters;
  require(tokens_open("bytes", NULL, &model.tokenizer, &err) == 0);
  if (genrequest_parse(api, body, len, &model, &r, &e)) {
    require((e.status == 400 || e.status == 404) && e.message[0]);
    require(!r.choices);
    return;
  }
  require(r.n_choices >= 1 && r.n_choices <= GENREQUEST_MAX_CHOICES && r.n_choices % r.n == 0);
  for (uint32_t i = 0; i < r.n_choices; i++)
    check_choice(&r.choices[i], &model);
  for (int face = 0; face < FACE_KINDS; face++)
    check_reply(&r, &model, (enum face_kind)face);
  genrequest_free(&r);
}

/* A body of Responses, the chain of an earlier one in reach; the server's tools are called while
 * they may be; whatever is made of it is JSON. */
static void try_responses(const char *body, size_t len) {
  struct genmodel model = {.name = "sim-model", .max_model_len = 4096, .seed = 1};
  model.tools = (struct gentools){.call_p = 1, .rounds = 3, .result_tokens = 8};
  struct response_store store = {0};
  struct genrequest r;
  struct response_ask ask;
  struct apierror e = {0};
  struct err err;
  struct value v;
  require(tokens_open("bytes", NULL, &model.tokenizer, &err) == 0);
  response_store_put(&store, "resp_1", 1, value_array(), 0, "{\"output\":[]}");
  if (responses_parse(body, len, &model, &store, &r, &ask, &e)) {
    require((e.status == 400 || e.status == 404) && e.message[0] && !r.choices);
  } else {
    struct reply_options o = {
        .form = &reply_responses, .model = "m", .id = "resp_2", .created_s = 1, .ask = &ask};
    struct reply_facts f = {.completion = r.choices->output_len};
    struct reply reply;
    struct events ev;
    struct buf out;
    buf_init(&out, BUF_MAX_OWN);
    events_init(&ev);
    reply_init(&reply, &r, &o);
    o.form->begin(&reply, &ev);
    for (;;) {
      uint32_t turn = r.n_choices - 1;
      o.form->tokens(&reply, turn, 0, r.choices[turn].output_len, true, &f, &ev);
      if (!genturns_go_on(&r) || genturns_next(&ask, &r, &model, &e))
        break;
    }
    require(r.n_choices <= 4);
    o.form->end(&reply, &f, &ev);
    for (size_t i = 0; i < ev.n; i++) {
      size_t n;
      const char *data = events_at(&ev, i, &n), *line = memchr(data, '\n', n);
      require(json_parse(line + 7, (size_t)(data + n - line - 7), &v, &err) == 0);
      value_free(&v);
    }
    o.form->whole(&reply, &f, &out);
    require(json_parse(out.data, out.len, &v, &err) == 0);
    value_free(&v);
    buf_free(&out);
    events_free(&ev);
    reply_free(&reply);
    genrequest_free(&r);
    response_ask_free(&ask);
  }
  response_store_free(&store);
}

static void try_fault(const char *data, size_t size) {
  char *spec = strndup(data, size);
  struct fault f, again;
  struct err err = {0};
  if (faults_parse(spec, &f, &err)) {
    require(err.text[0]);
  } else {
    struct buf b;
    buf_init(&b, BUF_MAX_OWN);
    faults_format(&f, &b);
    require(faults_parse(b.data, &again, &err) == 0);
    require(again.kind == f.kind && again.after == f.after && again.count == f.count);
    buf_free(&b);
  }
  free(spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size)
    return 0;
  const char *rest = (const char *)data + 1;
  if (data[0] == 'c')
    try_request(GEN_CHAT, rest, size - 1);
  else if (data[0] == 't')
    try_request(GEN_COMPLETION, rest, size - 1);
  else if (data[0] == 'r')
    try_responses(rest, size - 1);
  else
    try_fault(rest, size - 1);
  return 0;
}

/* fuzz_simrequest.c: any bytes as the body of a generation request and as a fault. The first byte
 * chooses. What is accepted must be consistent; what is refused must say why, with a status. */
#include "sim/faults.h"
#include "sim/genrequest.h"
#include "sim/reply.h"
#include "text/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
  if (!ok)
    abort();
}

static void check_reply(const struct genrequest *r) {
  struct reply reply;
  struct buf out;
  struct value v;
  struct err err;
  reply_init(&reply, r, "sim-model", "id", 1);
  buf_init(&out, BUF_MAX_OWN);
  reply_whole(&reply, 16, true, false, &out);
  require(json_parse(out.data, out.len, &v, &err) == 0);
  value_free(&v);
  buf_reset(&out);
  reply_delta(&reply, 0, r->output_len, true, false, &out);
  require(json_parse(out.data + 6, out.len - 6, &v, &err) == 0);
  value_free(&v);
  buf_free(&out);
  reply_free(&reply);
}

static void try_request(enum gen_api api, const char *body, size_t len) {
  struct genmodel model = {.name = "sim-model", .max_model_len = 4096, .seed = 1};
  struct genrequest r;
  struct apierror e = {0};
  struct err err;
  require(tokens_open("bytes", &model.tokenizer, &err) == 0);
  if (genrequest_parse(api, body, len, &model, &r, &e)) {
    require((e.status == 400 || e.status == 404) && e.message[0]);
    require(!r.tokens && !r.text);
    return;
  }
  require(r.prompt_len >= 1 && r.output_len >= 1 && r.output_len <= r.max_tokens);
  require(r.prompt_len + r.max_tokens <= model.max_model_len && r.visible <= r.output_len);
  require(strcmp(r.finish, "stop") == 0 || strcmp(r.finish, "length") == 0);
  for (uint32_t i = 0; i < r.prompt_len; i++)
    require(r.tokens[i] < model.tokenizer->vocab_size);
  check_reply(&r);
  genrequest_free(&r);
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
  else
    try_fault(rest, size - 1);
  return 0;
}

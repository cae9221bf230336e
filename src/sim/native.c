/* native.c: see native.h; the answers: reply_native.c. */
#include "sim/native.h"

#include <string.h>

extern const struct reply_form reply_generate, reply_completion;

const char *native_path(enum face_kind kind) {
  return kind == FACE_SGLANG ? "/generate" : kind == FACE_LLAMACPP ? "/completion" : NULL;
}

bool native_has(enum face_kind kind, const char *path) {
  const char *own = native_path(kind);
  return own &&
         (strcmp(path, own) == 0 || (kind == FACE_LLAMACPP && strcmp(path, "/completions") == 0));
}

const struct reply_form *native_form(enum face_kind kind) {
  return kind == FACE_SGLANG ? &reply_generate : &reply_completion;
}

void native_refusal(enum face_kind kind, const struct apierror *e, struct buf *out) {
  if (kind != FACE_SGLANG) {
    face_refusal(kind, e, out);
    return;
  }
  buf_puts(out, "{\"error\":{");
  reply_put_string("message", e->message, out);
  buf_puts(out, "}}");
}

/* ---- bodies ---- */

struct renamed {
  const char *own, *completions;
};

static void rename_all(const struct value *from, const struct renamed *names, size_t n,
                       struct value *to) {
  for (size_t i = 0; i < n; i++)
    if (!reqfield_absent(value_get(from, names[i].own)))
      value_set(to, names[i].completions, value_copy(value_get(from, names[i].own)));
}

static int refuse(const struct value *body, const char *name, struct apierror *e) {
  const struct value *v = value_get(body, name);
  int64_t n = 0;
  bool on = v && ((v->kind == VALUE_BOOL && v->u.boolean) || (value_to_int(v, &n) && n > 0));
  return on ? apierror_set(e, 400, name, "%s is not supported by this simulated replica", name) : 0;
}

static int read_generate(const struct value *body, struct value *out, struct apierror *e) {
  static const struct renamed outer[] = {{"text", "prompt"},
                                         {"input_ids", "prompt"},
                                         {"stream", "stream"},
                                         {"rid", "request_id"},
                                         {"cache_salt", "cache_salt"}};
  static const struct renamed sampling[] = {{"max_new_tokens", "max_tokens"},
                                            {"min_new_tokens", "min_tokens"},
                                            {"temperature", "temperature"},
                                            {"top_p", "top_p"},
                                            {"min_p", "min_p"},
                                            {"stop", "stop"},
                                            {"ignore_eos", "ignore_eos"},
                                            {"skip_special_tokens", "skip_special_tokens"},
                                            {"n", "n"},
                                            {"presence_penalty", "presence_penalty"},
                                            {"frequency_penalty", "frequency_penalty"},
                                            {"repetition_penalty", "repetition_penalty"}};
  const struct value *params = value_get(body, "sampling_params");
  if (!reqfield_absent(params) && params->kind != VALUE_OBJECT)
    return apierror_set(e, 400, "sampling_params", "sampling_params should be an object");
  if (refuse(body, "return_logprob", e))
    return ERR_INVALID;
  value_set(out, "max_tokens", value_int(128));
  rename_all(body, outer, ARRAY_LEN(outer), out);
  rename_all(params, sampling, ARRAY_LEN(sampling), out);
  return value_get(out, "prompt") ? 0
                                  : apierror_set(e, 400, "text",
                                                 "Either text, input_ids or input_embeds should be "
                                                 "provided.");
}

static int read_completion(const struct value *body, struct value *out, struct apierror *e) {
  static const struct renamed names[] = {{"prompt", "prompt"},
                                         {"stream", "stream"},
                                         {"temperature", "temperature"},
                                         {"top_p", "top_p"},
                                         {"min_p", "min_p"},
                                         {"stop", "stop"},
                                         {"seed", "seed"},
                                         {"ignore_eos", "ignore_eos"},
                                         {"return_progress", "return_progress"},
                                         {"sse_ping_interval", "sse_ping_interval"},
                                         {"return_tokens", "return_token_ids"}};
  int64_t most = -1;
  int rc = reqfield_int(body, "n_predict", -1, &most, e);
  if (!rc)
    rc = refuse(body, "n_probs", e);
  if (!rc && !value_get(body, "prompt"))
    rc = apierror_set(e, 400, "prompt", "\"prompt\" is missing");
  rename_all(body, names, ARRAY_LEN(names), out);
  if (most > 0)
    value_set(out, "max_tokens", value_int(most));
  return rc;
}

int native_parse(enum face_kind kind, const char *body, size_t len, const struct genmodel *model,
                 struct genrequest *out, struct apierror *e) {
  struct value v, made = value_object();
  *out = (struct genrequest){.api = GEN_NATIVE};
  int rc = reqfield_object(body, len, &v, e);
  if (rc)
    return rc;
  rc = kind == FACE_SGLANG ? read_generate(&v, &made, e) : read_completion(&v, &made, e);
  if (!rc)
    rc = genrequest_read(GEN_NATIVE, &made, model, out, e);
  const struct value *prompt = value_get(&made, "prompt"), *first = value_at(prompt, 0);
  if (!rc)
    out->list =
        out->n_choices > 1 || (prompt->kind == VALUE_ARRAY && first && first->kind != VALUE_INT);
  value_free(&made);
  value_free(&v);
  return rc;
}

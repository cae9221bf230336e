/* textapi.c: tokenizing and rendering for clients; see textapi.h. */
#include "sim/textapi.h"

#include <string.h>

#include "base/mem.h"
#include "sim/genprompt.h"
#include "sim/reply.h"
#include "text/json.h"

/* ---- /tokenize ---- */

static void put_token_text(const struct genmodel *model, uint32_t id, struct buf *out) {
  struct buf bytes, name;
  struct err err;
  buf_init(&bytes, BUF_MAX_OWN);
  buf_init(&name, BUF_MAX_OWN);
  int rc = tokens_name(model->tokenizer, id, &bytes, &err);
  assert(rc == 0); /* the tokenizer made it */
  (void)rc;
  bool valid = json_utf8_valid(bytes.data, bytes.len) == bytes.len;
  for (size_t i = 0; !valid && i < bytes.len; i++)
    buf_printf(&name, "<0x%02X>", (unsigned)(unsigned char)bytes.data[i]);
  const struct buf *text = valid ? &bytes : &name;
  json_write_string(out, text->data ? text->data : "", text->len);
  buf_free(&bytes);
  buf_free(&name);
}

static void put_tokens(const struct genmodel *model, const struct tokens_list *ids, bool strings,
                       struct buf *out) {
  buf_printf(out, "{\"count\":%zu,\"max_model_len\":%u,\"tokens\":", ids->n, model->max_model_len);
  reply_put_ids(ids->ids, ids->n, out);
  buf_puts(out, strings ? ",\"token_strs\":[" : ",\"token_strs\":null}");
  for (size_t i = 0; strings && i < ids->n; i++) {
    buf_puts(out, i ? "," : "");
    put_token_text(model, ids->ids[i], out);
  }
  buf_puts(out, strings ? "]}" : "");
}

int textapi_tokenize(const struct genmodel *model, const struct value *body, struct buf *out,
                     struct apierror *e) {
  bool strings = false;
  const struct value *prompt = value_get(body, "prompt");
  struct tokens_list ids = {0};
  int rc = reqfield_model(body, model, e);
  if (!rc)
    rc = reqfield_bool(body, "return_token_strs", &strings, e);
  if (rc)
    return rc;
  if (value_get(body, "messages"))
    rc = genprompt_chat(model, body, &ids, e);
  else if (prompt && prompt->kind == VALUE_STRING)
    rc = genprompt_text(model, body, prompt, &ids, e);
  else
    rc = apierror_set(e, 400, "prompt", "prompt: a string is required, or messages");
  if (!rc)
    put_tokens(model, &ids, strings, out);
  tokens_list_free(&ids);
  return rc;
}

/* ---- /detokenize ---- */

int textapi_detokenize(const struct genmodel *model, const struct value *body, struct buf *out,
                       struct apierror *e) {
  const struct value *list = value_get(body, "tokens");
  uint32_t *ids = NULL, n = 0;
  int rc = reqfield_model(body, model, e);
  if (rc)
    return rc;
  if (!list || list->kind != VALUE_ARRAY)
    return apierror_set(e, 400, "tokens", "tokens: a list of token ids is required");
  rc = reqfield_tokens(list, "tokens", model, &ids, &n, e);
  if (rc)
    return rc;
  struct buf text;
  struct err err;
  buf_init(&text, BUF_MAX_OWN);
  if (tokens_decode(model->tokenizer, ids, n, &text, &err)) {
    rc = apierror_set(e, 400, "tokens", "%s", err.text);
  } else {
    buf_puts(out, "{\"prompt\":");
    json_write_string(out, text.data ? text.data : "", text.len);
    buf_puts(out, "}");
  }
  buf_free(&text);
  mem_free(ids);
  return rc;
}

/* ---- render ---- */

static void put_sampling(const struct genrequest *r, const struct genchoice *c,
                         const struct value *body, struct buf *out) {
  static const char *const names[] = {"temperature",
                                      "top_p",
                                      "top_k",
                                      "min_p",
                                      "presence_penalty",
                                      "frequency_penalty",
                                      "repetition_penalty",
                                      "seed",
                                      "stop",
                                      "min_tokens",
                                      "ignore_eos",
                                      "skip_special_tokens"};
  buf_printf(out, "{\"n\":%u,\"max_tokens\":%u", r->n, c->max_tokens);
  for (size_t i = 0; i < ARRAY_LEN(names); i++) {
    const struct value *v = value_get(body, names[i]);
    if (!v || v->kind == VALUE_NULL)
      continue;
    buf_printf(out, ",\"%s\":", names[i]);
    json_write(out, v);
  }
  buf_putc(out, '}');
}

static void put_field(const struct value *body, const char *name, const char *missing,
                      struct buf *out) {
  const struct value *v = value_get(body, name);
  buf_printf(out, ",\"%s\":", name);
  if (v && v->kind != VALUE_NULL)
    json_write(out, v);
  else
    buf_puts(out, missing);
}

/* vLLM numbers the requests of completions: one for each prompt. */
static void put_rendered(const struct genmodel *model, const struct genrequest *r, uint32_t i,
                         const struct value *body, const char *id, struct buf *out) {
  const char *request_id = r->request_id ? r->request_id : id;
  const struct genchoice *c = &r->choices[(size_t)i * r->n];
  struct buf whole;
  buf_init(&whole, BUF_MAX_OWN);
  if (r->api == GEN_CHAT)
    buf_printf(&whole, "chatcmpl-%s", request_id);
  else
    buf_printf(&whole, "cmpl-%s-%u", request_id, i);
  buf_puts(out, "{\"request_id\":");
  json_write_string(out, whole.data, whole.len);
  buf_puts(out, ",\"token_ids\":");
  reply_put_ids(c->tokens, c->prompt_len, out);
  buf_puts(out, ",\"features\":null,\"sampling_params\":");
  put_sampling(r, c, body, out);
  buf_puts(out, ",\"model\":");
  json_write_string(out, model->name, strlen(model->name));
  buf_printf(out, ",\"stream\":%s", r->stream ? "true" : "false");
  put_field(body, "cache_salt", "null", out);
  put_field(body, "priority", "0", out);
  put_field(body, "kv_transfer_params", "null", out);
  buf_putc(out, '}');
  buf_free(&whole);
}

int textapi_render(const struct genmodel *model, enum gen_api api, const char *body, size_t len,
                   const char *id, struct buf *out, struct apierror *e) {
  struct genrequest r;
  struct value v;
  int rc = genrequest_parse(api, body, len, model, &r, e);
  if (rc)
    return rc;
  rc = reqfield_object(body, len, &v, e);
  if (!rc) {
    buf_puts(out, api == GEN_CHAT ? "" : "[");
    for (uint32_t i = 0; i < r.n_choices / r.n; i++) {
      buf_puts(out, i ? "," : "");
      put_rendered(model, &r, i, &v, id, out);
    }
    buf_puts(out, api == GEN_CHAT ? "" : "]");
    value_free(&v);
  }
  genrequest_free(&r);
  return rc;
}

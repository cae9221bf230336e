/* reqfield.c: fields of a JSON request, with vLLM's refusals; see reqfield.h. */
#include "sim/reqfield.h"

#include <string.h>

#include "base/mem.h"
#include "text/json.h"

bool reqfield_absent(const struct value *v) {
  return !v || v->kind == VALUE_NULL;
}

int reqfield_object(const char *body, size_t len, struct value *out, struct apierror *e) {
  struct err err;
  if (json_parse(body, len, out, &err))
    return apierror_set(e, 400, NULL, "body is not valid JSON: %s", err.text);
  if (out->kind == VALUE_OBJECT)
    return 0;
  value_free(out);
  return apierror_set(e, 400, NULL, "body should be a JSON object");
}

int reqfield_model(const struct value *body, const struct genmodel *model, struct apierror *e) {
  const struct value *v = value_get(body, "model");
  if (reqfield_absent(v))
    return 0;
  if (v->kind != VALUE_STRING)
    return apierror_set(e, 400, "model", "model should be a string");
  if (strcmp(v->u.string.data, model->name) == 0 || reqfield_adapter(body, model))
    return 0;
  return apierror_set(e, 404, "model", "The model `%.200s` does not exist.", v->u.string.data);
}

const char *reqfield_adapter(const struct value *body, const struct genmodel *model) {
  const char *name = value_to_string(value_get(body, "model"));
  const struct adapter *a = name && model->adapters ? adapters_find(model->adapters, name) : NULL;
  return a ? a->name : NULL;
}

int reqfield_bool(const struct value *body, const char *name, bool *out, struct apierror *e) {
  const struct value *v = value_get(body, name);
  if (reqfield_absent(v))
    return 0;
  if (v->kind != VALUE_BOOL)
    return apierror_set(e, 400, name, "%s should be true or false", name);
  *out = v->u.boolean;
  return 0;
}

int reqfield_int(const struct value *body, const char *name, int64_t least, int64_t *out,
                 struct apierror *e) {
  const struct value *v = value_get(body, name);
  int64_t n;
  if (reqfield_absent(v))
    return 0;
  if (!value_to_int(v, &n))
    return apierror_set(e, 400, name, "%s should be a whole number", name);
  if (n < least)
    return apierror_set(e, 400, name, "%s must be at least %lld, got %lld.", name, (long long)least,
                        (long long)n);
  *out = n;
  return 0;
}

int reqfield_string(const struct value *body, const char *name, char **out, struct apierror *e) {
  const struct value *v = value_get(body, name);
  if (reqfield_absent(v))
    return 0;
  if (v->kind != VALUE_STRING)
    return apierror_set(e, 400, name, "%s should be a string", name);
  *out = mem_strndup(v->u.string.data, v->u.string.len);
  return 0;
}

int reqfield_tokens(const struct value *list, const char *name, const struct genmodel *model,
                    uint32_t **out, uint32_t *n, struct apierror *e) {
  size_t count = value_count(list);
  uint32_t *tokens = mem_calloc(count + 1, sizeof *tokens);
  for (size_t i = 0; i < count; i++) {
    int64_t id;
    int rc = 0;
    if (!value_to_int(value_at(list, i), &id) || id < 0)
      rc = apierror_set(e, 400, name, "%s[%zu] should be a token id", name, i);
    else if (id >= model->tokenizer->vocab_size)
      rc = apierror_set(e, 400, name, "Token id %lld is out of vocabulary", (long long)id);
    if (rc) {
      mem_free(tokens);
      return rc;
    }
    tokens[i] = (uint32_t)id;
  }
  *out = tokens;
  *n = (uint32_t)count;
  return 0;
}

/* genprompt.c: from messages or a text to ids; see genprompt.h. */
#include "sim/genprompt.h"

#include <string.h>

#include "sim/genrequest.h"
#include "sim/prompt.h"

static bool is_absent(const struct value *v) {
  return !v || v->kind == VALUE_NULL;
}

int genprompt_text(const struct genmodel *model, const struct value *body, const struct value *text,
                   struct tokens_list *out, struct apierror *e) {
  struct tokens_options options = {.special = true, .add_special = true};
  struct err err;
  if (reqfield_bool(body, "add_special_tokens", &options.add_special, e))
    return ERR_INVALID;
  if (genmodel_encode(model, text->u.string.data, text->u.string.len, &options, out, &err))
    return apierror_set(e, 400, "prompt", "prompt: %s", err.text);
  return 0;
}

static int own_template(const struct genmodel *model, const struct value *body,
                        const struct chattemplate_request *r, struct tokens_list *out,
                        struct apierror *e) {
  struct prompt_options options = {r->add_generation_prompt, r->continue_final_message};
  struct tokens_options special = {.special = true, .add_special = r->add_special_tokens};
  struct buf text;
  struct err err;
  buf_init(&text, BUF_MAX_OWN);
  int rc = prompt_render(value_get(body, "messages"), r->tools, &options, &text, e);
  if (!rc && genmodel_encode(model, text.data, text.len, &special, out, &err))
    rc = apierror_set(e, 400, "messages", "messages: %s", err.text);
  buf_free(&text);
  return rc;
}

static int read_fields(const struct value *body, struct chattemplate_request *r,
                       struct apierror *e) {
  const struct value *effort = value_get(body, "reasoning_effort");
  if (!is_absent(r->kwargs) && r->kwargs->kind != VALUE_OBJECT)
    return apierror_set(e, 400, "chat_template_kwargs", "chat_template_kwargs should be an object");
  if (!is_absent(effort) && effort->kind != VALUE_STRING)
    return apierror_set(e, 400, "reasoning_effort", "reasoning_effort should be a string");
  if (!is_absent(value_get(body, "chat_template")))
    return apierror_set(e, 400, "chat_template",
                        "chat_template: this simulated replica renders with its own template only");
  r->reasoning_effort = value_to_string(effort);
  int rc = reqfield_bool(body, "add_generation_prompt", &r->add_generation_prompt, e);
  if (!rc)
    rc = reqfield_bool(body, "continue_final_message", &r->continue_final_message, e);
  if (!rc)
    rc = reqfield_bool(body, "add_special_tokens", &r->add_special_tokens, e);
  return rc;
}

int genprompt_chat(const struct genmodel *model, const struct value *body, struct tokens_list *out,
                   struct apierror *e) {
  struct err err;
  struct chattemplate_request r = {.messages = value_get(body, "messages"),
                                   .tools = value_get(body, "tools"),
                                   .kwargs = value_get(body, "chat_template_kwargs"),
                                   .documents = value_get(body, "documents"),
                                   .add_generation_prompt = true};
  int rc = read_fields(body, &r, e);
  if (rc)
    return rc;
  if (!model->chat)
    return own_template(model, body, &r, out, e);
  r.has_now = genmodel_now(model, &r.now);
  if (chattemplate_encode(model->chat, model->encoder, &r, out, &err))
    return apierror_set(e, 400, "messages", "%s", err.text);
  return 0;
}

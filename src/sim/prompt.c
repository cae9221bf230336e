/* prompt.c: the simulated replica's chat template. */
#include "sim/prompt.h"

#include <string.h>

#include "text/json.h"

static void put_string(struct buf *out, const struct value *v) {
  buf_put(out, v->u.string.data, v->u.string.len);
}

/* A content part: {"type":"text","text":…} (also input_text, as the Responses form has it). */
static int put_part(const struct value *part, size_t message, struct buf *out, struct apierror *e) {
  const struct value *text = value_get(part, "text");
  const char *type = value_to_string(value_get(part, "type"));
  bool is_text = !type || strcmp(type, "text") == 0 || strcmp(type, "input_text") == 0;
  if (!is_text)
    return apierror_set(e, 400, "messages",
                        "messages[%zu].content: parts of type %.40s are not supported, only text",
                        message, type);
  if (!text || text->kind != VALUE_STRING)
    return apierror_set(e, 400, "messages", "messages[%zu].content: a text part needs a text",
                        message);
  put_string(out, text);
  return 0;
}

static int put_content(const struct value *content, size_t message, struct buf *out,
                       struct apierror *e) {
  if (!content || content->kind == VALUE_NULL)
    return 0;
  if (content->kind == VALUE_STRING) {
    put_string(out, content);
    return 0;
  }
  if (content->kind != VALUE_ARRAY)
    return apierror_set(e, 400, "messages",
                        "messages[%zu].content should be a string or an array of parts", message);
  for (size_t i = 0; i < value_count(content); i++) {
    int rc = put_part(value_at(content, i), message, out, e);
    if (rc)
      return rc;
  }
  return 0;
}

static int put_message(const struct value *m, size_t i, struct buf *out, struct apierror *e) {
  if (m->kind != VALUE_OBJECT)
    return apierror_set(e, 400, "messages", "messages[%zu] should be an object", i);
  const struct value *role = value_get(m, "role");
  if (!role || role->kind != VALUE_STRING || !role->u.string.len)
    return apierror_set(e, 400, "messages", "messages[%zu].role: a string is required", i);
  buf_puts(out, "<|");
  put_string(out, role);
  buf_puts(out, "|>\n");
  int rc = put_content(value_get(m, "content"), i, out, e);
  if (rc)
    return rc;
  const struct value *calls = value_get(m, "tool_calls");
  if (value_count(calls))
    json_write(out, calls);
  return 0;
}

int prompt_render(const struct value *messages, const struct value *tools,
                  const struct prompt_options *options, struct buf *out, struct apierror *e) {
  if (!messages)
    return apierror_set(e, 400, "messages", "messages: field required");
  if (messages->kind != VALUE_ARRAY)
    return apierror_set(e, 400, "messages", "messages should be an array");
  if (!value_count(messages))
    return apierror_set(e, 400, "messages", "messages should have at least one message");
  if (options->add_generation_prompt && options->continue_final_message)
    return apierror_set(e, 400, "continue_final_message",
                        "Cannot set both `continue_final_message` and `add_generation_prompt` to "
                        "True.");
  if (tools && tools->kind != VALUE_NULL && tools->kind != VALUE_ARRAY)
    return apierror_set(e, 400, "tools", "tools should be an array");
  if (value_count(tools)) {
    buf_puts(out, "<|tools|>\n");
    json_write(out, tools);
    buf_puts(out, "<|end|>\n");
  }
  size_t n = value_count(messages);
  for (size_t i = 0; i < n; i++) {
    int rc = put_message(value_at(messages, i), i, out, e);
    if (rc)
      return rc;
    if (i + 1 < n || !options->continue_final_message)
      buf_puts(out, "<|end|>\n");
  }
  if (options->add_generation_prompt)
    buf_puts(out, "<|assistant|>\n");
  return 0;
}

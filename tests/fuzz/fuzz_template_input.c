/* fuzz_template_input.c: any JSON as what is rendered: the first byte chooses one of our own
 * templates, the rest is a conversation (fixtures/chat) or {"context": {…}}. */
#include <stdlib.h>
#include <string.h>

#include "text/json.h"
#include "text/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHAT                                                                                       \
  "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}"        \
  "{{ c.function.name }}{{ c.function.arguments|tojson }}{% endfor %}{% endfor %}"                 \
  "{{ tools|tojson(indent=2) }}{{ bos_token }}"
#define METHODS                                                                                    \
  "{{ s.split(t) }}{{ s.replace(t, '-') }}{{ s.strip(t) }}{{ s.title() }}{{ s|wordwrap(7) }}"      \
  "{{ s|urlize }}{{ s[::-1] }}{{ s.upper().lower().swapcase() }}{{ s|indent }}{{ s|truncate(9) }}"

static const char *const TEMPLATES[] = {
    CHAT,
    "{{ x }}|{{ x|tojson }}|{{ x|string|length }}|{{ x|pprint }}|{{ x is mapping }}",
    "{{ x|length }}{{ x|sort }}{{ x|unique|list }}{{ x|reverse|list }}{{ x|join('-') }}",
    METHODS,
    "{{ s % x }}",
    "{{ s.format(x, x, a=x) }}",
    "{{ x + y }}{{ x * y }}{{ x // y }}{{ x % y }}{{ x ** 2 }}{{ x < y }}",
    "{{ s|int }}{{ s|float }}{{ s|striptags }}{{ s|filesizeformat }}{{ x|round(1) }}",
    "{{ x|map(attribute=s)|list }}{{ x|groupby(s)|list }}{{ x|selectattr(s)|list }}{{ x[s] }}",
    "{{ strftime_now(s) }}{{ x[y:] }}{{ x|batch(2)|list }}{{ x|dictsort }}{{ x|xmlattr }}",
};

static void require(bool ok) {
  if (!ok)
    abort();
}

static int render(const struct template *tpl, const struct value *row, struct buf *out,
                  struct err *err) {
  struct template_options opts = {.now = {2026, 8, 22, 12, 34, 56, 0},
                                  .has_now = true,
                                  .max_output_bytes = 1 << 20,
                                  .max_memory_bytes = 16 << 20,
                                  .max_steps = 100000};
  const struct value *context = value_get(row, "context");
  struct template_chat chat;
  if (context && context->kind == VALUE_OBJECT)
    return template_render(tpl, context, &opts, out, err);
  int rc = template_chat_read(row, &chat, err);
  return rc < 0 ? rc : template_render_chat(tpl, &chat, &opts, out, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct value row;
  struct template *tpl;
  struct err err;
  struct buf out;
  if (!size || json_parse((const char *)data + 1, size - 1, &row, &err) < 0)
    return 0;
  const char *source = TEMPLATES[data[0] % ARRAY_LEN(TEMPLATES)];
  require(template_load(source, strlen(source), "f", &tpl, &err) == 0);
  buf_init(&out, BUF_MAX_OWN);
  int rc = render(tpl, &row, &out, &err);
  require(rc == 0 ? json_utf8_valid(out.data ? out.data : "", out.len) == out.len : out.len == 0);
  buf_free(&out);
  value_free(&row);
  template_delete(tpl);
  return 0;
}

/* fuzz_harmony.c: any JSON as a Harmony conversation, and as chat messages with tools; any bytes as
 * what a model said. What is refused says why; what is rendered is covered by its segments from end
 * to end. */
#include <stdlib.h>
#include <string.h>

#include "text/harmony.h"
#include "text/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
  if (!ok)
    abort();
}

static bool check(const struct value *messages, struct harmony_options options) {
  struct harmony_prompt p;
  struct err err = {0};
  harmony_init(&p);
  int rc = harmony_render(&p, messages, &options, &err);
  if (rc) {
    require(rc == ERR_INVALID && err.text[0]);
  } else {
    size_t at = 0;
    for (size_t i = 0; i < p.n; i++) {
      const struct harmony_segment *s = &p.segments[i];
      require(s->start == at && s->len > 0);
      require(!s->special || (s->len > 4 && memcmp(p.text.data + s->start, "<|", 2) == 0));
      at += s->len;
    }
    require(at == p.text.len);
    require(json_utf8_valid(p.text.len ? p.text.data : "", p.text.len) == p.text.len);
  }
  harmony_free(&p);
  return rc == 0;
}

/* What is taken apart is not more than what was said. */
static void check_answer(const char *text, size_t len) {
  struct value said;
  struct err err = {0};
  size_t n = 0;
  if (harmony_parse(text, len, &said, &err)) {
    require(err.code == ERR_INVALID && err.text[0] && said.kind == VALUE_NULL);
    return;
  }
  const struct value *calls = value_get(&said, "tool_calls");
  const struct value *parts[] = {value_get(&said, "reasoning"), value_get(&said, "content")};
  for (size_t i = 0; i < 2; i++)
    n += parts[i]->kind == VALUE_STRING ? parts[i]->u.string.len : 0;
  for (size_t i = 0; i < value_count(calls); i++) {
    const struct value *name = value_get(value_at(calls, i), "name");
    require(name->u.string.len > 0);
    n += name->u.string.len + value_get(value_at(calls, i), "arguments")->u.string.len;
  }
  require(n <= len);
  value_free(&said);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct value row, conversation;
  struct err err = {0};
  check_answer((const char *)data, size);
  if (json_parse((const char *)data, size, &row, &err))
    return 0;
  const struct value *messages = value_get(&row, "messages");
  bool good = check(messages, HARMONY_DEFAULTS);
  require(check(messages, (struct harmony_options){HARMONY_TRAINING, true}) == good);
  /* with nothing dropped at most more is refused */
  require(!check(messages, (struct harmony_options){HARMONY_CONVERSATION, false}) || good);
  struct harmony_chat chat = {.tools = value_get(&row, "tools")};
  err.text[0] = '\0';
  if (harmony_from_chat(messages, &chat, &conversation, &err)) {
    require(err.text[0] && conversation.kind == VALUE_NULL);
  } else {
    require(check(&conversation, HARMONY_DEFAULTS)); /* what we make of a chat can be rendered */
    value_free(&conversation);
  }
  value_free(&row);
  return 0;
}

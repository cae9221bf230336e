/* fuzz_template_source.c: any bytes as a template's source. What loads is rendered under small
 * limits, twice: the same text or the same error, and nothing left behind. */
#include <stdlib.h>
#include <string.h>

#include "text/json.h"
#include "text/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char CONTEXT[] =
    "{\"s\":\"aXb é\",\"l\":[3,1,2],\"d\":{\"b\":1,\"a\":{\"c\":[1,\"x\"]}},\"n\":7,\"f\":2.5,"
    "\"big\":18446744073709551616,\"none_\":null,\"yes\":true,"
    "\"messages\":[{\"role\":\"user\",\"content\":\" hi "
    "\"},{\"role\":\"assistant\",\"content\":null,"
    "\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"a\":1}}}]}],\"tools\":null,"
    "\"add_generation_prompt\":true}";

static void require(bool ok) {
  if (!ok)
    abort();
}

static int render(const struct template *tpl, const struct value *context, struct buf *out,
                  struct err *err) {
  struct template_options opts = {.now = {2026, 8, 22, 12, 34, 56, 0},
                                  .has_now = true,
                                  .max_output_bytes = 1 << 20,
                                  .max_memory_bytes = 16 << 20,
                                  .max_steps = 100000};
  int rc = template_render(tpl, context, &opts, out, err);
  require(rc == 0 ||
          (rc < 0 && out->len == 0 && strncmp(err->text, "template 'f' line ", 18) == 0));
  require(rc < 0 || json_utf8_valid(out->data ? out->data : "", out->len) == out->len);
  return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct value context;
  struct template *tpl;
  struct err err, again_err;
  struct buf out, again;
  if (template_load((const char *)data, size, "f", &tpl, &err) < 0) {
    require(!tpl && strncmp(err.text, "template 'f'", 12) == 0);
    return 0;
  }
  require(json_parse(CONTEXT, sizeof CONTEXT - 1, &context, &err) == 0);
  buf_init(&out, BUF_MAX_OWN);
  buf_init(&again, BUF_MAX_OWN);
  int rc = render(tpl, &context, &out, &err);
  require(render(tpl, &context, &again, &again_err) == rc);
  require(rc < 0 || (out.len == again.len && (!out.len || !memcmp(out.data, again.data, out.len))));
  require(rc == 0 || strcmp(err.text, again_err.text) == 0);
  buf_free(&out);
  buf_free(&again);
  value_free(&context);
  template_delete(tpl);
  return 0;
}

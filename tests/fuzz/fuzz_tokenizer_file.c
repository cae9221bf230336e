/* fuzz_tokenizer_file.c: any bytes as a tokenizer.json, or as a rank file when they begin with '@'.
 * What is refused says why; what is loaded encodes and decodes a few texts. */
#include <stdlib.h>
#include <string.h>

#include "text/json.h"
#include "text/tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
  if (!ok)
    abort();
}

static void use(const struct tokens *t, const char *text, size_t len) {
  struct tokens_options options = {.add_special = true, .special = true};
  struct tokens_list ids = {0};
  struct buf back;
  struct err err = {0};
  size_t n;
  buf_init(&back, 1 << 16);
  int rc = tokens_encode(t, text, len, &options, &ids, &err);
  require(rc == 0 || (rc == ERR_LIMIT && err.text[0] && ids.n == 0));
  if (!rc) {
    require(tokens_count(t, text, len, &options, &n, &err) == 0 && n == ids.n);
    rc = tokens_decode(t, ids.ids, ids.n, &back, &err); /* post-processors may name any id */
    require(rc == 0 || rc == ERR_LIMIT || rc == ERR_INVALID);
  }
  tokens_list_free(&ids);
  buf_free(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char text[] = " It's 12 \xc3\xa9t\xc3\xa9s,\n\n\xe5\x89\x8d<s>aaaabbbb  a.";
  const char *bytes = (const char *)data;
  const struct tokens *t;
  struct err err = {0};
  bool ranks = size > 0 && bytes[0] == '@';
  int rc = ranks ? tokens_load_text("f", bytes + 1, size - 1, "llama4", &t, &err)
                 : tokens_load_text("f", bytes, size, NULL, &t, &err);
  if (rc) {
    require(t == NULL && strncmp(err.text, "f: ", 3) == 0 && err.text[3]);
    require(rc == ERR_INVALID || rc == ERR_UNSUPPORTED || rc == ERR_LIMIT);
    return 0;
  }
  use(t, text, sizeof text - 1);
  use(t, "", 0);
  use(t, "\xff\0", 2);
  tokens_close(t);
  return 0;
}

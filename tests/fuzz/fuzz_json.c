/* fuzz_json.c: any bytes into json_parse. What is accepted must be valid UTF-8, survive being
 * written and read again unchanged, and be written the same the second time; what is refused must
 * name a place. */
#include "text/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
  if (!ok)
    abort();
}

static void check_written(const struct value *v,
                          void (*write)(struct buf *, const struct value *)) {
  struct buf once, twice;
  struct value again;
  struct err err;
  buf_init(&once, BUF_MAX_OWN);
  buf_init(&twice, BUF_MAX_OWN);
  write(&once, v);
  require(json_utf8_valid(once.data, once.len) == once.len);
  require(json_parse(once.data, once.len, &again, &err) == 0);
  require(value_equal(v, &again));
  write(&twice, &again);
  require(once.len == twice.len && memcmp(once.data, twice.data, once.len) == 0);
  value_free(&again);
  buf_free(&once);
  buf_free(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct value v;
  struct err err;
  int rc = json_parse((const char *)data, size, &v, &err);
  if (rc == 0) {
    require(json_utf8_valid((const char *)data, size) == size);
    check_written(&v, json_write);
    check_written(&v, json_write_pretty);
    struct value copy = value_copy(&v);
    require(value_equal(&v, &copy));
    value_free(&copy);
    value_free(&v);
  } else {
    require(rc == ERR_INVALID && v.kind == VALUE_NULL && strncmp(err.text, "line ", 5) == 0);
  }
  /* Any bytes as a string: valid, and the same when they were valid before. */
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  json_write_string(&b, (const char *)data, size);
  require(json_parse(b.data, b.len, &v, &err) == 0 && v.kind == VALUE_STRING);
  if (json_utf8_valid((const char *)data, size) == size)
    require(v.u.string.len == size && memcmp(v.u.string.data, data, size) == 0);
  value_free(&v);
  buf_free(&b);
  return 0;
}

/* fuzz_sse.c: any bytes as an event stream, whole and cut in two (the first two bytes say where and
 * how small the limit is): both must report the same, within the limit. */
#include "text/sse.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok) {
  if (!ok)
    abort();
}

struct log {
  struct buf text;
  size_t max_event;
};

static void put(struct log *l, char kind, const char *data, size_t len) {
  require(len <= l->max_event);
  buf_putc(&l->text, kind);
  buf_put(&l->text, data, len);
  buf_putc(&l->text, '\n');
}

static int on_event(void *user, const struct sse_event *e) {
  struct log *l = user;
  put(l, 'E', e->type, e->type_len);
  put(l, e->at_eof ? '$' : 'D', e->data, e->len);
  if (e->error_field)
    put(l, '!', e->error_field, e->error_field_len);
  if (e->comment)
    put(l, '#', e->comment, e->comment_len);
  return 0;
}

static void on_comment(void *user, const char *text, size_t len) {
  put(user, 'C', text, len);
}

static int feed_copy(struct sse *p, const uint8_t *data, size_t len) {
  struct err err;
  char *piece = malloc(len ? len : 1);
  memcpy(piece, data, len);
  int rc = sse_feed(p, piece, len, &err);
  free(piece);
  return rc;
}

static int run(const uint8_t *data, size_t size, size_t cut, struct log *l) {
  struct sse p;
  struct err err;
  struct sse_handler handler = {.on_event = on_event, .on_comment = on_comment, .user = l};
  buf_init(&l->text, BUF_MAX_OWN);
  sse_init(&p, &handler, l->max_event);
  int rc = feed_copy(&p, data, cut);
  if (rc == 0)
    rc = feed_copy(&p, data + cut, size - cut);
  if (rc == 0)
    rc = sse_finish(&p, &err);
  require(rc == 0 || rc == ERR_LIMIT);
  sse_free(&p);
  return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2)
    return 0;
  size_t at = data[0], max_event = data[1] ? data[1] : 4096;
  data += 2;
  size -= 2;
  struct log whole = {.max_event = max_event}, split = {.max_event = max_event};
  int rc = run(data, size, size, &whole);
  require(run(data, size, size ? at % size : 0, &split) == rc);
  require(whole.text.len == split.text.len &&
          (!whole.text.len || memcmp(whole.text.data, split.text.data, whole.text.len) == 0));
  buf_free(&whole.text);
  buf_free(&split.text);
  return 0;
}

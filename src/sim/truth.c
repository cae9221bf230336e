/* truth.c: writing the ground-truth log. */
#include "sim/truth.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "text/json.h"

enum { FLUSH_BYTES = 64 * 1024 };

struct truth {
  int fd; /* −1 after a failed write */
  struct buf held;
  char *path;
  struct chainlog chains;
};

struct truth *truth_open(const char *path, struct err *err) {
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) {
    err_set(err, ERR_IO, "cannot write the truth log %s: %s", path, strerror(errno));
    return NULL;
  }
  struct truth *t = MEM_NEW(struct truth);
  t->fd = fd;
  t->path = mem_strdup(path);
  buf_init(&t->held, BUF_MAX_OWN);
  chainlog_init(&t->chains);
  return t;
}

static void put_number(struct buf *out, uint64_t n) {
  char digits[20];
  size_t at = sizeof digits;
  do
    digits[--at] = (char)('0' + n % 10);
  while (n /= 10);
  buf_put(out, digits + at, sizeof digits - at);
}

static void put_key_number(struct buf *out, const char *key, uint64_t n) {
  buf_puts(out, key);
  put_number(out, n);
}

static void put_stamp(struct buf *out, const char *key, uint64_t ns) {
  buf_puts(out, key);
  if (ns)
    put_number(out, ns);
  else
    buf_puts(out, "null");
}

static void put_text(struct buf *out, const char *key, const char *text) {
  buf_puts(out, key);
  if (text)
    json_write_string(out, text, strlen(text));
  else
    buf_puts(out, "null");
}

static void put_writes(struct buf *out, const struct truth_write *writes, size_t n) {
  static const char *const kinds[] = {
      [TRUTH_HEADERS] = "headers", [TRUTH_ROLE] = "role",   [TRUTH_CONTENT] = "content",
      [TRUTH_FINISH] = "finish",   [TRUTH_USAGE] = "usage", [TRUTH_DONE] = "done",
      [TRUTH_ERROR] = "error",     [TRUTH_BODY] = "body",   [TRUTH_PIECE] = "piece"};
  for (size_t i = 0; i < n; i++) {
    put_key_number(out, i ? ",{\"ns\":" : "{\"ns\":", writes[i].ns);
    put_key_number(out, ",\"bytes\":", writes[i].bytes);
    buf_puts(out, ",\"kind\":\"");
    buf_puts(out, kinds[writes[i].kind]);
    buf_putc(out, '"');
    if (writes[i].events > 1)
      put_key_number(out, ",\"events\":", writes[i].events);
    bool says = writes[i].kind == TRUTH_CONTENT || writes[i].kind == TRUTH_FINISH;
    if (writes[i].kind != TRUTH_PIECE && writes[i].outputs != says)
      put_key_number(out, ",\"outputs\":", writes[i].outputs);
    buf_putc(out, '}');
  }
}

static void put_chains(struct buf *out, const struct truth_line *l) {
  for (size_t i = 0; i < l->n_chains; i++) {
    put_key_number(out, i ? ",[" : "[", l->chains[i].after);
    put_key_number(out, ",", l->chains[i].fresh);
    buf_putc(out, ']');
  }
}

static void put_tokens(struct buf *out, const struct truth_line *l) {
  for (size_t i = 0; i < l->n_chains; i++) {
    const struct truth_tokens *c = &l->tokens[i];
    buf_puts(out, i ? ",[" : "[");
    for (uint32_t k = 0; k < c->n; k++)
      put_key_number(out, k ? "," : "", k ? c->ns[k] - c->ns[k - 1] : c->ns[k]);
    buf_putc(out, ']');
  }
}

static void put_residence(struct buf *b, const struct truth_line *l) {
  put_key_number(b, ",\"captured_tokens\":", l->captured_tokens);
  put_key_number(b, ",\"captured_pool_tokens\":", l->captured_pool_tokens);
  put_key_number(b, ",\"available_tokens\":", l->available_tokens);
  put_key_number(b, ",\"available_pool_tokens\":", l->available_pool_tokens);
  put_text(b, ",\"available_replica\":", l->available_replica);
}

struct chainlog_told truth_tell(struct truth *t, const uint64_t *names, uint32_t n) {
  return chainlog_tell(&t->chains, names, n);
}

static void put_turns(struct buf *out, const struct truth_turn *turns, size_t n) {
  buf_puts(out, ",\"turns\":[");
  for (size_t i = 0; i < n; i++) {
    put_stamp(out, i ? ",{\"queued_ns\":" : "{\"queued_ns\":", turns[i].queued_ns);
    put_stamp(out, ",\"scheduled_ns\":", turns[i].scheduled_ns);
    put_stamp(out, ",\"first_token_ns\":", turns[i].first_token_ns);
    put_stamp(out, ",\"last_token_ns\":", turns[i].last_token_ns);
    put_key_number(out, ",\"prompt_tokens\":", turns[i].prompt_tokens);
    put_key_number(out, ",\"output_tokens\":", turns[i].output_tokens);
    put_key_number(out, ",\"cached_tokens\":", turns[i].cached_tokens);
    buf_putc(out, '}');
  }
  buf_putc(out, ']');
}

void truth_add(struct truth *t, const struct truth_line *l) {
  struct buf *b = &t->held;
  put_text(b, "{\"replica\":", l->replica);
  put_key_number(b, ",\"number\":", l->number);
  put_text(b, ",\"id\":", l->id);
  put_text(b, ",\"request_id\":", l->request_id);
  put_text(b, ",\"path\":", l->path);
  buf_puts(b, l->stream ? ",\"stream\":true" : ",\"stream\":false");
  put_key_number(b, ",\"status\":", (uint64_t)l->status);
  put_text(b, ",\"fault\":", l->fault);
  put_stamp(b, ",\"received_ns\":", l->received_ns);
  put_stamp(b, ",\"queued_ns\":", l->queued_ns);
  put_stamp(b, ",\"scheduled_ns\":", l->scheduled_ns);
  put_stamp(b, ",\"first_token_ns\":", l->first_token_ns);
  put_stamp(b, ",\"last_token_ns\":", l->last_token_ns);
  put_key_number(b, ",\"choices\":", l->choices);
  put_key_number(b, ",\"prompts\":", l->prompts);
  put_key_number(b, ",\"prompt_tokens\":", l->prompt_tokens);
  put_key_number(b, ",\"output_tokens\":", l->output_tokens);
  put_key_number(b, ",\"cached_tokens\":", l->cached_tokens);
  put_key_number(b, ",\"offload_tokens\":", l->offload_tokens);
  put_key_number(b, ",\"shared_tokens\":", l->shared_tokens);
  put_key_number(b, ",\"transfer_tokens\":", l->transfer_tokens);
  put_key_number(b, ",\"preemptions\":", l->preemptions);
  put_key_number(b, ",\"evicted_blocks\":", l->evicted_blocks);
  put_key_number(b, ",\"block_size\":", l->block_size);
  put_residence(b, l);
  buf_puts(b, ",\"chains\":[");
  put_chains(b, l);
  buf_puts(b, "],\"token_ns\":[");
  put_tokens(b, l);
  put_text(b, "],\"finish\":", l->finish);
  put_stamp(b, ",\"first_visible_ns\":", l->first_visible_ns);
  if (l->turns)
    put_turns(b, l->turns, l->n_turns);
  buf_puts(b, ",\"writes\":[");
  put_writes(b, l->writes, l->n_writes);
  buf_puts(b, "]}\n");
  if (b->len >= FLUSH_BYTES)
    truth_flush(t);
}

void truth_flush(struct truth *t) {
  size_t at = 0;
  while (t->fd >= 0 && at < t->held.len) {
    ssize_t n = write(t->fd, t->held.data + at, t->held.len - at);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0) {
      log_error("truth log ended file=%s error=%s", t->path, strerror(errno));
      close(t->fd);
      t->fd = -1;
      break;
    }
    at += (size_t)n;
  }
  buf_reset(&t->held);
}

int truth_close(struct truth *t) {
  if (!t)
    return 0;
  truth_flush(t);
  int rc = t->fd >= 0 ? 0 : ERR_IO;
  if (t->fd >= 0 && close(t->fd)) {
    log_error("truth log ended file=%s error=%s", t->path, strerror(errno));
    rc = ERR_IO;
  }
  buf_free(&t->held);
  chainlog_free(&t->chains);
  mem_free(t->path);
  mem_free(t);
  return rc;
}

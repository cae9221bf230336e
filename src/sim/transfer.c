/* transfer.c: see transfer.h. */
#include "sim/transfer.h"

#include <string.h>

#include "base/mem.h"
#include "sim/reply.h"

struct transfer_hold {
  char *request_id; /* the response id of the prefill leg */
  uint64_t hold_id, end_ns;
  uint32_t tokens;
};

static void drop(struct simhost *h, size_t i) {
  struct transfers *t = &h->transfers;
  replica_release_hold(h->replica, t->holds[i].hold_id);
  mem_free(t->holds[i].request_id);
  t->n--;
  memmove(t->holds + i, t->holds + i + 1, (t->n - i) * sizeof *t->holds);
  simhost_kick(h); /* its blocks are free now */
}

static void on_end(struct loop_timer *timer) {
  struct simhost *h = CONTAINER_OF(timer, struct simhost, transfers.timer);
  struct transfers *t = &h->transfers;
  while (t->n && t->holds[0].end_ns <= loop_now(h->loop))
    drop(h, 0);
  if (t->n)
    loop_timer_set(h->loop, &t->timer, t->holds[0].end_ns);
}

void transfer_init(struct simhost *h, struct simhost *(*find)(void *user, const char *id),
                   void *user) {
  h->transfers = (struct transfers){.find = find, .user = user};
  loop_timer_init(&h->transfers.timer, on_end);
}

void transfer_free(struct simhost *h) {
  struct transfers *t = &h->transfers;
  loop_timer_clear(h->loop, &t->timer);
  for (size_t i = 0; i < t->n; i++)
    mem_free(t->holds[i].request_id);
  mem_free(t->holds);
  t->holds = NULL;
  t->n = t->cap = 0;
}

/* The address of a URL like http://HOST:PORT, HOST in brackets when it is an IPv6 address. */
static void put_address(const char *url, struct buf *out) {
  char host[96];
  const char *from = strstr(url, "://") + 3, *port = strrchr(url, ':');
  bool v6 = *from == '[';
  size_t len = (size_t)(port - from) - (v6 ? 2 : 0);
  memcpy(host, from + v6, len);
  host[len] = '\0';
  reply_put_string("remote_host", host, out);
  buf_printf(out, ",\"remote_port\":%s", port + 1);
}

char *transfer_offer(struct simhost *h, const char *id, const struct engine_request *req) {
  struct transfers *t = &h->transfers;
  uint32_t n = 0;
  const uint32_t *ids = engine_hold_blocks(replica_engine(h->replica), req->hold_id, &n);
  MEM_GROW(t->holds, t->n, t->cap);
  t->holds[t->n++] = (struct transfer_hold){.request_id = mem_strdup(id),
                                            .hold_id = req->hold_id,
                                            .tokens = req->num_computed,
                                            .end_ns = loop_now(h->loop) + TRANSFER_KEEP_NS};
  if (t->n == 1)
    loop_timer_set(h->loop, &t->timer, t->holds[0].end_ns);
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  buf_puts(&b, "{\"do_remote_prefill\":true,\"do_remote_decode\":false,\"remote_block_ids\":[");
  reply_put_ids(ids, n, &b);
  buf_puts(&b, "],");
  reply_put_string("remote_engine_id", h->id, &b);
  buf_putc(&b, ',');
  reply_put_string("remote_request_id", id, &b);
  buf_putc(&b, ',');
  put_address(h->url, &b);
  buf_printf(&b, ",\"remote_num_tokens\":%u,\"tp_size\":1}", req->num_computed);
  char *text = mem_strndup(b.data, b.len);
  buf_free(&b);
  return text;
}

/* The hold that the decode leg names; NULL. */
static struct transfer_hold *find(const struct simhost *h, const struct genrequest *r,
                                  struct simhost **remote) {
  const struct transfers *t = &h->transfers;
  *remote = t->find ? t->find(t->user, r->remote_engine) : NULL;
  for (size_t i = 0; *remote && i < (*remote)->transfers.n; i++)
    if (strcmp((*remote)->transfers.holds[i].request_id, r->remote_request) == 0)
      return &(*remote)->transfers.holds[i];
  return NULL;
}

uint32_t transfer_ask(const struct simhost *h, const struct genrequest *r) {
  struct simhost *remote;
  const struct transfer_hold *hold = find(h, r, &remote);
  uint32_t n = r->choices[0].prompt_len;
  if (!hold)
    return 0;
  if (hold->tokens < n)
    n = hold->tokens;
  return r->remote_tokens && r->remote_tokens < n ? r->remote_tokens : n;
}

void transfer_done(const struct simhost *h, const struct genrequest *r) {
  struct simhost *remote;
  struct transfer_hold *hold = find(h, r, &remote);
  if (hold)
    drop(remote, (size_t)(hold - remote->transfers.holds));
}

/* kvreplay.c: a ring of batches, and the replays under way. */
#include "sim/kvreplay.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "io/loop.h"
#include "sim/kvwire.h"

/* A client's room may come unseen (zmqsock.h). */
#define RETRY_NS (10 * NS_PER_MS)
enum { MAX_REQUEST_BYTES = 4096, MAX_ID = 255, MESSAGES_AHEAD = 1000 };

struct pending {
  uint8_t id[MAX_ID];
  uint8_t id_len;
  uint64_t next, end;
};

struct kvreplay {
  struct loop *loop;
  struct zmqsock *sock;
  struct zmqsock_message in;
  /* The ring: n batches from `head` on, the first of which is number `first`. */
  struct blob **ring;
  size_t cap, head, n;
  uint32_t steps;
  size_t bytes, max_bytes;
  uint64_t first;
  struct pending *pending; /* in the order of their requests */
  size_t n_pending, cap_pending;
  struct loop_timer retry;
  uint64_t replays, refused;
};

static void on_retry(struct loop_timer *timer);

struct kvreplay *kvreplay_new(struct loop *loop, uint32_t steps, size_t max_bytes) {
  struct kvreplay *r = MEM_NEW(struct kvreplay);
  r->loop = loop;
  r->steps = steps;
  r->max_bytes = max_bytes;
  zmqsock_message_init(&r->in);
  loop_timer_init(&r->retry, on_retry);
  return r;
}

/* ---- the ring ---- */

static void drop_oldest(struct kvreplay *r) {
  r->bytes -= r->ring[r->head]->len;
  blob_unref(r->ring[r->head]);
  r->head = (r->head + 1) % r->cap;
  r->n--;
  r->first++;
}

static void grow(struct kvreplay *r) {
  size_t cap = r->cap ? r->cap * 2 : 64;
  struct blob **ring = mem_calloc(cap, sizeof *ring);
  for (size_t i = 0; i < r->n; i++)
    ring[i] = r->ring[(r->head + i) % r->cap];
  mem_free(r->ring);
  r->ring = ring;
  r->cap = cap;
  r->head = 0;
}

void kvreplay_keep(struct kvreplay *r, struct blob *batch) {
  if (r->n == r->cap)
    grow(r);
  r->ring[(r->head + r->n++) % r->cap] = blob_ref(batch);
  r->bytes += batch->len;
  while (r->n > r->steps || r->bytes > r->max_bytes)
    drop_oldest(r);
}

size_t kvreplay_kept(const struct kvreplay *r) {
  return r->n;
}

/* ---- replays ---- */

static int send_to(struct kvreplay *r, const struct pending *p, uint64_t sequence,
                   struct blob *batch) {
  uint8_t number[KVWIRE_SEQUENCE_BYTES];
  kvwire_put_sequence(number, sequence);
  struct zmqsock_part parts[] = {{.data = p->id, .len = p->id_len},
                                 {.data = "", .len = 0},
                                 {.data = number, .len = sizeof number},
                                 {.data = batch ? batch->data : "", .len = batch ? batch->len : 0}};
  return zmqsock_send(r->sock, parts, ARRAY_LEN(parts));
}

/* As far as the client takes it: 0 when all was sent, ERR_LIMIT, ERR_CLOSED. */
static int go_on(struct kvreplay *r, struct pending *p) {
  for (;;) {
    if (p->next < r->first)
      p->next = r->first;
    if (p->next >= p->end)
      return send_to(r, p, UINT64_MAX, NULL);
    int rc = send_to(r, p, p->next, r->ring[(r->head + (size_t)(p->next - r->first)) % r->cap]);
    if (rc)
      return rc;
    p->next++;
  }
}

/* A client's replays follow each other. */
static bool is_behind(const struct kvreplay *r, size_t i) {
  for (size_t k = 0; k < i; k++)
    if (r->pending[k].id_len == r->pending[i].id_len &&
        memcmp(r->pending[k].id, r->pending[i].id, r->pending[i].id_len) == 0)
      return true;
  return false;
}

static void serve(struct kvreplay *r) {
  size_t i = 0;
  while (i < r->n_pending) {
    if (is_behind(r, i) || go_on(r, &r->pending[i]) == ERR_LIMIT) {
      i++;
      continue;
    }
    r->n_pending--; /* done, or its client has gone */
    memmove(&r->pending[i], &r->pending[i + 1], (r->n_pending - i) * sizeof *r->pending);
  }
  if (r->n_pending)
    loop_timer_set(r->loop, &r->retry, loop_now(r->loop) + RETRY_NS);
  else
    loop_timer_clear(r->loop, &r->retry);
}

static void on_retry(struct loop_timer *timer) {
  serve(CONTAINER_OF(timer, struct kvreplay, retry));
}

bool kvreplay_read_request(const struct zmqsock_message *m, uint64_t *start) {
  size_t len;
  if (m->n != 3)
    return false;
  const uint8_t *frame = zmqsock_frame(m, 2, &len);
  return kvwire_read_sequence(frame, len, start);
}

static void take_request(struct kvreplay *r) {
  uint64_t start;
  size_t id_len;
  bool asked = kvreplay_read_request(&r->in, &start);
  if (!asked || r->n_pending == KVREPLAY_MAX_PENDING) {
    r->refused++;
    log_debug("replay request refused frames=%zu reason=\"%s\"", r->in.n,
              asked ? "too many replays under way" : "not [\"\", start]");
    return;
  }
  const uint8_t *id = zmqsock_frame(&r->in, 0, &id_len);
  assert(id_len <= MAX_ID); /* libzmq's own bound */
  MEM_GROW(r->pending, r->n_pending, r->cap_pending);
  struct pending *p = &r->pending[r->n_pending++];
  memcpy(p->id, id, id_len);
  p->id_len = (uint8_t)id_len;
  p->next = start;
  p->end = r->first + r->n;
  r->replays++;
}

/* The socket's `ready`. */
static void on_ready(void *user) {
  struct kvreplay *r = user;
  while (zmqsock_receive(r->sock, &r->in) == 0)
    take_request(r);
  serve(r);
}

/* ---- begin and end ---- */

int kvreplay_listen(struct kvreplay *r, struct zmqsock_hub *hub, const char *endpoint,
                    struct err *err) {
  struct zmqsock_options o = {.kind = ZMQSOCK_ROUTER,
                              .endpoint = endpoint,
                              .hwm = MESSAGES_AHEAD,
                              .max_bytes = MAX_REQUEST_BYTES,
                              .ready = on_ready,
                              .user = r};
  return zmqsock_open(r->loop, hub, &o, &r->sock, err);
}

const char *kvreplay_endpoint(const struct kvreplay *r) {
  return r->sock ? zmqsock_endpoint(r->sock) : "";
}

void kvreplay_end(struct kvreplay *r) {
  loop_timer_clear(r->loop, &r->retry);
  zmqsock_close(r->sock);
  r->sock = NULL;
  r->n_pending = 0;
  while (r->n)
    drop_oldest(r);
  r->first = 0;
}

void kvreplay_delete(struct kvreplay *r) {
  if (!r)
    return;
  kvreplay_end(r);
  zmqsock_message_free(&r->in);
  mem_free(r->ring);
  mem_free(r->pending);
  mem_free(r);
}

void kvreplay_counts(const struct kvreplay *r, uint64_t *replays, uint64_t *refused) {
  *replays = r->replays;
  *refused = r->refused;
}

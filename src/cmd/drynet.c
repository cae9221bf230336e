/* drynet.c: a request's way to the fleet and back, in memory.
 *
 * A request that was started is handed over in a later task of the same moment, so that nothing of
 * the fleet runs while Lua does, and all that start at one time arrive before the engine looks.
 * What the fleet answers in no time at all (an error, a refused connection) ends a little later:
 * else a script that asks until it gets something would never let the time go on. */
#include "cmd/drynet.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "io/httpd_request.h"
#include "kv/prefixset.h"
#include "net/client.h"

/* One request under way. */
struct call {
  struct httpd_memory memory;
  struct drynet *net;
  struct simhost *host;
  size_t number;           /* the host's */
  struct http_exchange *x; /* NULL: the client has its end, or left */
  struct call *next, *prev;
  bool waiting;          /* in the line of those to be handed over */
  bool held;             /* `timer` brings its end */
  bool refused;          /* that end: nobody took it */
  enum httpd_ending how; /* else that end */
  uint64_t started_ns;
  struct loop_timer timer;
  struct loop_task gone; /* tells the fleet that the client left */
  struct buf body;       /* of a request in several parts */
  struct buf target;     /* path and query, each ended by a NUL */
};

/* A replica's last head of a stream, and the client's headers with it: the next is mostly equal. */
struct head {
  struct buf given, taken;
};

struct drynet {
  struct loop *loop;
  struct simfleet *fleet;
  struct transport transport;
  struct simhost_watch watch;
  struct prefixset *seen;
  struct call *first, *last; /* to be handed over, the oldest first */
  struct call *spare;
  struct head *heads; /* by a replica's number */
  size_t n_heads;
  struct loop_task task;
  struct drynet_totals totals;
};

/* ---- calls ---- */

static const struct httpd_peer peer;
static void on_gone(struct loop_task *task);
static void on_held(struct loop_timer *timer);

#define LEAST_NS (100 * NS_PER_US) /* of a request: what loopback sockets take at best */

static struct call *take_call(struct drynet *n) {
  struct call *c = n->spare;
  if (c) {
    n->spare = c->next;
    return c;
  }
  c = MEM_NEW(struct call);
  c->net = n;
  c->gone.run = on_gone;
  loop_timer_init(&c->timer, on_held);
  httpd_memory_init(&c->memory, n->loop, &peer);
  buf_init(&c->body, BUF_MAX_OWN);
  buf_init(&c->target, BUF_MAX_OWN);
  return c;
}

#define KEEP_BYTES ((size_t)1 << 20) /* more than this is not kept for the next */

static void give_back(struct call *c) {
  struct drynet *n = c->net;
  if (c->body.cap > KEEP_BYTES)
    buf_free(&c->body);
  c->x = NULL;
  c->held = false;
  c->next = n->spare;
  n->spare = c;
}

static void line_up(struct call *c) {
  struct drynet *n = c->net;
  c->waiting = true;
  c->next = NULL;
  c->prev = n->last;
  *(n->last ? &n->last->next : &n->first) = c;
  n->last = c;
  loop_ready(n->loop, &n->task);
}

static void leave_line(struct call *c) {
  struct drynet *n = c->net;
  c->waiting = false;
  *(c->prev ? &c->prev->next : &n->first) = c->next;
  *(c->next ? &c->next->prev : &n->last) = c->prev;
}

/* ---- to the fleet ---- */

static void set_target(struct call *c, const struct http_exchange *x) {
  struct buf *b = &c->target;
  buf_reset(b);
  buf_puts(b, x->target->url.path); /* the target's prefix, mostly "" */
  buf_puts(b, x->request->path);
  buf_putc(b, '\0');
  char *mark = strchr(b->data, '?');
  if (mark)
    *mark = '\0';
  c->memory.method = x->request->method;
  c->memory.path = b->data;
  c->memory.query = mark ? mark + 1 : "";
}

static void set_body(struct call *c, const struct http_request *r) {
  if (r->n_parts == 1) {
    c->memory.body = r->parts[0]->data;
    c->memory.body_len = r->parts[0]->len;
    return;
  }
  buf_reset(&c->body);
  buf_put(&c->body, "", 0);
  for (size_t i = 0; i < r->n_parts; i++)
    buf_put(&c->body, r->parts[i]->data, r->parts[i]->len);
  c->memory.body = c->body.data;
  c->memory.body_len = c->body.len;
}

static void hand_over(struct loop_task *task) {
  struct drynet *n = CONTAINER_OF(task, struct drynet, task);
  struct call *c;
  while ((c = n->first)) {
    leave_line(c);
    set_target(c, c->x);
    set_body(c, c->x->request);
    httpd_memory_begin(&c->memory, c->x->request->headers);
    simhost_take(c->host, &c->memory.request);
  }
}

/* "r12.simulated", number 12; NULL: no replica of the fleet. */
static struct simhost *find_host(const struct drynet *n, const char *name, size_t *number) {
  const struct simfleet *f = n->fleet;
  size_t i = 0, all = f->n_hosts + f->n_spares; /* numbers go on in those to come */
  const char *p = name + 1;
  if (*name != 'r' || *p < '0' || *p > '9')
    return NULL;
  for (; *p >= '0' && *p <= '9' && i < all; p++)
    i = i * 10 + (size_t)(*p - '0');
  if (strcmp(p, ".simulated") != 0 || i >= all)
    return NULL;
  *number = i;
  return i < f->n_hosts ? f->hosts[i] : f->spares[i - f->n_hosts];
}

static void hold(struct call *c) {
  c->held = true;
  loop_timer_set(c->net->loop, &c->timer, c->started_ns + LEAST_NS);
}

static int start(void *self, struct http_exchange *x, struct err *err) {
  struct drynet *n = self;
  uint64_t now = loop_now(n->loop);
  size_t number = 0;
  struct simhost *host = find_host(n, x->target->url.host, &number);
  if (!host)
    return err_set(err, ERR_UNSUPPORTED,
                   "a dry run has no sockets and reaches its simulated fleet alone; `perigee run` "
                   "sends this request");
  n->totals.requests++;
  struct call *c = take_call(n);
  c->host = host;
  c->number = number;
  c->x = x;
  c->started_ns = now;
  c->refused = host->refusing;
  x->carrier = c;
  if (c->refused) {
    hold(c);
    return 0;
  }
  http_exchange_connected(x, now, true);
  http_exchange_sent(x, now, x->body_bytes);
  line_up(c);
  return 0;
}

static void cancel(void *self, struct http_exchange *x) {
  (void)self;
  struct call *c = x->carrier;
  c->x = NULL;
  if (c->waiting)
    leave_line(c);
  else if (c->held)
    loop_timer_clear(c->net->loop, &c->timer);
  else
    httpd_memory_leave(&c->memory);
  give_back(c);
}

static void look(void *self, struct http_exchange *x) {
  (void)self;
  struct call *c = x->carrier;
  if (c && !c->waiting && !c->held)
    httpd_memory_look(&c->memory);
}

static void close_all(void *self) {
  (void)self; /* drynet_delete does it */
}

/* ---- back to the client ---- */

static struct call *call_of(struct httpd_request *req) {
  return CONTAINER_OF(httpd_memory_of(req), struct call, memory);
}

static struct http_read read_now(const struct call *c) {
  return (struct http_read){.loop_ns = loop_now(c->net->loop)};
}

static int put_header(struct http_exchange *x, const char *name, size_t name_len, const char *value,
                      size_t len) {
  int rc = http_exchange_header_name(x, name, name_len);
  if (!rc)
    rc = http_exchange_header_name_end(x);
  if (!rc)
    rc = http_exchange_header_value(x, value, len);
  return rc ? rc : http_exchange_header_value_end(x);
}

static int put_headers(struct http_exchange *x, const char *headers) {
  int rc = 0;
  for (const char *line = headers, *end; !rc && line && (end = strstr(line, "\r\n"));
       line = end + 2) {
    size_t name = strcspn(line, ":"), skip = name + 1 + strspn(line + name + 1, " ");
    rc = put_header(x, line, name, line + skip, (size_t)(end - line) - skip);
  }
  return rc;
}

static int put_length(struct http_exchange *x, size_t length) {
  char number[24];
  int digits = snprintf(number, sizeof number, "%zu", length);
  return length == HTTPD_CHUNKED ? put_header(x, "transfer-encoding", 17, "chunked", 7)
                                 : put_header(x, "content-length", 14, number, (size_t)digits);
}

static struct head *head_of(struct drynet *n, size_t number) {
  if (number >= n->n_heads) {
    size_t old = n->n_heads;
    n->n_heads = number + 1 > n->fleet->n_hosts ? number + 1 : n->fleet->n_hosts;
    n->heads = mem_resize(n->heads, n->n_heads, sizeof *n->heads);
    for (size_t i = old; i < n->n_heads; i++) {
      buf_init(&n->heads[i].given, BUF_MAX_OWN);
      buf_init(&n->heads[i].taken, BUF_MAX_OWN);
    }
  }
  return &n->heads[number];
}

static void put_head(const struct call *c, const char *headers, size_t length) {
  struct buf *to = &c->x->request->response_headers;
  struct head *h = headers && length == HTTPD_CHUNKED ? head_of(c->net, c->number) : NULL;
  if (h && h->given.len && strcmp(h->given.data, headers) == 0) {
    buf_put(to, h->taken.data, h->taken.len);
    return;
  }
  int rc = put_headers(c->x, headers);
  if (!rc)
    rc = put_length(c->x, length);
  if (!rc)
    rc = put_header(c->x, "connection", 10, "keep-alive", 10);
  assert(rc == 0); /* the fleet's heads are short */
  (void)rc;
  if (!h)
    return;
  buf_reset(&h->given);
  buf_reset(&h->taken);
  buf_puts(&h->given, headers);
  buf_put(&h->taken, to->data, to->len);
}

static void on_head(struct httpd_request *req, int status, const char *headers, size_t length) {
  struct call *c = call_of(req);
  struct http_exchange *x = c->x;
  struct http_read read = read_now(c);
  if (!x)
    return;
  http_exchange_read(x, 0, &read);
  http_exchange_head(x);
  put_head(c, headers, length);
  http_exchange_headers_done(x, status, &read);
}

/* Phase three of what on_body began: the fleet is not told from inside a call of its own. */
static void on_gone(struct loop_task *task) {
  struct call *c = CONTAINER_OF(task, struct call, gone);
  httpd_memory_leave(&c->memory);
  give_back(c);
}

static void on_body(struct httpd_request *req, const void *data, size_t len) {
  struct call *c = call_of(req);
  struct http_exchange *x = c->x;
  struct http_read read = read_now(c);
  if (!x)
    return;
  http_exchange_read(x, len, &read);
  if (http_exchange_body(x, data, len, &read) == 0)
    return;
  c->x = NULL; /* more than the client takes */
  loop_ready(c->net->loop, &c->gone);
  http_exchange_end(x, &read);
}

static bool on_takes(const struct httpd_request *req, size_t text, size_t events) {
  const struct call *c = CONTAINER_OF(httpd_memory_of(req), const struct call, memory);
  return c->x && http_exchange_takes(c->x, text, events);
}

static void on_tell(struct httpd_request *req, const struct openai_told *told) {
  struct call *c = call_of(req);
  if (c->x)
    http_exchange_tell(c->x, told);
}

static void end_call(struct call *c) {
  struct http_exchange *x = c->x;
  struct http_read read = read_now(c);
  give_back(c);
  if (!x)
    return;
  if (c->how == HTTPD_ENDED)
    http_exchange_end(x, &read);
  else
    http_exchange_broken(x, c->how == HTTPD_CLOSED ? HTTP_BREAK_CLOSED : HTTP_BREAK_RESET, NULL,
                         &read);
}

static void on_end(struct httpd_request *req, enum httpd_ending how) {
  struct call *c = call_of(req);
  loop_unready(c->net->loop, &c->gone);
  c->how = how;
  if (c->x && loop_now(c->net->loop) == c->started_ns)
    hold(c);
  else
    end_call(c);
}

static void on_held(struct loop_timer *timer) {
  struct call *c = CONTAINER_OF(timer, struct call, timer);
  c->held = false;
  if (!c->refused) {
    end_call(c);
    return;
  }
  struct http_exchange *x = c->x;
  char text[200];
  snprintf(text, sizeof text, "connection refused (%s is %s)", c->host->id,
           simhost_gone(c->host) ? "down" : "at fault");
  give_back(c);
  http_exchange_fail(x, SAMPLE_CONNECT, text);
}

static const struct httpd_peer peer = {
    .head = on_head, .body = on_body, .end = on_end, .takes = on_takes, .tell = on_tell};

/* ---- what passes ---- */

static void on_accepted(void *user, struct httpd_request *req, const struct genrequest *gen) {
  struct drynet *n = user;
  const struct call *c = call_of(req);
  const struct sample *s = c->x ? c->x->request->sample : NULL;
  bool measured = s && s->measured;
  if (!n->seen)
    n->seen = prefixset_new(c->host->model->block_size);
  n->totals.generations++;
  for (uint32_t i = 0; i < gen->n_choices; i += gen->n) {
    const struct genchoice *choice = &gen->choices[i];
    uint32_t known = prefixset_add(n->seen, choice->tokens, choice->prompt_len, gen->salt, NULL);
    if (!measured)
      continue;
    n->totals.prompt_tokens += choice->prompt_len;
    n->totals.possible_tokens += known;
  }
}

static void on_generated(void *user, const uint32_t *tokens, uint32_t count, const char *salt) {
  struct drynet *n = user;
  prefixset_add(n->seen, tokens, count, salt, NULL);
}

/* ---- life ---- */

struct drynet *drynet_new(struct loop *loop) {
  struct drynet *n = MEM_NEW(struct drynet);
  n->loop = loop;
  n->task.run = hand_over;
  n->transport = (struct transport){
      .name = "dry", .start = start, .cancel = cancel, .close = close_all, .look = look, .self = n};
  n->watch = (struct simhost_watch){.accepted = on_accepted, .generated = on_generated, .user = n};
  return n;
}

void drynet_delete(struct drynet *n) {
  if (!n)
    return;
  assert(!n->first);
  for (struct call *c = n->spare, *next; c; c = next) {
    next = c->next;
    httpd_memory_free(&c->memory);
    buf_free(&c->body);
    buf_free(&c->target);
    mem_free(c);
  }
  for (size_t i = 0; i < n->n_heads; i++) {
    buf_free(&n->heads[i].given);
    buf_free(&n->heads[i].taken);
  }
  mem_free(n->heads);
  prefixset_delete(n->seen);
  loop_unready(n->loop, &n->task);
  mem_free(n);
}

const struct simhost_watch *drynet_watch(struct drynet *n) {
  return &n->watch;
}

void drynet_set_fleet(struct drynet *n, struct simfleet *fleet) {
  n->fleet = fleet;
}

const struct transport *drynet_transport(struct drynet *n) {
  return &n->transport;
}

void drynet_get_totals(const struct drynet *n, struct drynet_totals *out) {
  *out = n->totals;
  out->blocks = n->seen ? prefixset_blocks(n->seen) : 0;
}

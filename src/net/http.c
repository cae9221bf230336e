/* http.c: the client: how a request starts, waits for its name, runs out of time, ends.
 *
 * An exchange is the private half of a request. It is in one of three places: in its target's line
 * while the name is resolved, with a transport, or ended and waiting for its timer to say so. What
 * it received on the way is exchange.c's, what that amounts to is outcome.c's. */
#include "net/http.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/client.h"
#include "net/curl_loop.h"
#include "net/kstamp.h"

#define MAX_CONNECTIONS_DEFAULT 4096
#define MAX_BODY_DEFAULT ((size_t)64 << 20)
#define MAX_SPARE 1024
/* A stream whose end marker was read is over. Its framing mostly ends with the next packet, and
 * then its connection can be used again; a server that is silent instead is not waited for. */
#define END_GRACE_NS (25 * NS_PER_MS)
#define SPARE_HEAD_BYTES 16384 /* larger buffers are not kept for the next request */

/* ---- lines ---- */

void line_add(struct line *line, struct http_exchange *x) {
  x->in_line = true;
  x->line_next = NULL;
  x->line_prev = line->last;
  if (line->last)
    line->last->line_next = x;
  else
    line->first = x;
  line->last = x;
}

void line_remove(struct line *line, struct http_exchange *x) {
  if (x->line_prev)
    x->line_prev->line_next = x->line_next;
  else
    line->first = x->line_next;
  if (x->line_next)
    x->line_next->line_prev = x->line_prev;
  else
    line->last = x->line_prev;
  x->line_next = x->line_prev = NULL;
  x->in_line = false;
}

struct http_exchange *line_take(struct line *line) {
  struct http_exchange *x = line->first;
  if (x)
    line_remove(line, x);
  return x;
}

/* ---- the client ---- */

struct http_client *http_client_new(const struct http_client_options *options, struct err *err) {
  (void)err; /* descriptors are asked for at first use */
  struct http_client *c = MEM_NEW(struct http_client);
  c->options = *options;
  c->loop = options->loop;
  if (!c->options.max_connections)
    c->options.max_connections = MAX_CONNECTIONS_DEFAULT;
  c->stamps_fd = c->options.kernel_stamps ? kstamp_begin() : -1;
  return c;
}

void http_client_delete(struct http_client *c) {
  if (!c)
    return;
  while (c->running)
    http_request_cancel(c->running->request, SAMPLE_CANCELLED);
  struct transport *const transports[] = {&c->h1, &c->full, &c->other};
  for (size_t i = 0; i < ARRAY_LEN(transports); i++)
    if (transports[i]->start && transports[i]->close)
      transports[i]->close(transports[i]->self);
  curl_fds_free(c);
  for (struct http_target *t = c->targets, *next; t; t = next) {
    next = t->next;
    http_target_delete(t);
  }
  for (struct http_exchange *x = c->spare, *next; x; x = next) {
    next = x->next;
    buf_free(&x->head);
    mem_free(x);
  }
  if (c->stamps_fd >= 0)
    close(c->stamps_fd);
  mem_free(c);
}

void http_client_set_window(struct http_client *c, uint64_t start_ns, uint64_t end_ns) {
  __atomic_store_n(&c->options.window_start_ns, start_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&c->options.window_end_ns, end_ns, __ATOMIC_RELAXED);
}

void http_client_use_transport(struct http_client *c, const struct transport *t) {
  c->other = *t;
}

void http_client_get_stats(const struct http_client *c, struct http_client_stats *out) {
  *out = c->stats;
}

const struct transport *http_client_choose(struct http_client *c, const struct http_request *r,
                                           const struct http_target *t) {
  if (c->other.start)
    return &c->other;
  /* Through a proxy that speaks TLS, or to a plain server through an HTTP proxy (which wants whole
   * URLs in requests), only libcurl's own HTTP knows the way. */
  bool odd_proxy = t->proxy && (strncasecmp(t->proxy, "https:", 6) == 0 ||
                                (strncasecmp(t->proxy, "http:", 5) == 0 && !t->url.tls));
  if (t->full || t->http2 || r->follow_redirects || r->accept_compressed || odd_proxy) {
    if (!c->full.start)
      full_transport(c, &c->full);
    return &c->full;
  }
  if (!c->h1.start)
    h1_transport(c, &c->h1);
  return &c->h1;
}

/* ---- starting ---- */

void http_request_init(struct http_request *r) {
  *r = (struct http_request){.method = "GET", .path = "/", .n_listed = -1};
  buf_init(&r->response_headers, HTTP_HEAD_MAX);
  buf_init(&r->body, MAX_BODY_DEFAULT);
}

void http_request_reset(struct http_request *r) {
  assert(!r->exchange);
  r->target = NULL;
  r->method = "GET";
  r->path = "/";
  r->headers = NULL;
  r->parts = NULL;
  r->n_parts = 0;
  r->api = OPENAI_NONE;
  r->harmony = r->expect_stream = r->follow_redirects = r->accept_compressed = false;
  r->timeouts = (struct http_timeouts){0};
  r->sched_ns = 0;
  r->max_body = 0;
  r->refused = NULL;
  r->sample = NULL;
  r->done = NULL;
}

void http_request_end_stream(struct http_request *r) {
  if (r->stream.result.api == OPENAI_NONE)
    return;
  openai_stream_free(&r->stream);
  r->stream = (struct openai_stream){0};
}

void http_request_free(struct http_request *r) {
  assert(!r->exchange);
  buf_free(&r->response_headers);
  buf_free(&r->body);
  http_request_end_stream(r);
}

/* Characters of a method or a header's name (RFC 9110, token), and of a path. */
enum { IS_TOKEN = 1, IS_PATH = 2 };
#define TOKEN 3
#define PATH 2
static const uint8_t char_kinds[256] = {
    ['!'] = TOKEN,         ['"'] = PATH,         ['#'] = IS_TOKEN,      ['$' ... '\''] = TOKEN,
    ['('] = PATH,          [')'] = PATH,         ['*'] = TOKEN,         ['+'] = TOKEN,
    [','] = PATH,          ['-'] = TOKEN,        ['.'] = TOKEN,         ['/'] = PATH,
    ['0' ... '9'] = TOKEN, [':' ... '@'] = PATH, ['A' ... 'Z'] = TOKEN, ['[' ... ']'] = PATH,
    ['^' ... 'z'] = TOKEN, ['{'] = PATH,         ['|'] = TOKEN,         ['}'] = PATH,
    ['~'] = TOKEN,         [128 ... 255] = PATH,
};
#undef TOKEN
#undef PATH

static bool token_char(unsigned char ch) {
  return char_kinds[ch] & IS_TOKEN;
}

#define IS_NAME(line, len, name)                                                                   \
  ((len) == sizeof(name) - 1 && strncasecmp((line), (name), sizeof(name) - 1) == 0)

/* A control character other than a tab. Eight bytes at a time: this is for every request. */
static bool has_control(const char *s, size_t len) {
  static const uint64_t ones = UINT64_C(0x0101010101010101);
  for (size_t i = 0; i < len; i++) {
    uint64_t v = 0;
    if (len - i >= sizeof v) {
      memcpy(&v, s + i, sizeof v);
      if (((v - ones * ' ') & ~v & ones << 7) == 0) { /* none below a space */
        i += sizeof v - 1;
        continue;
      }
    }
    if ((unsigned char)s[i] < ' ' && s[i] != '\t')
      return true;
  }
  return false;
}

/* One "Name: value\r\n" of the caller's. */
static int check_header(struct http_exchange *x, const char *line, size_t len, struct err *err) {
  size_t n = 0;
  while (n < len && token_char((unsigned char)line[n]))
    n++;
  if (n == 0 || n == len || line[n] != ':')
    return err_set(err, ERR_INVALID, "header \"%.*s\" is not of the form \"Name: value\"",
                   (int)(n < 60 ? n : 60), line);
  if (has_control(line + n, len - n))
    return err_set(err, ERR_INVALID, "header %.*s: its value holds a control character", (int)n,
                   line);
  if (IS_NAME(line, n, "content-length") || IS_NAME(line, n, "transfer-encoding"))
    return err_set(err, ERR_INVALID, "header %.*s: the client writes it, leave it out", (int)n,
                   line);
  if (IS_NAME(line, n, "host"))
    x->has_host = true;
  else if (IS_NAME(line, n, "accept"))
    x->has_accept = true;
  else if (IS_NAME(line, n, "connection"))
    x->closes = memmem(line + n, len - n, "close", 5) != NULL;
  return 0;
}

/* Where a line ends, at CR LF; NULL: it does not. */
static const char *header_end(const char *line) {
  const char *cr = strchr(line, '\r');
  return cr && cr[1] != '\n' ? strstr(cr, "\r\n") : cr;
}

/* Misuse is found before anything is sent: a line break in a header would be another header. */
static int check_request(struct http_exchange *x, const struct http_request *r, struct err *err) {
  size_t n = 0;
  while (token_char((unsigned char)r->method[n]))
    n++;
  if (n == 0 || r->method[n])
    return err_set(err, ERR_INVALID, "\"%.40s\" is not a method", r->method);
  if (r->path[0] != '/')
    return err_set(err, ERR_INVALID, "path \"%.200s\" must begin with /", r->path);
  const char *path = r->path;
  while (char_kinds[(unsigned char)*path] & IS_PATH)
    path++;
  if (*path)
    return err_set(err, ERR_INVALID,
                   "path \"%.200s\" holds a space, a # or a control character: percent-encode it",
                   r->path);
  x->has_host = x->has_accept = x->closes = false;
  for (const char *line = r->headers; line && *line;) {
    const char *end = header_end(line);
    if (!end)
      return err_set(err, ERR_INVALID, "header \"%.60s\" does not end with CR LF", line);
    int rc = check_header(x, line, (size_t)(end - line), err);
    if (rc)
      return rc;
    line = end + 2;
  }
  return 0;
}

static struct http_exchange *take_exchange(struct http_client *c) {
  struct http_exchange *x = c->spare;
  struct buf head;
  if (x) {
    c->spare = x->next;
    c->n_spare--;
    head = x->head;
    buf_reset(&head);
  } else {
    x = mem_alloc(sizeof *x);
    buf_init(&head, BUF_MAX_OWN);
  }
  *x = (struct http_exchange){
      .client = c, .head = head, .error_ns = SAMPLE_ABSENT, .coalesced_bound_ns = SAMPLE_ABSENT};
  return x;
}

static void give_back(struct http_exchange *x) {
  struct http_client *c = x->client;
  if (c->n_spare >= MAX_SPARE || x->head.cap > SPARE_HEAD_BYTES) {
    buf_free(&x->head);
    mem_free(x);
    return;
  }
  x->next = c->spare;
  c->spare = x;
  c->n_spare++;
}

static void on_timer(struct loop_timer *timer);

static void reset_results(struct http_request *r) {
  r->error = SAMPLE_OK;
  r->detail[0] = '\0';
  r->status = 0;
  r->reused_connection = false;
  r->reconnects = 0;
  buf_reset(&r->response_headers);
  r->n_listed = -1;
  buf_reset(&r->body);
  r->body.max = r->max_body ? r->max_body : MAX_BODY_DEFAULT;
  enum openai_api before = r->stream.result.api;
  if (before != r->api && before != OPENAI_NONE) {
    openai_stream_free(&r->stream);
    r->stream = (struct openai_stream){0};
  }
  if (r->api != OPENAI_NONE && before == r->api)
    openai_stream_reset(&r->stream);
  else if (r->api != OPENAI_NONE)
    openai_stream_init(&r->stream, &(struct openai_options){.api = r->api, .keep_outputs = true});
  for (size_t i = 0; i < STAMP_COUNT; i++)
    r->stamp_ns[i] = SAMPLE_NEVER;
}

static enum sample_error class_of(int rc) {
  return rc == ERR_RESOLVE ? SAMPLE_RESOLVE : rc == ERR_TLS ? SAMPLE_TLS : SAMPLE_CONNECT;
}

static void launch(struct http_exchange *x) {
  const struct transport *t = http_client_choose(x->client, x->request, x->target);
  struct err err;
  x->transport = t;
  int rc = t->start(t->self, x, &err);
  if (rc)
    http_exchange_fail_later(x, class_of(rc), err.text);
}

static void wait_for_name(struct http_exchange *x) {
  struct http_target *t = x->target;
  struct err err;
  if (t->state == TARGET_NEW) {
    int rc = http_resolve_start(t, &err);
    if (rc) {
      http_exchange_fail_later(x, SAMPLE_RESOLVE, err.text);
      return;
    }
    t->state = TARGET_RESOLVING;
  }
  line_add(&t->naming, x);
}

/* It goes nowhere: no URL is named. */
static void refuse(struct http_exchange *x) {
  x->request->error = SAMPLE_CONNECT;
  http_outcome_text(x, x->request->refused);
  x->ended = true;
  loop_timer_set(x->client->loop, &x->timer, loop_now(x->client->loop));
}

int http_request_start(struct http_client *c, struct http_request *r, struct err *err) {
  assert(!r->exchange && r->target && r->target->client == c);
  struct http_exchange *x = take_exchange(c);
  int rc = check_request(x, r, err);
  if (rc) {
    err_prefix(err, "%s", r->target->base);
    give_back(x);
    return rc;
  }
  x->request = r;
  x->target = r->target;
  for (size_t i = 0; i < r->n_parts; i++)
    x->body_bytes += r->parts[i]->len;
  r->exchange = x;
  reset_results(r);
  x->begun_ns = loop_refresh(c->loop);
  r->stamp_ns[STAMP_START] = x->begun_ns;
  r->stamp_ns[STAMP_SCHED] = r->sched_ns ? r->sched_ns : x->begun_ns;
  x->next = c->running;
  if (c->running)
    c->running->prev = x;
  c->running = x;
  c->stats.requests++;
  loop_timer_init(&x->timer, on_timer);
  http_exchange_arm(x);
  if (r->refused)
    refuse(x);
  else if (c->other.start || x->target->state == TARGET_READY)
    launch(x);
  else
    wait_for_name(x);
  return 0;
}

void http_target_named(struct http_target *t, const char *problem) {
  t->state = problem ? TARGET_NEW : TARGET_READY;
  struct http_exchange *x;
  char text[200];
  if (problem)
    snprintf(text, sizeof text, "cannot resolve %.100s: %s; is the host name right?", t->name,
             problem);
  while ((x = line_take(&t->naming))) {
    if (problem)
      http_exchange_fail_later(x, SAMPLE_RESOLVE, text);
    else
      launch(x);
  }
}

/* ---- ending ---- */

/* What came by now is known. */
static void look(struct http_exchange *x) {
  if (x->transport && x->transport->look)
    x->transport->look(x->transport->self, x);
}

/* Takes the exchange out of the transport's hands. */
static void recall(struct http_exchange *x) {
  if (x->ended)
    return;
  look(x);
  if (x->transport)
    x->transport->cancel(x->transport->self, x);
  else if (x->in_line)
    line_remove(&x->target->naming, x);
  x->transport = NULL;
}

/* The request is over: error and detail are set, nobody holds the exchange. */
static void finish(struct http_exchange *x) {
  struct http_client *c = x->client;
  struct http_request *r = x->request;
  loop_timer_clear(c->loop, &x->timer);
  if (x->prev)
    x->prev->next = x->next;
  else
    c->running = x->next;
  if (x->next)
    x->next->prev = x->prev;
  if (r->stamp_ns[STAMP_DONE] == SAMPLE_NEVER)
    r->stamp_ns[STAMP_DONE] = loop_now(c->loop);
  if (r->api != OPENAI_NONE) {
    const struct openai_result *result = &r->stream.result;
    if (result->first_token_ns)
      r->stamp_ns[STAMP_FIRST_TOKEN] = result->first_token_ns;
    if (result->last_token_ns)
      r->stamp_ns[STAMP_LAST_TOKEN] = result->last_token_ns;
  }
  http_complete_sample(x);
  r->exchange = NULL;
  give_back(x);
}

static void finish_and_tell(struct http_exchange *x) {
  struct http_request *r = x->request;
  finish(x);
  if (r->done)
    r->done(r);
}

/* When it was over: the end marker says so, else the last read. */
static uint64_t end_stamp(const struct http_exchange *x, const struct http_read *read) {
  if (x->over_ns)
    return x->over_stamp_ns;
  return read ? http_read_stamp(read) : loop_now(x->client->loop);
}

void http_exchange_end(struct http_exchange *x, const struct http_read *read) {
  x->request->stamp_ns[STAMP_DONE] = end_stamp(x, read);
  http_outcome_set(x, -1, NULL);
  finish_and_tell(x);
}

void http_exchange_broken(struct http_exchange *x, enum http_break how, const char *why,
                          const struct http_read *read) {
  x->request->stamp_ns[STAMP_DONE] = end_stamp(x, read);
  http_outcome_set(x, (int)how, why);
  finish_and_tell(x);
}

void http_exchange_fail(struct http_exchange *x, enum sample_error error, const char *text) {
  x->request->error = error;
  http_outcome_detail(x, false, "%s", text);
  finish_and_tell(x);
}

void http_exchange_fail_later(struct http_exchange *x, enum sample_error error, const char *text) {
  x->request->error = error;
  http_outcome_detail(x, false, "%s", text);
  x->ended = true;
  loop_timer_set(x->client->loop, &x->timer, loop_now(x->client->loop));
}

void http_request_cancel(struct http_request *r, enum sample_error error) {
  struct http_exchange *x = r->exchange;
  if (!x)
    return;
  recall(x);
  r->error = error;
  r->detail[0] = '\0';
  finish(x);
}

/* ---- time ---- */

struct deadline {
  uint64_t due_ns;
  enum sample_error error;
};

static struct deadline next_deadline(const struct http_exchange *x) {
  const struct http_request *r = x->request;
  const struct http_timeouts *t = &r->timeouts;
  struct deadline d = {.due_ns = UINT64_MAX, .error = SAMPLE_TIMEOUT_TOTAL};
  uint64_t from, length;
  if (x->over_ns)
    return (struct deadline){.due_ns = x->over_ns + END_GRACE_NS, .error = SAMPLE_OK};
  enum sample_error error;
  if (r->stamp_ns[STAMP_CONNECTED] == SAMPLE_NEVER) {
    from = r->stamp_ns[STAMP_START];
    length = t->connect_ns;
    error = SAMPLE_TIMEOUT_CONNECT;
  } else if (r->stamp_ns[STAMP_FIRST_BYTE] == SAMPLE_NEVER) {
    from = r->stamp_ns[STAMP_CONNECTED];
    length = t->first_byte_ns;
    error = SAMPLE_TIMEOUT_FIRST_BYTE;
  } else {
    from = x->last_byte_ns;
    length = t->idle_ns;
    error = SAMPLE_TIMEOUT_IDLE;
  }
  if (length)
    d = (struct deadline){.due_ns = from + length, .error = error};
  if (t->total_ns && x->begun_ns + t->total_ns < d.due_ns)
    d = (struct deadline){.due_ns = x->begun_ns + t->total_ns, .error = SAMPLE_TIMEOUT_TOTAL};
  return d;
}

/* The timer may go off too early (bytes moved the idle deadline): it then looks again. So it is
 * touched only where a deadline comes nearer. */
void http_exchange_arm(struct http_exchange *x) {
  if (x->ended)
    return;
  struct deadline d = next_deadline(x);
  if (d.due_ns != UINT64_MAX && (!x->timer.slot || d.due_ns < x->timer.due_ns))
    loop_timer_set(x->client->loop, &x->timer, d.due_ns);
}

/* A timeout as it was set: "50 ms", "1.5 s". */
static void format_timeout(uint64_t ns, char *out, size_t size) {
  if (ns < NS_PER_S)
    snprintf(out, size, "%g ms", (double)ns / 1e6);
  else
    snprintf(out, size, "%g s", (double)ns / 1e9);
}

static void time_out(struct http_exchange *x, enum sample_error error) {
  const struct http_timeouts *t = &x->request->timeouts;
  char length[32];
  recall(x);
  x->request->error = error;
  switch (error) {
  case SAMPLE_TIMEOUT_CONNECT:
    format_timeout(t->connect_ns, length, sizeof length);
    http_outcome_detail(x, false,
                        "no connection within %s (connect timeout); is the address right, and "
                        "does a firewall drop it?",
                        length);
    break;
  case SAMPLE_TIMEOUT_FIRST_BYTE:
    format_timeout(t->first_byte_ns, length, sizeof length);
    http_outcome_detail(x, true, "no byte of the reply within %s (first-byte timeout)%s", length,
                        x->request->stamp_ns[STAMP_SENT] == SAMPLE_NEVER
                            ? "; the request was not yet sent whole"
                            : "");
    break;
  case SAMPLE_TIMEOUT_IDLE:
    format_timeout(t->idle_ns, length, sizeof length);
    http_outcome_detail(x, true, "nothing came for %s (idle timeout) after %llu bytes", length,
                        (unsigned long long)x->received_body);
    break;
  default:
    format_timeout(t->total_ns, length, sizeof length);
    http_outcome_detail(x, true, "not done within %s (total timeout)", length);
  }
  finish_and_tell(x);
}

/* Its time is up, or it only seemed so: bytes move the idle deadline. */
static void on_timer(struct loop_timer *timer) {
  struct http_exchange *x = CONTAINER_OF(timer, struct http_exchange, timer);
  if (x->ended) {
    finish_and_tell(x);
    return;
  }
  look(x);
  struct deadline d = next_deadline(x);
  if (d.due_ns <= loop_now(x->client->loop) && d.error == SAMPLE_OK) {
    recall(x);
    http_exchange_end(x, NULL);
  } else if (d.due_ns <= loop_now(x->client->loop)) {
    time_out(x, d.error);
  } else if (d.due_ns != UINT64_MAX) {
    loop_timer_set(x->client->loop, timer, d.due_ns);
  }
}

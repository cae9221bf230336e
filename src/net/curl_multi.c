/* curl_multi.c: the full transport: libcurl's own HTTP for what h1.c does not do: HTTP/2 over TLS,
 * redirects, compression, odd proxies.
 *
 * Requests are spread over multi handles of 32 each, since libcurl walks all connections of one on
 * every request. Its callbacks only note; what they noted is told after each action, outside
 * libcurl: first that a request was sent, then body bytes (those of one action together), then
 * ends. */
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "net/curl_flight.h"
#include "net/kstamp.h"

#define FLIGHTS_PER_SHARD 32
#define CONNECTIONS_PER_SHARD 256L
#define MAX_SPARE 256
#define SPARE_GATHER_BYTES ((size_t)64 << 10)

struct full {
  struct http_client *client;
  struct shard *shards;
  struct flight *spare;
  size_t n_spare;
  struct full_line *lines;
};

struct full_line { /* of one target: who waits because max_connections are busy */
  struct full_line *next;
  struct http_target *target;
  struct line line;
  uint32_t active;
};

/* ---- shards ---- */

static void before_action(struct curl_loop *loop, int fd, uint64_t stamp_ns) {
  struct shard *s = CONTAINER_OF(loop, struct shard, loop);
  s->read = (struct http_read){.loop_ns = stamp_ns};
  if (fd >= 0 && loop->client->options.kernel_stamps)
    s->read.kernel_ns = kstamp_convert(loop->client->loop, kstamp_peek(fd), &s->read.loop_ns);
}

static void after_action(struct curl_loop *loop);

static struct shard *shard_with_room(struct full *full, struct err *err) {
  for (struct shard *s = full->shards; s; s = s->next)
    if (s->active < FLIGHTS_PER_SHARD)
      return s;
  struct shard *s = MEM_NEW(struct shard);
  s->full = full;
  s->noted_end = &s->noted;
  if (curl_loop_init(&s->loop, full->client, err)) {
    mem_free(s);
    return NULL;
  }
  s->loop.before = before_action;
  s->loop.after = after_action;
  curl_multi_setopt(s->loop.multi, CURLMOPT_MAXCONNECTS, CONNECTIONS_PER_SHARD);
  s->next = full->shards;
  full->shards = s;
  return s;
}

static struct full_line *line_of(struct full *full, struct http_target *t) {
  if (!t->full_line) {
    t->full_line = MEM_NEW(struct full_line);
    t->full_line->target = t;
    t->full_line->next = full->lines;
    full->lines = t->full_line;
  }
  return t->full_line;
}

/* ---- a flight's life ---- */

static int depart(struct full *full, struct http_exchange *x, struct err *err) {
  struct shard *s = shard_with_room(full, err);
  if (!s)
    return ERR_IO;
  struct flight *f = full->spare;
  if (f) {
    full->spare = f->next;
    full->n_spare--;
  } else if (!(f = flight_new())) {
    return err_set(err, ERR_IO, "libcurl gives no handle for a request");
  }
  f->shard = s;
  f->x = x;
  x->carrier = f;
  flight_prepare(f);
  s->active++;
  line_of(full, x->target)->active++;
  curl_multi_add_handle(s->loop.multi, f->easy);
  return 0;
}

static void serve_line(struct full *full, struct full_line *line) {
  struct err err;
  while (line->line.first && line->active < full->client->options.max_connections) {
    struct http_exchange *x = line_take(&line->line);
    if (depart(full, x, &err))
      http_exchange_fail_later(x, SAMPLE_CONNECT, err.text);
  }
}

/* Takes the flight off its exchange and out of libcurl. */
static void land(struct flight *f) {
  struct shard *s = f->shard;
  struct full *full = s->full;
  struct full_line *line = line_of(full, f->x->target);
  flight_forget(f);
  curl_multi_remove_handle(s->loop.multi, f->easy);
  f->x->carrier = NULL;
  f->x = NULL;
  s->active--;
  line->active--;
  if (full->n_spare >= MAX_SPARE || f->gather.cap > SPARE_GATHER_BYTES) {
    flight_free(f);
  } else {
    f->next = full->spare;
    full->spare = f;
    full->n_spare++;
  }
  serve_line(full, line);
}

/* ---- telling ---- */

static void tell_sent(struct flight *f) {
  struct http_exchange *x = f->x;
  const struct http_request *r = x->request;
  long head = 0;
  uint64_t stamp = loop_refresh(x->client->loop);
  f->handed = false;
  if (x->headers_done && r->stamp_ns[STAMP_HEADERS] < stamp)
    stamp = r->stamp_ns[STAMP_HEADERS];
  curl_easy_getinfo(f->easy, CURLINFO_REQUEST_SIZE, &head);
  http_exchange_sent(x, stamp, f->out_bytes + (uint64_t)(head > 0 ? head : 0));
}

static enum http_break break_of(CURLcode rc, long os_errno, const char *said) {
  switch (rc) {
  case CURLE_GOT_NOTHING:
  case CURLE_PARTIAL_FILE:
    return HTTP_BREAK_CLOSED;
  case CURLE_WEIRD_SERVER_REPLY:
  case CURLE_UNSUPPORTED_PROTOCOL:
  case CURLE_BAD_CONTENT_ENCODING:
  case CURLE_OUT_OF_MEMORY: /* of the room that libcurl gives a line */
    return HTTP_BREAK_GARBLED;
  case CURLE_RECV_ERROR:
    if (strstr(said, "chunked-encoding"))
      return HTTP_BREAK_GARBLED;
    return os_errno == 0 || strstr(said, "unexpected eof") ? HTTP_BREAK_CLOSED : HTTP_BREAK_RESET;
  default:
    return HTTP_BREAK_RESET;
  }
}

static void tell_broken(struct flight *f, enum http_break how, const char *why) {
  struct http_exchange *x = f->x;
  struct http_read read = f->shard->read;
  char text[CURL_FAILURE_BYTES];
  snprintf(text, sizeof text, "%s", why ? why : "");
  land(f);
  http_exchange_broken(x, how, why ? text : NULL, &read);
}

/* Whether the redirect that came last led to no reply because its target was not reached. */
static bool lost_on_the_way(const struct flight *f, CURLcode rc) {
  long followed = 0;
  if (!f->heads || rc == CURLE_OK)
    return false;
  curl_easy_getinfo(f->easy, CURLINFO_REDIRECT_COUNT, &followed);
  return rc == CURLE_TOO_MANY_REDIRECTS || (f->head_seen && followed >= (long)f->heads);
}

/* It ends where it was sent: with the class of that connection; a chase without end is a connection
 * that was never made. */
static void tell_lost(struct flight *f, CURLcode rc) {
  struct http_exchange *x = f->x;
  char text[CURL_FAILURE_BYTES], whole[2 * CURL_FAILURE_BYTES], *url = NULL;
  enum sample_error error = SAMPLE_CONNECT;
  curl_easy_getinfo(f->easy, CURLINFO_EFFECTIVE_URL, &url);
  if (rc == CURLE_TOO_MANY_REDIRECTS)
    snprintf(text, sizeof text, "one redirect after the other (%u)", f->heads);
  else if (rc == CURLE_UNSUPPORTED_PROTOCOL || rc == CURLE_URL_MALFORMAT)
    snprintf(text, sizeof text, "that is no address of a server (%s)", f->said);
  else
    error = curl_setup_failure(x->target, f->easy, (int)rc, f->os_errno, f->said, text);
  size_t n = url ? strcspn(url, "?") : 0;
  snprintf(whole, sizeof whole, "redirected to %.*s: %s", (int)(n < 150 ? n : 150), url ? url : "",
           text);
  land(f);
  http_exchange_fail(x, error, whole);
}

/* The connection that was made for it serves others now. */
static void prove(struct flight *f) {
  curl_socket_t fd = CURL_SOCKET_BAD;
  if (f->connects && curl_easy_getinfo(f->easy, CURLINFO_ACTIVESOCKET, &fd) == CURLE_OK &&
      fd != CURL_SOCKET_BAD)
    curl_loop_proven(f->shard->full->client, fd);
}

/* libcurl is done with the request. Runs `done`. */
static void tell_end(struct flight *f) {
  struct http_exchange *x = f->x;
  struct http_read read = f->shard->read;
  CURLcode rc = (CURLcode)f->result;
  char text[CURL_FAILURE_BYTES];
  if (f->refused) {
    tell_broken(f, HTTP_BREAK_GARBLED, f->refused);
    return;
  }
  if (rc == CURLE_OK && !x->headers_done) { /* libcurl calls an end inside the head a success */
    tell_broken(f, HTTP_BREAK_CLOSED, NULL);
    return;
  }
  if (rc == CURLE_OK) {
    prove(f);
    land(f);
    http_exchange_end(x, &read);
    return;
  }
  if (lost_on_the_way(f, rc)) {
    tell_lost(f, rc);
    return;
  }
  bool connected = x->request->stamp_ns[STAMP_CONNECTED] != SAMPLE_NEVER;
  if (rc == CURLE_RECV_ERROR && !x->headers_done && strstr(f->said, " alert "))
    rc = CURLE_SSL_CONNECT_ERROR; /* TLS 1.3: a refused client certificate shows here */
  enum sample_error error =
      curl_setup_failure(x->target, f->easy, (int)rc, f->os_errno, f->said, text);
  if (!connected || (error == SAMPLE_TLS && !x->headers_done)) {
    land(f);
    http_exchange_fail(x, error, text);
    return;
  }
  long os_errno = 0;
  curl_easy_getinfo(f->easy, CURLINFO_OS_ERRNO, &os_errno);
  tell_broken(f, break_of(rc, os_errno, f->said), f->said[0] ? f->said : curl_easy_strerror(rc));
}

static void tell(struct flight *f) {
  struct shard *s = f->shard;
  struct http_exchange *x = f->x;
  if (f->handed)
    tell_sent(f);
  if (f->in_bytes) {
    s->read.drained_ns = f->drained_ns;
    f->drained_ns = s->read.loop_ns;
    http_exchange_read(x, f->in_bytes, &s->read);
    f->in_bytes = 0;
  }
  if (f->gather.len) {
    int rc = http_exchange_body(x, f->gather.data, f->gather.len, &s->read);
    buf_reset(&f->gather);
    if (rc) {
      struct http_read read = s->read;
      land(f);
      http_exchange_end(x, &read);
      return;
    }
  }
  if (f->finished)
    tell_end(f);
}

static void after_action(struct curl_loop *loop) {
  struct shard *s = CONTAINER_OF(loop, struct shard, loop);
  int left;
  for (CURLMsg *msg; (msg = curl_multi_info_read(loop->multi, &left));) {
    struct flight *f = NULL;
    if (msg->msg != CURLMSG_DONE)
      continue;
    CURLcode result = msg->data.result;
    curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&f);
    f->result = (int)result;
    f->finished = true;
    flight_note(f);
  }
  while (s->noted) {
    struct flight *f = s->noted;
    s->noted = f->next;
    if (!s->noted)
      s->noted_end = &s->noted;
    f->noted = false;
    f->next = NULL;
    tell(f);
  }
}

/* ---- the transport ---- */

static int full_start(void *self, struct http_exchange *x, struct err *err) {
  struct full *full = self;
  struct full_line *line = line_of(full, x->target);
  if (line->active < full->client->options.max_connections)
    return depart(full, x, err);
  full->client->stats.waits_for_connection++;
  line_add(&line->line, x);
  return 0;
}

static void full_cancel(void *self, struct http_exchange *x) {
  struct full *full = self;
  if (x->in_line)
    line_remove(&line_of(full, x->target)->line, x);
  else if (x->carrier)
    land(x->carrier);
}

static void full_close(void *self) {
  struct full *full = self;
  for (struct flight *f = full->spare, *next; f; f = next) {
    next = f->next;
    flight_free(f);
  }
  for (struct shard *s = full->shards, *next; s; s = next) {
    next = s->next;
    assert(s->active == 0);
    curl_loop_free(&s->loop);
    mem_free(s);
  }
  for (struct full_line *line = full->lines, *next; line; line = next) {
    next = line->next;
    line->target->full_line = NULL;
    mem_free(line);
  }
  mem_free(full);
}

void full_transport(struct http_client *c, struct transport *t) {
  struct full *full = MEM_NEW(struct full);
  full->client = c;
  *t = (struct transport){.name = "full",
                          .start = full_start,
                          .cancel = full_cancel,
                          .close = full_close,
                          .self = full};
}

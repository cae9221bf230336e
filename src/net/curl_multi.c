/* curl_multi.c: the full transport: libcurl's own HTTP for what h1.c does not do: HTTP/2 over TLS,
 * redirects, compression, odd proxies.
 *
 * Requests are spread over multi handles of 32 each, since libcurl walks all connections of one on
 * every request. Its callbacks only note; what they noted is told after each action, outside
 * libcurl: first that a request was sent, then body bytes (those of one action together), then
 * ends. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/curl_loop.h"
#include "net/kstamp.h"

#define FLIGHTS_PER_SHARD 32
#define CONNECTIONS_PER_SHARD 256L
#define MAX_REDIRECTS 10L
#define MAX_SPARE 256
#define SPARE_GATHER_BYTES ((size_t)64 << 10)

struct shard {
  struct curl_loop loop;
  struct full *full;
  struct shard *next;
  uint32_t active;
  struct http_read read; /* stamps of this action */
  struct flight *noted;  /* flights with something to tell, in order */
  struct flight **noted_end;
};

struct flight {        /* one request on its way */
  struct flight *next; /* in shard->noted, or the spare ones */
  struct shard *shard;
  struct http_exchange *x;
  CURL *easy;
  CURLU *url;
  struct http_target *target; /* whose settings the handle has */
  struct curl_slist *pinned, *headers;
  uint32_t pin_serial;
  struct buf gather; /* body bytes of this action */
  size_t in_bytes;   /* of headers and body in this action */
  size_t out_part, out_offset;
  uint64_t out_bytes, drained_ns;
  CURLcode result;
  long connects; /* connections made for this request so far */
  int status, os_errno;
  bool noted;
  bool connected_once, head_seen; /* tell a repeated attempt from a redirect */
  bool handed;                    /* libcurl has the whole request; `sent` is still to be told */
  bool finished;
  char said[CURL_ERROR_SIZE];
};

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

static void note(struct flight *f) {
  if (f->noted)
    return;
  f->noted = true;
  f->next = NULL;
  *f->shard->noted_end = f;
  f->shard->noted_end = &f->next;
}

static void forget_note(struct flight *f) {
  struct shard *s = f->shard;
  if (!f->noted)
    return;
  f->noted = false;
  for (struct flight **at = &s->noted; *at; at = &(*at)->next)
    if (*at == f) {
      *at = f->next;
      if (!*at)
        s->noted_end = at;
      break;
    }
}

/* ---- callbacks of libcurl: they note, and call nothing that ends a request ---- */

static curl_socket_t on_open(void *user, curlsocktype purpose, struct curl_sockaddr *addr) {
  (void)purpose;
  struct flight *f = user;
  int fd = curl_loop_open_socket(&f->shard->loop, addr->family, addr->socktype, addr->protocol,
                                 &f->os_errno);
  if (fd >= 0)
    f->shard->loop.client->stats.open_now++;
  return fd;
}

static int on_close(void *user, curl_socket_t fd) {
  struct shard *s = user;
  curl_loop_forget(s->loop.client, fd);
  s->loop.client->stats.open_now--;
  return close(fd);
}

/* A connection is ready. Called again for a redirect, and when libcurl found an idle connection
 * closed and repeats the request on another. */
static int on_ready(void *user, char *ip, char *local_ip, int port, int local_port) {
  (void)local_ip;
  (void)port;
  (void)local_port;
  struct flight *f = user;
  struct http_exchange *x = f->x;
  struct loop *loop = x->client->loop;
  long connects = 0;
  curl_easy_getinfo(f->easy, CURLINFO_NUM_CONNECTS, &connects);
  if (f->connected_once && !f->head_seen)
    http_exchange_restart(x, loop_refresh(loop));
  bool reused = connects == 0;
  if (!f->head_seen)
    http_exchange_connected(x, reused ? x->request->stamp_ns[STAMP_START] : loop_refresh(loop),
                            reused);
  if (connects > f->connects) {
    x->client->stats.connections_opened++;
    if (!f->head_seen) /* not the address of a redirect's target */
      http_resolve_settle(x->target, ip);
  }
  f->connects = connects;
  f->connected_once = true;
  f->head_seen = false;
  f->drained_ns = loop_now(loop);
  if (!x->body_bytes) {
    f->handed = true;
    note(f);
  }
  return CURL_PREREQFUNC_OK;
}

static size_t on_upload(char *out, size_t size, size_t n, void *user) {
  struct flight *f = user;
  const struct http_request *r = f->x->request;
  size_t room = size * n, done = 0;
  while (done < room && f->out_part < r->n_parts) {
    const struct blob *part = r->parts[f->out_part];
    size_t left = part->len - f->out_offset;
    size_t take = left < room - done ? left : room - done;
    memcpy(out + done, part->data + f->out_offset, take);
    done += take;
    f->out_offset += take;
    if (f->out_offset == part->len) {
      f->out_part++;
      f->out_offset = 0;
    }
  }
  f->out_bytes += done;
  if (f->out_bytes == f->x->body_bytes) {
    f->handed = true;
    note(f);
  }
  return done;
}

/* Only back to the start: the request is sent again. */
static int on_seek(void *user, curl_off_t offset, int origin) {
  struct flight *f = user;
  if (origin != SEEK_SET || offset != 0)
    return CURL_SEEKFUNC_CANTSEEK;
  f->out_part = f->out_offset = 0;
  f->out_bytes = 0;
  f->handed = false;
  return CURL_SEEKFUNC_OK;
}

static size_t on_header(char *line, size_t size, size_t n, void *user) {
  struct flight *f = user;
  struct http_exchange *x = f->x;
  size_t len = size * n, whole = len;
  f->in_bytes += len;
  note(f);
  while (len && (line[len - 1] == '\r' || line[len - 1] == '\n'))
    len--;
  if (len >= 5 && memcmp(line, "HTTP/", 5) == 0) {
    const char *space = memchr(line, ' ', len);
    f->status = space ? atoi(space + 1) : 0;
    http_exchange_head(x);
    return whole;
  }
  if (len == 0) {
    if (f->status >= 200) {
      f->head_seen = true;
      http_exchange_headers_done(x, f->status, &f->shard->read);
    }
    return whole;
  }
  const char *colon = memchr(line, ':', len);
  if (!colon)
    return whole;
  const char *value = colon + 1, *end = line + len;
  while (value < end && (*value == ' ' || *value == '\t'))
    value++;
  bool fits = http_exchange_header_name(x, line, (size_t)(colon - line)) == 0 &&
              http_exchange_header_name_end(x) == 0 &&
              http_exchange_header_value(x, value, (size_t)(end - value)) == 0 &&
              http_exchange_header_value_end(x) == 0;
  return fits ? whole : 0;
}

static size_t on_body(char *data, size_t size, size_t n, void *user) {
  struct flight *f = user;
  f->in_bytes += size * n;
  note(f);
  return buf_add(&f->gather, data, size * n) ? 0 : size * n;
}

/* ---- handles ---- */

static void flight_free(struct flight *f) {
  curl_easy_cleanup(f->easy);
  curl_url_cleanup(f->url);
  curl_slist_free_all(f->pinned);
  curl_slist_free_all(f->headers);
  buf_free(&f->gather);
  mem_free(f);
}

static struct flight *flight_new(void) {
  struct flight *f = MEM_NEW(struct flight);
  buf_init(&f->gather, (size_t)1 << 30);
  f->easy = curl_easy_init();
  f->url = curl_url();
  if (f->easy && f->url)
    return f;
  flight_free(f);
  return NULL;
}

/* What a target decides; kept while the handle serves it (setting everything anew costs a fifth).
 */
static void settle(struct flight *f, struct http_target *t) {
  CURL *e = f->easy;
  if (f->target == t && f->pin_serial == t->pin_serial)
    return;
  curl_easy_reset(e);
  curl_slist_free_all(f->pinned);
  f->target = t;
  f->pin_serial = t->pin_serial;
  curl_setup_target(e, t, &f->pinned);
  curl_url_set(f->url, CURLUPART_URL, t->base, 0);
  curl_easy_setopt(e, CURLOPT_CURLU, f->url);
  curl_easy_setopt(e, CURLOPT_HTTP_VERSION,
                   (long)(t->http2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(e, CURLOPT_PIPEWAIT, t->http2 ? 1L : 0L);
  curl_easy_setopt(e, CURLOPT_PRIVATE, f);
  curl_easy_setopt(e, CURLOPT_ERRORBUFFER, f->said);
  curl_easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_open);
  curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, f);
  curl_easy_setopt(e, CURLOPT_CLOSESOCKETFUNCTION, on_close);
  curl_easy_setopt(e, CURLOPT_PREREQFUNCTION, on_ready);
  curl_easy_setopt(e, CURLOPT_PREREQDATA, f);
  curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(e, CURLOPT_HEADERDATA, f);
  curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(e, CURLOPT_WRITEDATA, f);
  curl_easy_setopt(e, CURLOPT_READFUNCTION, on_upload);
  curl_easy_setopt(e, CURLOPT_READDATA, f);
  curl_easy_setopt(e, CURLOPT_SEEKFUNCTION, on_seek);
  curl_easy_setopt(e, CURLOPT_SEEKDATA, f);
  curl_easy_setopt(e, CURLOPT_MAXREDIRS, MAX_REDIRECTS);
  curl_easy_setopt(e, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(e, CURLOPT_POSTREDIR, CURL_REDIR_POST_301 | CURL_REDIR_POST_302);
}

static void set_url(struct flight *f) {
  const struct http_request *r = f->x->request;
  struct buf path;
  buf_init(&path, BUF_MAX_OWN);
  size_t n = strcspn(r->path, "?");
  buf_puts(&path, f->target->url.path);
  buf_put(&path, r->path, n);
  curl_url_set(f->url, CURLUPART_PATH, path.data, 0);
  curl_url_set(f->url, CURLUPART_QUERY, r->path[n] ? r->path + n + 1 : NULL, 0);
  buf_free(&path);
}

/* The caller's headers, and switches for those that libcurl would add. To libcurl "Name:" means
 * removal and "Name;" an empty value. */
static void set_headers(struct flight *f) {
  const struct http_request *r = f->x->request;
  bool typed = false;
  struct buf line;
  buf_init(&line, BUF_MAX_OWN);
  curl_slist_free_all(f->headers);
  f->headers = NULL;
  for (const char *p = r->headers; p && *p;) {
    const char *end = strstr(p, "\r\n");
    buf_reset(&line);
    buf_put(&line, p, (size_t)(end - p));
    typed = typed || strncasecmp(p, "content-type:", 13) == 0;
    size_t colon = strcspn(line.data, ":");
    if (line.data[colon] && strspn(line.data + colon + 1, " \t") == line.len - colon - 1) {
      line.data[colon] = ';';
      line.data[colon + 1] = '\0';
    }
    f->headers = curl_slist_append(f->headers, line.data);
    p = end + 2;
  }
  if (!typed)
    f->headers = curl_slist_append(f->headers, "Content-Type:");
  f->headers = curl_slist_append(f->headers, "Expect:");
  buf_free(&line);
  curl_easy_setopt(f->easy, CURLOPT_HTTPHEADER, f->headers);
}

static void set_method(struct flight *f) {
  const struct http_request *r = f->x->request;
  bool head = strcmp(r->method, "HEAD") == 0, get = strcmp(r->method, "GET") == 0;
  CURL *e = f->easy;
  curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, NULL);
  curl_easy_setopt(e, CURLOPT_HTTPGET, 1L); /* undoes POST and NOBODY */
  if (f->x->body_bytes || !(head || get)) {
    curl_easy_setopt(e, CURLOPT_POST, 1L);
    curl_easy_setopt(e, CURLOPT_POSTFIELDS, NULL);
    curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)f->x->body_bytes);
    if (strcmp(r->method, "POST") != 0)
      curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, r->method);
  } else if (head) {
    curl_easy_setopt(e, CURLOPT_NOBODY, 1L);
  }
  curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, r->follow_redirects ? 1L : 0L);
  curl_easy_setopt(e, CURLOPT_ACCEPT_ENCODING, r->accept_compressed ? "" : NULL);
}

/* ---- shards ---- */

static void before_action(struct curl_loop *loop, int fd, uint64_t stamp_ns) {
  struct shard *s = CONTAINER_OF(loop, struct shard, loop);
  s->read = (struct http_read){.loop_ns = stamp_ns};
  if (fd >= 0 && loop->client->options.kernel_stamps)
    s->read.kernel_ns = kstamp_convert(loop->client->loop, kstamp_peek(fd), stamp_ns);
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
  f->next = NULL;
  f->in_bytes = f->out_part = f->out_offset = 0;
  f->out_bytes = 0;
  f->status = f->os_errno = 0;
  f->connects = 0;
  f->connected_once = f->head_seen = f->handed = f->finished = false;
  f->said[0] = '\0';
  buf_reset(&f->gather);
  x->carrier = f;
  settle(f, x->target);
  curl_easy_setopt(f->easy, CURLOPT_CLOSESOCKETDATA, s);
  set_url(f);
  set_headers(f);
  set_method(f);
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
  forget_note(f);
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
    return HTTP_BREAK_GARBLED;
  case CURLE_RECV_ERROR:
    return os_errno == 0 || strstr(said, "unexpected eof") ? HTTP_BREAK_CLOSED : HTTP_BREAK_RESET;
  default:
    return HTTP_BREAK_RESET;
  }
}

/* libcurl is done with the request. Runs `done`. */
static void tell_end(struct flight *f) {
  struct http_exchange *x = f->x;
  struct http_read read = f->shard->read;
  CURLcode rc = f->result;
  char text[CURL_FAILURE_BYTES];
  if (rc == CURLE_OK) {
    land(f);
    http_exchange_end(x, &read);
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
  enum http_break how = break_of(rc, os_errno, f->said);
  snprintf(text, sizeof text, "%s", f->said[0] ? f->said : curl_easy_strerror(rc));
  land(f);
  http_exchange_broken(x, how, text, &read);
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
    f->result = result;
    f->finished = true;
    note(f);
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

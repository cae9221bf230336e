/* curl_flight.c: a request's easy handle: its settings, and the callbacks, which only note what
 * happened: nothing that ends a request may be called from inside libcurl. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/curl_flight.h"

#define MAX_REDIRECTS 10L
/* Below this libcurl puts a body that it gets whole into the same packet as the head, with HTTP/1
 * (its own limit); from a read function it always sends it apart. */
#define SMALL_BODY ((size_t)64 << 10)

void flight_note(struct flight *f) {
  if (f->noted)
    return;
  f->noted = true;
  f->next = NULL;
  *f->shard->noted_end = f;
  f->shard->noted_end = &f->next;
}

void flight_forget(struct flight *f) {
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

/* ---- callbacks ---- */

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

/* Whether libcurl is about to ask the target's own origin. */
static bool at_home(const struct flight *f) {
  char *text = NULL;
  struct url url;
  curl_easy_getinfo(f->easy, CURLINFO_EFFECTIVE_URL, &text);
  const char *host = text ? strstr(text, "://") : NULL;
  if (!host || url_parse(text, (size_t)(host + 3 - text) + strcspn(host + 3, "/?#"), &url, NULL))
    return false;
  const struct url *own = &f->target->url;
  bool same = url.tls == own->tls && url.port == own->port && strcmp(url.host, own->host) == 0;
  url_free(&url);
  return same;
}

/* A redirect leads on. Keys are for the one they were given for: libcurl itself keeps back
 * Authorization and Cookie alone, and a key may stand in any header. The list is read when the
 * request is written, which is after this. */
static void follow_hop(struct flight *f) {
  http_exchange_hop(f->x);
  curl_easy_setopt(f->easy, CURLOPT_HTTPHEADER, at_home(f) ? f->headers : f->abroad);
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
  if (f->connected_once && !f->head_seen) {
    http_exchange_restart(x, loop_refresh(loop));
    f->retried = true;
  } else if (f->head_seen) {
    follow_hop(f);
  }
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
  if (!x->body_bytes || f->inlined) {
    f->handed = true;
    flight_note(f);
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
    flight_note(f);
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

static size_t refuse(struct flight *f, const char *why) {
  f->refused = why;
  return 0;
}

/* h1.c and llhttp take no such reply either. HTTP/2 has its own rules, which nghttp2 knows. */
static const char *status_line(struct flight *f, const char *line, size_t len) {
  const char *space = memchr(line, ' ', len);
  f->status = space ? atoi(space + 1) : 0;
  f->in_head = true;
  f->has_length = f->is_chunked = false;
  http_exchange_head(f->x);
  if (!f->target->http2 && strncmp(line, "HTTP/1.", 7) != 0)
    return "its version is not HTTP/1";
  return f->status == 101 ? "it wants to switch protocols" : NULL;
}

static const char *framing_header(struct flight *f, const char *name, size_t name_len,
                                  const char *value, size_t len) {
  if (name_len == 14 && strncasecmp(name, "content-length", 14) == 0) {
    if (f->has_length)
      return "it has more than one Content-Length";
    if (!len || strspn(value, "0123456789") < len)
      return "its Content-Length is no number";
    f->has_length = true;
  } else if (name_len == 17 && strncasecmp(name, "transfer-encoding", 17) == 0) {
    if (http_odd_transfer_coding(value, len))
      return "its Transfer-Encoding is one that nobody asked for";
    f->is_chunked = true;
  }
  return f->has_length && f->is_chunked ? "it has both a Content-Length and a Transfer-Encoding"
                                        : NULL;
}

/* One header without its line break. */
static const char *take_header(struct flight *f, const char *line, size_t len) {
  struct http_exchange *x = f->x;
  const char *colon = memchr(line, ':', len), *end = line + len;
  if (!colon)
    return NULL;
  const char *value = colon + 1;
  while (value < end && (*value == ' ' || *value == '\t'))
    value++;
  while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
    end--;
  size_t name_len = (size_t)(colon - line), value_len = (size_t)(end - value);
  const char *wrong = framing_header(f, line, name_len, value, value_len);
  if (wrong)
    return wrong;
  bool fits = http_exchange_header_name(x, line, name_len) == 0 &&
              http_exchange_header_name_end(x) == 0 &&
              http_exchange_header_value(x, value, value_len) == 0 &&
              http_exchange_header_value_end(x) == 0;
  return fits ? NULL : "its headers are too long";
}

static size_t on_header(char *line, size_t size, size_t n, void *user) {
  struct flight *f = user;
  struct http_exchange *x = f->x;
  size_t len = size * n, whole = len;
  const char *wrong = NULL;
  bool begins = !f->head_seen && !f->in_head;
  f->in_bytes += len;
  flight_note(f);
  if (http_exchange_count_head(x, len))
    return refuse(f, f->head_seen ? "its trailers are too long" : "its headers are too long");
  bool proper = len >= 2 && line[len - 2] == '\r' && line[len - 1] == '\n';
  while (len && (line[len - 1] == '\r' || line[len - 1] == '\n'))
    len--;
  if (begins && len >= 5 && memcmp(line, "HTTP/", 5) == 0) {
    wrong = status_line(f, line, len);
  } else if (f->in_head && len == 0) {
    f->in_head = false;
    if (f->status >= 200) {
      f->head_seen = true;
      f->heads++;
      http_exchange_headers_done(x, f->status, &f->shard->read);
    }
  } else if (f->in_head) { /* else a trailer, which is not kept */
    wrong = take_header(f, line, len);
  }
  if (!wrong && !proper)
    wrong = "a line of its head does not end with CR LF";
  return wrong ? refuse(f, wrong) : whole;
}

static size_t on_body(char *data, size_t size, size_t n, void *user) {
  struct flight *f = user;
  f->in_bytes += size * n;
  flight_note(f);
  return buf_add(&f->gather, data, size * n) ? 0 : size * n;
}

/* ---- handles ---- */

void flight_free(struct flight *f) {
  curl_easy_cleanup(f->easy);
  curl_url_cleanup(f->url);
  curl_slist_free_all(f->pinned);
  curl_slist_free_all(f->headers);
  curl_slist_free_all(f->abroad);
  buf_free(&f->shape.path);
  buf_free(&f->shape.headers);
  buf_free(&f->gather);
  buf_free(&f->small);
  mem_free(f);
}

struct flight *flight_new(void) {
  struct flight *f = MEM_NEW(struct flight);
  buf_init(&f->shape.path, BUF_MAX_OWN);
  buf_init(&f->shape.headers, BUF_MAX_OWN);
  buf_init(&f->gather, (size_t)1 << 30);
  buf_init(&f->small, SMALL_BODY);
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
  if (f->target == t && f->pin_serial == t->pin_serial && !f->retried)
    return;
  f->retried = false;
  curl_easy_reset(e);
  f->shape.known = false;
  curl_slist_free_all(f->pinned);
  f->target = t;
  f->pin_serial = t->pin_serial;
  curl_setup_target(e, t, &f->pinned);
  curl_url_set(f->url, CURLUPART_URL, t->base, 0);
  curl_easy_setopt(e, CURLOPT_CURLU, f->url);
  curl_easy_setopt(e, CURLOPT_HTTP_VERSION,
                   (long)(t->http2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(e, CURLOPT_PIPEWAIT, t->http2 ? 1L : 0L);
  curl_easy_setopt(e, CURLOPT_DNS_CACHE_TIMEOUT, -1L); /* looked through for every request, else */
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

/* GET and HEAD without a body; everything else libcurl sends as a POST in other clothes. */
static bool is_bodiless(const struct http_exchange *x) {
  const char *method = x->request->method;
  return !x->body_bytes && (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0);
}

/* Headers that say something of the body or of what is wanted, and of nobody. */
static bool is_harmless(const char *line) {
  return strncasecmp(line, "accept", 6) == 0 || strncasecmp(line, "content-", 8) == 0 ||
         strncasecmp(line, "user-agent:", 11) == 0 || strncasecmp(line, "expect:", 7) == 0;
}

/* Headers that libcurl looks for, to leave out its own or to act on: each an entry of its own. */
static bool is_looked_for(const char *line, size_t len) {
  static const char *const names[] = {"host",   "connection", "accept-encoding",
                                      "expect", "te",         "upgrade"};
  size_t n = strcspn(line, ":");
  for (size_t i = 0; i < ARRAY_LEN(names); i++)
    if (n < len && strlen(names[i]) == n && strncasecmp(line, names[i], n) == 0)
      return true;
  return false;
}

static bool has_name(const char *line, const char *name) {
  size_t n = strlen(name);
  return strncasecmp(line, name, n) == 0 && line[n] == ':';
}

/* "Name: value" as an entry; without a value it is "Name;" to libcurl ("Name:" means removal). */
static struct curl_slist *add_entry(struct curl_slist *list, const char *line, size_t len,
                                    struct buf *room) {
  buf_reset(room);
  buf_put(room, line, len);
  size_t colon = strcspn(room->data, ":");
  if (room->data[colon] && strspn(room->data + colon + 1, " \t") == len - colon - 1) {
    room->data[colon] = ';';
    room->data[colon + 1] = '\0';
  }
  return curl_slist_append(list, room->data);
}

/* The caller's headers, and switches ("Name:") for those that libcurl would add. Those it has no
 * opinion on are one entry, line breaks and all: it walks the whole list a dozen times a request,
 * and copies entries as they are. */
static void set_headers(struct flight *f) {
  const struct http_request *r = f->x->request;
  struct buf joined, room;
  bool accepts = false, typed = false;
  size_t n_joined = 0;
  buf_init(&joined, BUF_MAX_OWN);
  buf_init(&room, BUF_MAX_OWN);
  curl_slist_free_all(f->headers);
  curl_slist_free_all(f->abroad);
  f->headers = f->abroad = NULL;
  for (const char *p = r->headers, *end; p && *p; p = end + 2) {
    end = strstr(p, "\r\n");
    size_t len = (size_t)(end - p);
    accepts = accepts || has_name(p, "accept");
    typed = typed || has_name(p, "content-type");
    if (is_looked_for(p, len)) {
      f->headers = add_entry(f->headers, p, len, &room);
    } else {
      if (joined.len)
        buf_puts(&joined, "\r\n");
      buf_put(&joined, p, len);
      n_joined++;
    }
    if (r->follow_redirects && is_harmless(p))
      f->abroad = add_entry(f->abroad, p, len, &room);
  }
  if (accepts)
    f->headers = curl_slist_append(f->headers, "Accept:");
  if (!is_bodiless(f->x))
    f->headers = curl_slist_append(f->headers, "Content-Type:");
  if (f->x->body_bytes > SMALL_BODY) /* libcurl asks "may I?" from a megabyte on */
    f->headers = curl_slist_append(f->headers, "Expect:");
  if (!typed && !is_bodiless(f->x) && r->follow_redirects)
    f->abroad = curl_slist_append(f->abroad, "Content-Type:");
  if (n_joined == 1)
    f->headers = add_entry(f->headers, joined.data, joined.len, &room);
  else if (joined.len)
    f->headers = curl_slist_append(f->headers, joined.data);
  buf_free(&joined);
  buf_free(&room);
  curl_easy_setopt(f->easy, CURLOPT_HTTPHEADER, f->headers);
}

/* A small body is given whole, a large one is fetched from its parts as it goes. */
static void set_body(struct flight *f) {
  const struct http_request *r = f->x->request;
  const char *whole = NULL;
  f->inlined = f->x->body_bytes > 0 && f->x->body_bytes < SMALL_BODY && !f->target->http2;
  if (f->inlined && r->n_parts == 1) {
    whole = r->parts[0]->data;
  } else if (f->inlined) {
    buf_reset(&f->small);
    for (size_t i = 0; i < r->n_parts; i++)
      buf_put(&f->small, r->parts[i]->data, r->parts[i]->len);
    whole = f->small.data;
  }
  curl_easy_setopt(f->easy, CURLOPT_POSTFIELDS, whole);
  curl_easy_setopt(f->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)f->x->body_bytes);
}

static void set_method(struct flight *f) {
  const struct http_request *r = f->x->request;
  CURL *e = f->easy;
  curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, NULL);
  curl_easy_setopt(e, CURLOPT_HTTPGET, 1L); /* undoes POST and NOBODY */
  if (!is_bodiless(f->x)) {
    curl_easy_setopt(e, CURLOPT_POST, 1L);
    if (strcmp(r->method, "POST") != 0)
      curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, r->method);
  } else if (strcmp(r->method, "HEAD") == 0) {
    curl_easy_setopt(e, CURLOPT_NOBODY, 1L);
  }
  curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, r->follow_redirects ? 1L : 0L);
  curl_easy_setopt(e, CURLOPT_ACCEPT_ENCODING, r->accept_compressed ? "" : NULL);
}

static bool same_bytes(const struct buf *b, const char *text) {
  return strlen(text) == b->len && memcmp(b->data, text, b->len) == 0;
}

/* The parts of a request that the one before on this handle mostly had too: what is the same is not
 * set again, nor parsed and copied by libcurl. A redirect changes libcurl's own copies alone. */
static void shape(struct flight *f) {
  const struct http_request *r = f->x->request;
  const char *headers = r->headers ? r->headers : "";
  struct flight_shape *s = &f->shape;
  bool bodiless = is_bodiless(f->x), large = f->x->body_bytes > SMALL_BODY;
  bool squeeze = r->accept_compressed, follow = r->follow_redirects;
  if (!s->known || !same_bytes(&s->path, r->path)) {
    set_url(f);
    buf_reset(&s->path);
    buf_puts(&s->path, r->path);
  }
  bool same = s->known && s->bodiless == bodiless && s->follow == follow;
  if (!same || s->large != large || !same_bytes(&s->headers, headers)) {
    set_headers(f);
    buf_reset(&s->headers);
    buf_puts(&s->headers, headers);
  } else if (follow) {
    curl_easy_setopt(f->easy, CURLOPT_HTTPHEADER, f->headers); /* as a redirect may have left it */
  }
  if (!same || s->squeeze != squeeze || strcmp(s->method, r->method) != 0) {
    set_method(f);
    snprintf(s->method, sizeof s->method, "%s", r->method);
  }
  s->bodiless = bodiless;
  s->large = large;
  s->follow = follow;
  s->squeeze = squeeze;
  s->known = strlen(r->method) < sizeof s->method;
}

void flight_prepare(struct flight *f) {
  f->next = NULL;
  f->in_bytes = f->out_part = f->out_offset = 0;
  f->out_bytes = 0;
  f->status = f->os_errno = 0;
  f->connects = 0;
  f->inlined = f->connected_once = f->head_seen = f->handed = f->finished = false;
  f->in_head = false;
  f->heads = 0;
  f->refused = NULL;
  f->said[0] = '\0';
  buf_reset(&f->gather);
  settle(f, f->x->target);
  curl_easy_setopt(f->easy, CURLOPT_CLOSESOCKETDATA, f->shard);
  shape(f);
  if (!is_bodiless(f->x))
    set_body(f);
}

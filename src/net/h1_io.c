/* h1_io.c: bytes onto a connection and off it, plain or through OpenSSL.
 *
 * A prompt is sent from where it lies: the head and the request's parts go out with one system
 * call, partial writes go on where they stopped. Below TLS sits a BIO of our own, so that both
 * kinds read with the kernel's stamps and neither can raise SIGPIPE. libcurl's own BIO, which it
 * replaces, may not be used outside libcurl's calls. */
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/mem.h"
#include "net/h1.h"

#define MAX_IOV 1024  /* what one sendmsg takes */
#define RECORD_IOV 64 /* looked at for one TLS record */
#define SHORT_BYTES 2048

/* ---- the head ---- */

static char *put(char *p, const char *s, size_t len) {
  memcpy(p, s, len);
  return p + len;
}

#define PUT(p, literal) put((p), (literal), sizeof(literal) - 1)

/* As printf would, at a tenth of the cost: this is once per request. */
static char *put_length(char *p, uint64_t n) {
  char digits[24], *d = digits + sizeof digits;
  do
    *--d = (char)('0' + n % 10);
  while (n /= 10);
  p = put(PUT(p, "Content-Length: "), d, (size_t)(digits + sizeof digits - d));
  return PUT(p, "\r\n");
}

#define FIXED_BYTES 128 /* more than what is not a text of the request's or target's */

void h1_io_head(struct http_exchange *x) {
  const struct http_request *r = x->request;
  const struct http_target *t = x->target;
  struct buf *b = &x->head;
  const char *headers = r->headers ? r->headers : "";
  size_t method = strlen(r->method), prefix = strlen(t->url.path), path = strlen(r->path),
         authority = strlen(t->authority), lines = strlen(headers);
  buf_reset(b);
  char *start = buf_room(b, method + prefix + path + authority + lines + FIXED_BYTES);
  char *p = put(start, r->method, method);
  *p++ = ' ';
  p = put(put(p, t->url.path, prefix), r->path, path);
  p = PUT(p, " HTTP/1.1\r\n");
  if (!x->has_host) {
    p = put(PUT(p, "Host: "), t->authority, authority);
    p = PUT(p, "\r\n");
  }
  if (!x->has_accept)
    p = PUT(p, "Accept: */*\r\n");
  p = put(p, headers, lines);
  bool bodiless = strcmp(r->method, "GET") == 0 || strcmp(r->method, "HEAD") == 0;
  if (x->body_bytes || r->n_parts || !bodiless)
    p = put_length(p, x->body_bytes);
  p = PUT(p, "\r\n");
  b->len = (size_t)(p - start);
  *p = '\0';
}

/* ---- out ---- */

/* What is still to be sent, from the cursor on; at most `max` pieces. */
static size_t gather(const struct h1_conn *c, struct iovec *iov, size_t max) {
  const struct http_request *r = c->x->request;
  size_t n = 0, offset = c->out_offset;
  for (size_t part = c->out_part; part <= r->n_parts && n < max; part++, offset = 0) {
    char *data = part ? r->parts[part - 1]->data : c->x->head.data;
    size_t len = part ? r->parts[part - 1]->len : c->x->head.len;
    if (len > offset)
      iov[n++] = (struct iovec){.iov_base = data + offset, .iov_len = len - offset};
  }
  return n;
}

static void advance(struct h1_conn *c, size_t sent) {
  const struct http_request *r = c->x->request;
  c->out_bytes += sent;
  while (sent) {
    size_t len = c->out_part ? r->parts[c->out_part - 1]->len : c->x->head.len;
    size_t left = len - c->out_offset;
    if (sent < left) {
      c->out_offset += sent;
      return;
    }
    sent -= left;
    c->out_part++;
    c->out_offset = 0;
  }
}

/* A short request is put together: that costs less than the kernel's going through a list. */
static ssize_t send_pieces(int fd, struct iovec *iov, size_t n, size_t bytes) {
  char together[SHORT_BYTES], *p = together;
  if (n > 1 && bytes > sizeof together) {
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = n};
    return sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  for (size_t i = 0; n > 1 && i < n; i++)
    p = put(p, iov[i].iov_base, iov[i].iov_len);
  return send(fd, n > 1 ? together : iov[0].iov_base, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int send_plain(struct h1_conn *c) {
  struct iovec iov[MAX_IOV];
  for (;;) {
    size_t n = gather(c, iov, MAX_IOV), want = 0;
    if (!n)
      return 0;
    for (size_t i = 0; i < n; i++)
      want += iov[i].iov_len;
    ssize_t sent = send_pieces(c->fd, iov, n, want);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent < 0) {
      if (errno == EAGAIN)
        return H1_IO_AGAIN;
      c->send_error = errno;
      return H1_IO_ERROR;
    }
    advance(c, (size_t)sent);
    if ((size_t)sent == want && n < MAX_IOV)
      return 0;
  }
}

/* The next record's bytes: in place when they lie in one piece, else put together. The same bytes
 * again when a write has to be repeated, as OpenSSL demands. */
static const char *next_record(struct h1_conn *c, size_t *len) {
  struct h1 *h1 = c->pool->h1;
  struct iovec iov[RECORD_IOV];
  size_t n = gather(c, iov, RECORD_IOV);
  *len = 0;
  if (!n)
    return NULL;
  if (n == 1 || iov[0].iov_len >= H1_OUT_BYTES) {
    *len = iov[0].iov_len < H1_OUT_BYTES ? iov[0].iov_len : H1_OUT_BYTES;
    return iov[0].iov_base;
  }
  if (!h1->out)
    h1->out = mem_alloc(H1_OUT_BYTES);
  for (size_t i = 0; i < n && *len < H1_OUT_BYTES; i++) {
    size_t room = H1_OUT_BYTES - *len;
    size_t take = iov[i].iov_len < room ? iov[i].iov_len : room;
    memcpy(h1->out + *len, iov[i].iov_base, take);
    *len += take;
  }
  return h1->out;
}

static int send_tls(struct h1_conn *c) {
  for (;;) {
    size_t len;
    const char *data = next_record(c, &len);
    if (!data)
      return 0;
    ERR_clear_error();
    c->bio_errno = 0;
    int sent = SSL_write(c->ssl, data, (int)len);
    if (sent > 0) {
      advance(c, (size_t)sent);
      continue;
    }
    int why = SSL_get_error(c->ssl, sent);
    if (why == SSL_ERROR_WANT_WRITE || why == SSL_ERROR_WANT_READ)
      return H1_IO_AGAIN;
    c->send_error = c->bio_errno ? c->bio_errno : EPIPE;
    ERR_clear_error();
    return H1_IO_ERROR;
  }
}

int h1_io_send(struct h1_conn *c) {
  return c->ssl ? send_tls(c) : send_plain(c);
}

/* ---- in ---- */

static ssize_t recv_fd(struct h1_conn *c, char *buf, size_t len) {
  ssize_t n;
  do {
    if (c->pool->h1->client->options.kernel_stamps)
      n = kstamp_recv(c->fd, buf, len, MSG_DONTWAIT, &c->wall_ns);
    else
      n = recv(c->fd, buf, len, MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  return n;
}

static ssize_t recv_plain(struct h1_conn *c, char *buf, size_t len, bool *full, const char **text) {
  ssize_t n = recv_fd(c, buf, len);
  *full = n == (ssize_t)len;
  if (n >= 0)
    return n;
  if (errno == EAGAIN)
    return H1_IO_AGAIN;
  *text = errno == ECONNRESET ? NULL : strerror(errno);
  return H1_IO_ERROR;
}

/* Why SSL_read brought nothing: 0 = the end, H1_IO_AGAIN, H1_IO_ERROR with c->broken. */
static ssize_t tls_problem(struct h1_conn *c, int n) {
  int why = SSL_get_error(c->ssl, n);
  if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
    return H1_IO_AGAIN;
  if (why == SSL_ERROR_ZERO_RETURN)
    return 0;
  unsigned long error = ERR_peek_error();
  ERR_clear_error();
  if (why == SSL_ERROR_SSL && ERR_GET_REASON(error) != SSL_R_UNEXPECTED_EOF_WHILE_READING) {
    c->broken = ERR_reason_error_string(error);
    if (!c->broken)
      c->broken = "broken TLS record";
    return H1_IO_ERROR;
  }
  return c->bio_errno ? H1_IO_ERROR : 0; /* 0: closed without saying so in TLS */
}

/* Records until the buffer is full or the socket is empty: they are one read. What ends it is told
 * by the next call: OpenSSL says it only once. */
static ssize_t recv_tls(struct h1_conn *c, char *buf, size_t len, bool *full, const char **text) {
  size_t got = 0;
  if (c->broken) {
    *text = c->broken;
    return H1_IO_ERROR;
  }
  c->bio_errno = 0;
  while (got < len) {
    ERR_clear_error();
    int n = SSL_read(c->ssl, buf + got, (int)(len - got));
    if (n > 0) {
      got += (size_t)n;
      continue;
    }
    ssize_t problem = tls_problem(c, n);
    *full = got > 0 && problem != H1_IO_AGAIN;
    *text = c->broken;
    return got > 0 ? (ssize_t)got : problem;
  }
  *full = true;
  return (ssize_t)got;
}

ssize_t h1_io_recv(struct h1_conn *c, char *buf, size_t len, bool *full, const char **text) {
  c->wall_ns = 0;
  *text = NULL;
  *full = false;
  return c->ssl ? recv_tls(c, buf, len, full, text) : recv_plain(c, buf, len, full, text);
}

bool h1_io_pending(const struct h1_conn *c) {
  return c->ssl && SSL_has_pending(c->ssl);
}

/* ---- below TLS ---- */

static int bio_read(BIO *bio, char *buf, int len) {
  struct h1_conn *c = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  uint64_t stamp = c->wall_ns;
  ssize_t n = recv_fd(c, buf, (size_t)len);
  if (n <= 0)
    c->wall_ns = stamp; /* the last read that brought something counts */
  if (n < 0) {
    if (errno == EAGAIN)
      BIO_set_retry_read(bio);
    else
      c->bio_errno = errno;
  }
  return (int)n;
}

static int bio_write(BIO *bio, const char *buf, int len) {
  struct h1_conn *c = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  ssize_t n;
  do {
    n = send(c->fd, buf, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    if (errno == EAGAIN)
      BIO_set_retry_write(bio);
    else
      c->bio_errno = errno;
  }
  return (int)n;
}

static long bio_ctrl(BIO *bio, int cmd, long num, void *ptr) {
  (void)bio;
  (void)num;
  (void)ptr;
  return cmd == BIO_CTRL_FLUSH || cmd == BIO_CTRL_DUP ? 1 : 0;
}

void h1_io_adopt(struct h1_conn *c) {
  struct h1 *h1 = c->pool->h1;
  if (!h1->bio) {
    h1->bio = BIO_meth_new(BIO_TYPE_SOURCE_SINK | 0x70, "perigee socket");
    BIO_meth_set_read(h1->bio, bio_read);
    BIO_meth_set_write(h1->bio, bio_write);
    BIO_meth_set_ctrl(h1->bio, bio_ctrl);
  }
  BIO *bio = BIO_new(h1->bio);
  assert(bio);
  BIO_set_data(bio, c);
  BIO_set_init(bio, 1);
  SSL_set_bio(c->ssl, bio, bio);
  SSL_set_mode(c->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                           SSL_MODE_RELEASE_BUFFERS);
  SSL_set_read_ahead(c->ssl, 1);
}

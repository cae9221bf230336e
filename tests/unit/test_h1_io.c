/* test_h1_io.c: bytes out and in: bodies of many parts and many megabytes, written in pieces, plain
 * and through TLS; what TLS does at its edges. */
#include "tls_peer.h"

#include "net/client.h"

#define OK_REPLY "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define MS NS_PER_MS

/* ---- sums: what arrives must be what was sent ---- */

static uint64_t add_sum(uint64_t sum, const char *data, size_t len) {
  for (size_t i = 0; i < len; i++)
    sum = (sum ^ (unsigned char)data[i]) * UINT64_C(1099511628211);
  return sum;
}

struct upload {
  struct tls_peer tls; /* .cert NULL: plain */
  uint64_t sum;
  size_t len;
};

static ssize_t some(int fd, SSL *ssl, char *buf, size_t len) {
  return ssl ? SSL_read(ssl, buf, (int)len) : read(fd, buf, len);
}

/* Reads a request with any body, slowly, sums it up, replies; one connection. */
static void script_upload(struct peer *p) {
  struct upload *u = p->arg;
  SSL_CTX *ctx = u->tls.cert ? tls_context(&u->tls) : NULL;
  int fd = peer_accept(p);
  SSL *ssl = ctx && fd >= 0 ? tls_accept(ctx, fd) : NULL;
  static char buf[1 << 16];
  for (bool on = fd >= 0; on;) {
    size_t have = 0, want = 0;
    char *end = NULL;
    while (!end && have < sizeof buf - 1) {
      ssize_t n = some(fd, ssl, buf + have, sizeof buf - 1 - have);
      if (n <= 0)
        break;
      have += (size_t)n;
      buf[have] = '\0';
      end = strstr(buf, "\r\n\r\n");
    }
    if (!end)
      break;
    want = strtoul(strcasestr(buf, "content-length:") + 15, NULL, 10);
    size_t got = have - (size_t)(end + 4 - buf);
    uint64_t sum = add_sum(0, end + 4, got);
    while (got < want) {
      if (got < 100000) /* the client meets a full socket */
        clock_sleep_ns(MS);
      ssize_t n = some(fd, ssl, buf, sizeof buf);
      if (n <= 0)
        break;
      sum = add_sum(sum, buf, (size_t)n);
      got += (size_t)n;
    }
    u->sum = sum;
    u->len = got;
    if (ssl)
      SSL_write(ssl, p->text, (int)strlen(p->text));
    else
      peer_puts(fd, p->text);
    on = got == want;
  }
  if (ssl)
    tls_close(ssl, true);
  else if (fd >= 0)
    close(fd);
  SSL_CTX_free(ctx);
}

static void upload(const char *cert, const size_t *sizes, size_t n_parts) {
  struct net n;
  struct upload u = {.tls = {.files = &files, .cert = cert}};
  struct peer p = {.text = OK_REPLY, .arg = &u};
  struct http_request r;
  struct blob **parts = mem_calloc(n_parts, sizeof *parts);
  uint64_t sum = 0;
  size_t total = 0;
  for (size_t i = 0; i < n_parts; i++) {
    char *data = mem_alloc(sizes[i % 7]);
    for (size_t k = 0; k < sizes[i % 7]; k++)
      data[k] = (char)(k * 31 + i * 7 + (k >> 9));
    parts[i] = blob_new(data, sizes[i % 7]);
    sum = add_sum(sum, data, sizes[i % 7]);
    total += sizes[i % 7];
    mem_free(data);
  }
  peer_start(&p, script_upload);
  net_start(&n, NULL);
  struct http_target *t =
      net_target(&n, cert ? "https" : "http", "127.0.0.1", p.port,
                 &(struct http_target_options){.tls.ca_file = cert ? files.ca : NULL});
  for (int i = 0; i < 2; i++) {
    net_request(&n, &r, t, "POST", "/upload");
    r.parts = parts;
    r.n_parts = n_parts;
    r.sample = sample_new();
    net_send(&n, &r);
    net_wait(&n, i + 1);
    check_outcome(&r, SAMPLE_OK, "");
    assert_int_equal(u.len, total);
    assert_true(u.sum == sum);
    assert_int_equal(r.reused_connection, i);
    assert_true(r.stamp_ns[STAMP_SENT] >= r.stamp_ns[STAMP_CONNECTED]);
    assert_true(r.stamp_ns[STAMP_SENT] <= r.stamp_ns[STAMP_HEADERS]);
    uint64_t head = net_sample(&n, (size_t)i)->bytes_sent - total;
    assert_true(head > 50 && head < 200);
    http_request_free(&r);
  }
  for (size_t i = 0; i < n_parts; i++)
    blob_unref(parts[i]);
  mem_free(parts);
  net_stop(&n);
  peer_stop(&p);
}

static void bodies(void **state) {
  (void)state;
  static const size_t sizes[7] = {1, 0, 700, 20000, 3, 16384, 5000};
  static const size_t small[7] = {2, 3, 5, 7, 0, 11, 13};
  static const size_t large[7] = {(size_t)9 << 20, 0, (size_t)3 << 20, 17, 70000, 1, 16385};
  static const char *const certs[] = {NULL, "good"};
  for (size_t i = 0; i < ARRAY_LEN(certs); i++) {
    upload(certs[i], sizes, 1);
    upload(certs[i], sizes, 2);
    upload(certs[i], sizes, 63);
    upload(certs[i], sizes, 64);
    upload(certs[i], sizes, 65);
    upload(certs[i], small, 3000);
    upload(certs[i], large, 7);
  }
}

/* ---- large replies ---- */

#define LARGE ((size_t)5 << 20)

static void script_large(struct peer *p) {
  struct tls_peer *t = p->arg;
  SSL_CTX *ctx = t->cert ? tls_context(t) : NULL;
  int fd = peer_accept(p);
  SSL *ssl = ctx && fd >= 0 ? tls_accept(ctx, fd) : NULL;
  char *data = mem_alloc(LARGE + 100);
  int head = snprintf(data, 100, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", LARGE);
  for (size_t i = 0; i < LARGE; i++)
    data[(size_t)head + i] = (char)('a' + i % 23);
  while (fd >= 0 && (ssl ? tls_read(p, ssl) : peer_read(p, fd))) {
    if (ssl)
      SSL_write(ssl, data, head + (int)LARGE);
    else
      peer_send(fd, data, (size_t)head + LARGE);
  }
  mem_free(data);
  if (ssl)
    tls_close(ssl, true);
  else if (fd >= 0)
    close(fd);
  SSL_CTX_free(ctx);
}

static void large_replies(void **state) {
  (void)state;
  static const char *const certs[] = {NULL, "good"};
  for (size_t i = 0; i < ARRAY_LEN(certs); i++) {
    struct net n;
    struct tls_peer tls = {.files = &files, .cert = certs[i]};
    struct peer p = {.arg = &tls};
    struct http_request r;
    peer_start(&p, script_large);
    net_start(&n, NULL);
    struct http_target *t =
        net_target(&n, certs[i] ? "https" : "http", "127.0.0.1", p.port,
                   &(struct http_target_options){.tls.ca_file = certs[i] ? files.ca : NULL});
    for (int k = 0; k < 2; k++) {
      net_request(&n, &r, t, "GET", "/");
      net_send(&n, &r);
      net_wait(&n, k + 1);
      check_outcome(&r, SAMPLE_OK, "");
      assert_int_equal(r.body.len, LARGE);
      for (size_t b = 0; b < LARGE; b += 997)
        assert_int_equal(r.body.data[b], 'a' + b % 23);
      assert_int_equal(r.reused_connection, k);
      http_request_free(&r);
    }
    net_stop(&n);
    peer_stop(&p);
  }
}

/* ---- the edges of TLS ---- */

/* p->step: 1 = one reply, then a polite end; 2 = one reply, then the socket just closes; 3 = half a
 * reply, and closed; 4 = half a reply, and a broken record; 5 = a stream in small records. Then
 * serves as usual. */
static void script_edges(struct peer *p) {
  struct tls_peer *t = p->arg;
  SSL_CTX *ctx = tls_context(t);
  static const char stream[] = HEAD_SSE "Transfer-Encoding: chunked\r\n\r\n39\r\n" EVENT(
      "a") "\r\n39\r\n" EVENT("b") "\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";
  for (int fd; (fd = peer_accept(p)) >= 0;) {
    SSL *ssl = tls_accept(ctx, fd);
    if (!ssl)
      continue;
    while (tls_read(p, ssl)) {
      if (p->step == 5) {
        for (const char *s = stream; *s; s++)
          SSL_write(ssl, s, 1);
        continue;
      }
      SSL_write(ssl, p->text, (int)strlen(p->text) - (p->step == 3 || p->step == 4 ? 1 : 0));
      if (p->step == 4)
        peer_puts(fd, "this is no TLS record, not at all");
      if (p->step)
        break;
    }
    tls_close(ssl, p->step == 1);
  }
  SSL_CTX_free(ctx);
}

static void edges(void **state) {
  (void)state;
  static const struct {
    int step;
    enum sample_error error;
    const char *detail;
  } all[] = {{1, SAMPLE_OK, ""},
             {2, SAMPLE_OK, ""},
             {3, SAMPLE_TRUNCATED, "ends early, after 1 bytes"},
             {4, SAMPLE_RESET, "reset after 1 bytes of the reply: "},
             {5, SAMPLE_OK, ""}};
  for (size_t i = 0; i < ARRAY_LEN(all); i++)
    for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
      struct net n;
      struct tls_peer tls = {.files = &files, .cert = "good", .max_version = version};
      struct peer p = {.text = OK_REPLY, .arg = &tls, .step = all[i].step};
      struct http_request r;
      int before = open_descriptors();
      peer_start(&p, script_edges);
      net_start(&n, NULL);
      struct http_target *t = net_target(&n, "https", "127.0.0.1", p.port,
                                         &(struct http_target_options){.tls.ca_file = files.ca});
      for (int k = 0; k < 2; k++) {
        if (all[i].step == 5)
          net_stream(&n, &r, t);
        else
          net_request(&n, &r, t, "GET", "/");
        net_send(&n, &r);
        net_wait(&n, k + 1);
        check_outcome(&r, all[i].error, all[i].detail);
        if (all[i].step == 5)
          assert_string_equal(r.stream.result.choices[0].text.data, "ab");
        http_request_free(&r);
      }
      /* A connection that was closed, politely or not, was noticed when idle or replaced. */
      assert_int_equal(p.requests, 2);
      net_stop(&n);
      peer_stop(&p);
      assert_int_equal(open_descriptors(), before);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bodies),
      cmocka_unit_test(large_replies),
      cmocka_unit_test(edges),
  };
  return cmocka_run_group_tests(tests, tls_group_start, tls_group_stop);
}

/* target.c: targets: an origin with its TLS, proxy and protocol settings, checked once.
 *
 * Everything that can be wrong with an address is found here, before a request is made of it. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/client.h"

static bool same_text(const char *a, const char *b) {
  return a && b ? strcmp(a, b) == 0 : a == b;
}

static char *copy_text(const char *s) {
  return s ? mem_strdup(s) : NULL;
}

static bool same_target(const struct http_target *a, const struct http_target *b) {
  return strcmp(a->base, b->base) == 0 && same_text(a->ca_file, b->ca_file) &&
         same_text(a->cert_file, b->cert_file) && same_text(a->key_file, b->key_file) &&
         same_text(a->proxy, b->proxy) && a->insecure == b->insecure && a->http2 == b->http2 &&
         a->full == b->full && a->known_to_report == b->known_to_report &&
         (a->reports == b->reports ||
          (a->reports == &a->own_reports && b->reports == &b->own_reports));
}

static int check_file(const char *url, const char *what, const char *path, struct err *err) {
  if (!path || access(path, R_OK) == 0)
    return 0;
  return err_set(err, ERR_INVALID, "%s: cannot read the %s %s: %s", url, what, path,
                 strerror(errno));
}

static const struct {
  const char *name;
  uint16_t port; /* where none is given: libcurl's */
} proxy_schemes[] = {{"http://", 1080},    {"https://", 443},   {"socks4://", 1080},
                     {"socks4a://", 1080}, {"socks5://", 1080}, {"socks5h://", 1080}};

static bool is_proxy_host(const char *p, size_t len, bool brackets) {
  if (brackets) {
    char text[INET6_ADDRSTRLEN];
    unsigned char bytes[16];
    snprintf(text, sizeof text, "%.*s", (int)(len < sizeof text ? len : sizeof text - 1), p);
    return len < sizeof text && inet_pton(AF_INET6, text, bytes) == 1;
  }
  for (size_t i = 0; i < len; i++)
    if (!isalnum((unsigned char)p[i]) && !strchr("-._", p[i]))
      return false;
  return len > 0 && len <= URL_HOST_MAX;
}

/* ":port", "/" or nothing; 0 when it is none of them. */
static uint16_t proxy_port(const char *p, uint16_t usual) {
  unsigned long port = usual;
  if (*p == ':') {
    const char *first = ++p;
    for (port = 0; *p >= '0' && *p <= '9' && port < 65536; p++)
      port = port * 10 + (unsigned long)(*p - '0');
    if (p == first)
      return 0;
  }
  return (*p && strcmp(p, "/") != 0) || port > 65535 ? 0 : (uint16_t)port;
}

/* Finds host and port of a proxy's address; user and password libcurl reads. They are never shown.
 * *name is the caller's to free. */
static int proxy_name(const char *proxy, char **name, uint16_t *port, struct err *err) {
  const char *p = NULL, *at = strrchr(proxy, '@'), *shown = at ? at + 1 : proxy;
  uint16_t usual = 0;
  for (size_t i = 0; i < ARRAY_LEN(proxy_schemes) && !p; i++)
    if (strncasecmp(proxy, proxy_schemes[i].name, strlen(proxy_schemes[i].name)) == 0) {
      p = proxy + strlen(proxy_schemes[i].name);
      usual = proxy_schemes[i].port;
    }
  for (const char *c = proxy; *c; c++)
    if ((unsigned char)*c <= ' ' || *c == 127)
      return err_set(err, ERR_INVALID, "a proxy's address holds no spaces and control characters");
  if (!p)
    return err_set(err, ERR_INVALID,
                   "proxy \"%s\": it must begin with http://, https://, socks4://, socks4a://, "
                   "socks5:// or socks5h://",
                   shown);
  if (at)
    p = at + 1;
  bool brackets = *p == '[';
  p += brackets;
  size_t len = brackets ? strcspn(p, "]") : strcspn(p, ":/");
  if (!len || (brackets && !p[len]))
    return err_set(err, ERR_INVALID, "proxy \"%s\": it names no host", shown);
  if (!is_proxy_host(p, len, brackets))
    return err_set(err, ERR_INVALID, "proxy \"%s\": its host is neither a name nor an address",
                   shown);
  *port = proxy_port(p + len + brackets, usual);
  if (!*port)
    return err_set(err, ERR_INVALID,
                   "proxy \"%s\": the port must be 1 to 65535, with nothing behind it", shown);
  *name = mem_strndup(p, len);
  return 0;
}

int http_proxy_check(const char *proxy, struct err *err) {
  char *name = NULL;
  uint16_t port;
  int rc = proxy_name(proxy, &name, &port, err);
  mem_free(name);
  return rc;
}

static bool is_address(const char *host) {
  unsigned char bytes[16];
  return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

static int fill(struct http_target *t, const struct http_target_options *o, struct err *err) {
  int rc = url_parse(o->url, strlen(o->url), &t->url, err);
  if (rc)
    return rc;
  url_authority(&t->url, t->authority, sizeof t->authority);
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  buf_printf(&b, "%s://%s", t->url.tls ? "https" : "http", t->authority);
  t->origin_len = b.len;
  buf_puts(&b, t->url.path);
  t->base = buf_take(&b, NULL);
  if (o->http2 && !t->url.tls)
    return err_set(err, ERR_UNSUPPORTED,
                   "%s: HTTP/2 without TLS is refused: this libcurl breaks every reused connection "
                   "(curl issue 10634); use https, or leave http2 out",
                   t->base);
  if ((rc = check_file(t->base, "CA file", o->tls.ca_file, err)) ||
      (rc = check_file(t->base, "client certificate", o->tls.cert_file, err)) ||
      (rc = check_file(t->base, "client key", o->tls.key_file, err)))
    return rc;
  if (o->tls.key_file && !o->tls.cert_file)
    return err_set(err, ERR_INVALID, "%s: a client key needs its certificate", t->base);
  t->ca_file = copy_text(o->tls.ca_file);
  t->cert_file = copy_text(o->tls.cert_file);
  t->key_file = copy_text(o->tls.key_file);
  t->proxy = o->proxy && *o->proxy ? mem_strdup(o->proxy) : NULL;
  t->insecure = o->tls.insecure;
  t->http2 = o->http2;
  t->full = o->full;
  t->known_to_report = o->reports_cached;
  t->reports = o->reports ? o->reports : &t->own_reports;
  if (t->proxy && (rc = proxy_name(t->proxy, &t->name, &t->name_port, err)))
    return rc;
  if (!t->proxy) {
    t->name = mem_strdup(t->url.host);
    t->name_port = t->url.port;
  }
  t->state = is_address(t->name) ? TARGET_READY : TARGET_NEW;
  return 0;
}

int http_client_target(struct http_client *c, const struct http_target_options *options,
                       struct http_target **out, struct err *err) {
  struct http_target *t = MEM_NEW(struct http_target);
  t->client = c;
  int rc = fill(t, options, err);
  if (rc) {
    http_target_delete(t);
    return rc;
  }
  for (struct http_target *old = c->targets; old; old = old->next)
    if (same_target(old, t)) {
      http_target_delete(t);
      *out = old;
      return 0;
    }
  t->next = c->targets;
  c->targets = t;
  *out = t;
  return 0;
}

void http_target_delete(struct http_target *t) {
  if (t->resolve)
    http_resolve_drop(t->resolve);
  url_free(&t->url);
  mem_free(t->base);
  mem_free(t->ca_file);
  mem_free(t->cert_file);
  mem_free(t->key_file);
  mem_free(t->proxy);
  mem_free(t->name);
  mem_free(t->pinned);
  mem_free(t);
}

const char *http_target_url(const struct http_target *t) {
  return t->base;
}

bool http_target_reports(const struct http_target *t) {
  return t->known_to_report || atomic_load_explicit(t->reports, memory_order_relaxed);
}

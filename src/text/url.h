/* url.h: the addresses that perigee talks to: http://host:port/prefix and https://….
 *
 * Pure: no name is resolved. What could not be meant is refused with a text that names the URL and
 * the way out, before anything connects. Source: RFC 3986, of which only these forms are taken. */
#ifndef TEXT_URL_H
#define TEXT_URL_H

#include "base/err.h"

#define URL_HOST_MAX 255

struct url {
  bool tls;                    /* scheme https */
  bool ipv6;                   /* host is an IPv6 literal */
  char host[URL_HOST_MAX + 1]; /* in lower case, IPv6 without brackets */
  uint16_t port;               /* 80 or 443 when none was given */
  bool default_port;           /* port is the scheme's own, given or not */
  char *path; /* prefix of every request path: "" or "/…" without a trailing slash; owned */
};

/* Parses the whole of text[0..len). Accepts http and https in any case, names, IPv4 and bracketed
 * IPv6 hosts, a port 1..65535 and a path. ERR_INVALID, with *out empty: another scheme or none, no
 * host, a bad host or port, spaces or control characters, a query or fragment, credentials (they
 * belong in a header). Free with url_free. */
NODISCARD int url_parse(const char *text, size_t len, struct url *out, struct err *err);
void url_free(struct url *u);

/* The Host header's value, "name", "name:8080" or "[::1]:8080". out: URL_AUTHORITY_MAX bytes. */
#define URL_AUTHORITY_MAX (URL_HOST_MAX + 9)
void url_authority(const struct url *u, char *out, size_t size);

#endif

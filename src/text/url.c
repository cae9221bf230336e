/* url.c: a strict reader of http and https addresses; see url.h. */
#include "text/url.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The part of the text that is being read, and the whole of it for messages. */
struct reader {
  const char *text, *cur, *end;
  struct err *err;
};

/* The text is quoted without what may be a secret: all before an '@', all behind a '?'. */
static int fail(const struct reader *r, const char *what) {
  const char *first = r->text, *last = r->end;
  for (const char *p = r->text; p < r->end; p++)
    if (*p == '@')
      first = p;
  for (const char *p = first; p < last; p++)
    if (*p == '?')
      last = p + 1;
  bool cut = last != r->end || last - first > 200;
  return err_set(r->err, ERR_INVALID, "URL \"%s%.*s%s\": %s", first != r->text ? "…" : "",
                 last - first > 200 ? 200 : (int)(last - first), first, cut ? "…" : "", what);
}

static bool is_alnum(char c) {
  return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

/* A text with control characters is not quoted: they would reach a terminal. */
static int check_bytes(const struct reader *r) {
  for (const char *p = r->text; p < r->end; p++) {
    unsigned char c = (unsigned char)*p;
    if (c < 0x20 || c == 0x7f)
      return err_set(r->err, ERR_INVALID, "URL: byte 0x%02x at position %zu; remove it", c,
                     (size_t)(p - r->text) + 1);
    if (c == ' ')
      return fail(r, "has a space in it; remove it or write %20");
    if (c >= 0x80)
      return fail(r, "has characters beyond ASCII; write the host in punycode, the path with %XX");
  }
  return 0;
}

static int read_scheme(struct reader *r, struct url *out) {
  size_t left = (size_t)(r->end - r->cur);
  if (left >= 7 && strncasecmp(r->cur, "http://", 7) == 0) {
    r->cur += 7;
  } else if (left >= 8 && strncasecmp(r->cur, "https://", 8) == 0) {
    r->cur += 8;
    out->tls = true;
  } else {
    for (const char *p = r->cur; p + 3 <= r->end; p++)
      if (memcmp(p, "://", 3) == 0)
        return fail(r, "only http:// and https:// are supported");
    return fail(r, "has no scheme; write http://host:port or https://host:port");
  }
  return 0;
}

static bool is_ipv4(const char *p, const char *end) {
  for (int part = 0; part < 4; part++) {
    if (part && (p == end || *p++ != '.'))
      return false;
    unsigned value = 0;
    const char *first = p;
    for (; p < end && *p >= '0' && *p <= '9' && p - first < 3; p++)
      value = value * 10 + (unsigned)(*p - '0');
    if (p == first || value > 255)
      return false;
  }
  return p == end;
}

/* Eight groups of one to four hex digits, "::" at most once, an IPv4 tail for the last two. */
static bool is_ipv6(const char *p, const char *end) {
  unsigned groups = 0;
  bool gap = end - p >= 2 && p[0] == ':' && p[1] == ':';
  if (gap)
    p += 2;
  while (p < end) {
    const char *first = p;
    while (p < end && is_alnum(*p) && (*p | 0x20) <= 'f')
      p++;
    if (p < end && *p == '.') {
      groups += 2;
      return is_ipv4(first, end) && (gap ? groups < 8 : groups == 8);
    }
    if (p == first || p - first > 4)
      return false;
    groups++;
    if (p == end)
      break;
    if (*p++ != ':' || p == end)
      return false;
    if (*p == ':') {
      if (gap)
        return false;
      gap = true;
      p++;
    }
  }
  return gap ? groups < 8 : groups == 8;
}

/* Where host and port end and the path begins. */
static const char *authority_end(const struct reader *r) {
  const char *p = r->cur;
  while (p < r->end && !strchr("/?#", *p))
    p++;
  return p;
}

static int read_host(struct reader *r, struct url *out) {
  const char *first = r->cur, *end = authority_end(r), *behind = first;
  if (first < end && *first == '[') {
    first++;
    behind = memchr(first, ']', (size_t)(end - first));
    if (!behind)
      return fail(r, "has '[' without ']'");
    if (!is_ipv6(first, behind))
      return fail(r, "has no valid IPv6 address between '[' and ']' (zones are not supported)");
    r->cur = behind + 1;
    out->ipv6 = true;
  } else {
    if (is_ipv6(first, end))
      return fail(r, "has an IPv6 address without brackets; write http://[::1]:8000");
    for (; behind < end && *behind != ':'; behind++)
      if (!is_alnum(*behind) && !strchr("-._", *behind))
        return fail(r, "has a character in its host that no host name can have");
    r->cur = behind;
  }
  size_t len = (size_t)(behind - first);
  if (!len)
    return fail(r, "has no host; write http://host:port");
  if (len > URL_HOST_MAX)
    return fail(r, "has a host name longer than 255 characters");
  for (size_t i = 0; i < len; i++)
    out->host[i] = (char)(first[i] >= 'A' && first[i] <= 'Z' ? first[i] | 0x20 : first[i]);
  out->host[len] = '\0';
  return 0;
}

static int read_port(struct reader *r, struct url *out) {
  uint16_t usual = out->tls ? 443 : 80;
  out->port = usual;
  if (r->cur < r->end && *r->cur == ':') {
    unsigned port = 0;
    const char *first = ++r->cur;
    for (; r->cur < r->end && *r->cur >= '0' && *r->cur <= '9' && port < 65536; r->cur++)
      port = port * 10 + (unsigned)(*r->cur - '0');
    if (r->cur == first)
      return fail(r, "has no port after ':'; write a number or leave out the ':'");
    if (port < 1 || port > 65535)
      return fail(r, "has a port outside 1..65535");
    out->port = (uint16_t)port;
  }
  if (r->cur < r->end && *r->cur != '/' && *r->cur != '?' && *r->cur != '#')
    return fail(r, "has something other than a path after its host and port");
  out->default_port = out->port == usual;
  return 0;
}

static int read_path(struct reader *r, struct url *out) {
  for (const char *p = r->cur; p < r->end; p++) {
    if (*p == '?' || *p == '#')
      return fail(r, "has a query or fragment; give only the base address here");
  }
  const char *end = r->end;
  while (end > r->cur && end[-1] == '/')
    end--;
  out->path = mem_strndup(r->cur, (size_t)(end - r->cur));
  return 0;
}

int url_parse(const char *text, size_t len, struct url *out, struct err *err) {
  *out = (struct url){0};
  if (!len)
    text = "";
  struct reader r = {.text = text, .cur = text, .end = text + len, .err = err};
  int rc = check_bytes(&r);
  if (rc == 0)
    rc = read_scheme(&r, out);
  if (rc == 0 && memchr(r.cur, '@', (size_t)(authority_end(&r) - r.cur)))
    rc = fail(&r, "has a user name or password before '@'; send credentials as a header "
                  "(Authorization) instead");
  if (rc == 0)
    rc = read_host(&r, out);
  if (rc == 0)
    rc = read_port(&r, out);
  if (rc == 0)
    rc = read_path(&r, out);
  if (rc)
    *out = (struct url){0};
  return rc;
}

void url_free(struct url *u) {
  mem_free(u->path);
  *u = (struct url){0};
}

void url_authority(const struct url *u, char *out, size_t size) {
  const char *open = u->ipv6 ? "[" : "", *close = u->ipv6 ? "]" : "";
  if (u->default_port)
    snprintf(out, size, "%s%s%s", open, u->host, close);
  else
    snprintf(out, size, "%s%s%s:%u", open, u->host, close, u->port);
}

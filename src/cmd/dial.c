/* dial.c: name, port and handshake of one server, one after the other; see dial.h. */
#include "cmd/dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cmd/patience.h"
#include "text/url.h"

#define MAX_ADDRESSES 8
#define MAX_NAMES 8

/* A look-up on a thread of its own: it stays for ever when it is given up. */
struct lookup {
  char host[URL_HOST_MAX + 1], port[8];
  int rc, os_errno;
  struct addrinfo *list;
};

static void put_text(struct value *v, const char *key, const char *text) {
  value_set(v, key, value_cstring(text));
}

static void put_ms(struct value *v, const char *key, uint64_t since_ns) {
  value_set(v, key, value_double((double)(clock_ns() - since_ns) / 1e6));
}

static void put_failure(struct value *v, const char *step, const char *code, const char *reason) {
  put_text(v, "step", step);
  put_text(v, "code", code);
  put_text(v, "reason", reason);
}

/* ---- the name ---- */

static void do_lookup(void *user) {
  struct lookup *l = user;
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  l->rc = getaddrinfo(l->host, l->port, &hints, &l->list);
  l->os_errno = errno;
}

static void address_text(const struct addrinfo *a, char *out, size_t size) {
  if (getnameinfo(a->ai_addr, a->ai_addrlen, out, (socklen_t)size, NULL, 0, NI_NUMERICHOST) != 0)
    snprintf(out, size, "?");
}

static struct addrinfo *resolve(const struct url *url, uint64_t timeout_ns, struct value *out,
                                bool *lost) {
  struct lookup *l = MEM_NEW(struct lookup);
  uint64_t began_ns = clock_ns();
  memcpy(l->host, url->host, sizeof l->host);
  snprintf(l->port, sizeof l->port, "%u", url->port);
  if (!patience_call(do_lookup, l, UINT64_MAX, timeout_ns)) {
    *lost = true;
    put_failure(out, "resolve", "timeout", "no answer from the resolver");
    put_ms(out, "resolve_ms", began_ns);
    return NULL;
  }
  put_ms(out, "resolve_ms", began_ns);
  struct addrinfo *list = l->list;
  if (l->rc) {
    bool none = l->rc == EAI_NONAME || l->rc == EAI_NODATA;
    put_failure(out, "resolve", none ? "name" : "resolver",
                none                  ? "no such host"
                : l->rc == EAI_SYSTEM ? strerror(l->os_errno)
                                      : gai_strerror(l->rc));
    list = NULL;
  } else {
    struct value *all = value_set(out, "addresses", value_array());
    size_t n = 0;
    for (const struct addrinfo *a = list; a && n < MAX_ADDRESSES; a = a->ai_next, n++) {
      char text[NI_MAXHOST];
      address_text(a, text, sizeof text);
      value_push(all, value_cstring(text));
    }
  }
  mem_free(l);
  return list;
}

/* ---- the port ---- */

/* Waits until fd can be read or written; false when the deadline passes first. */
static bool wait_for(int fd, short events, uint64_t deadline_ns) {
  for (;;) {
    uint64_t now = clock_ns();
    if (now >= deadline_ns)
      return false;
    struct pollfd p = {.fd = fd, .events = events};
    int n = poll(&p, 1, (int)((deadline_ns - now) / NS_PER_MS) + 1);
    if (n > 0)
      return true;
    if (n < 0 && errno != EINTR)
      return false;
  }
}

/* A connected socket, or −1 with an errno (ETIMEDOUT when the deadline passed). */
static int connect_one(const struct addrinfo *a, uint64_t deadline_ns, int *why) {
  int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  socklen_t size = sizeof *why;
  *why = errno;
  if (fd < 0)
    return -1;
  *why = 0;
  if (connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
    *why = errno;
    if (*why == EINPROGRESS && !wait_for(fd, POLLOUT, deadline_ns))
      *why = ETIMEDOUT;
    else if (*why == EINPROGRESS && getsockopt(fd, SOL_SOCKET, SO_ERROR, why, &size) != 0)
      *why = errno;
  }
  if (!*why)
    return fd;
  close(fd);
  return -1;
}

/* The addresses in turn, each with its part of the time. */
static int connect_any(const struct addrinfo *list, uint64_t timeout_ns, struct value *out) {
  uint64_t began_ns = clock_ns(), end_ns = began_ns + timeout_ns;
  size_t left = 0;
  int first = 0;
  for (const struct addrinfo *a = list; a; a = a->ai_next)
    left++;
  left = left < MAX_ADDRESSES ? left : MAX_ADDRESSES;
  for (const struct addrinfo *a = list; a && left; a = a->ai_next, left--) {
    int why;
    uint64_t now = clock_ns();
    int fd = connect_one(a, now + (end_ns > now ? end_ns - now : 0) / left, &why);
    if (fd >= 0) {
      char text[NI_MAXHOST];
      address_text(a, text, sizeof text);
      put_text(out, "address", text);
      put_ms(out, "connect_ms", began_ns);
      return fd;
    }
    first = first ? first : why;
  }
  put_ms(out, "connect_ms", began_ns);
  bool unreachable = first == ENETUNREACH || first == EHOSTUNREACH;
  put_failure(out, "connect",
              first == ECONNREFUSED ? "refused"
              : first == ETIMEDOUT  ? "timeout"
              : unreachable         ? "unreachable"
                                    : "system",
              first == ETIMEDOUT ? "no answer to the connection request" : strerror(first));
  return -1;
}

/* ---- the handshake ---- */

static void put_name(struct value *out, const char *key, X509_NAME *name) {
  char text[256];
  int n = X509_NAME_get_text_by_NID(name, NID_commonName, text, sizeof text);
  if (n < 0)
    n = X509_NAME_get_text_by_NID(name, NID_organizationName, text, sizeof text);
  if (n >= 0)
    put_text(out, key, text);
}

static void put_names(struct value *out, X509 *cert) {
  GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
  struct value *list = value_set(out, "names", value_array());
  for (int i = 0; i < sk_GENERAL_NAME_num(names) && value_count(list) < MAX_NAMES; i++) {
    const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
    char text[INET6_ADDRSTRLEN];
    if (name->type == GEN_DNS) {
      const ASN1_STRING *s = name->d.dNSName;
      value_push(list, value_string((const char *)ASN1_STRING_get0_data(s),
                                    (size_t)ASN1_STRING_length(s)));
    } else if (name->type == GEN_IPADD) {
      int len = ASN1_STRING_length(name->d.iPAddress);
      if ((len == 4 || len == 16) &&
          inet_ntop(len == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(name->d.iPAddress), text,
                    sizeof text))
        value_push(list, value_cstring(text));
    }
  }
  GENERAL_NAMES_free(names);
}

static void put_certificate(struct value *out, X509 *cert) {
  int days = 0, seconds = 0;
  if (!cert)
    return;
  put_name(out, "subject", X509_get_subject_name(cert));
  put_name(out, "issuer", X509_get_issuer_name(cert));
  put_names(out, cert);
  if (ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(cert)))
    value_set(out, "days_left", value_int(seconds < 0 && days == 0 ? -1 : days));
}

/* Keeps the server's certificate, which a session forgets when it is refused. */
static int on_verify(int good, X509_STORE_CTX *ctx) {
  SSL *ssl = X509_STORE_CTX_get_ex_data(ctx, SSL_get_ex_data_X509_STORE_CTX_idx());
  X509 **kept = SSL_get_app_data(ssl), *cert = X509_STORE_CTX_get0_cert(ctx);
  if (kept && !*kept && cert && X509_up_ref(cert))
    *kept = cert;
  return good;
}

/* Settings as a run's: what it verifies, and with what it says who it is. */
static SSL *make_ssl(SSL_CTX *ctx, const struct url *url, const struct http_tls *tls) {
  static const unsigned char protocols[] = "\x02h2\x08http/1.1";
  unsigned char address[16];
  bool is_ip =
      inet_pton(AF_INET, url->host, address) == 1 || inet_pton(AF_INET6, url->host, address) == 1;
  if (tls->ca_file ? SSL_CTX_load_verify_locations(ctx, tls->ca_file, NULL) != 1
                   : SSL_CTX_set_default_verify_paths(ctx) != 1)
    return NULL;
  if (tls->cert_file &&
      (SSL_CTX_use_certificate_chain_file(ctx, tls->cert_file) != 1 ||
       SSL_CTX_use_PrivateKey_file(ctx, tls->key_file ? tls->key_file : tls->cert_file,
                                   SSL_FILETYPE_PEM) != 1))
    return NULL;
  SSL_CTX_set_verify(ctx, tls->insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, on_verify);
  SSL_CTX_set_alpn_protos(ctx, protocols, sizeof protocols - 1);
  SSL *ssl = SSL_new(ctx);
  if (!ssl)
    return NULL;
  X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
  if (!is_ip)
    SSL_set_tlsext_host_name(ssl, url->host);
  if (is_ip ? X509_VERIFY_PARAM_set1_ip_asc(param, url->host)
            : X509_VERIFY_PARAM_set1_host(param, url->host, 0))
    return ssl;
  SSL_free(ssl);
  return NULL;
}

/* 0 when it is done, else SSL_get_error's answer; SSL_ERROR_WANT_READ: the deadline passed. */
static int handshake(SSL *ssl, int fd, uint64_t deadline_ns) {
  for (;;) {
    ERR_clear_error();
    int rc = SSL_connect(ssl);
    if (rc == 1)
      return 0;
    int error = SSL_get_error(ssl, rc);
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE)
      return error;
    if (!wait_for(fd, error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, deadline_ns))
      return SSL_ERROR_WANT_READ;
  }
}

static void put_handshake_failure(struct value *out, const SSL *ssl, int error) {
  unsigned long code = ERR_get_error();
  int reason = ERR_GET_REASON(code);
  long verify = SSL_get_verify_result(ssl);
  const char *said = code ? ERR_reason_error_string(code) : NULL;
  if (error == SSL_ERROR_WANT_READ)
    put_failure(out, "tls", "timeout", "the handshake was not answered");
  else if (verify != X509_V_OK && reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
    put_failure(out, "tls", "verify", X509_verify_cert_error_string(verify));
  else if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
           reason == SSL_R_PACKET_LENGTH_TOO_LONG || reason == SSL_R_UNSUPPORTED_PROTOCOL)
    put_failure(out, "tls", reason == SSL_R_UNSUPPORTED_PROTOCOL ? "handshake" : "not_tls",
                said ? said : "what came back is no TLS");
  else if (reason == SSL_R_UNEXPECTED_EOF_WHILE_READING || error == SSL_ERROR_ZERO_RETURN ||
           error == SSL_ERROR_SYSCALL)
    put_failure(out, "tls", "closed", "the server closed the connection during the handshake");
  else
    put_failure(out, "tls", "handshake", said ? said : "the handshake failed");
}

static void secure(const struct url *url, const struct dial_options *o, int fd, struct value *out) {
  uint64_t began_ns = clock_ns();
  SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
  SSL *ssl = ctx ? make_ssl(ctx, url, &o->tls) : NULL;
  X509 *cert = NULL;
  if (!ssl || SSL_set_fd(ssl, fd) != 1) {
    put_failure(out, "tls", "system", "OpenSSL does not take these settings");
    goto out;
  }
  SSL_set_app_data(ssl, &cert);
  int error = handshake(ssl, fd, began_ns + o->timeout_ns);
  long verify = SSL_get_verify_result(ssl);
  put_ms(out, "tls_ms", began_ns);
  put_certificate(out, cert);
  if (verify != X509_V_OK) {
    put_text(out, "verify", X509_verify_cert_error_string(verify));
    value_set(out, "verify_code", value_int(verify));
  }
  if (error) {
    put_handshake_failure(out, ssl, error);
    goto out;
  }
  const unsigned char *protocol = NULL;
  unsigned len = 0;
  SSL_get0_alpn_selected(ssl, &protocol, &len);
  if (len)
    value_set(out, "protocol", value_string((const char *)protocol, len));
  put_text(out, "version", SSL_get_version(ssl));
  SSL_shutdown(ssl); /* one way: nobody waits for the answer */
out:
  X509_free(cert);
  SSL_free(ssl);
  SSL_CTX_free(ctx);
  ERR_clear_error();
}

struct value dial(const struct dial_options *o, bool *lost) {
  struct value out = value_object();
  struct url url;
  struct err err;
  if (url_parse(o->url, strlen(o->url), &url, &err)) {
    put_failure(&out, "resolve", "name", err.text);
    return out;
  }
  struct addrinfo *list = resolve(&url, o->timeout_ns, &out, lost);
  int fd = list ? connect_any(list, o->timeout_ns, &out) : -1;
  if (list)
    freeaddrinfo(list);
  if (fd >= 0) {
    put_text(&out, "step", "ok");
    if (url.tls)
      secure(&url, o, fd, &out);
    close(fd);
  }
  url_free(&url);
  return out;
}

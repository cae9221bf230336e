/* dial.h: one connection to a server, step by step, for `perigee doctor`: its name, the port, the
 * handshake, each with its time, and the certificate that was shown.
 *
 * A run lets libcurl do this in one go; here the step that fails is what matters. Nothing is sent
 * beyond the handshake. Blocking, bounded by a deadline; any thread. */
#ifndef CMD_DIAL_H
#define CMD_DIAL_H

#include "net/http.h"
#include "text/value.h"

struct dial_options {
  const char *url; /* http:// or https:// */
  struct http_tls tls;
  uint64_t timeout_ns; /* for each of the three steps */
};

/* What was found, as an object; absent where it does not apply:
 *   step     "ok", or the one that failed: "resolve", "connect", "tls"
 *   code     of a failure: "name" (no such host), "resolver", "refused", "unreachable", "timeout",
 *            "system", "not_tls" (no TLS is spoken there), "verify", "closed", "handshake"
 *   reason   of a failure, for a person
 *   addresses[], address (the one connected to), resolve_ms, connect_ms, tls_ms
 *   verify   what is wrong with the certificate, also where --insecure lets it pass
 *   verify_code  OpenSSL's X509_V_ERR_… number of it
 *   subject, issuer, names[] (at most 8), days_left (of the certificate), version, protocol (ALPN)
 * *lost: a look-up of the name still runs and will not be waited for, so the process must end with
 * _exit. The caller frees. */
struct value dial(const struct dial_options *options, bool *lost);

#endif

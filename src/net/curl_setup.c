/* curl_setup.c: process-wide set-up, options that a target decides, and what a failure means. */
#include <curl/curl.h>
#include <errno.h>
#include <llhttp.h>
#include <openssl/crypto.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <uv.h>

#include "net/curl_loop.h"

int http_global_init(struct err *err) {
  CURLcode rc = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (rc)
    return err_set(err, ERR_IO, "libcurl cannot start: %s", curl_easy_strerror(rc));
  signal(SIGPIPE, SIG_IGN); /* OpenSSL inside libcurl writes without MSG_NOSIGNAL */
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* a refusal shows as EMFILE, which has its own text */
  }
  return 0;
}

void http_versions(char *out, size_t size) {
  snprintf(out, size, "libcurl %s, %s, libuv %s, llhttp %d.%d.%d",
           curl_version_info(CURLVERSION_NOW)->version, OpenSSL_version(OPENSSL_VERSION),
           uv_version_string(), LLHTTP_VERSION_MAJOR, LLHTTP_VERSION_MINOR, LLHTTP_VERSION_PATCH);
}

/* Proxies and their exceptions come from the options or not at all: "" keeps libcurl from asking
 * the environment. A CA of one's own replaces the system's, also its directory. */
void curl_setup_target(void *easy, const struct http_target *t, struct curl_slist **pinned) {
  CURL *e = easy;
  curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(e, CURLOPT_PROXY, t->proxy ? t->proxy : "");
  curl_easy_setopt(e, CURLOPT_NOPROXY, "");
  curl_easy_setopt(e, CURLOPT_CAPATH, NULL);
  if (t->ca_file)
    curl_easy_setopt(e, CURLOPT_CAINFO, t->ca_file);
  curl_easy_setopt(e, CURLOPT_SSLCERT, t->cert_file);
  curl_easy_setopt(e, CURLOPT_SSLKEY, t->key_file);
  curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, t->insecure ? 0L : 1L);
  curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, t->insecure ? 0L : 2L);
  /* Every connection stands for a client that comes for the first time. libcurl would resume the
   * sessions of a handle, that is some, depending on which handle was free; and one cache for all
   * cannot be had here: a handle takes one share, and that keeps connections apart (connect.h). */
  curl_easy_setopt(e, CURLOPT_SSL_SESSIONID_CACHE, 0L);
  *pinned = t->pinned ? curl_slist_append(NULL, t->pinned) : NULL;
  curl_easy_setopt(e, CURLOPT_RESOLVE, *pinned);
}

static bool is_tls(CURLcode code) {
  switch (code) {
  case CURLE_SSL_CONNECT_ERROR:
  case CURLE_SSL_ENGINE_NOTFOUND:
  case CURLE_SSL_ENGINE_SETFAILED:
  case CURLE_SSL_CERTPROBLEM:
  case CURLE_SSL_CIPHER:
  case CURLE_PEER_FAILED_VERIFICATION:
  case CURLE_SSL_ENGINE_INITFAILED:
  case CURLE_SSL_CACERT_BADFILE:
  case CURLE_SSL_SHUTDOWN_FAILED:
  case CURLE_SSL_CRL_BADFILE:
  case CURLE_SSL_ISSUER_ERROR:
  case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
  case CURLE_SSL_INVALIDCERTSTATUS:
  case CURLE_SSL_CLIENTCERT:
    return true;
  default:
    return false;
  }
}

static void tls_text(const struct http_target *t, CURLcode code, const char *said, char *text) {
  static const char problem[] = "SSL certificate problem: ", routines[] = "routines::";
  bool verify = strncmp(said, problem, sizeof problem - 1) == 0;
  const char *inner = strstr(said, routines); /* "error:0A00010B:SSL routines::text, errno 0" */
  if (inner)
    said = inner + sizeof routines - 1;
  if (verify)
    said += sizeof problem - 1;
  const char *hint = "";
  if (verify && (strstr(said, "self-signed") || strstr(said, "issuer")))
    hint = "; if its CA is your own, name it with --ca-file";
  else if (verify && strstr(said, "expired"))
    hint = "; renew it, or check this machine's clock";
  else if (strstr(said, "subject name"))
    hint = "; use the name that the certificate was made for";
  else if (strstr(said, "wrong version number") || strstr(said, "http request"))
    hint = "; does the server speak plain http there?";
  else if (strstr(said, "certificate required") || strstr(said, "handshake failure"))
    hint = t->cert_file ? "" : "; does it ask for a client certificate?";
  const char *end = strstr(said, ", errno ");
  snprintf(text, CURL_FAILURE_BYTES, "%s: %.*s%s",
           verify || code == CURLE_PEER_FAILED_VERIFICATION ? "certificate not accepted"
                                                            : "TLS failed",
           (int)(end ? end - said : (ptrdiff_t)strlen(said)), said, hint);
}

static void connect_text(const struct http_target *t, int why, const char *said, char *text) {
  struct http_client_stats *stats = &t->client->stats;
  struct rlimit limit = {0};
  const char *hint = "";
  switch (why) {
  case EMFILE:
  case ENFILE:
    stats->descriptor_limit_hits++;
    getrlimit(RLIMIT_NOFILE, &limit);
    snprintf(text, CURL_FAILURE_BYTES,
             "no descriptor is left for a connection (the limit is %llu open files); raise it with "
             "`ulimit -n`, or use fewer connections",
             (unsigned long long)limit.rlim_cur);
    return;
  case EADDRNOTAVAIL:
    stats->descriptor_limit_hits++;
    hint = "; no local port may be left: keep connections alive, or use fewer";
    break;
  case ECONNREFUSED:
    snprintf(text, CURL_FAILURE_BYTES, "%sconnection refused; is %s running?",
             t->proxy ? "the proxy: " : "", t->proxy ? "it" : "the server");
    return;
  case ENETUNREACH:
  case EHOSTUNREACH:
    hint = "; are address and network right?";
    break;
  case 0:
    snprintf(text, CURL_FAILURE_BYTES, "no connection%s: %s", t->proxy ? " through the proxy" : "",
             said);
    return;
  default:
    break;
  }
  snprintf(text, CURL_FAILURE_BYTES, "no connection: %s%s", strerror(why), hint);
}

enum sample_error curl_setup_failure(const struct http_target *t, void *easy, int code,
                                     int os_errno, const char *said, char *text) {
  CURLcode rc = (CURLcode)code;
  long last = 0;
  if (!said[0]) /* libcurl's word for an answer to CONNECT that it cannot read is of no use */
    said = rc == CURLE_BAD_FUNCTION_ARGUMENT && t->proxy ? "what it answers is not HTTP"
                                                         : curl_easy_strerror(rc);
  if (is_tls(rc)) {
    tls_text(t, rc, said, text);
    return SAMPLE_TLS;
  }
  switch (rc) {
  case CURLE_COULDNT_RESOLVE_HOST:
  case CURLE_COULDNT_RESOLVE_PROXY:
    snprintf(text, CURL_FAILURE_BYTES, "%s; is the host name right?", said);
    return SAMPLE_RESOLVE;
  case CURLE_OPERATION_TIMEDOUT:
    snprintf(text, CURL_FAILURE_BYTES, "no connection: %s", said);
    return SAMPLE_TIMEOUT_CONNECT;
  default:
    curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &last);
    connect_text(t, os_errno ? os_errno : (int)last, said, text);
    return SAMPLE_CONNECT;
  }
}

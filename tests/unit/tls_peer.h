/* tls_peer.h: a TLS server for net_peer.h's scripts, and certificates made for one test run: a CA,
 * and below it one for localhost and 127.0.0.1, one that has expired, one for another name, one for
 * a client; and one that nobody signed. */
#ifndef TESTS_UNIT_TLS_PEER_H
#define TESTS_UNIT_TLS_PEER_H

#include "net_peer.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

struct tls_files {
  char dir[64];
  char ca[96]; /* PEM files: name.pem, name.key */
};

static inline void tls_path(const struct tls_files *f, const char *name, const char *ending,
                            char *out) {
  snprintf(out, 96, "%s/%s.%s", f->dir, name, ending);
}

static inline void tls_write(const struct tls_files *f, const char *name, X509 *cert,
                             EVP_PKEY *key) {
  char path[96];
  tls_path(f, name, "pem", path);
  FILE *out = fopen(path, "w");
  PEM_write_X509(out, cert);
  fclose(out);
  tls_path(f, name, "key", path);
  out = fopen(path, "w");
  PEM_write_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL);
  fclose(out);
}

static inline void tls_extend(X509 *cert, X509 *issuer, int nid, const char *value) {
  X509V3_CTX ctx;
  X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
  X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
  assert_non_null(ext);
  X509_add_ext(cert, ext, -1);
  X509_EXTENSION_free(ext);
}

/* issuer NULL: signed by itself. */
static inline X509 *tls_make(const struct tls_files *f, const char *name, const char *alt,
                             long valid_from, long valid_to, X509 *issuer, EVP_PKEY *issuer_key,
                             EVP_PKEY **key) {
  static long serial = 1;
  *key = EVP_EC_gen("P-256");
  X509 *cert = X509_new();
  X509_set_version(cert, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert), serial++);
  X509_gmtime_adj(X509_getm_notBefore(cert), valid_from);
  X509_gmtime_adj(X509_getm_notAfter(cert), valid_to);
  X509_set_pubkey(cert, *key);
  X509_NAME *subject = X509_get_subject_name(cert);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
  X509_set_issuer_name(cert, issuer ? X509_get_subject_name(issuer) : subject);
  tls_extend(cert, issuer ? issuer : cert, NID_basic_constraints,
             alt ? "CA:FALSE" : "critical,CA:TRUE");
  if (alt)
    tls_extend(cert, issuer ? issuer : cert, NID_subject_alt_name, alt);
  X509_sign(cert, issuer ? issuer_key : *key, EVP_sha256());
  tls_write(f, name, cert, *key);
  return cert;
}

static inline void tls_files_make(struct tls_files *f) {
  enum { DAY = 86400 };
  EVP_PKEY *ca_key, *key;
  strcpy(f->dir, "/tmp/perigee-tls-XXXXXX");
  assert_non_null(mkdtemp(f->dir));
  X509 *ca = tls_make(f, "ca", NULL, -DAY, DAY, NULL, NULL, &ca_key);
  static const struct {
    const char *name, *alt;
    long from, to;
  } certs[] = {{"good", "DNS:localhost,IP:127.0.0.1", -DAY, DAY},
               {"expired", "DNS:localhost,IP:127.0.0.1", -2 * DAY, -DAY},
               {"other", "DNS:other.example", -DAY, DAY},
               {"client", "DNS:client", -DAY, DAY}};
  for (size_t i = 0; i < ARRAY_LEN(certs); i++) {
    X509_free(
        tls_make(f, certs[i].name, certs[i].alt, certs[i].from, certs[i].to, ca, ca_key, &key));
    EVP_PKEY_free(key);
  }
  X509_free(tls_make(f, "self", "IP:127.0.0.1", -DAY, DAY, NULL, NULL, &key));
  EVP_PKEY_free(key);
  X509_free(ca);
  EVP_PKEY_free(ca_key);
  tls_path(f, "ca", "pem", f->ca);
}

static inline void tls_files_remove(struct tls_files *f) {
  DIR *dir = opendir(f->dir);
  char path[400];
  for (struct dirent *e; (e = readdir(dir));)
    if (e->d_name[0] != '.') {
      snprintf(path, sizeof path, "%s/%s", f->dir, e->d_name);
      unlink(path);
    }
  closedir(dir);
  rmdir(f->dir);
}

/* ---- the server's side ---- */

struct tls_peer {
  const struct tls_files *files;
  const char *cert; /* "good", … */
  bool ask_client;  /* a client certificate is required */
  int max_version;  /* 0 = any */
  SSL_CTX *ctx;
};

static inline SSL_CTX *tls_context(const struct tls_peer *t) {
  char path[96];
  SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
  tls_path(t->files, t->cert, "pem", path);
  SSL_CTX_use_certificate_file(ctx, path, SSL_FILETYPE_PEM);
  tls_path(t->files, t->cert, "key", path);
  SSL_CTX_use_PrivateKey_file(ctx, path, SSL_FILETYPE_PEM);
  if (t->max_version)
    SSL_CTX_set_max_proto_version(ctx, t->max_version);
  if (t->ask_client) {
    SSL_CTX_load_verify_file(ctx, t->files->ca);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
  }
  return ctx;
}

/* NULL when the handshake fails (the socket is closed then). */
static inline SSL *tls_accept(SSL_CTX *ctx, int fd) {
  SSL *ssl = SSL_new(ctx);
  SSL_set_fd(ssl, fd);
  if (SSL_accept(ssl) == 1)
    return ssl;
  SSL_free(ssl);
  ERR_clear_error();
  shutdown(fd, SHUT_WR);
  peer_drain(fd); /* closing with bytes unread would reset */
  return NULL;
}

static inline bool tls_read(struct peer *p, SSL *ssl) {
  static _Thread_local char in[1 << 17];
  size_t len = 0, want = 0;
  for (;;) {
    in[len] = '\0';
    char *end = strstr(in, "\r\n\r\n");
    if (end) {
      char *length = strcasestr(in, "content-length:");
      want = length && length < end ? strtoul(length + 15, NULL, 10) : 0;
      if (len >= (size_t)(end + 4 - in) + want)
        break;
    }
    int n = SSL_read(ssl, in + len, (int)(sizeof in - 1 - len));
    if (n <= 0)
      return false;
    len += (size_t)n;
  }
  memcpy(p->request, in, len + 1);
  p->request_len = len;
  p->body_len = want;
  __atomic_add_fetch(&p->requests, 1, __ATOMIC_RELEASE);
  in_turn();
  return true;
}

static inline void tls_close(SSL *ssl, bool politely) {
  int fd = SSL_get_fd(ssl);
  if (politely)
    SSL_shutdown(ssl);
  SSL_free(ssl);
  close(fd);
}

/* peer_keep for TLS; p->arg is a struct tls_peer. */
static inline void tls_keep(struct peer *p) {
  struct tls_peer *t = p->arg;
  t->ctx = tls_context(t);
  for (int fd; (fd = peer_accept(p)) >= 0;) {
    SSL *ssl = tls_accept(t->ctx, fd);
    if (!ssl)
      continue;
    while (tls_read(p, ssl))
      SSL_write(ssl, p->text, (int)strlen(p->text));
    tls_close(ssl, true);
  }
  SSL_CTX_free(t->ctx);
}

/* ---- what most tests with TLS begin and end with ---- */

static struct tls_files files;

/* Once a client was made, libraries have what they keep. */
static inline int tls_group_start(void **state) {
  (void)state;
  struct net warm;
  struct err err;
  tls_files_make(&files);
  int rc = http_global_init(&err);
  net_start(&warm, NULL);
  net_stop(&warm);
  return rc;
}

static inline int tls_group_stop(void **state) {
  (void)state;
  tls_files_remove(&files);
  return 0;
}

#endif

/* tlsfiles.c: reading certificates and keys once, to say what is wrong with them. */
#include "cmd/tlsfiles.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <string.h>
#include <sys/stat.h>

static BIO *open_file(const struct tlsfile *f, struct err *err) {
  struct stat st;
  if (stat(f->path, &st) != 0) {
    err_set(err, ERR_NOT_FOUND, "%s: cannot read %s: %s", f->what, f->path, strerror(errno));
    return NULL;
  }
  if (!S_ISREG(st.st_mode)) { /* it is read again for every connection: a pipe would be empty */
    err_set(err, ERR_INVALID, "%s: %s is %s; a PEM file is needed", f->what, f->path,
            S_ISDIR(st.st_mode) ? "a directory" : "no regular file");
    return NULL;
  }
  errno = 0;
  BIO *bio = BIO_new_file(f->path, "re");
  if (!bio)
    err_set(err, ERR_INVALID, "%s: cannot read %s: %s", f->what, f->path,
            errno ? strerror(errno) : "unknown reason");
  return bio;
}

/* The first certificate, NULL with an error. */
static X509 *read_certificate(const struct tlsfile *f, struct err *err) {
  BIO *bio = open_file(f, err);
  if (!bio)
    return NULL;
  X509 *x = PEM_read_bio_X509(bio, NULL, NULL, NULL);
  BIO_free(bio);
  if (!x)
    err_set(err, ERR_INVALID,
            "%s: %s holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)", f->what,
            f->path);
  return x;
}

/* Without this OpenSSL would ask on the terminal. */
static int no_password(char *buf, int size, int rwflag, void *asked) {
  (void)buf;
  (void)size;
  (void)rwflag;
  *(bool *)asked = true;
  return -1;
}

static EVP_PKEY *read_key(const struct tlsfile *f, struct err *err) {
  BIO *bio = open_file(f, err);
  if (!bio)
    return NULL;
  bool asked = false;
  EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, no_password, &asked);
  BIO_free(bio);
  if (!key && asked)
    err_set(err, ERR_INVALID,
            "%s: the key in %s has a password; write one without: openssl pkey -in %s", f->what,
            f->path, f->path);
  else if (!key)
    err_set(err, ERR_INVALID, "%s: %s holds no private key in PEM form", f->what, f->path);
  return key;
}

static int check_pair(const struct tlsfile *cert, const struct tlsfile *key, struct err *err) {
  int rc = 0;
  EVP_PKEY *k = NULL;
  X509 *x = read_certificate(cert, err);
  if (!x)
    return err->code;
  struct tlsfile in_cert = {cert->path, cert->what}; /* where the key is when no file is named */
  k = read_key(key->path ? key : &in_cert, err);
  if (!k && !key->path)
    rc = err_set(err, ERR_INVALID,
                 "%s: %s holds no private key that can be used; name its file (%s)", cert->what,
                 cert->path, key->what);
  else if (!k)
    rc = err->code;
  else if (X509_check_private_key(x, k) != 1)
    rc =
        err_set(err, ERR_INVALID, "%s: the key in %s does not belong to the certificate in %s",
                key->path ? key->what : cert->what, key->path ? key->path : cert->path, cert->path);
  EVP_PKEY_free(k);
  X509_free(x);
  return rc;
}

int tlsfiles_check(const struct tlsfile *ca, const struct tlsfile *cert, const struct tlsfile *key,
                   struct err *err) {
  int rc = 0;
  if (ca->path) {
    X509 *x = read_certificate(ca, err);
    rc = x ? 0 : err->code;
    X509_free(x);
  }
  if (!rc && key->path && !cert->path)
    rc = err_set(err, ERR_INVALID, "%s: the certificate of that key is missing (--cert-file)",
                 key->what);
  if (!rc && cert->path)
    rc = check_pair(cert, key, err);
  ERR_clear_error(); /* or the first handshake would take what is left for its own */
  return rc;
}

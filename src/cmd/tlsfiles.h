/* tlsfiles.h: are the PEM files of a fleet what they should be? Asked before anything connects, so
 * that a slip of a path is wrong usage of an option and not a failed handshake. */
#ifndef CMD_TLSFILES_H
#define CMD_TLSFILES_H

#include "base/err.h"

/* A file and what it was given by: "--ca-file", "--fleet FILE: tls.ca". */
struct tlsfile {
  const char *path; /* NULL = not given */
  const char *what;
};

/* Each must be a regular file that can be read and holds PEM of its kind: authorities certificates,
 * the client certificate one, the key (which may stand in the certificate's file) a private key
 * without a password that belongs to it. ERR_INVALID or ERR_NOT_FOUND, naming what and path. */
NODISCARD int tlsfiles_check(const struct tlsfile *ca, const struct tlsfile *cert,
                             const struct tlsfile *key, struct err *err);

#endif

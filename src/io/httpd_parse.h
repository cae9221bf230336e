/* httpd_parse.h: bytes to requests, without sockets: what httpd_conn.c stands on and what the
 * fuzzer feeds. One parser serves a connection for all its requests, one after the other, and keeps
 * its memory between them. */
#ifndef IO_HTTPD_PARSE_H
#define IO_HTTPD_PARSE_H

#include <llhttp.h>

#include "base/buf.h"

struct httpd_parser_header {
  uint32_t name, value; /* offsets in head.data of NUL-terminated text */
};

struct httpd_parser {
  llhttp_t llhttp;
  size_t max_body, max_headers;
  struct buf head; /* the URL, then names and values, each ended by a NUL */
  size_t
      head_bytes; /* of the request line and the headers (trailers too) as the client sent them */
  struct httpd_parser_header *headers;
  size_t n_headers, cap_headers;
  size_t path, query; /* offsets in head.data */
  struct buf body;
  const char *method;
  bool keep_alive, http10;
  bool expects_continue; /* "Expect: 100-continue", and a body is to come */
  bool in_field, headers_done, complete;
  int bad_status;     /* the answer to a request that cannot be taken: 400, 413, 431, 505 */
  char bad_text[120]; /* why, for the client */
};

enum httpd_parse { HTTPD_PARSE_MORE, HTTPD_PARSE_REQUEST, HTTPD_PARSE_BAD };

void httpd_parser_init(struct httpd_parser *p, size_t max_body, size_t max_headers);
void httpd_parser_free(struct httpd_parser *p);
/* Takes bytes up to the end of one request. REQUEST: the fields above hold it until the next call,
 * *used (<= len) bytes were its own, the next call begins the next request. MORE: all were taken.
 * BAD: bad_status and bad_text are set and the parser is of no further use. */
enum httpd_parse httpd_parser_feed(struct httpd_parser *p, const char *data, size_t len,
                                   size_t *used);
/* The first header of that name, in any case; NULL when there is none. */
const char *httpd_parser_header(const struct httpd_parser *p, const char *name);

#endif

/* endpoints.h: everything a replica answers besides generation, by method and path.
 *
 * An endpoint fills in a struct answer; status 200 and JSON are what it starts from. */
#ifndef SIM_ENDPOINTS_H
#define SIM_ENDPOINTS_H

#include "sim/simhost.h"

struct answer {
  enum face_kind face; /* who answers: how errors look */
  int status;
  const char *content_type; /* static; NULL = none */
  struct buf body;
  bool may_take, taken; /* an endpoint may take the request over, and did: nothing is sent for it */
};

typedef void endpoint_fn(struct simhost *h, struct httpd_request *req, struct answer *a);

/* Answers whatever is not a generation request, faults included. */
void endpoints_answer(struct simhost *h, struct httpd_request *req);

/* ---- for endpoints ---- */

/* A refusal in the face's form, whatever was there before. */
void endpoint_error(struct answer *a, const struct apierror *e);
/* The first value of a name in a query string, as it stands there, cut to `size`; false: not there.
 */
bool endpoint_param(const char *query, const char *name, char *out, size_t size);
/* Whether the query says name=true (or 1). */
bool endpoint_flag(const char *query, const char *name);

#endif

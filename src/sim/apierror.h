/* apierror.h: a request refused, as vLLM says it.
 *
 * Body: {"error":{"message","type","param","code"}} with code = HTTP status (facts/interfaces.md
 * §1.4). The type follows the status, but for those that vLLM names itself. */
#ifndef SIM_APIERROR_H
#define SIM_APIERROR_H

#include "base/buf.h"
#include "base/err.h"

struct apierror {
  int status; /* HTTP status; 0 = no error */
  char message[512];
  char param[64];   /* the field that is wrong; "" = null in the body */
  const char *type; /* static; NULL: the status's */
};

/* Fills *e, type NULL, and returns ERR_INVALID. `param` may be NULL. */
int apierror_set(struct apierror *e, int status, const char *param, const char *fmt, ...)
    PRINTF_LIKE(4, 5);
/* "BadRequestError" for 400, "NotFoundError" for 404 …; other statuses give their HTTP phrase. */
const char *apierror_type(int status);
/* Appends the JSON body, without a line feed: also what a mid-stream error event carries. */
void apierror_write(const struct apierror *e, struct buf *out);

#endif

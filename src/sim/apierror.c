/* apierror.c: vLLM's error body. */
#include "sim/apierror.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text/json.h"

int apierror_set(struct apierror *e, int status, const char *param, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(e->message, sizeof e->message, fmt, ap);
  va_end(ap);
  e->message[json_utf8_valid(e->message, strlen(e->message))] = '\0';
  snprintf(e->param, sizeof e->param, "%s", param ? param : "");
  e->status = status;
  e->type = NULL;
  return ERR_INVALID;
}

const char *apierror_type(int status) {
  static const struct {
    int status;
    const char *type;
  } types[] = {
      {400, "BadRequestError"},
      {404, "NotFoundError"},
      {405, "Method Not Allowed"},
      {413, "Request Entity Too Large"},
      {422, "UnprocessableEntityError"},
      {429, "Too Many Requests"},
      {500, "InternalServerError"},
      {501, "NotImplementedError"},
      {502, "Bad Gateway"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"},
  };
  for (size_t i = 0; i < ARRAY_LEN(types); i++)
    if (types[i].status == status)
      return types[i].type;
  return "Error";
}

void apierror_write(const struct apierror *e, struct buf *out) {
  buf_puts(out, "{\"error\":{\"message\":");
  json_write_string(out, e->message, strlen(e->message));
  buf_printf(out, ",\"type\":\"%s\",\"param\":", e->type ? e->type : apierror_type(e->status));
  if (e->param[0])
    json_write_string(out, e->param, strlen(e->param));
  else
    buf_puts(out, "null");
  buf_printf(out, ",\"code\":%d}}", e->status);
}

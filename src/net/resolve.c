/* resolve.c: a target's name, asked for once and pinned.
 *
 * A thousand users who start together must not start a thousand look-ups, and a run must not wander
 * to another address half-way. All addresses are kept, in the system's order, until one of them has
 * answered: libcurl tries them in turn, and waits 200 ms before the second of a family. The look-up
 * runs on libuv's thread pool; one that was dropped ends by itself. */
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "base/mem.h"
#include "net/client.h"

struct resolve {
  uv_getaddrinfo_t req;
  struct http_target *target; /* NULL: dropped */
};

/* "host:port:address,address" as CURLOPT_RESOLVE takes it. */
static char *pin(const struct http_target *t, const struct addrinfo *list) {
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  buf_printf(&b, "%s:%u:", t->name, t->name_port);
  size_t n = 0;
  for (const struct addrinfo *a = list; a; a = a->ai_next) {
    char text[INET6_ADDRSTRLEN];
    if (a->ai_family == AF_INET)
      uv_ip4_name((const struct sockaddr_in *)(const void *)a->ai_addr, text, sizeof text);
    else if (a->ai_family == AF_INET6)
      uv_ip6_name((const struct sockaddr_in6 *)(const void *)a->ai_addr, text, sizeof text);
    else
      continue;
    buf_printf(&b, a->ai_family == AF_INET6 ? "%s[%s]" : "%s%s", n++ ? "," : "", text);
  }
  if (n)
    return buf_take(&b, NULL);
  buf_free(&b);
  return NULL;
}

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *list) {
  struct resolve *resolve = CONTAINER_OF(req, struct resolve, req);
  struct http_target *t = resolve->target;
  mem_free(resolve);
  if (!t) {
    uv_freeaddrinfo(list);
    return;
  }
  t->resolve = NULL;
  const char *problem = NULL;
  if (status < 0)
    problem =
        status == UV_EAI_NONAME || status == UV_EAI_NODATA ? "no such host" : uv_strerror(status);
  else if (!(t->pinned = pin(t, list)))
    problem = "it has no address";
  uv_freeaddrinfo(list);
  http_target_named(t, problem);
}

int http_resolve_start(struct http_target *t, struct err *err) {
  struct resolve *resolve = MEM_NEW(struct resolve);
  resolve->target = t;
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  int rc =
      uv_getaddrinfo(loop_uv(t->client->loop), &resolve->req, on_resolved, t->name, NULL, &hints);
  if (rc) {
    mem_free(resolve);
    return err_set(err, ERR_RESOLVE, "cannot resolve %s: %s", t->name, uv_strerror(rc));
  }
  t->resolve = resolve;
  return 0;
}

void http_resolve_settle(struct http_target *t, const char *address) {
  if (!t->pinned || !strchr(t->pinned, ',') || !address || !*address)
    return;
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  buf_printf(&b, strchr(address, ':') ? "%s:%u:[%s]" : "%s:%u:%s", t->name, t->name_port, address);
  mem_free(t->pinned);
  t->pinned = buf_take(&b, NULL);
  t->pin_serial++;
}

void http_resolve_drop(struct resolve *resolve) {
  resolve->target = NULL;
  uv_cancel((uv_req_t *)&resolve->req); /* a look-up that has begun calls back all the same */
}

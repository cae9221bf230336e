/* curl_connect.c: connecting by libcurl with CURLOPT_CONNECT_ONLY.
 *
 * A plain socket is taken over: libcurl asks through its close function, which does not close, and
 * the easy handle is free for the next connection. A TLS connection stays with its easy handle,
 * because closing that would reset the session below us; it is only used through its SSL object,
 * caught when the handshake is done. Each easy handle has a connection cache of its own (a share):
 * in a common one libcurl closes connections that are idle for two minutes or that the server has
 * closed, whenever it makes another one, and ours look idle to it. */
#include <curl/curl.h>
#include <openssl/ssl.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/connect.h"
#include "net/curl_loop.h"

#define MAX_SPARE 64
#define MAX_ATTEMPTS 512

struct connecting {
  struct connecting *next, *prev; /* among those in line, or the finished ones of one action */
  struct connector *connector;
  CURL *easy; /* this and the share are NULL as long as it waits in line */
  CURLSH *share;
  struct http_target *wanted;
  struct http_target *target; /* whose settings the easy handle has */
  struct curl_slist *pinned;
  uint32_t pin_serial;
  connect_fn *fn;
  void *user;
  SSL *ssl;
  curl_socket_t fd;
  int os_errno;
  CURLcode result;
  bool waiting;    /* in line */
  bool attempting; /* counted in connector->n_attempts */
  bool added;      /* in the multi handle */
  bool given;      /* the socket is no longer libcurl's to close */
  bool finished;   /* in connector->finished */
  char said[CURL_ERROR_SIZE];
};

struct connector {
  struct curl_loop loop;
  struct http_client *client;
  struct connecting *finished;
  struct connecting *spare;
  struct connecting *first, *last; /* in line */
  size_t n_spare, n_live, n_attempts;
};

/* ---- callbacks of libcurl and OpenSSL ---- */

static curl_socket_t on_open(void *user, curlsocktype purpose, struct curl_sockaddr *addr) {
  (void)purpose;
  struct connecting *op = user;
  return curl_loop_open_socket(&op->connector->loop, addr->family, addr->socktype, addr->protocol,
                               &op->os_errno);
}

static int on_close(void *user, curl_socket_t fd) {
  struct connecting *op = user;
  curl_loop_forget(op->connector->client, fd);
  return op->given && fd == op->fd ? 0 : close(fd);
}

static void on_handshake(const SSL *ssl, int where, int ret) {
  (void)ret;
  struct connecting *op = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
  if ((where & SSL_CB_HANDSHAKE_DONE) && op)
    op->ssl = (SSL *)ssl;
}

static CURLcode on_ssl_ctx(CURL *easy, void *ssl_ctx, void *user) {
  (void)easy;
  SSL_CTX_set_app_data(ssl_ctx, user);
  SSL_CTX_set_info_callback(ssl_ctx, on_handshake);
  return CURLE_OK;
}

/* ---- handles ---- */

static void op_free(struct connecting *op) {
  curl_easy_cleanup(op->easy);
  curl_share_cleanup(op->share);
  curl_slist_free_all(op->pinned);
  mem_free(op);
}

static struct connecting *op_new(struct connector *k) {
  struct connecting *op = MEM_NEW(struct connecting);
  op->connector = k;
  op->fd = CURL_SOCKET_BAD;
  return op;
}

/* Gives it handles: a spare one's, else new ones. False when libcurl has none. */
static bool op_equip(struct connecting *op) {
  struct connector *k = op->connector;
  struct connecting *spare = k->spare;
  if (op->easy)
    return true;
  if (spare) {
    k->spare = spare->next;
    k->n_spare--;
    op->easy = spare->easy;
    op->share = spare->share;
    op->pinned = spare->pinned;
    op->target = spare->target;
    op->pin_serial = spare->pin_serial;
    mem_free(spare);
    return true;
  }
  op->easy = curl_easy_init();
  op->share = curl_share_init();
  return op->easy && op->share &&
         curl_share_setopt(op->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_CONNECT) == CURLSHE_OK;
}

/* What is the same for every connection to a target; kept while the handle serves that target. */
static void settle(struct connecting *op) {
  CURL *e = op->easy;
  struct http_target *t = op->wanted;
  if (op->target == t && op->pin_serial == t->pin_serial)
    return;
  curl_easy_reset(e);
  curl_slist_free_all(op->pinned);
  op->target = t;
  op->pin_serial = t->pin_serial;
  curl_setup_target(e, t, &op->pinned);
  curl_easy_setopt(e, CURLOPT_SHARE, op->share);
  curl_easy_setopt(e, CURLOPT_URL, t->base);
  curl_easy_setopt(e, CURLOPT_CONNECT_ONLY, 1L);
  curl_easy_setopt(e, CURLOPT_HTTPPROXYTUNNEL, t->proxy ? 1L : 0L);
  curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(e, CURLOPT_BUFFERSIZE, 1024L);
  curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, on_open);
  curl_easy_setopt(e, CURLOPT_CLOSESOCKETFUNCTION, on_close);
  if (t->url.tls)
    curl_easy_setopt(e, CURLOPT_SSL_CTX_FUNCTION, on_ssl_ctx);
}

/* The handle may have served another attempt. */
static void point_to(struct connecting *op) {
  curl_easy_setopt(op->easy, CURLOPT_PRIVATE, op);
  curl_easy_setopt(op->easy, CURLOPT_ERRORBUFFER, op->said);
  curl_easy_setopt(op->easy, CURLOPT_OPENSOCKETDATA, op);
  curl_easy_setopt(op->easy, CURLOPT_CLOSESOCKETDATA, op);
  curl_easy_setopt(op->easy, CURLOPT_SSL_CTX_DATA, op);
}

/* ---- the line ---- */

static void line_push(struct connecting *op) {
  struct connector *k = op->connector;
  op->waiting = true;
  op->prev = k->last;
  if (op->prev)
    op->prev->next = op;
  else
    k->first = op;
  k->last = op;
}

static void line_drop(struct connecting *op) {
  struct connector *k = op->connector;
  if (op->prev)
    op->prev->next = op->next;
  else
    k->first = op->next;
  if (op->next)
    op->next->prev = op->prev;
  else
    k->last = op->prev;
  op->next = op->prev = NULL;
  op->waiting = false;
}

/* Hands it to libcurl. */
static CURLMcode begin(struct connecting *op) {
  struct connector *k = op->connector;
  if (!op_equip(op))
    return CURLM_OUT_OF_MEMORY;
  settle(op);
  point_to(op);
  CURLMcode rc = curl_multi_add_handle(k->loop.multi, op->easy);
  op->added = op->attempting = rc == CURLM_OK;
  k->n_attempts += op->attempting;
  return rc;
}

static void finished_add(struct connecting *op, CURLcode result) {
  struct connector *k = op->connector;
  op->result = result;
  op->finished = true;
  op->prev = NULL;
  op->next = k->finished;
  if (op->next)
    op->next->prev = op;
  k->finished = op;
}

/* The next in line have their turn. One that libcurl refuses is told with the next results. */
static void attempt_over(struct connecting *op) {
  struct connector *k = op->connector;
  if (!op->attempting)
    return;
  op->attempting = false;
  k->n_attempts--;
  while (k->first && k->n_attempts < MAX_ATTEMPTS) {
    struct connecting *next = k->first;
    line_drop(next);
    if (begin(next) != CURLM_OK)
      finished_add(next, CURLE_FAILED_INIT);
  }
}

/* The handle has no connection any more: for the next one, or away with it. */
static void op_retire(struct connecting *op) {
  struct connector *k = op->connector;
  attempt_over(op);
  if (op->waiting)
    line_drop(op);
  if (op->added)
    curl_multi_remove_handle(k->loop.multi, op->easy);
  op->added = op->given = op->finished = false;
  op->fn = NULL;
  op->ssl = NULL;
  op->fd = CURL_SOCKET_BAD;
  k->n_live--;
  if (k->n_spare >= MAX_SPARE || !op->easy) {
    op_free(op);
    return;
  }
  op->next = k->spare;
  k->spare = op;
  k->n_spare++;
}

static void finished_remove(struct connecting *op) {
  struct connector *k = op->connector;
  if (op->prev)
    op->prev->next = op->next;
  else
    k->finished = op->next;
  if (op->next)
    op->next->prev = op->prev;
  op->next = op->prev = NULL;
  op->finished = false;
}

/* ---- the end of an attempt ---- */

static void hand_over(struct connecting *op) {
  connect_fn *fn = op->fn;
  void *user = op->user;
  char text[CURL_FAILURE_BYTES] = "";
  enum sample_error error = SAMPLE_OK;
  assert(fn);
  attempt_over(op);
  if (op->result == CURLE_OK)
    op->result = curl_easy_getinfo(op->easy, CURLINFO_ACTIVESOCKET, &op->fd);
  if (op->result == CURLE_OK && op->fd != CURL_SOCKET_BAD) {
    char *address = NULL;
    curl_easy_getinfo(op->easy, CURLINFO_PRIMARY_IP, &address);
    http_resolve_settle(op->wanted, address);
    curl_loop_forget(op->connector->client, op->fd);
    if (op->ssl) {
      fn(user, op, op->fd, op->ssl, SAMPLE_OK, NULL);
      return;
    }
    int fd = op->fd;
    op->given = true;
    op_retire(op);
    fn(user, NULL, fd, NULL, SAMPLE_OK, NULL);
    return;
  }
  error = curl_setup_failure(op->wanted, op->easy, (int)op->result, op->os_errno, op->said, text);
  op_retire(op);
  fn(user, NULL, -1, NULL, error, text);
}

/* Messages first, callbacks after: those may start and close connections. */
static void after_action(struct curl_loop *loop) {
  struct connector *k = CONTAINER_OF(loop, struct connector, loop);
  int left;
  for (CURLMsg *msg; (msg = curl_multi_info_read(loop->multi, &left));) {
    struct connecting *op = NULL;
    if (msg->msg != CURLMSG_DONE)
      continue;
    CURLcode result = msg->data.result;
    curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&op);
    finished_add(op, result);
  }
  while (k->finished) {
    struct connecting *op = k->finished;
    finished_remove(op);
    hand_over(op);
  }
}

/* ---- the connector ---- */

struct connector *connector_new(struct http_client *c) {
  struct connector *k = MEM_NEW(struct connector);
  k->client = c;
  return k;
}

void connector_delete(struct connector *k) {
  assert(k->n_live == 0);
  for (struct connecting *op = k->spare, *next; op; op = next) {
    next = op->next;
    op_free(op);
  }
  curl_loop_free(&k->loop);
  mem_free(k);
}

int connector_start(struct connector *k, struct http_target *t, connect_fn *fn, void *user,
                    struct connecting **out, struct err *err) {
  if (!k->loop.multi) {
    int rc = curl_loop_init(&k->loop, k->client, err);
    if (rc)
      return rc;
    k->loop.after = after_action;
  }
  struct connecting *op = op_new(k);
  k->n_live++;
  op->wanted = t;
  op->fn = fn;
  op->user = user;
  if (k->n_attempts >= MAX_ATTEMPTS) {
    line_push(op);
  } else {
    CURLMcode rc = begin(op);
    if (rc != CURLM_OK) {
      op_retire(op);
      return err_set(err, ERR_IO, "libcurl takes no connection: %s", curl_multi_strerror(rc));
    }
  }
  *out = op;
  return 0;
}

void connect_close(struct connecting *op) {
  if (op->finished)
    finished_remove(op);
  op_retire(op);
}

/* curl_loop.h: a libcurl multi handle on a loop. Shared by curl_connect.c and curl_multi.c.
 *
 * Descriptors that libcurl opened through curl_loop_open_socket stay in epoll between its interests
 * ("lazy poll": the documented way costs six epoll_ctl a request); they leave when they are closed
 * or when something happens that nobody waits for. libcurl's types are void here, since curl.h may
 * only be seen by curl*.c. */
#ifndef NET_CURL_LOOP_H
#define NET_CURL_LOOP_H

#include "net/client.h"

struct curl_loop {
  void *multi; /* CURLM */
  struct http_client *client;
  struct loop_timer timer;
  /* Before each action, on a ready descriptor or (fd −1) for its time; may be NULL. */
  void (*before)(struct curl_loop *k, int fd, uint64_t stamp_ns);
  /* After each action: the place to read messages and to finish requests. In phase two, outside
   * libcurl. */
  void (*after)(struct curl_loop *k);
};

/* ERR_IO when the system refuses descriptors. */
NODISCARD int curl_loop_init(struct curl_loop *k, struct http_client *c, struct err *err);
/* Its easy handles must have left it. */
void curl_loop_free(struct curl_loop *k);
/* A socket for libcurl's open function: −1 with *os_errno. */
int curl_loop_open_socket(struct curl_loop *k, int family, int type, int protocol, int *os_errno);
/* A request ended well on fd: from here on libcurl tells when it closes it. */
void curl_loop_proven(struct http_client *c, int fd);
/* Stops watching fd, which is closed or given away by the caller. */
void curl_loop_forget(struct http_client *c, int fd);
/* Frees the table of descriptors; every curl_loop is gone. */
void curl_fds_free(struct http_client *c);

/* ---- curl_setup.c: settings and failures that both transports share ---- */
struct curl_slist;
/* The options that a target decides: TLS, proxy, pinned name. *pinned (or NULL) must live as long
 * as the settings; free with curl_slist_free_all. */
void curl_setup_target(void *easy, const struct http_target *t, struct curl_slist **pinned);
#define CURL_FAILURE_BYTES 400
/* The class of a CURLcode before a reply, and a text for a person. `os_errno`: of creating a
 * socket, or 0; `said`: libcurl's own words. Counts descriptors and ports that ran out. */
enum sample_error curl_setup_failure(const struct http_target *t, void *easy, int code,
                                     int os_errno, const char *said, char *text);

#endif

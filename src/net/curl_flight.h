/* curl_flight.h: one request in libcurl's hands: its easy handle, what it was set to, and what the
 * callbacks noted. Between curl_flight.c and curl_multi.c; libcurl's types are void here. */
#ifndef NET_CURL_FLIGHT_H
#define NET_CURL_FLIGHT_H

#include "net/curl_loop.h"

struct shard { /* one multi handle and the requests in it */
  struct curl_loop loop;
  struct full *full;
  struct shard *next;
  uint32_t active;
  struct http_read read; /* stamps of this action */
  struct flight *noted;  /* flights with something to tell, in order */
  struct flight **noted_end;
};

struct flight {        /* one request on its way */
  struct flight *next; /* in shard->noted, or the spare ones */
  struct shard *shard;
  struct http_exchange *x;
  void *easy, *url;           /* CURL, CURLU */
  struct http_target *target; /* whose settings the handle has */
  struct curl_slist *pinned, *headers;
  struct curl_slist *abroad; /* the headers that go along to another origin */
  uint32_t pin_serial;
  struct flight_shape {
    struct buf path, headers; /* as the request gave them */
    char method[16];
    bool bodiless, large, follow, squeeze;
    bool known; /* false: the handle has none of this */
  } shape;
  struct buf gather; /* body bytes of this action */
  struct buf small;  /* a small request body of several parts, put together */
  bool inlined;      /* the request's body goes out with its head */
  size_t in_bytes;   /* of headers and body in this action */
  size_t out_part, out_offset;
  uint64_t out_bytes; /* of the body, beyond what goes with the head */
  uint64_t drained_ns;
  int result;    /* CURLcode */
  long connects; /* connections made for this request so far */
  int status, os_errno;
  const char *refused; /* what the reply is not taken for; NULL: nothing is wrong with it */
  unsigned heads;      /* of final replies: redirects, and the last one */
  bool noted;
  bool connected_once, head_seen; /* tell a repeated attempt from a redirect */
  bool in_head, has_length, is_chunked;
  bool retried; /* libcurl counts repeated attempts and forgets to begin anew */
  bool handed;  /* libcurl has the whole request; `sent` is still to be told */
  bool finished;
  char said[256]; /* CURL_ERROR_SIZE */
};

/* NULL when libcurl gives no handle. */
struct flight *flight_new(void);
void flight_free(struct flight *f);
/* Everything that shard, target and request decide; f->shard and f->x are set. */
void flight_prepare(struct flight *f);
/* Puts it into (takes it out of) the list of those that have something to tell. */
void flight_note(struct flight *f);
void flight_forget(struct flight *f);

#endif

/* sse_server.c: chat streams on io/httpd for the bench, each as the query of its request asks:
 *   events=N  events with content (default 8)      batch=B  events per write (default: all)
 *   rate=R    events per second; without: as fast as the client takes them
 *   gather=G  nobody is answered until G such requests are there, then all are, one after the other
 *   id=K      keep a stamp of each write under this number
 *   whole=1   one JSON reply of about 330 bytes instead of a stream
 * A paced stream starts at a moment of its own within the first interval, unless it was gathered.
 * Usage: sse_server [LOG]. Prints its port; on SIGINT or SIGTERM writes LOG, a line "K left after
 * ns ns …" for each stream with an id, all CLOCK_MONOTONIC: when the first events left (the
 * kernel's stamp of their packet on its way to the device; 0: it gave none), when the call that
 * wrote them was back, and the time read right before each write of events. The call alone takes 5
 * to 60 µs, so "before" is no truth for stamps that are exact to a few. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <uv.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "io/httpd_internal.h"

#define PENDING_MAX ((size_t)256 << 10) /* of one stream, not yet taken by the kernel */
#define WRITES_AT_ONCE 16               /* of one stream, before others get their turn */
#define REST_NS (100 * NS_PER_US)       /* until a slow client is looked at again */

struct stamps {
  struct stamps *next;
  uint64_t id;
  uint64_t left_ns, after_ns; /* of the first write */
  uint64_t *ns;               /* before each write */
  size_t n, cap;
};

struct server {
  struct loop *loop;
  struct httpd *httpd;
  struct stream *waiting; /* gathered so far */
  uint64_t n_waiting;
  struct stamps *log;
};

struct stream {
  struct server *server;
  struct httpd_request *req;
  struct stream *next; /* waiting */
  struct loop_timer timer;
  struct buf batch; /* the bytes of one write */
  uint64_t events, per_write, gather, sent, interval_ns, due_ns;
  bool whole;
  struct stamps *stamps; /* NULL: none kept */
};

static const char reply[] =
    "{\"id\":\"chatcmpl-6f1d2c3b4a59687786a5b4c3d2e1f001\",\"object\":\"chat.completion\","
    "\"created\":1760000000,\"model\":\"bench\",\"choices\":[{\"index\":0,\"message\":{\"role\":"
    "\"assistant\",\"content\":\"It was kept in the cache.\"},\"finish_reason\":\"stop\"}],"
    "\"usage\":{\"prompt_tokens\":8,\"total_tokens\":14,\"completion_tokens\":6}}";
static const char models[] =
    "{\"object\":\"list\",\"data\":[{\"id\":\"bench\",\"object\":\"model\"}]}";

/* ---- events ---- */

static void put_chunk(struct buf *b, const char *delta, const char *finish) {
  buf_printf(b,
             "data: {\"id\":\"chatcmpl-6f1d2c3b4a59687786a5b4c3d2e1f001\",\"object\":"
             "\"chat.completion.chunk\",\"created\":1760000000,\"model\":"
             "\"meta-llama/Llama-3.1-8B-Instruct\",\"choices\":[{\"index\":0,\"delta\":{%s},"
             "\"logprobs\":null,\"finish_reason\":%s}]}\n\n",
             delta, finish);
}

static void put_events(struct buf *b, uint64_t n) {
  static const char *const words[] = {" the",    " cache", " of",  " a",
                                      " prefix", " that",  " was", " kept"};
  for (uint64_t i = 0; i < n; i++) {
    char delta[64];
    snprintf(delta, sizeof delta, "\"content\":\"%s\"", words[i % ARRAY_LEN(words)]);
    put_chunk(b, delta, "null");
  }
}

static void put_end(struct buf *b, uint64_t events) {
  put_chunk(b, "", "\"stop\"");
  buf_printf(b,
             "data: {\"id\":\"chatcmpl-6f1d2c3b4a59687786a5b4c3d2e1f001\",\"object\":"
             "\"chat.completion.chunk\",\"created\":1760000000,\"model\":\"bench\",\"choices\":[],"
             "\"usage\":{\"prompt_tokens\":8,\"total_tokens\":%" PRIu64
             ",\"completion_tokens\":%" PRIu64 "}}\n\ndata: [DONE]\n\n",
             events + 8, events);
}

/* ---- streams ---- */

static void stream_delete(struct stream *s) {
  loop_timer_clear(s->server->loop, &s->timer);
  for (struct stream **p = &s->server->waiting; *p; p = &(*p)->next) {
    if (*p == s) {
      *p = s->next;
      s->server->n_waiting--;
      break;
    }
  }
  buf_free(&s->batch);
  mem_free(s);
}

static void on_gone(struct httpd_request *req, void *user) {
  (void)user;
  stream_delete(httpd_user(req));
}

static void finish(struct stream *s) {
  struct httpd_request *req = s->req;
  buf_reset(&s->batch);
  put_end(&s->batch, s->events);
  httpd_write(req, s->batch.data, s->batch.len);
  httpd_on_close(req, NULL);
  stream_delete(s);
  httpd_end(req);
}

/* Packets that leave are stamped by the kernel, or not any more. */
static int stamp_packets(struct stream *s, bool on) {
  uv_os_fd_t fd = -1;
  int flags =
      on ? SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_TSONLY
         : 0;
  uv_fileno((uv_handle_t *)&CONTAINER_OF(s->req, struct httpd_conn, request)->tcp, &fd);
  setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags);
  return fd;
}

/* The stamp of the packet that has just left; on the loopback device it is there when the write is
 * back. 0: there is none. */
static uint64_t when_left(int fd) {
  union {
    char space[256];
    struct cmsghdr align;
  } control;
  struct msghdr msg = {.msg_control = control.space, .msg_controllen = sizeof control.space};
  if (recvmsg(fd, &msg, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
    return 0;
  for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPING)
      continue;
    struct scm_timestamping stamps;
    memcpy(&stamps, CMSG_DATA(c), sizeof stamps);
    uint64_t wall = (uint64_t)stamps.ts[0].tv_sec * NS_PER_S + (uint64_t)stamps.ts[0].tv_nsec;
    return (uint64_t)((int64_t)wall - clock_realtime_offset_ns());
  }
  return 0;
}

static void write_first(struct stream *s) {
  struct stamps *t = s->stamps;
  int fd = stamp_packets(s, true);
  t->ns[t->n++] = loop_refresh(s->server->loop);
  httpd_write(s->req, s->batch.data, s->batch.len);
  t->after_ns = loop_refresh(s->server->loop);
  t->left_ns = when_left(fd);
  stamp_packets(s, false);
}

static void write_batch(struct stream *s) {
  uint64_t n = s->events - s->sent < s->per_write ? s->events - s->sent : s->per_write;
  if (n < s->per_write) {
    buf_reset(&s->batch);
    put_events(&s->batch, n);
  }
  s->sent += n;
  struct stamps *t = s->stamps;
  if (t)
    MEM_GROW(t->ns, t->n, t->cap);
  if (t && t->n == 0) {
    write_first(s);
    return;
  }
  if (t)
    t->ns[t->n++] = loop_refresh(s->server->loop);
  httpd_write(s->req, s->batch.data, s->batch.len);
}

/* Paced: one write. Else: what the client takes, and a look again soon. */
static void go_on(struct stream *s) {
  struct loop *loop = s->server->loop;
  if (s->interval_ns) {
    write_batch(s);
    s->due_ns += s->interval_ns;
    if (s->sent < s->events)
      loop_timer_set(loop, &s->timer, s->due_ns);
    else
      finish(s);
    return;
  }
  for (int i = 0; i < WRITES_AT_ONCE && s->sent < s->events; i++) {
    if (httpd_pending(s->req) > PENDING_MAX) {
      loop_timer_set(loop, &s->timer, loop_now(loop) + REST_NS);
      return;
    }
    write_batch(s);
  }
  if (s->sent < s->events)
    loop_timer_set(loop, &s->timer, loop_now(loop));
  else
    finish(s);
}

static void on_timer(struct loop_timer *timer) {
  go_on(CONTAINER_OF(timer, struct stream, timer));
}

static void answer_whole(struct stream *s) {
  struct httpd_request *req = s->req;
  httpd_on_close(req, NULL);
  stream_delete(s);
  httpd_reply(req, 200, "Content-Type: application/json\r\n", reply, sizeof reply - 1);
}

/* Everybody that was waited for is here. */
static void release(struct server *server) {
  struct stream *list = server->waiting, *next;
  server->waiting = NULL;
  server->n_waiting = 0;
  uint64_t now = loop_refresh(server->loop);
  for (struct stream *s = list; s; s = next) {
    next = s->next;
    s->next = NULL;
    s->due_ns = now;
    if (s->whole)
      answer_whole(s);
    else
      go_on(s);
  }
}

static void start(struct stream *s) {
  struct server *server = s->server;
  struct loop *loop = server->loop;
  if (!s->whole)
    httpd_stream(s->req, 200, "Content-Type: text/event-stream\r\nCache-Control: no-cache\r\n");
  if (s->gather > 1) {
    s->next = server->waiting;
    server->waiting = s;
    if (++server->n_waiting >= s->gather)
      release(server);
  } else if (s->whole) {
    answer_whole(s);
  } else if (s->interval_ns) { /* the golden ratio spreads the phases evenly */
    uint64_t id = s->stamps ? s->stamps->id : 0;
    s->due_ns = loop_now(loop) + id * UINT64_C(618033988) % NS_PER_S * s->interval_ns / NS_PER_S;
    loop_timer_set(loop, &s->timer, s->due_ns);
  } else {
    go_on(s);
  }
}

/* ---- requests ---- */

/* A number of the query; `absent` when it is not there. */
static double option(const char *query, const char *name, double absent) {
  size_t len = strlen(name);
  for (const char *p = query; p && *p; p = strchr(p, '&') ? strchr(p, '&') + 1 : NULL)
    if (strncmp(p, name, len) == 0 && p[len] == '=')
      return strtod(p + len + 1, NULL);
  return absent;
}

static void on_request(void *user, struct httpd_request *req) {
  struct server *server = user;
  if (strcmp(httpd_method(req), "GET") == 0) {
    httpd_reply(req, 200, "Content-Type: application/json\r\n", models, sizeof models - 1);
    return;
  }
  const char *query = httpd_query(req);
  double rate = option(query, "rate", 0), id = option(query, "id", -1);
  struct stream *s = MEM_NEW(struct stream);
  s->server = server;
  s->req = req;
  s->events = (uint64_t)option(query, "events", 8);
  s->per_write = (uint64_t)option(query, "batch", (double)s->events);
  s->gather = (uint64_t)option(query, "gather", 0);
  s->whole = option(query, "whole", 0) > 0;
  if (rate > 0)
    s->interval_ns = (uint64_t)(1e9 * (double)s->per_write / rate);
  buf_init(&s->batch, BUF_MAX_OWN);
  put_events(&s->batch, s->per_write);
  loop_timer_init(&s->timer, on_timer);
  if (id >= 0 && !s->whole) {
    s->stamps = MEM_NEW(struct stamps);
    s->stamps->id = (uint64_t)id;
    s->stamps->next = server->log;
    server->log = s->stamps;
  }
  httpd_set_user(req, s);
  httpd_on_close(req, on_gone);
  start(s);
}

/* ---- the process ---- */

static void on_signal(uv_signal_t *signal, int number) {
  (void)number;
  loop_stop(((struct server *)signal->data)->loop);
}

static int write_log(struct server *server, const char *path) {
  FILE *f = path ? fopen(path, "w") : NULL;
  if (path && !f) {
    perror(path);
    return 1;
  }
  for (struct stamps *t = server->log, *next; t; t = next) {
    next = t->next;
    if (f) {
      fprintf(f, "%" PRIu64 " %" PRIu64 " %" PRIu64, t->id, t->left_ns, t->after_ns);
      for (size_t i = 0; i < t->n; i++)
        fprintf(f, " %" PRIu64, t->ns[i]);
      fputc('\n', f);
    }
    mem_free(t->ns);
    mem_free(t);
  }
  return f && fclose(f) ? 1 : 0;
}

static void raise_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

int main(int argc, char **argv) {
  raise_limit();
  struct err err;
  struct server server = {.loop = loop_new(&err)};
  struct httpd_options options = {.on_request = on_request, .user = &server};
  if (!server.loop || httpd_listen(server.loop, &options, &server.httpd, &err)) {
    fprintf(stderr, "sse_server: %s\n", err.text);
    return 1;
  }
  uv_signal_t signals[2];
  static const int numbers[] = {SIGINT, SIGTERM};
  for (int i = 0; i < 2; i++) {
    uv_signal_init(loop_uv(server.loop), &signals[i]);
    signals[i].data = &server;
    uv_signal_start(&signals[i], on_signal, numbers[i]);
  }
  printf("%d\n", httpd_port(server.httpd));
  fflush(stdout);
  loop_run(server.loop);
  for (int i = 0; i < 2; i++)
    uv_close((uv_handle_t *)&signals[i], NULL);
  httpd_close(server.httpd);
  loop_delete(server.loop);
  return write_log(&server, argc > 1 ? argv[1] : NULL);
}

/* run_peer.h: what the tests of run/ and the virtual user stand on: a server on a loop and thread
 * of its own that answers like an LLM server and keeps what it was asked, a script made of a
 * string, a run of it, and the table of what it measured. */
#ifndef TESTS_UNIT_RUN_PEER_H
#define TESTS_UNIT_RUN_PEER_H

#include "check.h"

#include <dirent.h>
#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bind/plan.h"
#include "io/httpd.h"
#include "io/loop.h"
#include "run/run.h"

/* ---- the server ---- */

struct peer_request {
  char *method, *path, *body, *session, *authorization, *type;
};

struct peer {
  pthread_t thread;
  struct loop *loop;
  struct httpd *httpd;
  struct loop_post stop;
  int port;
  pthread_mutex_t mutex;
  struct peer_request *requests; /* in order of arrival */
  size_t n, cap;
  int inflight, most_inflight;
};

struct peer_late { /* an answer after a while */
  struct loop_timer timer;
  struct peer *peer;
  struct httpd_request *req;
};

static char *peer_copy(const char *s) {
  return s ? mem_strdup(s) : NULL;
}

static void peer_keep(struct peer *p, struct httpd_request *req) {
  size_t len;
  const char *body = httpd_body(req, &len);
  pthread_mutex_lock(&p->mutex);
  MEM_GROW(p->requests, p->n, p->cap);
  p->requests[p->n++] = (struct peer_request){
      .method = peer_copy(httpd_method(req)),
      .path = peer_copy(httpd_path(req)),
      .body = mem_strndup(body ? body : "", len),
      .session = peer_copy(httpd_header(req, "x-session")),
      .authorization = peer_copy(httpd_header(req, "authorization")),
      .type = peer_copy(httpd_header(req, "content-type")),
  };
  pthread_mutex_unlock(&p->mutex);
}

#define PEER_USAGE                                                                                 \
  "{\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":4,\"total_tokens\":15,"   \
  "\"prompt_tokens_details\":{\"cached_tokens\":8}}}"

/* Four content events, finish, usage, end. */
static void peer_chat(struct httpd_request *req) {
  static const char *const events[] = {
      "{\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}",
      "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"one \"}}]}",
      "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"two \"}}]}",
      "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"three \"}}]}",
      "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"four\"}}]}",
      "{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}",
      PEER_USAGE,
      "[DONE]"};
  httpd_stream(req, 200, "Content-Type: text/event-stream\r\n");
  for (size_t i = 0; i < ARRAY_LEN(events); i++) {
    char line[400];
    int n = snprintf(line, sizeof line, "data: %s\n\n", events[i]);
    httpd_write(req, line, (size_t)n);
  }
  httpd_end(req);
}

static void peer_late_fire(struct loop_timer *timer) {
  struct peer_late *late = CONTAINER_OF(timer, struct peer_late, timer);
  httpd_on_close(late->req, NULL);
  late->peer->inflight--;
  httpd_reply(late->req, 200, NULL, "late", 4);
  mem_free(late);
}

static void peer_late_gone(struct httpd_request *req, void *user) {
  (void)user;
  struct peer_late *late = httpd_user(req);
  loop_timer_clear(late->peer->loop, &late->timer);
  late->peer->inflight--;
  mem_free(late);
}

static void peer_wait(struct peer *p, struct httpd_request *req, double ms) {
  struct peer_late *late = MEM_NEW(struct peer_late);
  late->peer = p;
  late->req = req;
  loop_timer_init(&late->timer, peer_late_fire);
  loop_timer_set(p->loop, &late->timer, loop_now(p->loop) + (uint64_t)(ms * 1e6));
  httpd_set_user(req, late);
  httpd_on_close(req, peer_late_gone);
  if (++p->inflight > p->most_inflight)
    __atomic_store_n(&p->most_inflight, p->inflight, __ATOMIC_RELAXED);
}

/* /wait/MS, /status/NNN, /v1/chat/completions; anything else: "hello". */
static void peer_on_request(void *user, struct httpd_request *req) {
  struct peer *p = user;
  const char *path = httpd_path(req);
  peer_keep(p, req);
  if (strncmp(path, "/wait/", 6) == 0)
    peer_wait(p, req, atof(path + 6));
  else if (strncmp(path, "/status/", 8) == 0)
    httpd_reply(req, atoi(path + 8), "X-Twice: a\r\nX-Twice: b\r\n", "no\n", 3);
  else if (strcmp(path, "/v1/chat/completions") == 0)
    peer_chat(req);
  else
    httpd_reply(req, 200, "X-Twice: a\r\nX-Twice: b\r\n", "hello", 5);
}

static void peer_on_stop(struct loop_post *post) {
  struct peer *p = CONTAINER_OF(post, struct peer, stop);
  httpd_close(p->httpd);
  loop_stop(p->loop);
}

static void *peer_main(void *arg) {
  struct peer *p = arg;
  loop_run(p->loop);
  loop_delete(p->loop);
  return NULL;
}

static inline void peer_start(struct peer *p) {
  struct err err;
  *p = (struct peer){.stop.run = peer_on_stop};
  pthread_mutex_init(&p->mutex, NULL);
  p->loop = loop_new(&err);
  assert_non_null(p->loop);
  const struct httpd_options options = {.on_request = peer_on_request, .user = p};
  check_ok(httpd_listen(p->loop, &options, &p->httpd, &err), &err);
  p->port = httpd_port(p->httpd);
  assert_int_equal(pthread_create(&p->thread, NULL, peer_main, p), 0);
}

static inline size_t peer_count(struct peer *p) {
  pthread_mutex_lock(&p->mutex);
  size_t n = p->n;
  pthread_mutex_unlock(&p->mutex);
  return n;
}

/* The request `back` places from the end: 1 = the last one. */
static inline struct peer_request peer_request(struct peer *p, size_t back) {
  pthread_mutex_lock(&p->mutex);
  struct peer_request r = p->requests[p->n - back];
  pthread_mutex_unlock(&p->mutex);
  return r;
}

static inline int peer_most_inflight(struct peer *p) {
  return __atomic_load_n(&p->most_inflight, __ATOMIC_RELAXED);
}

static inline void peer_forget(struct peer *p) {
  pthread_mutex_lock(&p->mutex);
  for (size_t i = 0; i < p->n; i++) {
    struct peer_request *r = &p->requests[i];
    char *const strings[] = {r->method, r->path, r->body, r->session, r->authorization, r->type};
    for (size_t k = 0; k < ARRAY_LEN(strings); k++)
      mem_free(strings[k]);
  }
  p->n = 0;
  pthread_mutex_unlock(&p->mutex);
}

static inline void peer_stop(struct peer *p) {
  loop_post(p->loop, &p->stop);
  pthread_join(p->thread, NULL);
  peer_forget(p);
  mem_free(p->requests);
  pthread_mutex_destroy(&p->mutex);
}

/* ---- a script ---- */

/* A folder of the test's own with s.lua in it; the script's text is written anew for each run. */
struct script {
  char dir[64], path[96];
};

static inline void script_write(struct script *s, const char *text) {
  if (!s->dir[0]) {
    snprintf(s->dir, sizeof s->dir, "/tmp/perigee-run-XXXXXX");
    assert_non_null(mkdtemp(s->dir));
    snprintf(s->path, sizeof s->path, "%s/s.lua", s->dir);
  }
  FILE *f = fopen(s->path, "w");
  assert_non_null(f);
  fputs(text, f);
  fclose(f);
}

static inline void script_remove(struct script *s) {
  if (!s->dir[0])
    return;
  unlink(s->path);
  assert_int_equal(rmdir(s->dir), 0);
  s->dir[0] = '\0';
}

/* ---- a run ---- */

struct runner {
  struct script script;
  struct fleet fleet;
  struct store *store;
  struct writer *writer;
  struct table *table; /* after runner_run */
  struct run_result result;
  struct run_config config; /* set before runner_run */
  struct plan_info info;
  const struct state_set *sets;
  size_t n_sets;
  pthread_mutex_t mutex;
  struct buf printed; /* lines of print and vu:log */
  struct err err;
};

static void runner_print(void *user, const char *line, size_t len) {
  struct runner *r = user;
  pthread_mutex_lock(&r->mutex);
  buf_put(&r->printed, line, len);
  buf_putc(&r->printed, '\n');
  pthread_mutex_unlock(&r->mutex);
}

static inline void runner_init(struct runner *r) {
  *r = (struct runner){.config.drain_s = -1, .config.seed = 1, .config.workers = 1};
  pthread_mutex_init(&r->mutex, NULL);
  buf_init(&r->printed, BUF_MAX_OWN);
}

static inline void runner_add(struct runner *r, const struct peer *p) {
  char url[64];
  struct err err;
  snprintf(url, sizeof url, "http://127.0.0.1:%d", p->port);
  check_ok(fleet_add_replica(&r->fleet, url, &err), &err);
}

/* Forgets the last run's results. */
static inline void runner_reset(struct runner *r) {
  run_result_free(&r->result);
  plan_info_free(&r->info);
  writer_delete(r->writer);
  store_delete(r->store);
  r->writer = NULL;
  r->store = NULL;
  r->table = NULL;
  buf_reset(&r->printed);
}

/* Loads the script's plan and runs it; r->err and the return value say why not. */
static inline int runner_try(struct runner *r, const char *text) {
  runner_reset(r);
  script_write(&r->script, text);
  r->store = store_new();
  const struct plan_source source = {.script = r->script.path,
                                     .sets = r->sets,
                                     .n_sets = r->n_sets,
                                     .store = r->store,
                                     .print = runner_print,
                                     .print_user = r};
  int rc = bind_plan_load(&source, &r->info, &r->err);
  if (rc)
    return rc;
  const struct writer_options options = {.run_id = "test"};
  check_ok(writer_start(&options, &r->writer, &r->err), &r->err);
  struct run_config *c = &r->config;
  c->script = r->script.path;
  c->binding = bind_state_binding();
  c->sets = r->sets;
  c->n_sets = r->n_sets;
  c->load = &r->info.load;
  if (r->info.drain_s >= 0)
    c->drain_s = r->info.drain_s;
  c->fleet = &r->fleet;
  c->store = r->store;
  c->writer = r->writer;
  c->print = runner_print;
  c->print_user = r;
  buf_reset(&r->printed);
  rc = run_start(c, &r->result, &r->err);
  struct err err;
  check_ok(writer_stop(r->writer, &err), &err);
  r->table = writer_table(r->writer);
  return rc;
}

static inline void runner_run(struct runner *r, const char *text) {
  check_ok(runner_try(r, text), &r->err);
}

/* What was printed, with the script's path as "s.lua". */
static inline const char *runner_printed(struct runner *r) {
  size_t len = strlen(r->script.dir) + 1;
  for (char *at; r->printed.len && (at = strstr(r->printed.data, r->script.path));) {
    memmove(at, at + len, strlen(at + len) + 1);
    r->printed.len -= len;
  }
  return r->printed.len ? r->printed.data : "";
}

static inline void runner_free(struct runner *r) {
  runner_reset(r);
  fleet_free(&r->fleet);
  buf_free(&r->printed);
  script_remove(&r->script);
  pthread_mutex_destroy(&r->mutex);
}

/* How many sessions ended with this class. */
static inline size_t runner_sessions(const struct runner *r, enum sample_error error) {
  size_t n = 0;
  for (size_t i = 0; i < r->table->n_sessions; i++)
    n += r->table->sessions[i].error == error;
  return n;
}

#endif

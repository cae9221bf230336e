/* simhost.c: a replica's port and step loop. */
#include "sim/simhost.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "sim/background.h"
#include "sim/endpoints.h"
#include "sim/generation.h"
#include "sim/native.h"
#include "sim/transfer.h"

void simhost_take(struct simhost *h, struct httpd_request *req) {
  const char *path = httpd_path(req);
  bool post = strcmp(httpd_method(req), "POST") == 0;
  if (post && strcmp(path, "/v1/chat/completions") == 0)
    generation_begin(h, req, GEN_CHAT);
  else if (post && strcmp(path, "/v1/completions") == 0)
    generation_begin(h, req, GEN_COMPLETION);
  else if (post && strcmp(path, "/v1/responses") == 0 && face_get(h->face)->has_responses)
    generation_begin(h, req, GEN_RESPONSES);
  else if (post && native_has(h->face, path))
    generation_begin(h, req, GEN_NATIVE);
  else
    endpoints_answer(h, req);
}

static void on_request(void *user, struct httpd_request *req) {
  simhost_take(user, req);
}

/* ---- the step loop ---- */

void simhost_kick(struct simhost *h) {
  if (!replica_in_step(h->replica))
    loop_ready(h->loop, &h->step_task);
}

/* Phase three: every request of this wake-up is in the engine. */
static void on_step_begin(struct loop_task *task) {
  struct simhost *h = CONTAINER_OF(task, struct simhost, step_task);
  uint64_t due;
  if (h->asleep)
    return;
  if (!replica_begin(h->replica, loop_now(h->loop), &due))
    due = replica_wake_ns(h->replica);
  if (due)
    loop_timer_set(h->loop, &h->step_timer, due);
  else
    loop_timer_clear(h->loop, &h->step_timer);
}

static void on_step_end(struct loop_timer *timer) {
  struct simhost *h = CONTAINER_OF(timer, struct simhost, step_timer);
  if (replica_in_step(h->replica)) /* else a load is complete */
    replica_end(h->replica, loop_now(h->loop));
  loop_ready(h->loop, &h->step_task);
}

/* ---- sleep ---- */

void simhost_sleep(struct simhost *h, int level, bool keep) {
  h->asleep = SIMHOST_WEIGHTS | SIMHOST_KV_CACHE;
  h->discarded = level == 2;
  if (!keep)
    generation_abort_all(h);
  replica_reset_cache(h->replica, true);
}

void simhost_wake(struct simhost *h, unsigned what) {
  h->asleep &= ~what;
  simhost_kick(h);
}

/* ---- start and stop ---- */

static void on_refuse_over(struct loop_timer *timer);

static void set_url(struct simhost *h, const char *host) {
  bool v6 = strchr(host, ':') != NULL;
  bool any = strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
  const char *name = any ? (v6 ? "::1" : "127.0.0.1") : host;
  snprintf(h->url, sizeof h->url, v6 ? "http://[%s]:%d" : "http://%s:%d", name,
           httpd_port(h->server));
}

static struct replica *new_replica(const struct simhost *h, const struct engine_config *engine,
                                   struct err *err) {
  double wall_s = (double)((int64_t)loop_now(h->loop) + loop_realtime_offset(h->loop)) / 1e9;
  struct replica *r = replica_new(engine, h->profile, face_get(h->face)->meters, wall_s, err);
  if (r && h->flags.block_metrics)
    replica_measure_blocks(r, h->flags.block_share, h->seed);
  return r;
}

/* After the port: a topic may have it. */
static int start_events(struct simhost *h, const struct simhost_options *o, struct err *err) {
  if (!o->events)
    return 0;
  struct kvevents_options events = {.config = o->events,
                                    .engine = o->engine, /* outlives every process */
                                    .loop = h->loop,
                                    .hub = o->hub,
                                    .host = o->host ? o->host : "127.0.0.1",
                                    .id = h->id,
                                    .model = h->model->name,
                                    .address = strstr(h->url, "//") + 2,
                                    .number = o->number,
                                    .seed = h->seed,
                                    .adapters = &h->adapters,
                                    .shaping = &h->shaping};
  int rc = kvevents_open(&events, &h->kv, err);
  if (!rc)
    replica_listen(h->replica, kvevents_listener(h->kv));
  return rc;
}

int simhost_start(struct loop *loop, const struct simhost_options *o, struct simhost **out,
                  struct err *err) {
  struct simhost *h = MEM_NEW(struct simhost);
  h->loop = loop;
  h->own = *o->model;
  if (o->model->adapters)
    adapters_copy(&h->adapters, o->model->adapters);
  h->own.adapters = &h->adapters;
  h->model = &h->own;
  h->truth = o->truth;
  h->seed = o->seed;
  h->flags = o->flags;
  h->face = o->face;
  h->responses.off = o->flags.no_store;
  h->watch = o->watch;
  transfer_init(h, o->find, o->user);
  h->peer = o->peer;
  h->peer_user = o->user;
  h->overhead_ns = o->profile->request_overhead_ns;
  snprintf(h->id, sizeof h->id, "%s", o->id);
  snprintf(h->header, sizeof h->header, "x-inference-pod: %s\r\n", h->id);
  faults_init(&h->faults, o->seed);
  buf_init(&h->scratch, BUF_MAX_OWN);
  buf_init(&h->page, BUF_MAX_OWN);
  events_init(&h->events);
  loop_timer_init(&h->step_timer, on_step_end);
  loop_timer_init(&h->refuse_timer, on_refuse_over);
  h->step_task.run = on_step_begin;
  h->profile = o->profile;
  h->life_ns = loop_now(loop);
  h->processes = 1;
  h->replica = new_replica(h, o->engine, err);
  struct httpd_options server = {
      .host = o->host, .port = o->port, .on_request = on_request, .user = h};
  int rc = h->replica ? 0 : err->code;
  if (!rc && !o->in_memory)
    rc = httpd_listen(loop, &server, &h->server, err);
  if (!rc) {
    if (o->in_memory)
      snprintf(h->url, sizeof h->url, "http://%s.simulated", h->id);
    else
      set_url(h, o->host ? o->host : "127.0.0.1");
    rc = start_events(h, o, err);
    if (rc && h->server)
      httpd_close(h->server);
  }
  if (rc) {
    replica_delete(h->replica);
    faults_free(&h->faults);
    adapters_free(&h->adapters);
    events_free(&h->events);
    transfer_free(h);
    mem_free(h);
    return rc;
  }
  *out = h;
  return 0;
}

/* Every generation request has ended, but those of a step under way. */
static void end_engine(struct simhost *h) {
  loop_timer_clear(h->loop, &h->step_timer);
  if (replica_in_step(h->replica))
    replica_end(h->replica, loop_now(h->loop));
  assert(!h->open);
  loop_unready(h->loop, &h->step_task);
}

void simhost_stop(struct simhost *h) {
  if (h->server)
    httpd_close(h->server);
  background_drop_all(h);
  end_engine(h);
  loop_timer_clear(h->loop, &h->refuse_timer);
  transfer_free(h);
  response_store_free(&h->responses);
  replica_delete(h->replica);
  kvevents_close(h->kv);
  faults_free(&h->faults);
  adapters_free(&h->adapters);
  buf_free(&h->scratch);
  buf_free(&h->page);
  events_free(&h->events);
  mem_free(h);
}

/* ---- the end of a process, and the next one ---- */

const char *simhost_life_name(enum simhost_life life) {
  static const char *const names[] = {"up", "draining", "starting", "down"};
  return names[life];
}

bool simhost_gone(const struct simhost *h) {
  return h->life == SIMHOST_DOWN || h->life == SIMHOST_STARTING;
}

void simhost_set_life(struct simhost *h, enum simhost_life life) {
  h->life = life;
  h->life_ns = loop_now(h->loop);
}

static void renew_replica(struct simhost *h) {
  struct err err;
  const struct engine_config config = *replica_config(h->replica);
  replica_delete(h->replica);
  h->replica = new_replica(h, &config, &err);
  assert(h->replica); /* the same configuration as before */
  if (h->kv)
    replica_listen(h->replica, kvevents_listener(h->kv));
}

void simhost_end(struct simhost *h, enum simhost_life life) {
  simhost_set_life(h, life);
  h->refusing = true;
  if (h->kv)
    kvevents_end(h->kv);
  if (h->server) {
    httpd_pause(h->server);
    httpd_reset_all(h->server);
  } else {
    generation_reset_all(h);
  }
  background_drop_all(h);
  end_engine(h);
  struct transfers *t = &h->transfers;
  struct simhost *(*find)(void *, const char *) = t->find;
  void *user = t->user;
  transfer_free(h);
  transfer_init(h, find, user);
  response_store_free(&h->responses);
  h->responses.off = h->flags.no_store;
  h->asleep = 0;
  h->discarded = false;
  renew_replica(h);
}

/* As life and faults have it. */
static int set_port(struct simhost *h, struct err *err) {
  h->refusing = simhost_gone(h) || faults_refuse(&h->faults);
  if (!h->server)
    return 0;
  if (!h->refusing)
    return httpd_resume(h->server, err);
  httpd_pause(h->server);
  return 0;
}

int simhost_begin(struct simhost *h, struct err *err) {
  renew_replica(h);
  h->processes++;
  simhost_set_life(h, SIMHOST_UP);
  if (h->kv)
    kvevents_restart(h->kv);
  return set_port(h, err);
}

/* ---- faults ---- */

/* `refuse` has a timer of its own; it opens the port when the last of them that has a time is over.
 */
static void on_refuse_over(struct loop_timer *timer) {
  struct simhost *h = CONTAINER_OF(timer, struct simhost, refuse_timer);
  struct err err;
  for (const struct fault *f; (f = faults_refuse(&h->faults)) && f->for_ns;)
    faults_end(&h->faults, f->serial);
  if (set_port(h, &err))
    log_error("replica stays closed replica=%s reason=\"%s\"", h->id, err.text);
}

uint64_t simhost_add_fault(struct simhost *h, const struct fault *f) {
  uint64_t serial = faults_add(&h->faults, f);
  if (f->kind != FAULT_REFUSE)
    return serial;
  h->refusing = true;
  if (h->server)
    httpd_pause(h->server);
  if (f->for_ns)
    loop_timer_set(h->loop, &h->refuse_timer, loop_now(h->loop) + f->for_ns);
  return serial;
}

bool simhost_end_fault(struct simhost *h, uint64_t serial, struct err *err) {
  if (!faults_end(&h->faults, serial))
    return false;
  if (set_port(h, err))
    log_error("replica stays closed replica=%s reason=\"%s\"", h->id, err->text);
  return true;
}

int simhost_clear_faults(struct simhost *h, struct err *err) {
  loop_timer_clear(h->loop, &h->refuse_timer);
  faults_clear(&h->faults);
  return set_port(h, err);
}

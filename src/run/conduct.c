/* conduct.c: takes a run through its phases, on a loop of the calling thread. */
#include "run/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>
#include <uv.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "run/conductor.h"
#include "run/requestid.h"

#define PROGRESS_NS (250 * NS_PER_MS)
#define START_AHEAD_NS                                                                             \
  (2 * NS_PER_MS) /* so that every worker knows of the start before it is due */

const char *run_phase_name(enum run_phase phase) {
  static const char *const names[] = {"loading",  "set-up",    "warm-up", "running",
                                      "draining", "tear-down", "ended"};
  return names[phase];
}

uint32_t run_default_workers(void) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  return cores > 2 ? (uint32_t)cores - 1 : 1;
}

uint64_t conductor_since_zero(const struct conductor *c, uint64_t loop_ns) {
  return loop_ns > c->run.zero_ns ? loop_ns - c->run.zero_ns : 0;
}

static uint64_t now(const struct conductor *c) {
  return loop_now(c->run.loop);
}

/* ---- progress ---- */

static double seconds_until(uint64_t due_ns, uint64_t now_ns) {
  return due_ns > now_ns ? (double)(due_ns - now_ns) / 1e9 : 0;
}

void conductor_show_progress(struct conductor *c) {
  const struct run_config *config = c->run.config;
  if (!config->progress)
    return;
  const struct schedule *load = &c->run.load;
  uint64_t start, end, at = now(c);
  schedule_window(load, &start, &end);
  struct run_snapshot s = {.phase = c->phase,
                           .left_s = NAN,
                           .window_s = load->duration_s,
                           .open = load->open,
                           .interrupted = c->interrupts > 0,
                           .sessions_bound = load->sessions};
  if (c->run.load_start_ns && at > c->run.load_start_ns) {
    s.elapsed_s = (double)(at - c->run.load_start_ns) / 1e9;
    s.load =
        c->phase == RUN_WARMUP || c->phase == RUN_WINDOW ? schedule_value(load, s.elapsed_s) : 0;
  }
  if ((c->phase == RUN_WARMUP || c->phase == RUN_WINDOW) && end != SCHEDULE_NEVER)
    s.left_s = seconds_until(c->run.load_start_ns + end, at);
  else if (c->phase == RUN_DRAIN && c->phase_timer.slot)
    s.left_s = seconds_until(c->phase_timer.due_ns, at);
  uint64_t ended = __atomic_load_n(&c->run.sessions_ended, __ATOMIC_RELAXED);
  uint64_t started = __atomic_load_n(&c->run.sessions_started, __ATOMIC_RELAXED);
  s.sessions_active = started > ended ? started - ended : 0;
  if (config->loop && c->n_started && c->run.workers[0].recorder)
    recorder_flush(c->run.workers[0].recorder); /* its chore follows the real clock */
  writer_live(config->writer, &s.live);
  config->progress(config->progress_user, &s);
}

static void on_progress(struct loop_chore *chore) {
  struct conductor *c = CONTAINER_OF(chore, struct conductor, progress);
  const struct run_config *config = c->run.config;
  struct err why;
  conductor_show_progress(c);
  if (!c->cut && config->broken && config->broken(config->progress_user, &why))
    conductor_cut(c, &why);
}

/* In virtual time nothing is left that could happen: what sessions wait for never comes. */
static void on_stuck(void *user) {
  struct conductor *c = user;
  struct err err;
  uint64_t started = __atomic_load_n(&c->run.sessions_started, __ATOMIC_RELAXED);
  uint64_t ended = __atomic_load_n(&c->run.sessions_ended, __ATOMIC_RELAXED);
  err_set(&err, ERR_TIMEOUT,
          "nothing can happen any more: %" PRIu64 " sessions wait for something that never comes "
          "(a stall without an end and a request without a timeout?); give the request a timeout",
          started - ended);
  if (c->phase < RUN_WARMUP)
    conductor_fail(c, &err);
  else
    conductor_cut(c, &err);
}

/* ---- phases ---- */

void conductor_enter(struct conductor *c, enum run_phase phase) {
  c->phase = phase;
  log_info("run phase=%s", run_phase_name(phase));
  conductor_show_progress(c);
}

void conductor_tell_all(struct conductor *c, enum worker_order order) {
  for (uint32_t i = 0; i < c->n_started; i++)
    if (!c->views[i].lost)
      worker_tell(&c->run.workers[i], order);
}

void conductor_cancel_all(struct conductor *c, enum sample_error as, const char *why) {
  timeline_hold(c->run.timeline);
  for (uint32_t i = 0; i < c->n_started; i++) {
    struct worker *w = &c->run.workers[i];
    if (!c->views[i].lost && !w->orders[WORKER_CANCEL].sent) {
      w->cancel_as = as;
      w->cancel_why = why;
    }
  }
  conductor_tell_all(c, WORKER_CANCEL);
}

/* Everything has ended, or never began. Workers that still load hear of it once they are ready. */
void conductor_quit(struct conductor *c) {
  c->quitting = true;
  loop_timer_clear(c->run.loop, &c->phase_timer);
  if (c->n_ready == c->n_started)
    conductor_tell_all(c, WORKER_QUIT);
  if (c->n_started == 0)
    loop_stop(c->run.loop);
}

void conductor_fail(struct conductor *c, const struct err *err) {
  if (!c->failed) {
    c->err = *err;
    c->failed = true;
    coord_abort(c->coord, err->text);
  }
  conductor_quit(c);
}

void conductor_cut(struct conductor *c, const struct err *err) {
  if (c->quitting || c->cut || c->phase < RUN_WARMUP || c->phase > RUN_DRAIN)
    return;
  c->cut = true;
  snprintf(c->result->stopped, sizeof c->result->stopped, "%s", err->text);
  loop_timer_clear(c->run.loop, &c->phase_timer);
  conductor_cancel_all(c, SAMPLE_INCOMPLETE, "the run was stopped before its end");
}

static double drain_limit(const struct conductor *c) {
  if (c->run.config->drain_s >= 0)
    return c->run.config->drain_s;
  return c->run.load.duration_s > 0 ? RUN_DRAIN_DEFAULT_S : INFINITY;
}

static void start_drain(struct conductor *c, uint64_t from_ns) {
  conductor_enter(c, RUN_DRAIN);
  double limit = drain_limit(c);
  if (isfinite(limit))
    loop_timer_set(c->run.loop, &c->phase_timer, from_ns + (uint64_t)(limit * 1e9));
}

static void on_phase_timer(struct loop_timer *timer) {
  struct conductor *c = CONTAINER_OF(timer, struct conductor, phase_timer);
  uint64_t start, end, zero = c->run.load_start_ns;
  schedule_window(&c->run.load, &start, &end);
  if (c->phase == RUN_WARMUP) {
    conductor_enter(c, RUN_WINDOW);
    if (end != SCHEDULE_NEVER)
      loop_timer_set(c->run.loop, timer, zero + end);
  } else if (c->phase == RUN_WINDOW) {
    start_drain(c, zero + end);
  } else if (c->phase == RUN_DRAIN) {
    conductor_cancel_all(c, SAMPLE_INCOMPLETE, "still running when the drain ended");
  }
}

void conductor_start_load(struct conductor *c) {
  uint64_t start, end;
  schedule_window(&c->run.load, &start, &end);
  c->run.load_start_ns = loop_refresh(c->run.loop) + START_AHEAD_NS;
  struct run_result *r = c->result;
  r->load_start_ns = conductor_since_zero(c, c->run.load_start_ns);
  r->window_start_ns = r->load_start_ns + start;
  c->window_open_ended = end == SCHEDULE_NEVER;
  if (!c->window_open_ended)
    r->window_end_ns = r->load_start_ns + end;
  timeline_start(c->run.timeline, c->run.load_start_ns + start);
  conductor_enter(c, start > 0 ? RUN_WARMUP : RUN_WINDOW);
  if (start > 0)
    loop_timer_set(c->run.loop, &c->phase_timer, c->run.load_start_ns + start);
  else if (!c->window_open_ended)
    loop_timer_set(c->run.loop, &c->phase_timer, c->run.load_start_ns + end);
  conductor_tell_all(c, WORKER_START);
}

static void all_ready(struct conductor *c) {
  if (c->quitting) {
    conductor_quit(c);
    return;
  }
  c->has_teardown = c->run.workers[0].states[0]->has_teardown;
  coord_barrier(c->coord, "ready", &c->ready);
}

/* What a post says of its worker; NULL for one that was given up since: rescue.c spoke for it. */
static struct conductor_view *view_of(struct loop_post *post, struct conductor **c,
                                      struct worker **w) {
  *w = CONTAINER_OF(post, struct worker_post, post)->worker;
  *c = CONTAINER_OF((*w)->run, struct conductor, run);
  struct conductor_view *v = &(*c)->views[(*w)->index];
  return v->lost ? NULL : v;
}

void conductor_ready(struct conductor *c, struct conductor_view *v, const struct err *err) {
  if (v->ready)
    return;
  v->ready = true;
  c->n_ready++;
  if (err)
    conductor_fail(c, err);
  else if (c->n_ready == c->n_started)
    all_ready(c);
}

static void on_ready(struct loop_post *post) {
  struct conductor *c;
  struct worker *w;
  struct conductor_view *v = view_of(post, &c, &w);
  if (v)
    conductor_ready(c, v, w->err.code ? &w->err : NULL);
}

static void on_set_up(struct loop_post *post) {
  struct conductor *c;
  struct worker *w;
  if (!view_of(post, &c, &w))
    return;
  if (c->interrupts) {
    conductor_quit(c);
  } else if (w->outcome.error != SAMPLE_OK) {
    struct err err;
    err_set(&err, ERR_INVALID, "setup failed (%s): %s", sample_error_name(w->outcome.error),
            vu_outcome_detail(&w->outcome));
    conductor_fail(c, &err);
  } else {
    coord_publish(c->coord, "setup", &w->setup_result);
  }
}

void conductor_exhausted(struct conductor *c, struct conductor_view *v) {
  if (v->exhausted)
    return;
  v->exhausted = true;
  /* Bounded by sessions alone: the drain begins when the last one has started. */
  if (++c->n_exhausted == c->n_started && c->window_open_ended && !c->interrupts && !c->cut) {
    loop_timer_clear(c->run.loop, &c->phase_timer);
    start_drain(c, now(c));
  }
}

static void on_exhausted(struct loop_post *post) {
  struct conductor *c;
  struct worker *w;
  struct conductor_view *v = view_of(post, &c, &w);
  if (v)
    conductor_exhausted(c, v);
}

static void after_load(void *user) {
  struct conductor *c = user;
  struct run_result *r = c->result;
  if (c->has_teardown && c->views[0].lost) {
    snprintf(r->teardown_error, sizeof r->teardown_error,
             "not run: the worker whose task it is stopped coming back");
    conductor_quit(c);
  } else if (c->has_teardown && c->interrupts < 2) {
    conductor_enter(c, RUN_TEARDOWN);
    worker_tell(&c->run.workers[0], WORKER_TEARDOWN);
  } else {
    conductor_quit(c);
  }
}

static void end_load(struct conductor *c) {
  struct run_result *r = c->result;
  loop_timer_clear(c->run.loop, &c->phase_timer);
  r->ended_ns = conductor_since_zero(c, now(c));
  if (c->window_open_ended || ((c->interrupts || c->cut) && r->window_end_ns > r->ended_ns))
    r->window_end_ns = r->ended_ns;
  if (timeline_end(c->run.timeline, c->views[0].lost, after_load, c))
    after_load(c);
}

void conductor_drained(struct conductor *c, struct conductor_view *v) {
  if (v->drained)
    return;
  v->drained = true;
  if (++c->n_drained == c->n_started)
    end_load(c);
}

static void on_drained(struct loop_post *post) {
  struct conductor *c;
  struct worker *w;
  struct conductor_view *v = view_of(post, &c, &w);
  if (v)
    conductor_drained(c, v);
}

static void on_torn_down(struct loop_post *post) {
  struct conductor *c;
  struct worker *w;
  if (!view_of(post, &c, &w))
    return;
  if (w->outcome.error != SAMPLE_OK) {
    snprintf(c->result->teardown_error, sizeof c->result->teardown_error, "%s: %s",
             sample_error_name(w->outcome.error), vu_outcome_detail(&w->outcome));
    log_error("teardown failed class=%s %s", sample_error_name(w->outcome.error),
              vu_outcome_detail(&w->outcome));
  }
  conductor_quit(c);
}

static void on_cut(struct loop_post *post) {
  struct conductor *c;
  struct worker *w;
  if (!view_of(post, &c, &w))
    return;
  bool was_cut = c->cut;
  conductor_cut(c, &w->cut);
  c->result->script_is_wrong |= c->cut && !was_cut && w->cut.code == ERR_INVALID;
}

/* The last of a thread. */
void conductor_gone(struct conductor *c, struct conductor_view *v) {
  if (v->gone)
    return;
  v->gone = true;
  if (++c->n_gone == c->n_started)
    loop_stop(c->run.loop);
}

static void on_gone(struct loop_post *post) {
  struct conductor *c;
  struct worker *w;
  struct conductor_view *v = view_of(post, &c, &w);
  if (v)
    conductor_gone(c, v);
}

/* ---- the whole ---- */

void conductor_start_workers(struct conductor *c) {
  static void (*const callbacks[])(struct loop_post *) = {[WORKER_READY] = on_ready,
                                                          [WORKER_SET_UP] = on_set_up,
                                                          [WORKER_EXHAUSTED] = on_exhausted,
                                                          [WORKER_DRAINED] = on_drained,
                                                          [WORKER_TORN_DOWN] = on_torn_down,
                                                          [WORKER_CUT] = on_cut,
                                                          [WORKER_GONE] = on_gone};
  struct err err;
  for (uint32_t i = 0; i < c->run.n_workers; i++) {
    struct worker *w = &c->run.workers[i];
    for (size_t e = 0; e < WORKER_EVENTS; e++)
      w->events[e] = (struct worker_post){.post.run = callbacks[e], .worker = w};
    if (worker_start(w, &c->run, i, &err)) {
      conductor_fail(c, &err);
      return;
    }
    c->n_started++;
  }
}

static int check_config(const struct run_config *config, const struct schedule *load,
                        struct err *err) {
  assert(config->writer && config->store && config->binding);
  int rc = schedule_check(load, err);
  if (!rc)
    rc = http_global_init(err);
  return rc;
}

static void sum_up(struct conductor *c) {
  struct run_result *r = c->result;
  timeline_finish(c->run.timeline, &r->timeline);
  const struct fleet *f = c->run.config->fleet;
  r->workers = c->run.n_workers;
  r->sessions_started = __atomic_load_n(&c->run.sessions_started, __ATOMIC_RELAXED);
  r->sessions_ended = __atomic_load_n(&c->run.sessions_ended, __ATOMIC_RELAXED);
  for (uint32_t i = 0; i < c->n_started; i++) {
    const struct worker *w = &c->run.workers[i];
    if (c->views[i].lost)
      continue; /* what its client counted is lost: it may still be counting */
    const struct http_client_stats *s = &w->stats;
    r->states += (uint32_t)w->n_states;
    r->client.requests += s->requests;
    r->client.connections_opened += s->connections_opened;
    r->client.reconnects += s->reconnects;
    r->client.waits_for_connection += s->waits_for_connection;
    r->client.open_now += s->open_now;
    r->client.descriptor_limit_hits += s->descriptor_limit_hits;
    r->client.missing_kernel_stamps += s->missing_kernel_stamps;
  }
  if (c->run.router) {
    r->n_picked = f->n_replicas;
    r->picked = mem_calloc(r->n_picked, sizeof *r->picked);
    r->rotation = mem_calloc(r->n_picked, sizeof *r->rotation);
    for (size_t i = 0; i < r->n_picked; i++) {
      r->picked[i] = router_picked(c->run.router, i);
      r->rotation[i] = router_rotation_share(c->run.router, i);
    }
  }
}

/* What a thread that was given up may still look at lives on: the whole process ends soon. */
static void release(struct conductor *c) {
  interrupt_close(c);
  loop_timer_clear(c->run.loop, &c->phase_timer);
  loop_chore_stop(&c->progress);
  rescue_stop(c);
  uv_run(loop_uv(c->run.loop), UV_RUN_NOWAIT); /* the signal handles' close */
  if (c->result->n_lost)
    return;
  timeline_delete(c->run.timeline);
  fleetport_http_delete(c->http_port);
  coord_delete(c->coord);
  loop_set_stuck(c->run.loop, NULL, NULL);
  if (!c->config.loop)
    loop_delete(c->run.loop);
  router_delete(c->run.router);
  schedule_free(&c->run.load);
  mem_free(c->run.workers);
  mem_free(c->views);
  mem_free((void *)c->run.reports);
  mem_free(c);
}

/* The way to the fleet's actions, if there is one, and what the plan wants of it. */
static int make_timeline(struct conductor *c, struct err *err) {
  const struct run_config *config = &c->config;
  const struct fleet *f = config->fleet;
  const struct fleetport *port = config->fleetport;
  int rc = 0;
  if (!port && f && f->admin)
    rc = fleetport_http_new(c->run.loop, f->admin, f->admin_token, f, &c->http_port, err);
  if (rc)
    return err_prefix(err, "the fleet's admin port");
  if (c->http_port)
    port = fleetport_http_port(c->http_port);
  c->run.timeline = timeline_new(&c->run, port, config->timeline, config->n_timeline);
  return 0;
}

int run_start(const struct run_config *config, struct run_result *result, struct err *err) {
  *result = (struct run_result){0};
  struct conductor *c = MEM_NEW(struct conductor);
  c->result = result;
  c->config = *config;
  if (!c->config.max_users)
    c->config.max_users = RUN_MAX_USERS;
  c->run.config = &c->config;
  c->run.load = schedule_copy(config->load);
  c->run.load.seed = config->seed;
  int rc = check_config(config, &c->run.load, err);
  c->run.loop = rc ? NULL : config->loop ? config->loop : loop_new(err);
  if (c->run.loop)
    rc = make_timeline(c, err);
  if (!c->run.loop || rc) {
    rc = rc ? rc : err->code;
    if (c->run.loop && !config->loop)
      loop_delete(c->run.loop);
    schedule_free(&c->run.load);
    mem_free(c);
    return rc;
  }
  c->run.n_workers = config->loop ? 1 : config->workers ? config->workers : run_default_workers();
  c->run.workers = mem_calloc(c->run.n_workers, sizeof *c->run.workers);
  c->views = mem_calloc(c->run.n_workers, sizeof *c->views);
  size_t replicas = config->fleet ? config->fleet->n_replicas : 0;
  if (replicas)
    c->run.router = router_new(replicas, config->fleet->n_spares);
  c->run.reports = mem_calloc(replicas + 1, sizeof *c->run.reports);
  loop_timer_init(&c->phase_timer, on_phase_timer);
  c->run.zero_ns = now(c);
  result->zero_wall_ns = clock_wall_ns();
  result->zero_ns = c->run.zero_ns;
  c->run.request_run = requestid_run(result->zero_wall_ns, result->zero_ns);
  result->workers = c->run.n_workers;
  log_set_zero(c->run.zero_ns);
  if (config->begins)
    config->begins(config->progress_user);
  if (config->catch_signals)
    interrupt_open(c);
  loop_chore_start(c->run.loop, &c->progress, on_progress,
                   config->progress_ns ? config->progress_ns : PROGRESS_NS);
  conductor_show_progress(c);
  loop_set_stuck(c->run.loop, on_stuck, c);
  rescue_start(c);
  ranks_join(c);
  loop_run(c->run.loop);
  for (uint32_t i = 0; i < c->n_started; i++)
    if (!c->views[i].lost)
      worker_join(&c->run.workers[i]);
  c->phase = RUN_ENDED;
  conductor_show_progress(c);
  sum_up(c);
  rc = c->failed ? c->err.code : 0;
  if (rc)
    *err = c->err;
  release(c);
  return rc;
}

void run_result_free(struct run_result *r) {
  timeline_log_free(&r->timeline);
  mem_free(r->picked);
  mem_free(r->rotation);
  *r = (struct run_result){0};
}

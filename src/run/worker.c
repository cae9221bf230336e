/* worker.c: the thread of a worker: sets itself up, does what the run tells it, keeps its states
 * and what they cost. Sessions are sessions.c's. */
#include "run/worker.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "net/exchange.h"
#include "run/sessions.h"
#include "text/tokens.h"

#define FLUSH_NS (100 * NS_PER_MS)
#define CPU_MIN_NS (100 * NS_PER_MS) /* a share of less time than this says nothing */
#define QUIET_NS NS_PER_MS           /* collector steps only when the next timer is further away */
#define LOOK_AT_STATES 64            /* for garbage, in one go; each is a cache miss or two */
#define LATE_NS NS_PER_S             /* a start so late is said while the run goes on */
#define SPARE_USERS 25               /* an open load keeps room for so many */

size_t worker_request_id(struct worker *w, char out[REQUESTID_MAX]) {
  return requestid_write(w->run->request_run, w->index, w->n_ids++, out);
}

uint64_t worker_since_zero(const struct worker *w, uint64_t loop_ns) {
  return loop_ns > w->run->zero_ns ? loop_ns - w->run->zero_ns : 0;
}

void worker_send_event(struct worker *w, enum worker_event event) {
  assert(!w->events[event].sent);
  w->events[event].sent = true;
  loop_post(w->run->loop, &w->events[event].post);
}

/* Of a dry run: on the run's own loop and thread. */
static bool is_virtual(const struct worker *w) {
  return w->run->config->loop != NULL;
}

/* ---- states ---- */

static int add_state(struct worker *w, struct err *err) {
  const struct run_config *c = w->run->config;
  const struct state_options options = {
      .script = c->script,
      .binding = c->binding,
      .loop = w->loop,
      .store = c->store,
      .worker = w,
      .watch = is_virtual(w) ? NULL : &w->watch,
      .fleet = c->fleet,
      .arm = c->arm,
      .sets = c->sets,
      .n_sets = c->n_sets,
      .route = c->route,
      .memory_bytes = c->memory_bytes,
      .runaway_ns = c->runaway_ns,
      .print = c->print,
      .print_user = c->print_user,
  };
  struct state *s;
  int rc = state_new(&options, &s, err);
  if (rc)
    return rc;
  if (w->run->setup && w->run->setup->kind != SHARED_NULL)
    s->setup = w->run->setup;
  s->number = (uint32_t)w->n_states;
  MEM_GROW(w->states, w->n_states, w->cap_states);
  w->states[w->n_states++] = s;
  return 0;
}

/* There may be thousands of them: the full ones are not looked at each time. */
static void find_room(struct worker *w) {
  while (w->first_room < w->n_states && w->states[w->first_room]->users >= STATE_USERS)
    w->first_room++;
}

void worker_room_again(struct worker *w, const struct state *s) {
  if (s->number < w->first_room)
    w->first_room = s->number;
}

/* The first state with room; another one when all are full. */
struct state *worker_state_with_room(struct worker *w) {
  find_room(w);
  if (w->first_room < w->n_states)
    return w->states[w->first_room];
  struct err err;
  if (!w->no_more_states && add_state(w, &err)) {
    w->no_more_states = true;
    log_error("cannot open another Lua state, sessions share the last one: %s", err.text);
  }
  return w->states[w->n_states - 1];
}

/* Makes the next state before it is needed, while the loop has nothing else to do. */
static void keep_spare(struct worker *w) {
  if (!w->accepting || !w->run->load.open || w->no_more_states)
    return;
  uint32_t room = 0;
  find_room(w);
  for (size_t i = w->first_room; i < w->n_states && room < SPARE_USERS; i++)
    room += w->states[i]->users < STATE_USERS ? STATE_USERS - w->states[i]->users : 0;
  struct err err;
  if (room >= SPARE_USERS || add_state(w, &err) == 0)
    return;
  w->no_more_states = true;
  log_error("cannot open another Lua state, sessions share those there are: %s", err.text);
}

static bool on_idle(void *user) {
  struct worker *w = user;
  keep_spare(w);
  size_t n = w->n_states < LOOK_AT_STATES ? w->n_states : LOOK_AT_STATES;
  for (size_t i = 0; i < n; i++) {
    size_t at = w->collect_next < w->n_states ? w->collect_next : 0;
    if (state_collect(w->states[at]))
      return true;
    w->collect_next = at + 1;
  }
  return false;
}

/* ---- accuracy ---- */

static void timer_late(void *user, uint64_t late_ns) {
  recorder_timer_late(((struct worker *)user)->recorder, late_ns);
}

static void wakeup_busy(void *user, uint64_t busy_ns) {
  recorder_wakeup_busy(((struct worker *)user)->recorder, busy_ns);
}

static void end_cpu(struct worker *w) {
  if (!w->cpu_open)
    return;
  w->cpu_open = false;
  struct loop_stats stats;
  loop_get_stats(w->loop, &stats);
  uint64_t now = loop_refresh(w->loop);
  if (now > w->wall_mark_ns + CPU_MIN_NS)
    recorder_cpu(w->recorder,
                 (double)(stats.cpu_ns - w->cpu_mark_ns) / (double)(now - w->wall_mark_ns));
}

void worker_set_probing(struct worker *w, bool on) {
  if (!on)
    loop_timer_clear(w->loop, &w->window_timer);
  if (w->probing == on)
    return;
  w->probing = on;
  recorder_set_probing(w->recorder, on);
  if (!on) {
    end_cpu(w);
    loop_set_probe(w->loop, NULL);
    return;
  }
  const struct loop_probe probe = {.timer_late = timer_late, .wakeup_busy = wakeup_busy, .user = w};
  loop_set_probe(w->loop, &probe);
  struct loop_stats stats;
  loop_get_stats(w->loop, &stats);
  w->cpu_mark_ns = stats.cpu_ns;
  w->wall_mark_ns = loop_refresh(w->loop);
  w->cpu_open = true;
}

/* The window opens, then closes. Lateness is kept on through the drain, where measured requests
 * still end; the share of a core is the window's alone, or the quiet of the drain would hide it. */
static void on_window_timer(struct loop_timer *timer) {
  struct worker *w = CONTAINER_OF(timer, struct worker, window_timer);
  uint64_t start, end;
  schedule_window(&w->run->load, &start, &end);
  if (w->probing) {
    end_cpu(w);
  } else if (!w->drained) {
    worker_set_probing(w, true);
    if (end != SCHEDULE_NEVER)
      loop_timer_set(w->loop, timer, w->run->load_start_ns + end);
  }
}

static void on_flush(struct loop_chore *chore) {
  recorder_flush(CONTAINER_OF(chore, struct worker, flush)->recorder);
}

/* ---- what virtual users tell ---- */

void worker_session_began(struct vu *vu) {
  struct worker *w = vu->state->options.worker;
  if (!w || vu->kind != VU_SESSION)
    return;
  recorder_session_started(w->recorder);
  uint64_t late_ns = vu->start_ns > vu->sched_ns ? vu->start_ns - vu->sched_ns : 0;
  if (!w->run->load.open)
    return;
  if (vu->measured && late_ns)
    recorder_start_lag(w->recorder, late_ns);
  if (late_ns <= LATE_NS || __atomic_exchange_n(&w->run->said_late, true, __ATOMIC_RELAXED))
    return;
  char name[32];
  schedule_session_name(vu->session, name);
  log_warn("the client does not keep up with the load: %s began %.1f s after it was due; lower the "
           "rate, or use more --workers or another machine as well",
           name, (double)late_ns / 1e9);
}

void worker_pick_done(struct worker *w, size_t replica) {
  if (w && w->run->router)
    router_done(w->run->router, replica);
}

/* ---- functions of the timeline ---- */

static void on_timed_back(struct loop_post *post) { /* the run's thread */
  struct worker_timed *timed = CONTAINER_OF(post, struct worker_timed, post);
  timed->ended(timed);
}

static void send_back(struct worker_timed *timed) {
  timed->post.run = on_timed_back;
  loop_post(timed->worker->run->loop, &timed->post);
}

static void timed_ended(struct vu *vu) {
  struct worker_timed *timed = vu->owner;
  struct worker_timed **at = &timed->worker->timed;
  while (*at != timed)
    at = &(*at)->next;
  *at = timed->next;
  vu_outcome_set(&timed->outcome, vu->outcome.error, vu->outcome.detail);
  send_back(timed);
}

static void on_timed(struct loop_post *post) {
  struct worker_timed *timed = CONTAINER_OF(post, struct worker_timed, post);
  struct worker *w = timed->worker;
  const struct vu_start start = {.kind = VU_TIMELINE,
                                 .id = timed->entry,
                                 .round = timed->round,
                                 .seed = w->run->config->seed,
                                 .sched_ns = loop_now(w->loop),
                                 .ended = timed_ended,
                                 .owner = timed};
  struct err err;
  if (vu_new(w->states[0], &start, &timed->vu, &err)) {
    vu_outcome_set(&timed->outcome, SAMPLE_SCRIPT, err.text);
    send_back(timed);
    return;
  }
  timed->next = w->timed;
  w->timed = timed;
}

void worker_run_timed(struct worker *w, struct worker_timed *timed) {
  timed->worker = w;
  timed->post.run = on_timed;
  loop_post(w->loop, &timed->post);
}

static void end_timed(struct worker *w, enum sample_error as, const char *why) {
  for (struct worker_timed *timed = w->timed, *next; timed; timed = next) {
    next = timed->next;
    vu_cancel(timed->vu, as, why);
  }
}

/* ---- orders ---- */

static void start_load(struct worker *w) {
  const struct run *run = w->run;
  uint64_t start, end;
  schedule_window(&run->load, &start, &end);
  http_client_set_window(w->client, run->load_start_ns + start,
                         end == SCHEDULE_NEVER ? 0 : run->load_start_ns + end);
  for (size_t i = 0; i < w->n_states && run->setup->kind != SHARED_NULL; i++)
    w->states[i]->setup = run->setup;
  if (!is_virtual(w)) /* it is for probing alone */
    loop_timer_set(w->loop, &w->window_timer, run->load_start_ns + start);
  sessions_start(w);
}

static void cancel_all(struct worker *w) {
  worker_set_probing(w, false); /* ending many sessions at once is no measure of anything */
  if (w->special)
    vu_cancel(w->special, w->cancel_as, w->cancel_why);
  end_timed(w, w->cancel_as, w->cancel_why);
  sessions_cancel(w, w->cancel_as, w->cancel_why);
}

static void special_ended(struct vu *vu) {
  struct worker *w = vu->owner;
  w->special = NULL;
  vu_outcome_set(&w->outcome, vu->outcome.error, vu->outcome.detail);
  w->setup_result = vu->result;
  vu->result = (struct shared){.kind = SHARED_NULL};
  worker_send_event(w, vu->kind == VU_SETUP ? WORKER_SET_UP : WORKER_TORN_DOWN);
}

static void start_special(struct worker *w, enum vu_kind kind) {
  const struct vu_start start = {.kind = kind,
                                 .seed = w->run->config->seed,
                                 .sched_ns = loop_now(w->loop),
                                 .ended = special_ended,
                                 .owner = w};
  struct err err;
  if (vu_new(w->states[0], &start, &w->special, &err) == 0)
    return;
  vu_outcome_set(&w->outcome, SAMPLE_SCRIPT, err.text);
  worker_send_event(w, kind == VU_SETUP ? WORKER_SET_UP : WORKER_TORN_DOWN);
}

static void on_order(struct loop_post *post) {
  struct worker_post *order = CONTAINER_OF(post, struct worker_post, post);
  struct worker *w = order->worker;
  switch ((enum worker_order)(order - w->orders)) {
  case WORKER_SETUP:
    start_special(w, VU_SETUP);
    break;
  case WORKER_START:
    start_load(w);
    break;
  case WORKER_CANCEL:
    cancel_all(w);
    break;
  case WORKER_END_TIMED:
    end_timed(w, SAMPLE_CANCELLED, "the load has ended");
    break;
  case WORKER_TEARDOWN:
    start_special(w, VU_TEARDOWN);
    break;
  case WORKER_ABORT:
    if (w->special)
      vu_cancel(w->special, SAMPLE_CANCELLED, "the run was interrupted");
    break;
  case WORKER_QUIT:
    loop_chore_stop(&w->flush);
    loop_timer_clear(w->loop, &w->window_timer);
    if (is_virtual(w))
      loop_ready(w->loop, &w->leave); /* Lua is entered in phase three */
    else
      loop_stop(w->loop);
    break;
  case WORKER_ORDERS:
    break;
  }
}

void worker_tell(struct worker *w, enum worker_order order) {
  if (w->orders[order].sent || w->orders[WORKER_QUIT].sent || !w->loop)
    return; /* after the last one the loop may be gone */
  w->orders[order].sent = true;
  loop_post(w->loop, &w->orders[order].post);
}

/* ---- the thread ---- */

static int find_targets(struct worker *w, struct err *err) {
  const struct fleet *f = w->run->config->fleet;
  if (!f)
    return 0;
  w->targets = mem_calloc(f->n_replicas + 1, sizeof(struct http_target *));
  for (size_t i = 0; i <= f->n_replicas; i++) {
    const char *url = i < f->n_replicas ? f->replicas[i].url : f->gateway;
    if (!url)
      continue;
    const struct http_target_options options = {
        .url = url,
        .tls = {.ca_file = f->ca_file,
                .cert_file = f->cert_file,
                .key_file = f->key_file,
                .insecure = f->insecure},
        .proxy = f->proxy,
        .http2 = f->http2,
        .reports_cached = f->reports_cached,
        .reports = &w->run->reports[i],
    };
    int rc = http_client_target(w->client, &options, &w->targets[i], err);
    if (rc)
      return rc;
  }
  return 0;
}

/* How many of the closed load's users run here. */
static uint32_t users_here(const struct worker *w) {
  if (w->run->load.open)
    return 0;
  uint32_t users = schedule_users(&w->run->load), n = w->run->n_workers;
  return users / n + (w->index < users % n ? 1 : 0);
}

static int set_up(struct worker *w) {
  const struct run_config *c = w->run->config;
  w->loop = is_virtual(w) ? c->loop : loop_new(&w->err);
  if (!w->loop)
    return w->err.code;
  loop_set_precise(w->loop, c->precise);
  loop_set_idle(w->loop, on_idle, w, QUIET_NS); /* never called in virtual time */
  w->recorder = recorder_new(c->writer, w->index);
  uint32_t users = users_here(w);
  if (c->fleet && c->fleet->tokens) {
    w->tokens = tokens_ref(c->fleet->tokens);
    w->encoder = tokens_encoder_new(w->tokens);
  }
  const struct http_client_options options = {
      .loop = w->loop,
      .recorder = w->recorder,
      .zero_ns = w->run->zero_ns,
      .max_connections = users > 2048 ? users * 2 : 0,
      .kernel_stamps = !c->no_kernel_stamps,
      .keep_gaps = true,
      .tokens = w->encoder,
  };
  w->client = http_client_new(&options, &w->err);
  if (!w->client)
    return w->err.code;
  if (c->transport)
    http_client_use_transport(w->client, c->transport);
  watch_enter(&w->watch, WATCH_RESOLVING, 0, WATCH_NO_SESSION, NULL);
  int rc = find_targets(w, &w->err);
  watch_leave(&w->watch);
  uint32_t states = users > STATE_USERS ? (users + STATE_USERS - 1) / STATE_USERS : 1;
  for (uint32_t i = 0; i < states && !rc; i++)
    rc = add_state(w, &w->err);
  return rc;
}

static void tear_down(struct worker *w) {
  for (size_t i = 0; i < w->n_states; i++)
    state_delete(w->states[i]);
  mem_free(w->states);
  mem_free(w->targets);
  if (w->client) {
    http_client_get_stats(w->client, &w->stats);
    http_client_delete(w->client);
  }
  tokens_encoder_delete(w->encoder);
  tokens_close(w->tokens);
  w->encoder = NULL;
  w->tokens = NULL;
  recorder_delete(w->recorder);
  w->recorder = NULL;
  shared_free(&w->setup_result);
  if (!is_virtual(w))
    loop_delete(w->loop);
}

static void on_leave(struct loop_task *task) {
  struct worker *w = CONTAINER_OF(task, struct worker, leave);
  tear_down(w);
  worker_send_event(w, WORKER_GONE);
}

static void start_here(struct worker *w) {
  w->leave.run = on_leave;
  w->err.code = set_up(w);
  loop_chore_start(w->loop, &w->flush, on_flush, FLUSH_NS);
  worker_send_event(w, WORKER_READY);
}

static void *run_thread(void *arg) {
  struct worker *w = arg;
  w->err.code = set_up(w);
  if (!w->loop) {
    worker_send_event(w, WORKER_READY);
    worker_send_event(w, WORKER_GONE);
    return NULL;
  }
  loop_chore_start(w->loop, &w->flush, on_flush, FLUSH_NS);
  worker_send_event(w, WORKER_READY);
  loop_run(w->loop);
  tear_down(w);
  worker_send_event(w, WORKER_GONE);
  return NULL;
}

int worker_start(struct worker *w, struct run *run, uint32_t index, struct err *err) {
  struct worker_post events[WORKER_EVENTS];
  memcpy(events, w->events, sizeof events); /* their callbacks are the run's */
  *w = (struct worker){.run = run, .index = index};
  memcpy(w->events, events, sizeof events);
  sessions_init(w);
  loop_timer_init(&w->window_timer, on_window_timer);
  for (size_t i = 0; i < WORKER_ORDERS; i++)
    w->orders[i] = (struct worker_post){.post.run = on_order, .worker = w};
  if (is_virtual(w)) {
    start_here(w);
    return 0;
  }
  sigset_t all, before; /* signals are the main thread's business, also once this one is given up */
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int rc = pthread_create(&w->thread, NULL, run_thread, w);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (rc)
    return err_set(err, ERR_LIMIT, "cannot start worker thread %u: %s; use fewer --workers", index,
                   strerror(rc));
  return 0;
}

void worker_join(struct worker *w) {
  if (!is_virtual(w))
    pthread_join(w->thread, NULL);
  vu_outcome_free(&w->outcome);
}

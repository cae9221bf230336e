/* worker.c: the thread of a worker: sets itself up, starts sessions when they are due, and lets the
 * run know. */
#include "run/worker.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "text/tokens.h"

#define FLUSH_NS (100 * NS_PER_MS)
#define REST_NS (100 * NS_PER_MS) /* of a user whose session could not even be made */
#define QUIET_NS NS_PER_MS        /* collector steps only when the next timer is further away */
#define SPARE_USERS 25            /* an open load keeps room for so many */

static void check_done(struct worker *w);

uint64_t worker_since_zero(const struct worker *w, uint64_t loop_ns) {
  return loop_ns > w->run->zero_ns ? loop_ns - w->run->zero_ns : 0;
}

static void send_event(struct worker *w, enum worker_event event) {
  assert(!w->events[event].sent);
  w->events[event].sent = true;
  loop_post(w->run->loop, &w->events[event].post);
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
      .fleet = c->fleet,
      .arm = c->arm,
      .sets = c->sets,
      .n_sets = c->n_sets,
      .memory_bytes = c->memory_bytes,
      .runaway_ns = c->runaway_ns,
      .print = c->print,
      .print_user = c->print_user,
  };
  struct state *s;
  int rc = state_new(&options, &s, err);
  if (rc)
    return rc;
  if (w->run->setup.kind != SHARED_NULL)
    s->setup = &w->run->setup;
  MEM_GROW(w->states, w->n_states, w->cap_states);
  w->states[w->n_states++] = s;
  return 0;
}

/* The first state with room; another one when all are full. */
static struct state *state_with_room(struct worker *w) {
  for (size_t i = 0; i < w->n_states; i++)
    if (w->states[i]->users < STATE_USERS)
      return w->states[i];
  struct err err;
  if (add_state(w, &err))
    log_error("cannot open another Lua state, sessions share the last one: %s", err.text);
  return w->states[w->n_states - 1];
}

/* Makes the next state before it is needed, while the loop has nothing else to do. */
static void keep_spare(struct worker *w) {
  if (!w->accepting || !w->run->load.open)
    return;
  uint32_t room = 0;
  for (size_t i = 0; i < w->n_states && room < SPARE_USERS; i++)
    room += w->states[i]->users < STATE_USERS ? STATE_USERS - w->states[i]->users : 0;
  struct err err;
  if (room < SPARE_USERS && add_state(w, &err))
    log_error("cannot open another Lua state: %s", err.text);
}

static bool on_idle(void *user) {
  struct worker *w = user;
  keep_spare(w);
  for (size_t i = 0; i < w->n_states; i++)
    if (state_collect(w->states[i]))
      return true;
  return false;
}

/* ---- accuracy ---- */

static void timer_late(void *user, uint64_t late_ns) {
  recorder_timer_late(((struct worker *)user)->recorder, late_ns);
}

static void wakeup_busy(void *user, uint64_t busy_ns) {
  recorder_wakeup_busy(((struct worker *)user)->recorder, busy_ns);
}

/* From the window's start to its end the client's own lateness is kept. */
static void set_probing(struct worker *w, bool on) {
  if (w->probing == on)
    return;
  w->probing = on;
  struct loop_stats stats;
  loop_get_stats(w->loop, &stats);
  uint64_t now = loop_refresh(w->loop);
  if (on) {
    const struct loop_probe probe = {
        .timer_late = timer_late, .wakeup_busy = wakeup_busy, .user = w};
    loop_set_probe(w->loop, &probe);
    w->cpu_mark_ns = stats.cpu_ns;
    w->wall_mark_ns = now;
  } else {
    loop_set_probe(w->loop, NULL);
    if (now > w->wall_mark_ns)
      recorder_cpu(w->recorder,
                   (double)(stats.cpu_ns - w->cpu_mark_ns) / (double)(now - w->wall_mark_ns));
  }
}

static void on_window_timer(struct loop_timer *timer) {
  struct worker *w = CONTAINER_OF(timer, struct worker, window_timer);
  uint64_t start, end;
  schedule_window(&w->run->load, &start, &end);
  if (w->probing || w->drained) {
    set_probing(w, false);
    return;
  }
  set_probing(w, true);
  if (end != SCHEDULE_NEVER)
    loop_timer_set(w->loop, timer, w->run->load_start_ns + end);
}

static void on_flush_timer(struct loop_timer *timer) {
  struct worker *w = CONTAINER_OF(timer, struct worker, flush_timer);
  recorder_flush(w->recorder);
  loop_timer_set(w->loop, timer, loop_now(w->loop) + FLUSH_NS);
}

/* ---- sessions ---- */

void worker_session_began(struct vu *vu) {
  struct worker *w = vu->state->options.worker;
  if (!w || vu->kind != VU_SESSION)
    return;
  recorder_session_started(w->recorder);
  if (w->run->load.open && vu->measured && vu->start_ns > vu->sched_ns)
    recorder_start_lag(w->recorder, vu->start_ns - vu->sched_ns);
}

/* Each error of a script is said once per worker, with its frames; the rows count the others. */
static void say_error(struct worker *w, const struct vu *vu) {
  const char *text = vu_outcome_detail(&vu->outcome);
  uint64_t hash = UINT64_C(14695981039346656037);
  for (const char *p = text; *p; p++)
    hash = (hash ^ (unsigned char)*p) * UINT64_C(1099511628211);
  for (size_t i = 0; i < w->n_seen_errors; i++)
    if (w->seen_errors[i] == hash)
      return;
  if (w->n_seen_errors < ARRAY_LEN(w->seen_errors))
    w->seen_errors[w->n_seen_errors++] = hash;
  log_error("script session=%llu %s", (unsigned long long)vu->session, text);
}

void worker_pick_done(struct worker *w, size_t replica) {
  if (w && w->run->router)
    router_done(w->run->router, replica);
}

static void free_slot(struct worker_slot *slot) {
  struct worker *w = slot->worker;
  assert(!slot->vu);
  if (slot->timer.slot) {
    loop_timer_clear(w->loop, &slot->timer);
    w->n_unstarted--;
  }
  if (slot->prev)
    slot->prev->next = slot->next;
  else
    w->slots = slot->next;
  if (slot->next)
    slot->next->prev = slot->prev;
  mem_free(slot);
}

static void record_end(struct worker *w, const struct worker_slot *slot, uint64_t start_ns,
                       const struct vu_outcome *outcome) {
  struct session_record r = {
      .arm = w->run->config->arm,
      .session = slot->due.session,
      .sched_ns = worker_since_zero(w, w->run->load_start_ns + slot->due.at_ns),
      .start_ns = worker_since_zero(w, start_ns),
      .end_ns = worker_since_zero(w, loop_refresh(w->loop)),
      .error = outcome->error,
      .measured = slot->due.measured,
  };
  snprintf(r.detail, sizeof r.detail, "%s", vu_outcome_detail(outcome));
  recorder_session(w->recorder, &r);
  __atomic_fetch_add(&w->run->sessions_ended, 1, __ATOMIC_RELAXED);
}

static void next_session(struct worker_slot *slot);

static void session_ended(struct vu *vu) {
  struct worker_slot *slot = vu->owner;
  struct worker *w = slot->worker;
  if (vu->outcome.error == SAMPLE_SCRIPT)
    say_error(w, vu);
  record_end(w, slot, vu->begun ? vu->start_ns : loop_now(w->loop), &vu->outcome);
  slot->vu = NULL;
  w->n_live--;
  next_session(slot);
  check_done(w);
}

static void begin_session(struct worker_slot *slot) {
  struct worker *w = slot->worker;
  const struct run *run = w->run;
  if (run->load.open)
    slot->state = state_with_room(w);
  const struct vu_start start = {
      .kind = VU_SESSION,
      .session = slot->due.session,
      .id = run->load.open ? (uint32_t)slot->due.session : slot->user.user,
      .measured = slot->due.measured,
      .seed = run->config->seed,
      .sched_ns = run->load_start_ns + slot->due.at_ns,
      .ended = session_ended,
      .owner = slot,
  };
  struct err err;
  __atomic_fetch_add(&w->run->sessions_started, 1, __ATOMIC_RELAXED);
  if (vu_new(slot->state, &start, &slot->vu, &err) == 0) {
    w->n_live++;
    return;
  }
  struct vu_outcome outcome = {.error = SAMPLE_SCRIPT, .detail = err.text};
  record_end(w, slot, loop_now(w->loop), &outcome);
  if (run->load.open) {
    free_slot(slot);
  } else { /* not at once again: there would be no end to it */
    slot->due.measured = false;
    slot->due.session = UINT64_MAX;
    loop_timer_set(w->loop, &slot->timer, loop_now(w->loop) + REST_NS);
    w->n_unstarted++;
  }
}

static void on_slot_timer(struct loop_timer *timer) {
  struct worker_slot *slot = CONTAINER_OF(timer, struct worker_slot, timer);
  slot->worker->n_unstarted--;
  if (slot->due.session == UINT64_MAX)
    next_session(slot);
  else
    begin_session(slot);
  check_done(slot->worker);
}

static struct worker_slot *new_slot(struct worker *w) {
  struct worker_slot *slot = MEM_NEW(struct worker_slot);
  slot->worker = w;
  slot->next = w->slots;
  if (slot->next)
    slot->next->prev = slot;
  w->slots = slot;
  loop_timer_init(&slot->timer, on_slot_timer);
  return slot;
}

/* What the slot does next; frees it when that is nothing. */
static void next_session(struct worker_slot *slot) {
  struct worker *w = slot->worker;
  uint64_t at = loop_now(w->loop), zero = w->run->load_start_ns;
  uint64_t now = at > zero ? at - zero : 0;
  if (w->run->load.open || !w->accepting ||
      !schedule_user_next(&w->run->load, &slot->user, now, &slot->due)) {
    free_slot(slot);
  } else if (zero + slot->due.at_ns <= at) { /* orders come ahead of the load's start */
    begin_session(slot);
  } else {
    loop_timer_set(w->loop, &slot->timer, zero + slot->due.at_ns);
    w->n_unstarted++;
  }
}

/* Finds the next arrival that is this worker's. */
static void find_arrival(struct worker *w) {
  do
    w->has_arrival = schedule_arrivals_next(&w->arrivals, &w->arrival);
  while (w->has_arrival && schedule_worker(w->arrival.session, w->run->n_workers) != w->index);
}

static void on_arrival_timer(struct loop_timer *timer) {
  struct worker *w = CONTAINER_OF(timer, struct worker, arrival_timer);
  uint64_t now = loop_now(w->loop) - w->run->load_start_ns;
  while (w->has_arrival && w->arrival.at_ns <= now) {
    struct worker_slot *slot = new_slot(w);
    slot->due = w->arrival;
    begin_session(slot);
    find_arrival(w);
  }
  if (w->has_arrival)
    loop_timer_set(w->loop, timer, w->run->load_start_ns + w->arrival.at_ns);
  check_done(w);
}

static void check_done(struct worker *w) {
  if (w->drained)
    return;
  bool pending = w->accepting && (w->has_arrival || w->n_unstarted > 0);
  if (!pending && !w->exhausted) {
    w->exhausted = true;
    send_event(w, WORKER_EXHAUSTED);
  }
  if (w->exhausted && w->n_live == 0) {
    w->drained = true;
    set_probing(w, false);
    loop_timer_clear(w->loop, &w->window_timer);
    recorder_flush(w->recorder);
    send_event(w, WORKER_DRAINED);
  }
}

/* ---- orders ---- */

static void start_load(struct worker *w) {
  const struct run *run = w->run;
  uint64_t start, end;
  schedule_window(&run->load, &start, &end);
  http_client_set_window(w->client, run->load_start_ns + start,
                         end == SCHEDULE_NEVER ? 0 : run->load_start_ns + end);
  for (size_t i = 0; i < w->n_states && run->setup.kind != SHARED_NULL; i++)
    w->states[i]->setup = &run->setup;
  w->accepting = true;
  loop_timer_set(w->loop, &w->window_timer, run->load_start_ns + start);
  if (run->load.open) {
    schedule_arrivals_init(&w->arrivals, &run->load);
    find_arrival(w);
    if (w->has_arrival)
      loop_timer_set(w->loop, &w->arrival_timer, run->load_start_ns + w->arrival.at_ns);
  } else {
    uint32_t users = schedule_users(&run->load);
    size_t n = 0;
    for (uint32_t u = 0; u < users; u++) {
      if (schedule_worker(u, run->n_workers) != w->index)
        continue;
      struct worker_slot *slot = new_slot(w);
      slot->user = (struct schedule_user){.user = u};
      slot->state = w->states[n++ / STATE_USERS];
      next_session(slot);
    }
  }
  check_done(w);
}

static void cancel_all(struct worker *w) {
  const char *why = w->cancel_as == SAMPLE_INCOMPLETE ? "still running when the drain ended"
                                                      : "the run was interrupted";
  bool loading = w->accepting;
  w->accepting = w->has_arrival = false;
  loop_timer_clear(w->loop, &w->arrival_timer);
  if (w->special)
    vu_cancel(w->special, w->cancel_as, why);
  struct worker_slot *next;
  for (struct worker_slot *slot = w->slots; slot; slot = next) {
    next = slot->next;
    if (slot->vu)
      vu_cancel(slot->vu, w->cancel_as, why);
    else
      free_slot(slot);
  }
  if (loading)
    check_done(w);
}

static void special_ended(struct vu *vu) {
  struct worker *w = vu->owner;
  w->special = NULL;
  vu_outcome_set(&w->outcome, vu->outcome.error, vu->outcome.detail);
  w->setup_result = vu->result;
  vu->result = (struct shared){.kind = SHARED_NULL};
  send_event(w, vu->kind == VU_SETUP ? WORKER_SET_UP : WORKER_TORN_DOWN);
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
  send_event(w, kind == VU_SETUP ? WORKER_SET_UP : WORKER_TORN_DOWN);
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
  case WORKER_TEARDOWN:
    start_special(w, VU_TEARDOWN);
    break;
  case WORKER_ABORT:
    if (w->special)
      vu_cancel(w->special, SAMPLE_CANCELLED, "the run was interrupted");
    break;
  case WORKER_QUIT:
    loop_timer_clear(w->loop, &w->flush_timer);
    loop_timer_clear(w->loop, &w->window_timer);
    loop_stop(w->loop);
    break;
  case WORKER_ORDERS:
    break;
  }
}

void worker_tell(struct worker *w, enum worker_order order) {
  if (w->orders[order].sent || !w->loop)
    return;
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
  w->loop = loop_new(&w->err);
  if (!w->loop)
    return w->err.code;
  loop_set_precise(w->loop, c->precise);
  loop_set_idle(w->loop, on_idle, w, QUIET_NS);
  w->recorder = recorder_new(c->writer, w->index);
  uint32_t users = users_here(w);
  if (c->fleet && c->fleet->tokenizer && tokens_open(c->fleet->tokenizer, &w->tokens, &w->err))
    return w->err.code;
  const struct http_client_options options = {
      .loop = w->loop,
      .recorder = w->recorder,
      .zero_ns = w->run->zero_ns,
      .max_connections = users > 2048 ? users * 2 : 0,
      .kernel_stamps = !c->no_kernel_stamps,
      .keep_gaps = true,
      .tokens = w->tokens,
  };
  w->client = http_client_new(&options, &w->err);
  if (!w->client)
    return w->err.code;
  int rc = find_targets(w, &w->err);
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
    tokens_close(w->tokens);
    w->tokens = NULL;
  }
  recorder_delete(w->recorder);
  shared_free(&w->setup_result);
  loop_delete(w->loop);
}

static void *run_thread(void *arg) {
  struct worker *w = arg;
  w->err.code = set_up(w);
  if (!w->loop) {
    send_event(w, WORKER_READY);
    return NULL;
  }
  loop_timer_set(w->loop, &w->flush_timer, loop_now(w->loop) + FLUSH_NS);
  send_event(w, WORKER_READY);
  loop_run(w->loop);
  tear_down(w);
  return NULL;
}

int worker_start(struct worker *w, struct run *run, uint32_t index, struct err *err) {
  struct worker_post events[WORKER_EVENTS];
  memcpy(events, w->events, sizeof events); /* their callbacks are the run's */
  *w = (struct worker){.run = run, .index = index};
  memcpy(w->events, events, sizeof events);
  loop_timer_init(&w->arrival_timer, on_arrival_timer);
  loop_timer_init(&w->flush_timer, on_flush_timer);
  loop_timer_init(&w->window_timer, on_window_timer);
  for (size_t i = 0; i < WORKER_ORDERS; i++)
    w->orders[i] = (struct worker_post){.post.run = on_order, .worker = w};
  int rc = pthread_create(&w->thread, NULL, run_thread, w);
  if (rc)
    return err_set(err, ERR_LIMIT, "cannot start worker thread %u: %s; use fewer --workers", index,
                   strerror(rc));
  return 0;
}

void worker_join(struct worker *w) {
  pthread_join(w->thread, NULL);
  vu_outcome_free(&w->outcome);
}

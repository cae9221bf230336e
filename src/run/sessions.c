/* sessions.c: arrivals of an open load, users of a closed one. */
#include "run/sessions.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "run/worker.h"

#define AT_ONCE 256 /* arrivals begun in one wake-up: the others wait for these to run */
#define MAX_COUNTED 10000000u
#define REST_NS (100 * NS_PER_MS) /* of a user whose session could not do anything */

static void check_done(struct worker *w);

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
  char name[32];
  schedule_session_name(vu->session, name);
  log_error("script %s %s", name, text);
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

/* Whether the slot's user has a session behind the one that runs. */
static void note_more(struct worker_slot *slot) {
  struct worker *w = slot->worker;
  uint64_t at = loop_now(w->loop), zero = w->run->load_start_ns;
  struct schedule_user user = slot->user; /* a copy: nothing begins yet */
  struct schedule_session next;
  slot->has_more = !w->run->load.open &&
                   schedule_user_next(&w->run->load, &user, at > zero ? at - zero : 0, &next);
  w->n_more += slot->has_more;
}

static void forget_more(struct worker_slot *slot) {
  slot->worker->n_more -= slot->has_more;
  slot->has_more = false;
}

/* Nobody is there, or nobody that could be talked to. */
static bool is_unreachable(enum sample_error error) {
  return error == SAMPLE_CONNECT || error == SAMPLE_RESOLVE || error == SAMPLE_TLS;
}

/* The user of a closed load goes on after a while: at once, a script that fails at its first line,
 * or a server that is gone, would make it spin through millions of sessions. */
static void rest(struct worker_slot *slot) {
  struct worker *w = slot->worker;
  slot->due.measured = false;
  slot->due.session = UINT64_MAX;
  loop_timer_set(w->loop, &slot->timer, loop_now(w->loop) + REST_NS);
  w->n_unstarted++;
}

/* A script that fails in each of its first sessions is wrong: more of it shows nothing. One in
 * whose session a request failed may only be careless of what servers do. */
static void count_mistake(struct worker *w, const struct vu *vu) {
  struct run *run = w->run;
  if (vu->request_failed)
    return;
  uint64_t mistaken = __atomic_add_fetch(&run->sessions_mistaken, 1, __ATOMIC_RELAXED);
  uint64_t users = run->load.open ? 0 : schedule_users(&run->load);
  if (mistaken < (users > RUN_MISTAKES ? users : RUN_MISTAKES) || w->cut.code ||
      mistaken < __atomic_load_n(&run->sessions_ended, __ATOMIC_RELAXED))
    return;
  err_set(&w->cut, ERR_INVALID,
          "the first %" PRIu64
          " sessions all ended in an error of the script, so the run was stopped: %s",
          mistaken, vu_outcome_detail(&vu->outcome));
  worker_send_event(w, WORKER_CUT);
}

static void session_ended(struct vu *vu) {
  struct worker_slot *slot = vu->owner;
  struct worker *w = slot->worker;
  bool by_mistake = vu->outcome.error == SAMPLE_SCRIPT;
  bool wait = by_mistake || is_unreachable(vu->outcome.error);
  if (by_mistake)
    say_error(w, vu);
  record_end(w, slot, vu->begun ? vu->start_ns : loop_now(w->loop), &vu->outcome);
  if (by_mistake)
    count_mistake(w, vu);
  slot->vu = NULL;
  forget_more(slot);
  w->n_live--;
  worker_room_again(w, slot->state);
  if (wait && !w->run->load.open && w->accepting)
    rest(slot);
  else
    next_session(slot);
  check_done(w);
}

/* An open load does not wait for its sessions: when they end more slowly than they come, their
 * number has no bound but memory's. */
static void count_started(struct worker *w) {
  struct run *run = w->run;
  uint64_t started = __atomic_add_fetch(&run->sessions_started, 1, __ATOMIC_RELAXED);
  uint64_t ended = __atomic_load_n(&run->sessions_ended, __ATOMIC_RELAXED);
  if (run->load.open && started > ended && started - ended > run->config->max_users &&
      !w->cut.code) {
    err_set(
        &w->cut, ERR_LIMIT,
        "more than %" PRIu64 " sessions are alive at once (--max-users): they end more slowly than "
        "they come, because the servers or this client do not keep up; lower the rate, or raise "
        "--max-users if so many are meant",
        run->config->max_users);
    worker_send_event(w, WORKER_CUT);
  }
}

static void begin_session(struct worker_slot *slot) {
  struct worker *w = slot->worker;
  const struct run *run = w->run;
  if (run->load.open)
    slot->state = worker_state_with_room(w);
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
  count_started(w);
  if (vu_new(slot->state, &start, &slot->vu, &err) == 0) {
    w->n_live++;
    note_more(slot);
    return;
  }
  struct vu_outcome outcome = {.error = SAMPLE_SCRIPT, .detail = err.text};
  record_end(w, slot, loop_now(w->loop), &outcome);
  if (run->load.open) {
    free_slot(slot);
  } else {
    rest(slot);
  }
}

static void on_slot_timer(struct loop_timer *timer) {
  struct worker_slot *slot = CONTAINER_OF(timer, struct worker_slot, timer);
  struct worker *w = slot->worker;
  w->n_unstarted--;
  if (slot->due.session == UINT64_MAX)
    next_session(slot); /* may free it */
  else
    begin_session(slot);
  check_done(w);
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
  for (int n = 0; n < AT_ONCE && w->has_arrival && w->arrival.at_ns <= now; n++) {
    struct worker_slot *slot = new_slot(w);
    slot->due = w->arrival;
    begin_session(slot);
    find_arrival(w);
  }
  if (w->has_arrival) { /* the rest of a batch is no late timer: its sessions start late */
    uint64_t due = w->run->load_start_ns + w->arrival.at_ns, at = loop_now(w->loop);
    loop_timer_set(w->loop, timer, due > at ? due : at);
  }
  check_done(w);
}

/* Tells the run once when nothing is left to start, and once when nothing runs. */
static void check_done(struct worker *w) {
  if (w->drained)
    return;
  bool pending = w->accepting && (w->has_arrival || w->n_unstarted > 0 || w->n_more > 0);
  if (!pending && !w->exhausted) {
    w->exhausted = true;
    worker_send_event(w, WORKER_EXHAUSTED);
  }
  if (w->exhausted && !pending && w->n_live == 0) {
    w->drained = true;
    worker_set_probing(w, false);
    recorder_flush(w->recorder);
    worker_send_event(w, WORKER_DRAINED);
  }
}

/* ---- the load ---- */

void sessions_init(struct worker *w) {
  loop_timer_init(&w->arrival_timer, on_arrival_timer);
}

static void start_arrivals(struct worker *w) {
  schedule_arrivals_init(&w->arrivals, &w->run->load);
  find_arrival(w);
  if (w->has_arrival)
    loop_timer_set(w->loop, &w->arrival_timer, w->run->load_start_ns + w->arrival.at_ns);
}

static void start_users(struct worker *w) {
  uint32_t users = schedule_users(&w->run->load);
  size_t n = 0;
  for (uint32_t u = 0; u < users; u++) {
    if (schedule_worker(u, w->run->n_workers) != w->index)
      continue;
    struct worker_slot *slot = new_slot(w);
    slot->user = (struct schedule_user){.user = u};
    slot->state = w->states[n++ / STATE_USERS];
    next_session(slot);
  }
}

void sessions_start(struct worker *w) {
  w->accepting = true;
  if (w->run->load.open)
    start_arrivals(w);
  else
    start_users(w);
  check_done(w);
}

/* What was due and has not begun: the client is behind its own schedule. */
static uint64_t count_overdue(struct worker *w) {
  uint64_t n = 0, at = loop_now(w->loop), zero = w->run->load_start_ns;
  for (; w->has_arrival && zero + w->arrival.at_ns <= at && n < MAX_COUNTED; n++)
    find_arrival(w);
  return n;
}

void sessions_cancel(struct worker *w, enum sample_error error, const char *why) {
  bool loading = w->accepting;
  uint64_t overdue = count_overdue(w);
  if (overdue > AT_ONCE)
    log_warn("worker %u was behind its schedule: %s%llu sessions were due and never began",
             w->index, overdue == MAX_COUNTED ? "more than " : "", (unsigned long long)overdue);
  w->accepting = w->has_arrival = false;
  loop_timer_clear(w->loop, &w->arrival_timer);
  struct worker_slot *next;
  for (struct worker_slot *slot = w->slots; slot; slot = next) {
    next = slot->next;
    if (slot->vu)
      vu_cancel(slot->vu, error, why);
    else
      free_slot(slot);
  }
  if (loading)
    check_done(w);
}

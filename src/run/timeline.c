/* timeline.c: see timeline.h. */
#include "run/timeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "run/worker.h"

/* An entry of the plan: it waits for its time, is under way, or over. */
struct slot {
  struct timeline *timeline;
  const struct timeline_entry *entry;
  struct loop_timer timer;
  struct fleetport_call call; /* of an action */
  bool *out;                  /* replicas that it took out of rotation */
  struct worker_timed timed;  /* of a function */
  uint64_t record;            /* from 1; 0 = none */
  bool begun, under_way;
};

struct timeline {
  struct run *run;
  const struct fleetport *port; /* NULL: none */
  struct slot *slots;
  size_t n_slots;
  uint64_t window_ns; /* loop clock; 0 = the load has not started */
  bool held;          /* nothing of the plan begins any more */
  size_t n_functions; /* that run */
  size_t n_unknown;   /* replicas that were added and get no requests */
  void (*over)(void *user);
  void *over_user;
  struct timeline_ask *asks; /* under way */
  struct timeline_log log;
  size_t cap_records;
};

const char *timeline_state_name(enum timeline_state state) {
  static const char *const names[] = {"done", "failed", "cut_off", "not_begun"};
  return names[state];
}

void timeline_log_free(struct timeline_log *log) {
  for (size_t i = 0; i < log->n; i++) {
    value_free(&log->records[i].action);
    value_free(&log->records[i].answer);
    mem_free(log->records[i].error);
  }
  mem_free(log->records);
  *log = (struct timeline_log){0};
}

/* ---- what is recorded ---- */

static uint64_t since_zero(const struct timeline *t, uint64_t loop_ns) {
  return loop_ns > t->run->zero_ns ? loop_ns - t->run->zero_ns : 0;
}

static uint64_t now(const struct timeline *t) {
  return since_zero(t, loop_now(t->run->loop));
}

static uint64_t add_record(struct timeline *t, const struct timeline_entry *entry, const char *by,
                           const struct value *action) {
  if (t->log.n >= TIMELINE_RECORDS_MAX) {
    t->log.left_out++;
    return 0;
  }
  MEM_GROW(t->log.records, t->log.n, t->cap_records);
  struct timeline_record *r = &t->log.records[t->log.n++];
  uint64_t at = now(t);
  *r = (struct timeline_record){.entry = entry,
                                .action = value_copy(action),
                                .due_ns = at,
                                .begin_ns = at,
                                .end_ns = TIMELINE_NEVER,
                                .state = TIMELINE_CUT_OFF,
                                .answer = value_null()};
  if (entry && t->window_ns)
    r->due_ns = since_zero(t, t->window_ns + (uint64_t)(entry->at_s * 1e9));
  else if (entry)
    r->due_ns = TIMELINE_NEVER;
  snprintf(r->by, sizeof r->by, "%s", by);
  return t->log.n;
}

static void end_record(struct timeline *t, uint64_t record, const char *error,
                       const struct value *answer) {
  if (!record)
    return;
  struct timeline_record *r = &t->log.records[record - 1];
  r->end_ns = now(t);
  r->state = error ? TIMELINE_FAILED : TIMELINE_DONE;
  if (error)
    r->error = mem_strdup(error);
  else if (answer)
    r->answer = value_copy(answer);
}

static const char *name_of(const struct value *action) {
  const char *name = value_to_string(value_get(action, "action"));
  return name ? name : "action";
}

/* ---- whom the client sends to ---- */

static void set_in_rotation(const struct timeline *t, const char *replica, bool in) {
  const struct fleet *f = t->run->config->fleet;
  for (size_t i = 0; t->run->router && replica && i < f->n_replicas; i++)
    if (strcmp(f->replicas[i].id, replica) == 0)
      router_set_in_rotation(t->run->router, i, in);
}

/* Whoever drains a replica stops sending to it first. Of a kill or a restart a client knows
 * nothing. Returns which were taken out, by number; NULL: none. */
static bool *before_action(const struct timeline *t, const struct value *action) {
  const struct fleet *f = t->run->config->fleet;
  const char *replica = value_to_string(value_get(action, "replica"));
  if (strcmp(name_of(action), "drain") != 0 || !t->run->router || !replica)
    return NULL;
  bool *out = mem_calloc(f->n_replicas, sizeof *out);
  for (size_t i = 0; i < f->n_replicas; i++)
    if (strcmp(replica, "*") == 0 || strcmp(f->replicas[i].id, replica) == 0)
      out[i] = router_set_in_rotation(t->run->router, i, false);
  return out;
}

/* What is up again after a restart, or was added, is sent to; so is one that could not be drained.
 * Frees `out`. */
static void after_action(const struct timeline *t, const struct fleetport_call *call, bool *out) {
  const char *name = name_of(call->action);
  const struct value *done = value_get(&call->answer, "replicas");
  if (out && call->rc)
    for (size_t i = 0; i < t->run->config->fleet->n_replicas; i++)
      if (out[i])
        router_set_in_rotation(t->run->router, i, true);
  if (!call->rc && (strcmp(name, "restart") == 0 || strcmp(name, "add") == 0))
    for (size_t i = 0; i < value_count(done); i++)
      set_in_rotation(t, value_to_string(value_at(done, i)), true);
  mem_free(out);
}

static bool is_known(const struct fleet *f, const char *replica) {
  for (size_t i = 0; i < f->n_replicas; i++)
    if (strcmp(f->replicas[i].id, replica) == 0)
      return true;
  return false;
}

/* Of a replica that was added and that the run did not know of when it began: it gets nothing. */
static void note_unknown(struct timeline *t, struct fleetport_call *call) {
  const struct fleet *f = t->run->config->fleet;
  const char *id = value_to_string(value_at(value_get(&call->answer, "replicas"), 0));
  char note[320];
  if (call->rc || strcmp(name_of(call->action), "add") != 0 || !t->run->router || !id ||
      is_known(f, id))
    return;
  t->n_unknown++;
  if (f->replicas[0].admin_id)
    snprintf(note, sizeof note, "%.100s gets no requests: the fleet file does not name it", id);
  else
    snprintf(note, sizeof note,
             "%.100s gets no requests: what a script adds is not known when the run begins; "
             "--spares %zu",
             id, f->n_spares + t->n_unknown);
  log_warn("%s", note);
  value_set(&call->answer, "note", value_cstring(note));
}

/* ---- the plan's ---- */

static void on_slot_done(struct fleetport_call *call) {
  struct slot *slot = CONTAINER_OF(call, struct slot, call);
  slot->under_way = false;
  after_action(slot->timeline, call, slot->out);
  slot->out = NULL;
  note_unknown(slot->timeline, call);
  end_record(slot->timeline, slot->record, call->rc ? call->err.text : NULL, &call->answer);
  if (call->rc)
    log_error("timeline[%u] %s failed: %s", slot->entry->number, name_of(&slot->entry->action),
              call->err.text);
  else
    log_info("timeline[%u] %s has ended", slot->entry->number, name_of(&slot->entry->action));
  value_free(&call->answer);
}

static void function_over(struct timeline *t) {
  if (--t->n_functions || !t->over)
    return;
  void (*over)(void *) = t->over;
  t->over = NULL;
  over(t->over_user);
}

static void on_function_ended(struct worker_timed *timed) {
  struct slot *slot = CONTAINER_OF(timed, struct slot, timed);
  struct timeline *t = slot->timeline;
  enum sample_error error = timed->outcome.error;
  const char *detail = vu_outcome_detail(&timed->outcome);
  char text[VU_DETAIL_MAX + 80];
  slot->under_way = false;
  snprintf(text, sizeof text, "%s%s%s", sample_error_name(error), *detail ? ": " : "", detail);
  if (error == SAMPLE_OK || sample_error_failed(error))
    end_record(t, slot->record, error == SAMPLE_OK ? NULL : text, NULL);
  if (sample_error_failed(error))
    log_error("timeline[%u] its function failed: %s", slot->entry->number, text);
  vu_outcome_free(&timed->outcome);
  function_over(t);
}

static void begin_action(struct slot *slot) {
  struct timeline *t = slot->timeline;
  slot->record = add_record(t, slot->entry, "timeline", &slot->entry->action);
  slot->call = (struct fleetport_call){.action = &slot->entry->action, .done = on_slot_done};
  if (!t->port) {
    end_record(t, slot->record, "the servers have no admin port", NULL);
    return;
  }
  slot->under_way = true;
  log_info("timeline[%u] %s begins", slot->entry->number, name_of(&slot->entry->action));
  slot->out = before_action(t, &slot->entry->action);
  t->port->begin(t->port->self, &slot->call);
}

static void begin_function(struct slot *slot) {
  struct timeline *t = slot->timeline;
  slot->record = add_record(t, slot->entry, "timeline", &slot->entry->action);
  slot->timed = (struct worker_timed){
      .entry = slot->entry->number, .round = slot->entry->round, .ended = on_function_ended};
  slot->under_way = true;
  t->n_functions++;
  worker_run_timed(&t->run->workers[0], &slot->timed);
}

static void on_due(struct loop_timer *timer) {
  struct slot *slot = CONTAINER_OF(timer, struct slot, timer);
  if (slot->timeline->held)
    return;
  slot->begun = true;
  if (slot->entry->action.kind == VALUE_OBJECT)
    begin_action(slot);
  else
    begin_function(slot);
}

struct timeline *timeline_new(struct run *run, const struct fleetport *port,
                              const struct timeline_entry *entries, size_t n) {
  struct timeline *t = MEM_NEW(struct timeline);
  t->run = run;
  t->port = port;
  t->n_slots = n;
  t->slots = mem_calloc(n ? n : 1, sizeof *t->slots);
  for (size_t i = 0; i < n; i++) {
    t->slots[i] = (struct slot){.timeline = t, .entry = &entries[i]};
    loop_timer_init(&t->slots[i].timer, on_due);
  }
  return t;
}

void timeline_start(struct timeline *t, uint64_t window_ns) {
  t->window_ns = window_ns;
  for (size_t i = 0; i < t->n_slots; i++)
    loop_timer_set(t->run->loop, &t->slots[i].timer,
                   window_ns + (uint64_t)(t->slots[i].entry->at_s * 1e9));
}

void timeline_hold(struct timeline *t) {
  t->held = true;
  for (size_t i = 0; i < t->n_slots; i++)
    loop_timer_clear(t->run->loop, &t->slots[i].timer);
}

bool timeline_end(struct timeline *t, bool lost, void (*over)(void *user), void *user) {
  timeline_hold(t);
  for (size_t i = 0; i < t->n_slots; i++) {
    struct slot *slot = &t->slots[i];
    if (slot->under_way && slot->entry->action.kind == VALUE_OBJECT) {
      slot->under_way = false;
      t->port->cancel(t->port->self, &slot->call);
    }
  }
  if (t->n_functions == 0 || lost)
    return true;
  t->over = over;
  t->over_user = user;
  worker_tell(&t->run->workers[0], WORKER_END_TIMED);
  return false;
}

void timeline_lost(struct timeline *t) {
  if (t->n_functions) {
    t->n_functions = 1;
    function_over(t);
  }
}

/* ---- asked for by users ---- */

static void forget_ask(struct timeline *t, struct timeline_ask *ask) {
  struct timeline_ask **at = &t->asks;
  while (*at != ask)
    at = &(*at)->next;
  *at = ask->next;
}

/* The worker's thread. */
static void on_answer(struct loop_post *post) {
  struct timeline_ask *ask = CONTAINER_OF(post, struct timeline_ask, post);
  ask->back = true;
  if (ask->vu)
    vu_wake(ask->vu);
  else
    timeline_ask_free(ask);
}

static void give_back(struct timeline_ask *ask) {
  struct worker *w = ask->worker;
  if (w->orders[WORKER_QUIT].sent) { /* then nobody waits there, and its loop may be gone */
    timeline_ask_free(ask);
    return;
  }
  ask->post.run = on_answer;
  loop_post(w->loop, &ask->post);
}

static void on_ask_done(struct fleetport_call *call) {
  struct timeline_ask *ask = CONTAINER_OF(call, struct timeline_ask, call);
  struct timeline *t = ask->timeline;
  after_action(t, call, ask->out);
  ask->out = NULL;
  note_unknown(t, call);
  end_record(t, ask->record, call->rc ? call->err.text : NULL, &call->answer);
  ask->rc = call->rc;
  ask->err = call->err;
  ask->answer = call->answer;
  forget_ask(t, ask);
  give_back(ask);
}

static void on_ask(struct loop_post *post) {
  struct timeline_ask *ask = CONTAINER_OF(post, struct timeline_ask, post);
  struct timeline *t = ask->timeline;
  ask->record = add_record(t, NULL, ask->by, &ask->action);
  ask->next = t->asks;
  t->asks = ask;
  ask->call = (struct fleetport_call){.action = &ask->action, .done = on_ask_done};
  ask->out = before_action(t, &ask->action);
  t->port->begin(t->port->self, &ask->call);
}

static void name_asker(const struct vu *vu, char *out, size_t size) {
  const struct vu *root = vu->root;
  char name[32];
  schedule_session_name(root->session, name);
  if (root->kind == VU_TIMELINE)
    snprintf(out, size, "timeline[%u]", root->id);
  else
    snprintf(out, size, "%s",
             root->kind == VU_SESSION ? name
             : root->kind == VU_SETUP ? "setup"
                                      : "teardown");
}

bool timeline_can_act(const struct timeline *t) {
  return t->port != NULL;
}

struct timeline_ask *timeline_ask(struct timeline *t, struct vu *vu, struct value *action) {
  struct timeline_ask *ask = MEM_NEW(struct timeline_ask);
  *ask = (struct timeline_ask){.timeline = t,
                               .worker = vu->state->options.worker,
                               .vu = vu,
                               .action = *action,
                               .answer = value_null()};
  *action = value_null();
  name_asker(vu, ask->by, sizeof ask->by);
  ask->post.run = on_ask;
  loop_post(t->run->loop, &ask->post);
  return ask;
}

void timeline_ask_free(struct timeline_ask *ask) {
  value_free(&ask->action);
  value_free(&ask->answer);
  mem_free(ask->out);
  mem_free(ask);
}

/* ---- the end ---- */

void timeline_finish(struct timeline *t, struct timeline_log *out) {
  while (t->asks) { /* their users have ended */
    struct timeline_ask *ask = t->asks;
    t->asks = ask->next;
    t->port->cancel(t->port->self, &ask->call);
    timeline_ask_free(ask);
  }
  for (size_t i = 0; i < t->n_slots; i++) {
    struct slot *slot = &t->slots[i];
    if (slot->begun)
      continue;
    slot->record = add_record(t, slot->entry, "timeline", &slot->entry->action);
    if (!slot->record)
      continue;
    t->log.records[slot->record - 1].begin_ns = TIMELINE_NEVER;
    t->log.records[slot->record - 1].state = TIMELINE_NOT_BEGUN;
  }
  *out = t->log;
  t->log = (struct timeline_log){0};
}

void timeline_delete(struct timeline *t) {
  if (!t)
    return;
  timeline_log_free(&t->log);
  for (size_t i = 0; i < t->n_slots; i++)
    mem_free(t->slots[i].out);
  mem_free(t->slots);
  mem_free(t);
}

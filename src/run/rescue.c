/* rescue.c: gives up workers that do not come back, and notices that memory runs out, so that the
 * run ends and keeps its results.
 *
 * A thread that is inside a C function cannot be stopped from outside, and it holds whatever it
 * holds. So it is left where it is: everything that is only touched outside of Lua is handed over
 * for it (run/watch.h), nothing that it could still use is ever freed, and the process ends with
 * _exit. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "run/conductor.h"

#define RESERVE_BYTES ((size_t)32 << 20)
#define PROBE_BYTES ((size_t)8 << 20)
#define LOOK_NS (100 * NS_PER_MS)
#define LATE_NS (NS_PER_S)          /* the process itself stood still: nothing can be concluded */
#define GRACE_NS (5 * NS_PER_S)     /* beyond --runaway, which the hook enforces where it can */
#define GRACE_CPU_NS (2 * NS_PER_S) /* the same on a machine that has little time for it */
#define INTERRUPT_NS (3 * NS_PER_S) /* after the first signal */
#define SECOND_NS (250 * NS_PER_MS) /* with the second one: at once, but not in mid-stride */

static uint64_t runaway_ns(const struct conductor *c) {
  return c->config.runaway_ns ? c->config.runaway_ns : STATE_RUNAWAY_DEFAULT;
}

/* Whether a worker that is inside one stay is to be given up. */
static bool is_stuck(const struct conductor *c, const struct conductor_view *v,
                     const struct worker *w, uint64_t now_ns) {
  uint64_t age_ns = now_ns - v->entry_at_ns;
  if (c->interrupts > 1)
    return age_ns >= SECOND_NS;
  if (c->interrupts)
    return age_ns >= INTERRUPT_NS && now_ns - c->interrupted_ns >= INTERRUPT_NS;
  if (__atomic_load_n(&w->watch.what, __ATOMIC_RELAXED) == WATCH_RESOLVING)
    return false; /* it may take its time, until somebody loses patience */
  if (__atomic_load_n(&w->watch.blocked, __ATOMIC_RELAXED) && !c->result->n_lost)
    return false; /* the one it waits for is the culprit */
  /* Waiting in a call, or working in one; a thread that only gets no processor, or little of it,
   * does neither. */
  uint64_t limit = runaway_ns(c) + GRACE_NS;
  return age_ns >= limit && (now_ns - v->idle_ns >= limit ||
                             v->cpu_ns - v->entry_cpu_ns >= runaway_ns(c) + GRACE_CPU_NS);
}

/* "session 17", "the teardown", "loading the script" … of a claimed worker. */
static void describe_stay(const struct worker *w, char *out, size_t size) {
  static const char *const doing[] = {
      [WATCH_LOADING] = "loading the script",
      [WATCH_CALLING] = "a call of the engine's own",
      [WATCH_COLLECTING] = "a __gc method, while garbage is collected",
      [WATCH_CLOSING] = "a __gc method, while its Lua state closes",
      [WATCH_RESOLVING] = "looking up the servers' names",
  };
  if (w->watch.what != WATCH_RUNNING)
    snprintf(out, size, "%s", doing[w->watch.what]);
  else if (w->watch.kind == VU_SESSION && w->watch.session >= SCHEDULE_WARMUP_BASE)
    snprintf(out, size, "warm-up session %" PRIu64, w->watch.session - SCHEDULE_WARMUP_BASE);
  else if (w->watch.kind == VU_SESSION)
    snprintf(out, size, "session %" PRIu64, w->watch.session);
  else
    snprintf(out, size, "%s",
             w->watch.kind == VU_SETUP      ? "the setup"
             : w->watch.kind == VU_TIMELINE ? "a function of the timeline"
                                            : "the teardown");
}

static void describe(const struct conductor *c, const struct worker *w, uint64_t age_ns,
                     struct err *err) {
  char stay[80], place[100], where[160] = "";
  describe_stay(w, stay, sizeof stay);
  bool waited = watch_read_place(w->watch.place, place, sizeof place);
  if (place[0])
    snprintf(where, sizeof where, ", last seen %s %s", waited ? "waiting at" : "at", place);
  err_set(err, ERR_TIMEOUT,
          "the script stopped coming back: worker %u of %u has been in %s for %.1f s%s, in a "
          "function that cannot be stopped from outside (a library's, string.find on a hard "
          "pattern, a tokenizer on a very long text, io.read)",
          w->index, c->run.n_workers, stay, (double)age_ns / 1e9, where);
}

/* Every session that ran there, or was about to begin, ended without an end. */
static void record_sessions(struct conductor *c, struct worker *w) {
  uint64_t now = loop_now(c->run.loop), n = 0;
  for (const struct worker_slot *slot = w->slots; slot; slot = slot->next) {
    if (slot->timer.slot)
      continue; /* it waits for its time */
    bool begun = slot->vu && slot->vu->begun;
    uint64_t due_ns = c->run.load_start_ns + slot->due.at_ns;
    struct session_record r = {
        .arm = c->config.arm,
        .session = slot->due.session,
        .sched_ns = conductor_since_zero(c, due_ns),
        .start_ns = conductor_since_zero(c, begun ? slot->vu->start_ns : now),
        .end_ns = conductor_since_zero(c, now),
        .error = SAMPLE_INCOMPLETE,
        .detail = "its worker stopped coming back",
        .measured = slot->due.measured,
    };
    recorder_session(w->recorder, &r);
    n++;
  }
  __atomic_fetch_add(&c->run.sessions_ended, n, __ATOMIC_RELAXED);
  c->result->sessions_lost += n;
}

/* The run goes on as if the worker had done what it was last told. */
static void stand_in(struct conductor *c, const struct worker *w, const struct err *err) {
  struct conductor_view *v = &c->views[w->index];
  bool alone = w->index == 0; /* setup and teardown are the first worker's */
  if (c->quitting || c->phase == RUN_LOADING) {
    conductor_ready(c, v, err);
  } else if (c->phase == RUN_SETUP) {
    if (c->interrupts)
      conductor_quit(c);
    else
      conductor_fail(c, err);
  } else if (c->phase == RUN_TEARDOWN && alone) {
    snprintf(c->result->teardown_error, sizeof c->result->teardown_error, "%s", err->text);
    conductor_quit(c);
  } else if (c->phase != RUN_TEARDOWN) {
    if (!c->interrupts)
      conductor_cut(c, err);
    conductor_exhausted(c, v);
    conductor_drained(c, v);
  }
  conductor_gone(c, v);
}

static void give_up(struct conductor *c, struct worker *w, uint64_t age_ns) {
  struct conductor_view *v = &c->views[w->index];
  if (!watch_claim(&w->watch, v->entry))
    return; /* it came back just now */
  v->lost = true;
  struct err err;
  describe(c, w, age_ns, &err);
  log_error("%s", err.text);
  if (c->result->n_lost++ == 0)
    snprintf(c->result->lost_text, sizeof c->result->lost_text, "%s", err.text);
  if (w->recorder) {
    record_sessions(c, w);
    recorder_abandon(w->recorder);
  }
  pthread_detach(w->thread);
  if (w->index == 0)
    timeline_lost(c->run.timeline);
  stand_in(c, w, &err);
}

/* Whoever runs out of memory next may be one that cannot say so, and the summary needs some too:
 * the run ends while there is enough for it. */
static void look_at_memory(struct conductor *c) {
  mem_probe(PROBE_BYTES + 2 * writer_table_bytes(c->config.writer));
  if (!mem_is_low() || c->quitting || c->cut || c->interrupts || c->phase == RUN_TEARDOWN)
    return;
  struct err err;
  uint64_t started = __atomic_load_n(&c->run.sessions_started, __ATOMIC_RELAXED);
  uint64_t ended = __atomic_load_n(&c->run.sessions_ended, __ATOMIC_RELAXED);
  err_set(&err, ERR_LIMIT,
          "out of memory (%" PRIu64 " sessions alive, %" PRIu64 " ended): the run was ended while "
          "what it had taken could be kept; use a lower load or a shorter run, or let it have more "
          "memory (ulimit -v)",
          started - ended, ended);
  if (c->phase < RUN_WARMUP)
    conductor_fail(c, &err);
  else
    conductor_cut(c, &err);
}

/* What its thread has done since the last look. A thread that waits uses no CPU time at all. */
static void look_at_cpu(const struct conductor *c, struct conductor_view *v, const struct worker *w,
                        bool first) {
  uint64_t cpu_ns = v->cpu_ns;
  if (!clock_cpu_of_thread(w->thread, &cpu_ns))
    return; /* it came back and ended */
  if (first)
    v->entry_cpu_ns = cpu_ns;
  if (cpu_ns != v->cpu_ns)
    v->idle_ns = c->looked_ns;
  v->cpu_ns = cpu_ns;
}

void rescue_look(struct conductor *c) {
  look_at_memory(c);
  if (c->config.loop)
    return; /* the worker is on this thread */
  uint64_t now = loop_refresh(c->run.loop);
  bool stood_still = now - c->looked_ns > LATE_NS;
  c->looked_ns = now;
  for (uint32_t i = 0; i < c->n_started; i++) {
    struct conductor_view *v = &c->views[i];
    uint64_t entry;
    if (v->lost || v->gone)
      continue;
    if (!watch_inside(&c->run.workers[i].watch, &entry))
      entry = 0;
    if (entry != v->entry || stood_still)
      v->entry_at_ns = v->idle_ns = now;
    if (entry)
      look_at_cpu(c, v, &c->run.workers[i], entry != v->entry || stood_still);
    v->entry = entry;
    if (entry && is_stuck(c, v, &c->run.workers[i], now))
      give_up(c, &c->run.workers[i], now - v->entry_at_ns);
  }
}

static void on_look(struct loop_chore *chore) {
  rescue_look(CONTAINER_OF(chore, struct conductor, look));
}

void rescue_start(struct conductor *c) {
  mem_keep_reserve(RESERVE_BYTES, c->config.status_no_memory ? c->config.status_no_memory : 1);
  c->looked_ns = loop_now(c->run.loop);
  loop_chore_start(c->run.loop, &c->look, on_look, LOOK_NS);
}

void rescue_stop(struct conductor *c) {
  loop_chore_stop(&c->look);
  mem_free_reserve(); /* what comes now needs it more */
}

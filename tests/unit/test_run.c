/* test_run.c: whole runs against a server in this process: conduct.c, ranks.c, interrupt.c,
 * worker.c, sessions.c and what they do with a schedule. */
#include "check.h"

#include <math.h>
#include <signal.h>

#include "run_peer.h"

static struct peer peer;
static struct runner runner;

static int set_up(void **state) {
  (void)state;
  peer_start(&peer);
  runner_init(&runner);
  runner_add(&runner, &peer);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  runner_free(&runner);
  peer_stop(&peer);
  return 0;
}

/* A plan with this load and session body. */
static const char *plan(const char *load, const char *body) {
  static char text[8000];
  snprintf(text, sizeof text,
           "local perigee = require 'perigee'\nreturn perigee.plan {\nload = perigee.%s,\n"
           "session = function(vu) %s end }\n",
           load, body);
  return text;
}

static int by_number(const void *a, const void *b) {
  uint64_t x = ((const struct table_session *)a)->session;
  uint64_t y = ((const struct table_session *)b)->session;
  return x < y ? -1 : x > y;
}

static void sort_sessions(void) {
  qsort(runner.table->sessions, runner.table->n_sessions, sizeof *runner.table->sessions,
        by_number);
}

static void a_chat_yields_samples(void **state) {
  (void)state;
  runner_run(&runner,
             plan("closed { users = 2, sessions = 4 }",
                  "vu:tag('kind', 'test') local reply = vu:http { path = '/v1/chat/completions',\n"
                  "  stream = 'chat', turn = 2, step = 3, policy = 'mine', chosen = 'r0', fallback "
                  "= true,\n"
                  "  json = { messages = { { role = 'user', content = 'hi ' .. vu.session } } } }\n"
                  "assert(reply.text == 'one two three four')"));
  const struct table *t = runner.table;
  assert_int_equal(t->n_sessions, 4);
  assert_int_equal(runner_sessions(&runner, SAMPLE_OK), 4);
  assert_int_equal(t->n_rows, 4);
  assert_int_equal(peer_count(&peer), 4);
  uint64_t seen = 0;
  for (size_t i = 0; i < 4; i++) {
    const struct table_row *row = &t->rows[i];
    seen |= UINT64_C(1) << row->session;
    assert_int_equal(row->error, SAMPLE_OK);
    assert_int_equal(row->status, 200);
    assert_int_equal(row->prompt_tokens, 11);
    assert_int_equal(row->output_tokens, 4);
    assert_int_equal(row->cached_tokens, 8);
    assert_int_equal(row->cached_state, CACHED_VALUE);
    assert_int_equal(row->output_events, 4);
    assert_int_equal(row->turn, 2);
    assert_int_equal(row->step, 3);
    assert_int_equal(row->branch, 0);
    assert_int_equal(row->flags, ROW_MEASURED | ROW_GENERATION | ROW_ROUTED | ROW_FALLBACK |
                                     ROW_STREAMED | ROW_STREAM_ASKED);
    assert_string_equal(t->replicas.items[row->replica], "r0");
    assert_string_equal(t->tags.items[row->tags], "{\"kind\":\"test\"}");
    assert_true(row->sched <= row->start && row->start <= row->first_token &&
                row->first_token <= row->last_token && row->last_token <= row->done);
    assert_true(row->sched >= runner.result.window_start_ns);
  }
  assert_int_equal(seen, 15);
  assert_int_equal(runner.result.client.connections_opened, 2);
  assert_int_equal(runner.result.picked[0], 4);
  peer_forget(&peer);
}

static void open_load_keeps_its_schedule(void **state) {
  (void)state;
  runner.config.workers = 4;
  runner_run(&runner, plan("open { rate = 200, arrival = 'constant', sessions = 40 }",
                           "vu:http { path = '/' } assert(vu.id == vu.session)"));
  sort_sessions();
  const struct table *t = runner.table;
  assert_int_equal(t->n_sessions, 40);
  for (size_t k = 0; k < 40; k++) {
    const struct table_session *s = &t->sessions[k];
    assert_int_equal(s->session, k);
    assert_int_equal(s->error, SAMPLE_OK);
    assert_int_equal(s->sched, runner.result.load_start_ns + k * 5 * NS_PER_MS);
    assert_true(s->start >= s->sched && s->end >= s->start);
  }
  for (size_t i = 0; i < t->n_rows; i++) /* the first request is due when its session arrives */
    assert_int_equal(t->rows[i].sched, t->sessions[t->rows[i].session].sched);
  assert_int_equal(t->probe.start_lag.n, 40);
  assert_int_equal(t->probe.n_cpu, 4);
  assert_int_equal(runner.result.workers, 4);
  runner.config.workers = 1;
  peer_forget(&peer);
}

static void what_follows_is_due_after_what_was_waited_for(void **state) {
  (void)state;
  runner_run(
      &runner,
      plan("closed { users = 1, sessions = 1 }",
           "vu:http { path = '/' } vu:sleep(0.02) vu:sleep('5ms') vu:http { path = '/' }\n"
           "local r = vu:all({ 1, 2 }, function(c, i) c:http { path = '/wait/' .. 10 * i } end)\n"
           "vu:http { path = '/' } vu:http { path = '/', sched = 0.001 }"));
  const struct table_row *row = runner.table->rows;
  assert_int_equal(runner.table->n_rows, 6);
  assert_int_equal(row[1].sched, row[0].done + 25 * NS_PER_MS);
  assert_true(row[1].start >= row[1].sched);
  assert_int_equal(row[2].sched, row[1].done); /* the branches */
  assert_int_equal(row[3].sched, row[1].done);
  assert_int_equal(row[2].branch + row[3].branch, 3);
  assert_int_equal(row[4].sched, row[3].done); /* after the slower one */
  assert_int_equal(row[5].sched, NS_PER_MS);
  peer_forget(&peer);
}

static void the_warmup_is_not_measured(void **state) {
  (void)state;
  runner.config.workers = 2;
  runner_run(&runner, plan("closed { users = 3, warmup = 0.15, duration = 0.2 }",
                           "vu:http { path = '/' } vu:sleep(0.01)"));
  const struct table *t = runner.table;
  size_t warm = 0, measured = 0;
  for (size_t i = 0; i < t->n_sessions; i++) {
    const struct table_session *s = &t->sessions[i];
    assert_int_equal(s->error, SAMPLE_OK);
    assert_int_equal(s->measured, s->session < SCHEDULE_WARMUP_BASE);
    if (s->measured) {
      measured++;
      assert_true(s->sched >= runner.result.window_start_ns &&
                  s->sched < runner.result.window_end_ns);
    } else {
      warm++;
      assert_true(s->sched < runner.result.window_start_ns);
    }
  }
  assert_true(warm >= 6 && measured >= 6);
  assert_int_equal(runner.result.window_start_ns - runner.result.load_start_ns, 150 * NS_PER_MS);
  assert_int_equal(runner.result.window_end_ns - runner.result.window_start_ns, 200 * NS_PER_MS);
  for (size_t i = 0; i < t->n_rows; i++)
    assert_int_equal(t->rows[i].flags & ROW_MEASURED, t->rows[i].session < SCHEDULE_WARMUP_BASE);
  runner.config.workers = 1;
  peer_forget(&peer);
}

static void the_drain_ends_what_still_runs(void **state) {
  (void)state;
  runner.config.drain_s = 0.1;
  uint64_t before = clock_ns();
  runner_run(&runner, plan("closed { users = 2, duration = 0.1 }",
                           "while true do pcall(vu.http, vu, { path = '/wait/60000' }) "
                           "pcall(vu.sleep, vu, 60) end"));
  assert_true(clock_ns() - before < 5 * NS_PER_S);
  runner.config.drain_s = -1;
  assert_int_equal(runner_sessions(&runner, SAMPLE_INCOMPLETE), 2);
  assert_int_equal(runner.table->n_sessions, 2);
  assert_int_equal(runner.table->n_rows, 2);
  assert_int_equal(runner.table->rows[0].error, SAMPLE_INCOMPLETE);
  assert_false(runner.result.interrupted);
  check_has(runner.table->session_detail[SAMPLE_INCOMPLETE], "still running when the drain ended");
  peer_forget(&peer);
}

static void sessions_alone_wait_for_the_last_one(void **state) {
  (void)state;
  runner_run(&runner, plan("open { rate = 1000, sessions = 3 }", "vu:sleep(0.2)"));
  assert_int_equal(runner_sessions(&runner, SAMPLE_OK), 3);
  assert_int_equal(runner.result.window_end_ns, runner.result.ended_ns);
  assert_true(runner.result.ended_ns - runner.result.load_start_ns >= 200 * NS_PER_MS);
}

/* ---- interruption ---- */

struct killer {
  pthread_t thread;
  double after_s[2];
};

static void *kill_main(void *arg) {
  const struct killer *k = arg;
  for (size_t i = 0; i < 2 && k->after_s[i] > 0; i++) {
    clock_sleep_ns((uint64_t)(k->after_s[i] * 1e9));
    kill(getpid(), SIGINT);
  }
  return NULL;
}

static int run_and_kill(struct killer k, const char *text) {
  runner.config.catch_signals = true;
  sigset_t old, all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &old);
  pthread_create(&k.thread, NULL, kill_main, &k);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  int rc = runner_try(&runner, text);
  pthread_join(k.thread, NULL);
  runner.config.catch_signals = false;
  peer_forget(&peer);
  return rc;
}

static void an_interrupt_keeps_what_was_taken(void **state) {
  (void)state;
  runner.config.workers = 2;
  struct killer k = {.after_s = {0.3}};
  int rc = run_and_kill(
      k, "local perigee = require 'perigee'\nreturn perigee.plan {\n"
         "load = perigee.closed { users = 4, duration = '60s' },\n"
         "session = function(vu) vu:http { path = '/' } vu:http { path = '/wait/60000' } end,\n"
         "teardown = function(vu) vu:sleep(0.01) print 'torn down' end }\n");
  check_ok(rc, &runner.err);
  runner.config.workers = 1;
  assert_true(runner.result.interrupted);
  assert_int_equal(runner.table->n_sessions, 4);
  assert_int_equal(runner_sessions(&runner, SAMPLE_INCOMPLETE), 4);
  assert_int_equal(runner.table->n_rows, 8);
  size_t cut = 0; /* cancelled is only what a script cancelled */
  for (size_t i = 0; i < 8; i++)
    cut += runner.table->rows[i].error == SAMPLE_INCOMPLETE;
  assert_int_equal(cut, 4);
  assert_int_equal(runner.result.window_end_ns, runner.result.ended_ns);
  assert_true(runner.result.ended_ns < 10 * NS_PER_S);
  assert_string_equal(runner_printed(&runner), "torn down\n");
}

static void a_second_interrupt_ends_the_teardown(void **state) {
  (void)state;
  struct killer k = {.after_s = {0.2, 0.3}};
  int rc =
      run_and_kill(k, "local perigee = require 'perigee'\nreturn perigee.plan {\n"
                      "load = perigee.closed { users = 1, duration = '60s' },\n"
                      "session = function(vu) vu:sleep(60) end,\n"
                      "teardown = function(vu) print 'begins' vu:sleep(60) print 'no' end }\n");
  check_ok(rc, &runner.err);
  assert_string_equal(runner_printed(&runner), "begins\n");
  check_has(runner.result.teardown_error, "cancelled: the run was interrupted");
}

static void an_interrupt_in_setup_ends_the_run(void **state) {
  (void)state;
  struct killer k = {.after_s = {0.2}};
  int rc = run_and_kill(k, "local perigee = require 'perigee'\nreturn perigee.plan {\n"
                           "load = perigee.closed { users = 1, duration = '60s' },\n"
                           "setup = function(vu) vu:sleep(60) end, session = print }\n");
  check_ok(rc, &runner.err);
  assert_true(runner.result.interrupted);
  assert_int_equal(runner.result.load_start_ns, 0);
  assert_int_equal(runner.table->n_sessions, 0);
}

/* ---- load on several workers and states ---- */

static void many_users_share_states(void **state) {
  (void)state;
  runner.config.workers = 2;
  runner_run(&runner, plan("closed { users = 600, sessions = 600 }", "vu:sleep(0.01)"));
  assert_int_equal(runner_sessions(&runner, SAMPLE_OK), 600);
  assert_int_equal(runner.result.states, 4);
  runner_run(&runner, plan("open { rate = 2000, duration = 0.4 }", "vu:sleep(2)"));
  assert_true(runner.table->n_sessions > 600);
  assert_int_equal(runner_sessions(&runner, SAMPLE_OK), runner.table->n_sessions);
  assert_true(runner.result.states >= 4 && runner.result.states <= 6);
  runner.config.workers = 1;
}

static void routing_is_exact_over_workers(void **state) {
  (void)state;
  struct peer more[2];
  for (int i = 0; i < 2; i++) {
    peer_start(&more[i]);
    runner_add(&runner, &more[i]);
  }
  runner.config.workers = 4;
  runner_run(&runner, plan("open { rate = 2000, sessions = 30 }",
                           "vu:http { path = '/', replica = vu:pick_next 'turn' }"));
  for (size_t i = 0; i < 3; i++)
    assert_int_equal(runner.result.picked[i], 10);
  runner_run(&runner, plan("closed { users = 30, sessions = 30 }",
                           "vu:http { path = '/wait/200', replica = vu:pick_least() }"));
  for (size_t i = 0; i < 3; i++)
    assert_int_equal(runner.result.picked[i], 10);
  runner.config.workers = 1;
  runner_reset(&runner);
  for (int i = 0; i < 2; i++)
    peer_stop(&more[i]);
  fleet_free(&runner.fleet);
  runner_add(&runner, &peer);
  peer_forget(&peer);
}

static void sessions_that_never_wait_still_end(void **state) {
  (void)state;
  uint64_t before = clock_ns();
  runner_run(&runner, plan("closed { users = 2, duration = 0.2 }", ""));
  assert_true(clock_ns() - before < 5 * NS_PER_S);
  assert_true(runner.table->n_sessions > 100);
}

static void one_session_too_big_does_not_end_the_run(void **state) {
  (void)state;
  runner.config.memory_bytes = 16 << 20;
  runner.config.runaway_ns = 60 * NS_PER_S; /* a sanitizer takes long to fill them */
  runner_run(&runner,
             plan("closed { users = 1, sessions = 6 }",
                  "if vu.session % 2 == 1 then local t = {}\n"
                  "while true do t[#t + 1] = ('x'):rep(100000) .. #t end end vu:sleep(0)"));
  runner.config.memory_bytes = 0;
  runner.config.runaway_ns = 0;
  assert_int_equal(runner_sessions(&runner, SAMPLE_OK), 3);
  assert_int_equal(runner_sessions(&runner, SAMPLE_SCRIPT), 3);
  check_has(runner.table->session_detail[SAMPLE_SCRIPT], "not enough memory");
}

/* ---- what keeps a run from starting ---- */

static void failing_to_start_says_why(void **state) {
  (void)state;
  int rc =
      runner_try(&runner, "local perigee = require 'perigee'\nreturn perigee.plan {\n"
                          "load = perigee.closed { users = 1, sessions = 1 }, session = print,\n"
                          "setup = function(vu) error 'no data' end }\n");
  assert_int_equal(rc, ERR_INVALID);
  check_has(runner.err.text, "setup failed (script): ");
  check_has(runner.err.text, "s.lua:4: no data");
  /* a script that loads once, but not on a worker */
  rc = runner_try(&runner,
                  "local perigee = require 'perigee'\nlocal f = io.open('/tmp/x' .. 'y')\n"
                  "local path = debug.getinfo(1, 'S').source:sub(2) .. '.once'\n"
                  "if io.open(path) then os.remove(path) error 'second time' end\n"
                  "io.open(path, 'w'):close()\n"
                  "return perigee.plan { load = perigee.closed { users = 1, sessions = 1 }, "
                  "session = print }\n");
  assert_int_equal(rc, ERR_INVALID);
  check_has(runner.err.text, "s.lua:4: second time");
  runner.fleet.http2 = true; /* cleartext HTTP/2 is refused */
  rc = runner_try(&runner, plan("closed { users = 1, sessions = 1 }", ""));
  runner.fleet.http2 = false;
  assert_int_equal(rc, ERR_UNSUPPORTED);
}

/* ---- progress ---- */

struct seen {
  enum run_phase phases[64];
  size_t n;
  struct run_snapshot last;
  bool left_known, active;
};

static void on_progress(void *user, const struct run_snapshot *s) {
  struct seen *seen = user;
  if (seen->n == 0 || seen->phases[seen->n - 1] != s->phase)
    if (seen->n < 64)
      seen->phases[seen->n++] = s->phase;
  if (s->phase == RUN_WINDOW) {
    seen->left_known = isfinite(s->left_s) && s->left_s <= 0.2 && s->window_s == 0.2;
    seen->active = seen->active || s->sessions_active == 2;
  }
  seen->last = *s;
}

static void progress_tells_the_phases(void **state) {
  (void)state;
  struct seen seen = {.n = 0};
  runner.config.progress = on_progress;
  runner.config.progress_user = &seen;
  runner.config.progress_ns = 10 * NS_PER_MS;
  runner_run(&runner, "local perigee = require 'perigee'\nreturn perigee.plan {\n"
                      "load = perigee.closed { users = 2, warmup = 0.05, duration = 0.2 },\n"
                      "setup = function(vu) vu:sleep(0.01) end,\n"
                      "teardown = function(vu) vu:sleep(0.01) end,\n"
                      "session = function(vu) vu:http { path = '/wait/30' } end }\n");
  runner.config.progress = NULL;
  runner.config.progress_ns = 0;
  const enum run_phase want[] = {RUN_LOADING, RUN_SETUP,    RUN_WARMUP, RUN_WINDOW,
                                 RUN_DRAIN,   RUN_TEARDOWN, RUN_ENDED};
  assert_int_equal(seen.n, ARRAY_LEN(want));
  for (size_t i = 0; i < seen.n; i++)
    assert_int_equal(seen.phases[i], want[i]);
  assert_true(seen.left_known && seen.active);
  assert_int_equal(seen.last.sessions_active, 0);
  assert_true(seen.last.live.sessions_ended == runner.table->n_sessions);
  assert_string_equal(run_phase_name(RUN_WARMUP), "warm-up");
  peer_forget(&peer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_chat_yields_samples),
      cmocka_unit_test(open_load_keeps_its_schedule),
      cmocka_unit_test(what_follows_is_due_after_what_was_waited_for),
      cmocka_unit_test(the_warmup_is_not_measured),
      cmocka_unit_test(the_drain_ends_what_still_runs),
      cmocka_unit_test(sessions_alone_wait_for_the_last_one),
      cmocka_unit_test(an_interrupt_keeps_what_was_taken),
      cmocka_unit_test(a_second_interrupt_ends_the_teardown),
      cmocka_unit_test(an_interrupt_in_setup_ends_the_run),
      cmocka_unit_test(many_users_share_states),
      cmocka_unit_test(routing_is_exact_over_workers),
      cmocka_unit_test(sessions_that_never_wait_still_end),
      cmocka_unit_test(one_session_too_big_does_not_end_the_run),
      cmocka_unit_test(failing_to_start_says_why),
      cmocka_unit_test(progress_tells_the_phases),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}

/* test_rescue.c: a worker that does not come back from a C function is given up, and its thread
 * does no harm when it comes back after all (rescue.c). The process ends with _exit, as a run's
 * does. */
#include "check.h"

#include <signal.h>

#include "run_peer.h"

static struct peer peer;
static struct runner runner;

static void *interrupt_twice(void *arg) {
  (void)arg;
  while (peer_count(&peer) < 6)
    clock_sleep_ns(NS_PER_MS);
  for (int i = 0; i < 2; i++) {
    clock_sleep_ns(300 * NS_PER_MS);
    kill(getpid(), SIGINT);
  }
  return NULL;
}

/* A function of a C library that returns once a file is there. */
static const char library[] =
    "#include <unistd.h>\n"
    "typedef struct lua_State lua_State;\n"
    "void lua_pushcclosure(lua_State *L, int (*fn)(lua_State *), int n);\n"
    "const char *lua_tolstring(lua_State *L, int i, unsigned long *len);\n"
    "static int block(lua_State *L) { const char *path = lua_tolstring(L, 1, 0);\n"
    "  while (access(path, F_OK) != 0) usleep(1000);\n"
    "  return 0; }\n"
    "int luaopen_block(lua_State *L) { lua_pushcclosure(L, block, 0); return 1; }\n";

static void make_library(char *so, size_t size) {
  char command[400], source[100];
  snprintf(source, sizeof source, "%s/block.c", runner.script.dir);
  snprintf(so, size, "%s/block.so", runner.script.dir);
  FILE *f = fopen(source, "w");
  assert_non_null(f);
  fputs(library, f);
  fclose(f);
  snprintf(command, sizeof command, "cc -shared -fPIC -o %s %s", so, source);
  assert_int_equal(system(command), 0);
  unlink(source);
}

/* Three workers, six users; session 4 blocks worker 1 until the test lets it go on as if nothing
 * had happened. */
static void a_lost_worker_keeps_its_rows(void **state) {
  (void)state;
  runner.config.workers = 3;
  runner.config.catch_signals = true;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, interrupt_twice, NULL), 0);
  uint64_t before = clock_ns();
  script_write(&runner.script, ""); /* makes the folder */
  char so[100], go[100], text[1200];
  make_library(so, sizeof so);
  snprintf(go, sizeof go, "%s/go", runner.script.dir);
  snprintf(text, sizeof text,
           "local perigee = require 'perigee'\nlocal block = package.loadlib('%s', "
           "'luaopen_block')()\nreturn perigee.plan {\n"
           "load = perigee.closed { users = 6, duration = '60s' },\n"
           "session = function(vu) vu:http { path = '/' }\n"
           "if vu.session == 4 then block('%s')\n"
           "for i = 1, 1000 do vu:record('late', i) vu:tag('a', i) end\n"
           "pcall(vu.http, vu, { path = '/late' }) end\n"
           "vu:sleep(60) end,\n"
           "metrics = { late = 's' } }\n",
           so, go);
  int rc = runner_try(&runner, text);
  check_ok(rc, &runner.err);
  pthread_join(thread, NULL);
  assert_true(clock_ns() - before < 5 * NS_PER_S); /* it did not wait for the thread */
  const struct run_result *r = &runner.result;
  assert_int_equal(r->n_lost, 1);
  assert_int_equal(r->sessions_lost, 2); /* 1 and 4 */
  assert_true(r->interrupted);
  check_has(r->lost_text, "worker 1 of 3 has been in session 4 for ");
  check_has(r->lost_text, "s.lua:5");
  const struct table *t = runner.table;
  assert_int_equal(t->n_rows, 6);
  assert_int_equal(t->n_values, 0);
  assert_int_equal(t->n_sessions, 6);
  assert_int_equal(r->sessions_ended, 6);
  assert_int_equal(runner_sessions(&runner, SAMPLE_INCOMPLETE), 6); /* 4 by the interrupt */
  assert_int_equal(runner_sessions(&runner, SAMPLE_CANCELLED), 0);
  const char *detail = t->session_detail[SAMPLE_INCOMPLETE]; /* of whichever ended first */
  assert_true(strcmp(detail, "its worker stopped coming back") == 0 ||
              strcmp(detail, "the run was interrupted") == 0);
  FILE *f = fopen(go, "w");
  assert_non_null(f);
  fclose(f);
  clock_sleep_ns(300 * NS_PER_MS); /* now it is back, and stands still */
  unlink(go);
  unlink(so);
  assert_int_equal(t->n_values, 0);
  assert_int_equal(t->n_rows, 6);
}

int main(void) {
  peer_start(&peer);
  runner_init(&runner);
  runner_add(&runner, &peer);
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_lost_worker_keeps_its_rows)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  script_remove(&runner.script);
  fflush(stdout);
  fflush(stderr);
  _exit(failed);
}

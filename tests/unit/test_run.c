/* test_run.c: whole runs against a server in this process: run.c, worker.c. */
#include "check.h"

#include "run_peer.h"

static void a_chat_yields_samples(void **state) {
  (void)state;
  struct peer p;
  struct runner r;
  peer_start(&p);
  runner_init(&r);
  runner_add(&r, &p);
  runner_run(&r,
             "local perigee = require 'perigee'\n"
             "return perigee.plan { load = perigee.closed { users = 2, sessions = 4 },\n"
             "  session = function(vu)\n"
             "    local reply = vu:http { path = '/v1/chat/completions', stream = 'chat',\n"
             "      json = { messages = { { role = 'user', content = 'hi ' .. vu.session } } } }\n"
             "    assert(reply.text == 'one two three four')\n"
             "    assert(reply.usage.cached_tokens == 8)\n"
             "  end }\n");
  assert_int_equal(r.table->n_sessions, 4);
  assert_int_equal(runner_sessions(&r, SAMPLE_OK), 4);
  assert_int_equal(r.table->n_rows, 4);
  assert_int_equal(p.n, 4);
  runner_free(&r);
  peer_stop(&p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_chat_yields_samples),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_worker.c: what a session says depends on seed and session alone: the same bytes with one,
 * two and four workers, in states of different hash seeds (worker.c, sessions.c). */
#include "check.h"

#include "run_peer.h"

/* Conversations with tools, branches, drawn texts and tables whose order would show. */
static const char scenario[] =
    "local perigee = require 'perigee'\n"
    "local chat = require 'perigee.chat'\n"
    "local gen = require 'perigee.gen'\n"
    "local tool = require 'perigee.tool'\n"
    "local SYSTEM = gen.text { tokens = 200, seed = 'system' }\n"
    "local schema = { type = 'object', properties = { path = { type = 'string' }, line = { type = "
    "'integer' },\n"
    "  mode = { enum = { 'r', 'w' } } }, required = { 'path' } }\n"
    "local tools = { { type = 'function', ['function'] = { name = 'open', description = 'd',\n"
    "  parameters = schema } } }\n"
    "local words = { alpha = 1, beta = 2, gamma = 3, delta = 4, epsilon = 5 }\n"
    "local function session(vu)\n"
    "  local conv = chat.new(vu, { system = SYSTEM, tools = tools,\n"
    "    headers = { ['X-Session'] = tostring(vu.session) } })\n"
    "  for _ = 1, vu.rng:int(1, 3) do\n"
    "    local list = {}\n"
    "    for word, n in pairs(words) do list[#list + 1] = word .. n end\n"
    "    conv:user(gen.text { tokens = vu.rng:normal(60, 20), rng = vu.rng })\n"
    "    conv:user(table.concat(list, ' '))\n"
    "    conv:send { max_tokens = 20, extra = { metadata = { z = 1, a = { 2 }, m = 'x' } } }\n"
    "    vu:sleep(vu.rng:exp(0.002))\n"
    "  end\n"
    "  vu:all({ 'one', 'two', 'three' }, function(child, idea)\n"
    "    local branch = conv:fork(child)\n"
    "    branch:user(idea .. ' ' .. child.rng:int(1, 1000000))\n"
    "    branch:send { max_tokens = 10 }\n"
    "    child:sleep(child.rng:exp(0.001))\n"
    "    branch:user(gen.text { tokens = 30, rng = child.rng })\n"
    "    branch:send { max_tokens = 10 }\n"
    "  end)\n"
    "  conv:user 'done?' conv:send { max_tokens = 5 }\n"
    "end\n"
    "return perigee.plan { load = perigee.LOAD, session = session }\n";

static int by_session_and_body(const void *left, const void *right) {
  const struct peer_request *a = left, *b = right;
  int order = atoi(a->session) - atoi(b->session);
  return order ? order : strcmp(a->body, b->body);
}

/* Everything that was asked, session by session; branches of a session in order of their bytes,
 * because they run side by side. The caller frees. */
static char *what_was_said(struct peer *p, size_t *n) {
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  pthread_mutex_lock(&p->mutex);
  qsort(p->requests, p->n, sizeof *p->requests, by_session_and_body);
  for (size_t i = 0; i < p->n; i++)
    buf_printf(&b, "%s %s %s\n", p->requests[i].session, p->requests[i].path, p->requests[i].body);
  *n = p->n;
  pthread_mutex_unlock(&p->mutex);
  return buf_take(&b, NULL);
}

static void run_with(struct runner *r, const char *load, uint32_t workers) {
  char text[sizeof scenario + 100];
  const char *at = strstr(scenario, "LOAD");
  snprintf(text, sizeof text, "%.*s%s%s", (int)(at - scenario), scenario, load, at + 4);
  r->config.workers = workers;
  runner_run(r, text);
  assert_int_equal(runner_sessions(r, SAMPLE_OK), r->table->n_sessions);
}

static void sessions_say_the_same_bytes(const char *load) {
  struct peer p;
  struct runner r;
  peer_start(&p);
  runner_init(&r);
  runner_add(&r, &p);
  r.fleet.model = mem_strdup("m");
  r.config.seed = 42;
  char *first = NULL;
  size_t n_first = 0;
  const uint32_t workers[] = {1, 2, 4, 4};
  for (size_t i = 0; i < ARRAY_LEN(workers); i++) {
    run_with(&r, load, workers[i]);
    assert_int_equal(r.table->n_sessions, 12);
    size_t n;
    char *said = what_was_said(&p, &n);
    peer_forget(&p);
    if (!first) {
      first = said;
      n_first = n;
      assert_true(n >= 12 * 8);
      continue;
    }
    assert_int_equal(n, n_first);
    if (strcmp(first, said) != 0) {
      size_t same = 0;
      while (first[same] == said[same])
        same++;
      fail_msg("%u workers say something else at byte %zu: %.80s", workers[i], same,
               said + (same > 40 ? same - 40 : 0));
    }
    mem_free(said);
  }
  r.config.seed = 43; /* and that is not because they always say the same */
  run_with(&r, load, 1);
  size_t n;
  char *other = what_was_said(&p, &n);
  assert_string_not_equal(first, other);
  mem_free(other);
  mem_free(first);
  runner_free(&r);
  peer_stop(&p);
}

static void closed_load(void **state) {
  (void)state;
  sessions_say_the_same_bytes("closed { users = 4, sessions = 12 }");
}

static void open_load(void **state) {
  (void)state;
  sessions_say_the_same_bytes("open { rate = 300, sessions = 12 }");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(closed_load),
      cmocka_unit_test(open_load),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Histories: exact bytes, messages made once and shared by forks, nothing copied per turn. */
#include "check.h"
#include "lua_check.h"

#include "bind/bind.h"

#define PREPARE                                                                                    \
  "chat = require 'perigee.chat.core' gen = require 'perigee.gen.core'\n"                          \
  "conv = chat.new('m', gen.rng('s'))\n"

static void test_the_body_of_a_history(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, PREPARE);
  lua_check_string(L, "return conv:body({})", "{\"model\":\"m\",\"messages\":[]}");
  lua_check_run(L, "conv:add('system', 'a\"b') conv:add('user', gen.of('c'))");
  lua_check_string(L, "return conv:body({ z = 1, a = { true } })",
                   "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"a\\\"b\"},"
                   "{\"role\":\"user\",\"content\":\"c\"}],\"a\":[true],\"z\":1}");
  lua_check_run(L, "conv:set_tools({ { b = 1, a = 2 } })");
  lua_check_string(L, "return chat.new(nil, gen.rng('s')):body({})", "{\"messages\":[]}");
  lua_check_string(L, "conv:truncate(0) return conv:body({ n = 1 })",
                   "{\"model\":\"m\",\"messages\":[],\"tools\":[{\"a\":2,\"b\":1}],\"n\":1}");
  lua_check_string(L, "conv:set_tools(nil) return conv:body({})",
                   "{\"model\":\"m\",\"messages\":[]}");
  lua_close(L);
}

static void test_calls_and_results(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, PREPARE "id = conv:call('f', '{\"x\":1}') conv:result(id, 'ok')");
  lua_check_string(
      L, "return (conv:message(1):gsub(id, 'ID'))",
      "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"ID\",\"type\":"
      "\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}}]}");
  lua_check_string(L, "return (conv:message(2):gsub(id, 'ID'))",
                   "{\"role\":\"tool\",\"tool_call_id\":\"ID\",\"content\":\"ok\"}");
  lua_check_string(L, "return conv:text_bytes()", "10"); /* f {"x":1} ok */
  lua_check_run(L, "conv:live('hi', {}) conv:live(nil, {{ id = 'i', name = 'g', arguments = '{}' },"
                   "{ id = 'j', name = 'h', arguments = '' }})");
  lua_check_string(L, "return conv:message(3)", "{\"role\":\"assistant\",\"content\":\"hi\"}");
  lua_check_string(
      L, "return conv:message(4)",
      "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"i\",\"type\":"
      "\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}},{\"id\":\"j\","
      "\"type\":\"function\",\"function\":{\"name\":\"h\",\"arguments\":\"\"}}]}");
  lua_check_error(L, "conv:live(nil, {{ id = 'i', name = 'g' }})", "arguments must be a string");
  lua_close(L);
}

static struct bind_body *body_of(lua_State *L, const char *chunk) {
  lua_check_run(L, chunk);
  return bind_check_body(L, -1);
}

static void test_messages_are_shared(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, PREPARE "sys = gen.of('shared')\n"
                           "other = chat.new('m', gen.rng('t'))\n"
                           "conv:add('system', sys) other:add('system', sys)\n"
                           "for i = 1, 100 do conv:add('user', 'question ' .. i) end\n"
                           "fork = conv:fork(gen.rng('u'))");
  struct bind_body *a = body_of(L, "return conv:body({})"), *b = body_of(L, "return fork:body({})"),
                   *c = body_of(L, "return other:body({})");
  assert_int_equal(a->n, 103);
  assert_int_equal(b->n, 103);
  for (size_t i = 0; i < 102; i++) /* head and messages; the tail is each body's own */
    assert_ptr_equal(a->parts[i], b->parts[i]);
  assert_ptr_equal(c->parts[1], a->parts[1]); /* the system prompt was escaped once */
  assert_ptr_equal(body_of(L, "return conv:body({ x = 1 })")->parts[50], a->parts[50]);
  lua_close(L);
}

static void test_forks_go_their_own_ways(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, PREPARE "conv:add('user', 'one') conv:answer(20)\n"
                           "fork = conv:fork(gen.rng('u'))\n"
                           "fork:edit(1, 'changed') fork:answer(20) conv:answer(20)");
  lua_check_string(L, "return conv:message(1)", "{\"role\":\"user\",\"content\":\"one\"}");
  lua_check_string(L, "return fork:message(1)", "{\"role\":\"user\",\"content\":\"changed\"}");
  lua_check_string(L, "return conv:message(2) == fork:message(2)", "true");
  lua_check_string(L, "return conv:message(3) == fork:message(3)", "false");
  lua_check_string(L, "return conv:text_bytes()", "43");
  lua_check_string(L, "return fork:text_bytes()", "47");
  lua_check_string(L, "conv = nil collectgarbage() return #fork:message(2)", "53");
  lua_close(L);
}

static void test_answers_are_drawn_from_the_key(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, PREPARE "conv:add('user', 'x') conv:answer(30) id = conv:call('f', '{}')\n"
                           "again = chat.new('m', gen.rng('s'))\n"
                           "again:add('user', 'quite another text') again:answer(30)");
  lua_check_string(L, "return conv:message(2) == again:message(2)", "true");
  lua_check_string(L, "return again:call('f', '{}') == id", "true");
  lua_check_string(L, "return #id .. (id:match('^[0-9a-z]+$') and ' ok' or ' bad')", "9 ok");
  lua_check_string(L, "conv:truncate(1) conv:answer(30) return conv:message(2) == again:message(2)",
                   "false");
  lua_close(L);
}

static void test_edit_keeps_what_else_is_there(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, PREPARE "conv:add('user', 'abc') id = conv:call('f', '{}')\n"
                           "conv:result(id, 'long result') conv:edit(3, 'r') conv:edit(2, 'said')");
  lua_check_string(L, "return (conv:message(3):gsub(id, 'ID'))",
                   "{\"role\":\"tool\",\"tool_call_id\":\"ID\",\"content\":\"r\"}");
  lua_check_string(L,
                   "return conv:message(2):find('said', 1, true) and "
                   "conv:message(2):find('tool_calls', 1, true) and 'both'",
                   "both");
  lua_check_string(L, "return conv:text_bytes()", "11"); /* abc, f {} said, r */
  lua_check_error(L, "conv:edit(4, 'x')", "no such message");
  lua_check_error(L, "conv:truncate(4)", "no such message");
  lua_check_error(L, "conv:message(0)", "no such message");
  lua_check_error(L, "conv:add('robot', 'x')", "invalid option 'robot'");
  lua_close(L);
}

static void test_roles_are_counted(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, PREPARE "conv:add('user', 'a') conv:answer(1) conv:add('user', 'b')");
  lua_check_string(L, "return conv:count('user') .. conv:role(2) .. #conv", "2assistant3");
  lua_close(L);
}

static void test_out_of_memory(void **state) {
  (void)state;
  lua_check_out_of_memory("chat = require 'perigee.chat.core' gen = require 'perigee.gen.core'",
                          "local conv = chat.new('m', gen.rng('s'))\n"
                          "conv:add('system', gen.of('x')) conv:add('user', 'y') conv:answer(9)\n"
                          "conv:result(conv:call('f', '{}'), 'z') conv:live('w', {})\n"
                          "conv:set_tools({ { a = { 1 } } }) conv:edit(2, 'why')\n"
                          "local fork = conv:fork(gen.rng('t')) fork:truncate(2)\n"
                          "assert(#tostring(fork:body({ n = 1 })) == 116)");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_body_of_a_history),
      cmocka_unit_test(test_calls_and_results),
      cmocka_unit_test(test_messages_are_shared),
      cmocka_unit_test(test_forks_go_their_own_ways),
      cmocka_unit_test(test_answers_are_drawn_from_the_key),
      cmocka_unit_test(test_edit_keeps_what_else_is_there),
      cmocka_unit_test(test_roles_are_counted),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

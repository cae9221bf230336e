/* A renderer in Lua that gives what is new: where a call begins, what differs, what is refused. */
#include "check.h"
#include "lua_check.h"

#include "bind/bind.h"

#define PREPARE                                                                                    \
  "chat = require 'perigee.chat.core' gen = require 'perigee.gen.core'\n"                          \
  "conv = chat.new('m', gen.rng('s')) conv:add('user', 'a')\n"                                     \
  "function from(...) local i, compare = conv:grow_from(...)\n"                                    \
  "  return tostring(i) .. ' ' .. tostring(compare) end\n"

static void test_calls(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, PREPARE);
  lua_check_string(L, "return from 'k'", "1 true");
  lua_check_string(L, "conv:grow('ab', gen.of('E'), 1) return conv:prompt_body({})",
                   "{\"prompt\":[97,98,69]}");
  lua_check_string(L, "return from 'k'", "nil nil");
  lua_check_string(L, "conv:add('user', 'b') conv:add('user', 'c') return from 'k'", "2 true");
  lua_check_string(L, "return tostring((conv:grow_differs('c', 'F', 'abcF')))", "nil");
  lua_check_string(L, "conv:grow('c', 'F', 3) return conv:prompt_body({})",
                   "{\"prompt\":[97,98,99,70]}");
  lua_check_string(L, "fork = conv:fork(gen.rng('f')) conv:edit(2, 'x') return from 'k'", "2 true");
  lua_check_string(L, "conv:grow('', nil, 3) return conv:prompt_body({})", "{\"prompt\":[97,98]}");
  lua_check_string(L, "conv:set_tools({ { a = 1 } }) return from 'k'", "1 true");
  lua_check_string(L, "return from 'other'", "1 true");
  lua_check_string(L, "conv = fork return from 'k'", "nil nil");
  lua_check_string(L, "conv:add('user', 'd') return from 'k'", "4 true");
  lua_close(L);
}

/* Before message 1 a head may stay; as long as no message does, it is made again. */
static void test_a_head(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, PREPARE);
  for (int upto = 0; upto > -3; upto--) {
    char call[120];
    snprintf(call, sizeof call, "conv:add('user', 'b') return from 'k'");
    lua_check_string(L, call, "1 true");
    snprintf(call, sizeof call, "conv:grow('h', 'E', %d) return conv:prompt_body({})", upto);
    lua_check_string(L, call, "{\"prompt\":[104,69]}");
  }
  lua_close(L);
}

/* What ids, or another tokenizer, left is no renderer's that begins: it goes, and the call stands.
 */
static void test_another_maker(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, PREPARE "conv:prompt_ids({ 97, 2 })");
  lua_check_string(L, "conv:prompt_sent() return from 'k'", "1 true");
  lua_check_string(L, "conv:grow('ab', 'E', 1) return conv:prompt_body({})",
                   "{\"prompt\":[97,98,69]}");
  lua_check_string(L, "return conv:prompt_sent()", "1");
  lua_check_string(L, "conv:prompt_unknown() return conv:prompt_sent()", "nil");
  lua_close(L);
}

static void test_differences(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L,
                PREPARE "function differs(stays, ending, whole)\n"
                        "  conv:grow_from 'k' conv:grow(('x'):rep(30), '?', 1)\n"
                        "  conv:add('user', 'b') conv:grow_from 'k'\n"
                        "  return table.concat({ conv:grow_differs(stays, ending, whole) }, ' ')\n"
                        "end");
  lua_check_string(L, "return differs('ab', 'c', ('x'):rep(30) .. 'abd')",
                   "33 xxxxxxxxxxxxxxxxxxxxxxabc xxxxxxxxxxxxxxxxxxxxxxabd");
  lua_check_string(L, "return differs('', 'c', ('x'):rep(9) .. 'y')",
                   "10 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxc xxxxxxxxxy");
  lua_check_string(L, "return differs('', '', '')", "1 xxxxxxxxxxxxxxxxxxxxxxxx ");
  lua_check_string(L, "return from 'k'", "1 true"); /* nothing of it is trusted */
  lua_check_run(L, "conv:grow({ 1, 2 }, { 9 }, #conv) conv:add('user', 'c') conv:grow_from 'k'");
  lua_check_string(L, "return table.concat({ conv:grow_differs({ 3 }, nil, { 1, 2, 4 }) }, ' ')",
                   "3 3 4");
  lua_check_run(L, "conv:grow_from 'k' conv:grow({ 1, 2 }, { 9 }, #conv) conv:grow_from 'k'");
  lua_check_run(L, "conv:add('user', 'd') conv:grow_from 'k'");
  lua_check_string(L, "return table.concat({ conv:grow_differs({}, {}, { 1 }) }, ' ')",
                   "2 2 nothing");
  lua_close(L);
}

static void test_refusals(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, PREPARE "function why(...) return select(2, conv:grow(...)) end\n"
                           "conv:grow_from 'k'");
  lua_check_string(L, "return why('a', 'b', 2)",
                   "what stays is said to be of messages 1 to 2 of 1");
  lua_check_error(L, "conv:grow({ 1 }, { 'x' }, 1)", "token 2 is the string \"x\", not a token id");
  lua_check_error(L, "conv:grow(1, nil, 1)", "the renderer's text");
  lua_check_string(L, "conv:add('user', 'b') return why('a', 'b', 1)",
                   "it changed the conversation that it renders");
  lua_check_string(L,
                   "conv:grow_from 'k' conv:grow('a', 'b', 1) conv:add('user', 'c') conv:grow_from "
                   "'k' return why('', '', -1)",
                   "what stays cannot be of -1 messages");
  lua_check_string(L, "return (chat.check_time('2026-08-01T12:00:00'))", "true");
  lua_check_string(L, "return select(2, chat.check_time('soon'))",
                   "\"soon\" is no local time; write it as 2026-08-22 or 2026-08-22T12:34:56");
  lua_check_string(L, "return (chat.place_of(load('function f() end return f', '=x')()))", "x:1");
  lua_close(L);
}

static void test_out_of_memory(void **state) {
  (void)state;
  lua_check_out_of_memory(PREPARE, "conv:grow_from 'k' conv:grow('ab', 'c', 1)\n"
                                   "conv:add('user', 'b')\n"
                                   "local fork = conv:fork(gen.rng('t'))\n"
                                   "fork:grow_from 'k'\n"
                                   "assert(not fork:grow_differs('d', 'e', 'abde'))\n"
                                   "fork:grow('d', 'e', 2)\n"
                                   "assert(fork:prompt_tokens() == 4)\n"
                                   "fork:grow_from 'i' fork:grow({ 1, 2 }, { 3 }, 2)");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_calls),         cmocka_unit_test(test_a_head),
      cmocka_unit_test(test_another_maker), cmocka_unit_test(test_differences),
      cmocka_unit_test(test_refusals),      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Prompts of conversations: ids in JSON, shared pieces, what survives, hashes. */
#include "check.h"
#include "lua_check.h"

#include "bind/bind.h"

#define PREPARE                                                                                    \
  "chat = require 'perigee.chat.core' gen = require 'perigee.gen.core'\n"                          \
  "tpl = require 'perigee.template.core'.new('t', '{% for m in messages %}<{{ m.role }}>"          \
  "{{ m.content }}{% endfor %}{{ x }}')\n"                                                         \
  "conv = chat.new('m', gen.rng('s')) conv:add('user', 'a')\n"

static void test_a_prompt_as_json(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, PREPARE "conv:render(tpl)");
  lua_check_string(L, "return conv:prompt_body({ n = 1 })",
                   "{\"n\":1,\"prompt\":[60,117,115,101,114,62,97]}");
  lua_check_string(L, "return conv:prompt_body({})", "{\"prompt\":[60,117,115,101,114,62,97]}");
  lua_check_string(L, "return conv:prompt_tokens()", "7");
  lua_check_string(L, "conv:render(tpl, { x = 'b' }) return conv:prompt_tokens()", "8");
  lua_check_string(L, "conv:prompt_text('') return conv:prompt_body({})", "{\"prompt\":[]}");
  lua_check_string(L, "conv:prompt_ids({ 7 }) return conv:prompt_body({})", "{\"prompt\":[7]}");
  lua_check_error(L, "conv:prompt_ids({ -1 })", "the renderer's token 1 is -1, not a token id");
  lua_check_error(L, "conv:render(1)", "no template");
  lua_check_string(L, "return chat.is_template(tpl)", "true");
  lua_check_string(L, "return chat.is_template(conv)", "false");
  lua_close(L);
}

static void test_pieces_are_shared(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, PREPARE "conv:prompt_text(('x'):rep(10000))\n"
                           "a = conv:prompt_body({}) fork = conv:fork(gen.rng('t'))\n"
                           "fork:prompt_text(('x'):rep(10000) .. 'y') b = fork:prompt_body({})\n"
                           "conv:prompt_text(('x'):rep(10000) .. 'z') c = conv:prompt_body({})");
  struct bind_body *bodies[3];
  static const char *const names[] = {"a", "b", "c"};
  for (int i = 0; i < 3; i++) {
    lua_getglobal(L, names[i]);
    bodies[i] = bind_check_body(L, -1);
    assert_int_equal(bodies[i]->n,
                     i ? 6 : 5); /* head, 4096 ids twice, the rest, what is new, tail */
  }
  for (int i = 1; i < 4; i++) {
    assert_ptr_equal(bodies[0]->parts[i], bodies[1]->parts[i]);
    assert_ptr_equal(bodies[0]->parts[i], bodies[2]->parts[i]);
  }
  assert_string_equal(bodies[1]->parts[4]->data, ",121");
  assert_string_equal(bodies[2]->parts[4]->data, ",122");
  lua_close(L);
}

static void test_what_survives(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(L, PREPARE);
  lua_check_string(L, "conv:prompt_text('abcdef') return conv:prompt_sent()", "nil");
  lua_check_string(L,
                   "conv:prompt_text('abcxef') conv:prompt_text('abcdefg') "
                   "return conv:prompt_sent()",
                   "6");
  lua_check_string(L, "conv:prompt_text('abx') return conv:prompt_sent()", "2");
  lua_check_string(L,
                   "fork = conv:fork(gen.rng('t')) conv:prompt_text('q') "
                   "fork:prompt_text('abxy') return fork:prompt_sent()",
                   "3");
  lua_check_string(L, "return conv:prompt_sent()", "0");
  lua_close(L);
}

static void test_hashes(void **state) {
  (void)state;
  lua_State *L = lua_check_open();
  lua_check_run(
      L, PREPARE
      "hash = require 'perigee.blockhash'.hash\n"
      "function same(text, options)\n"
      "  conv:prompt_text(text)\n"
      "  local a, b = conv:hashes(options):hex(), hash({ text:byte(1, -1) }, options):hex()\n"
      "  assert(#a == #b)\n"
      "  for i = 1, #a do assert(a[i] == b[i]) end\n"
      "end\n"
      "for i = 0, 80 do same(('ab'):rep(i)) end\n"
      "same(('ba'):rep(80)) same(('ba'):rep(70) .. 'x')\n"
      "same(('ba'):rep(80), { block_size = 4 }) same('short', { block_size = 2 })\n"
      "same(('ba'):rep(90), { scheme = 'ic-xxh3' })");
  lua_check_error(L, "conv:hashes({ scheme = 'none' })", "conv:hashes: unknown scheme");
  lua_close(L);
}

static void test_out_of_memory(void **state) {
  (void)state;
  lua_check_out_of_memory(PREPARE, "conv:render(tpl, { x = 'y' }) conv:prompt_sent()\n"
                                   "assert(#tostring(conv:prompt_body({})) > 20)\n"
                                   "conv:hashes({ block_size = 2 })\n"
                                   "local fork = conv:fork(gen.rng('t'))\n"
                                   "fork:prompt_ids({ 1, 2, 3 }) fork:prompt_text('text')\n"
                                   "assert(fork:prompt_sent() == 0)");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_prompt_as_json), cmocka_unit_test(test_pieces_are_shared),
      cmocka_unit_test(test_what_survives),    cmocka_unit_test(test_hashes),
      cmocka_unit_test(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_reply_told.c: a stream told without its bytes (reply_told.c, openai_told.c) is what its
 * bytes are (reply_vllm.c, openai.c): the client's result, its stamps, and how many bytes there
 * were. */
#include "check.h"

#include "sim/reply_told.h"
#include "text/json.h"

static struct genmodel model = {.name = "m", .max_model_len = 2000, .block_size = 16};

struct pair {
  struct genrequest gen;
  struct reply reply;
  struct events events;
  struct openai_stream fed, told;
  uint64_t fed_bytes, told_bytes, now_ns;
};

static void open_pair(struct pair *p, enum gen_api api, const char *body, uint32_t thought) {
  struct apierror e = {0};
  *p = (struct pair){.now_ns = 1000};
  if (genrequest_parse(api, body, strlen(body), &model, &p->gen, &e))
    fail_msg("%s", e.message);
  p->gen.choices->thought = thought;
  const struct reply_options o = {
      .form = &reply_vllm, .model = "m", .id = "chatcmpl-perigee-12", .created_s = 1760000000};
  reply_init(&p->reply, &p->gen, &o);
  events_init(&p->events);
  const struct openai_options client = {.api = api == GEN_CHAT ? OPENAI_CHAT : OPENAI_COMPLETIONS,
                                        .keep_outputs = true};
  openai_stream_init(&p->fed, &client);
  openai_stream_init(&p->told, &client);
}

static void close_pair(struct pair *p) {
  reply_free(&p->reply);
  genrequest_free(&p->gen);
  events_free(&p->events);
  openai_stream_free(&p->fed);
  openai_stream_free(&p->told);
}

/* Feeds what the form made, each event a read of its own. */
static void feed(struct pair *p, uint64_t stamp_ns) {
  for (size_t i = 0; i < p->events.n; i++) {
    size_t len;
    const char *data = events_at(&p->events, i, &len);
    assert_int_equal(openai_stream_feed(&p->fed, data, len, stamp_ns, NULL), 0);
    p->fed_bytes += len;
  }
  events_reset(&p->events);
}

static void check_buf(const struct buf *a, const struct buf *b) {
  assert_int_equal(a->len, b->len);
  if (a->len)
    assert_memory_equal(a->data, b->data, a->len);
}

static void check_equal(const struct pair *p) {
  const struct openai_result *a = &p->fed.result, *b = &p->told.result;
  struct value va = openai_result_value(a), vb = openai_result_value(b);
  struct buf ta, tb;
  buf_init(&ta, BUF_MAX_OWN);
  buf_init(&tb, BUF_MAX_OWN);
  json_write(&ta, &va);
  json_write(&tb, &vb);
  assert_string_equal(tb.data, ta.data);
  value_free(&va);
  value_free(&vb);
  buf_free(&ta);
  buf_free(&tb);
  check_buf(&a->reasoning, &b->reasoning);
  assert_int_equal(b->n_choices, a->n_choices);
  if (a->n_choices) {
    check_buf(&a->choices[0].text, &b->choices[0].text);
    check_buf(&a->choices[0].finish_reason, &b->choices[0].finish_reason);
  }
  assert_int_equal(b->first_byte_ns, a->first_byte_ns);
  assert_int_equal(b->first_token_ns, a->first_token_ns);
  assert_int_equal(b->first_visible_ns, a->first_visible_ns);
  assert_int_equal(b->last_token_ns, a->last_token_ns);
  assert_int_equal(b->end_ns, a->end_ns);
  assert_int_equal(b->n_coalesced, a->n_coalesced);
  assert_int_equal(b->n_outputs, a->n_outputs);
  for (size_t i = 0; i < a->n_outputs; i++) {
    assert_int_equal(b->outputs[i].stamp_ns, a->outputs[i].stamp_ns);
    assert_int_equal(b->outputs[i].tokens, a->outputs[i].tokens);
    assert_int_equal(b->outputs[i].text_len, a->outputs[i].text_len);
    assert_false(b->outputs[i].coalesced);
  }
  assert_int_equal(memcmp(&a->usage, &b->usage, sizeof a->usage), 0);
  assert_int_equal(p->told_bytes, p->fed_bytes);
}

/* The answer in events of `interval` tokens, of which `at_once` are told in one call. */
static void run(struct pair *p, uint32_t interval, uint32_t at_once, uint32_t cached) {
  const struct genchoice *c = p->gen.choices;
  const struct reply_facts f = {.cached = cached, .created = 7, .completion = c->output_len};
  struct openai_piece pieces[64];
  struct openai_usage usage;
  uint32_t sent = 0, told = 0;
  bool began = false;
  size_t n = 0;
  assert_true(reply_told_possible(&p->reply));
  assert_true(openai_stream_takes(&p->told, c->visible, c->output_len));
  reply_vllm.first(&p->reply, &f, &p->events);
  for (uint32_t k = 1; k <= c->output_len; k++) {
    bool last = k == c->output_len;
    p->now_ns += 1000 + 7 * k;
    if (k > 1 && k - sent < interval && !last)
      continue;
    uint32_t from = reply_shown(c, sent), to = reply_shown(c, k);
    uint32_t thought = from < c->thought ? (to < c->thought ? to : c->thought) - from : 0;
    reply_vllm.tokens(&p->reply, 0, sent, k, last, &f, &p->events);
    if (last)
      reply_vllm.end(&p->reply, &f, &p->events);
    feed(p, p->now_ns);
    pieces[n++] = (struct openai_piece){
        .stamp_ns = p->now_ns, .reasoning = thought, .visible = to - from - thought};
    sent = k;
    if (!last && n < at_once)
      continue;
    struct openai_told t = {
        .text = c->text + reply_shown(c, told), .pieces = pieces, .n_pieces = n};
    reply_told_fill(&p->reply, !began, last ? &f : NULL, &usage, &t);
    openai_stream_tell(&p->told, &t);
    p->told_bytes += t.bytes;
    began = true;
    told = sent;
    n = 0;
    check_equal(p);
  }
  assert_true(p->told.result.complete);
  assert_false(openai_stream_takes(&p->told, 1, 1)); /* it has ended */
}

static void test_streams(void **state) {
  (void)state;
  static const struct {
    enum gen_api api;
    const char *body;
  } bodies[] = {
      {GEN_CHAT, "{\"messages\":[{\"role\":\"u\"}],\"max_tokens\":30,\"ignore_eos\":true,"
                 "\"stream\":true}"},
      {GEN_CHAT, "{\"messages\":[{\"role\":\"u\"}],\"max_tokens\":30,\"ignore_eos\":true,"
                 "\"stream\":true,\"stream_options\":{\"include_usage\":true}}"},
      {GEN_CHAT, "{\"messages\":[{\"role\":\"u\"}],\"max_tokens\":30,\"stream\":true,"
                 "\"stop\":\"e\",\"stream_options\":{\"include_usage\":true}}"},
      {GEN_COMPLETION, "{\"prompt\":\"abc\",\"max_tokens\":30,\"ignore_eos\":true,\"stream\":true,"
                       "\"stream_options\":{\"include_usage\":true}}"},
      {GEN_COMPLETION, "{\"prompt\":\"abc\",\"max_tokens\":1,\"stream\":true}"},
      {GEN_COMPLETION, "{\"prompt\":\"abc\",\"max_tokens\":30,\"stream\":true,\"stop\":[\"e\"]}"},
  };
  for (size_t i = 0; i < ARRAY_LEN(bodies); i++)
    for (uint32_t interval = 1; interval < 5; interval++)
      for (uint32_t at_once = 1; at_once < 20; at_once += 6)
        for (uint32_t thought = 0; thought < (bodies[i].api == GEN_CHAT ? 13 : 1); thought += 3) {
          struct pair p;
          open_pair(&p, bodies[i].api, bodies[i].body, thought);
          run(&p, interval, at_once, interval % 2 ? 1600 : 0);
          close_pair(&p);
        }
}

/* Half told, half fed: where a reply goes on with bytes. */
static void test_bytes_behind(void **state) {
  (void)state;
  struct pair p;
  open_pair(&p, GEN_CHAT,
            "{\"messages\":[{\"role\":\"u\"}],\"max_tokens\":9,\"ignore_eos\":true,"
            "\"stream\":true,\"stream_options\":{\"include_usage\":true}}",
            0);
  const struct genchoice *c = p.gen.choices;
  const struct reply_facts f = {.completion = 9};
  const struct openai_piece pieces[] = {{.stamp_ns = 10, .visible = c->shown[0]},
                                        {.stamp_ns = 20, .visible = c->shown[1] - c->shown[0]}};
  struct openai_usage usage;
  struct openai_told t = {.text = c->text, .pieces = pieces, .n_pieces = 2};
  reply_vllm.first(&p.reply, &f, &p.events);
  reply_vllm.tokens(&p.reply, 0, 0, 1, false, &f, &p.events);
  feed(&p, 10);
  reply_vllm.tokens(&p.reply, 0, 1, 2, false, &f, &p.events);
  feed(&p, 20);
  reply_told_fill(&p.reply, true, NULL, &usage, &t);
  openai_stream_tell(&p.told, &t);
  p.told_bytes = t.bytes;
  check_equal(&p);
  reply_vllm.tokens(&p.reply, 0, 2, 9, true, &f, &p.events);
  reply_vllm.end(&p.reply, &f, &p.events);
  for (size_t i = 0; i < p.events.n; i++) {
    size_t len;
    const char *data = events_at(&p.events, i, &len);
    assert_int_equal(openai_stream_feed(&p.told, data, len, 30, NULL), 0);
    p.told_bytes += len;
  }
  feed(&p, 30);
  check_equal(&p);
  close_pair(&p);
}

static void check_possible(enum gen_api api, const char *more, bool want) {
  struct pair p;
  char body[300];
  snprintf(body, sizeof body, "{%s,\"max_tokens\":5,\"stream\":true%s}",
           api == GEN_CHAT ? "\"messages\":[{\"role\":\"u\"}]" : "\"prompt\":\"abc\"", more);
  open_pair(&p, api, body, 0);
  if (reply_told_possible(&p.reply) != want)
    fail_msg("%s: %s", body, want ? "not possible" : "possible");
  close_pair(&p);
}

static void test_what_cannot_be_told(void **state) {
  (void)state;
  check_possible(GEN_CHAT, "", true);
  check_possible(GEN_CHAT, ",\"n\":2", false);
  check_possible(GEN_CHAT, ",\"return_token_ids\":true", false);
  check_possible(GEN_CHAT, ",\"logprobs\":true", false);
  check_possible(GEN_CHAT,
                 ",\"stream_options\":{\"include_usage\":true,"
                 "\"continuous_usage_stats\":true}",
                 false);
  check_possible(GEN_COMPLETION, "", true);
  check_possible(GEN_COMPLETION, ",\"echo\":true", false);
  check_possible(GEN_COMPLETION, ",\"logprobs\":1", false);
  struct pair p;
  open_pair(&p, GEN_CHAT, "{\"messages\":[{\"role\":\"u\"}],\"max_tokens\":5,\"ignore_eos\":true}",
            0);
  assert_true(reply_told_possible(&p.reply));
  p.gen.choices->text[2] = '"';
  assert_false(reply_told_possible(&p.reply));
  p.gen.choices->text[2] = (char)0xc3;
  assert_false(reply_told_possible(&p.reply));
  p.gen.choices->text[2] = 'x';
  p.reply.o.id = "a\"b";
  assert_false(reply_told_possible(&p.reply));
  p.reply.o.id = "a";
  p.reply.o.hide = true;
  assert_false(reply_told_possible(&p.reply));
  p.reply.o.hide = false;
  p.reply.o.metrics = true;
  assert_false(reply_told_possible(&p.reply));
  p.reply.o.metrics = false;
  p.reply.o.form = &reply_tgi;
  assert_false(reply_told_possible(&p.reply));
  close_pair(&p);
}

/* Where a limit is near the bytes must be fed, which say so. */
static void test_a_limit(void **state) {
  (void)state;
  struct openai_stream s;
  const size_t each = sizeof(struct openai_output);
  const struct openai_options o = {.api = OPENAI_CHAT, .max_bytes = 1000 + 3 * each};
  openai_stream_init(&s, &o);
  assert_true(openai_stream_takes(&s, 900, 3));
  assert_false(openai_stream_takes(&s, 1000, 3));
  assert_false(openai_stream_takes(&s, 0, 1000));
  assert_false(openai_stream_takes(&s, SIZE_MAX / 2, 1));
  openai_stream_free(&s);
  openai_stream_init(&s, &(struct openai_options){.api = OPENAI_RESPONSES});
  assert_false(openai_stream_takes(&s, 1, 1));
  openai_stream_free(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_streams),
      cmocka_unit_test(test_bytes_behind),
      cmocka_unit_test(test_what_cannot_be_told),
      cmocka_unit_test(test_a_limit),
  };
  struct err err;
  if (tokens_open("bytes", NULL, &model.tokenizer, &err))
    return 1;
  int rc = cmocka_run_group_tests(tests, NULL, NULL);
  tokens_close(model.tokenizer);
  return rc;
}

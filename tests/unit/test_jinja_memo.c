/* jinja_memo.c, jinja_trace.c, jinja_replay.c, jinja_blocks.c: conversations rendered turn by turn.
 * What is passed over never shows in the text, and much is passed over. MEMO_STEPS and MEMO_SEED
 * for longer runs.
 */
#include "check.h"

#include <dirent.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "text/json.h"
#include "text/template.h"

#define MESSAGES_MAX 512

/* One conversation with its memo and the text that is there. */
struct talk {
  const struct template *tpl;
  struct template_memo *memo;
  struct template_options opts;
  struct buf text;
  struct value messages; /* borrows its items */
  uint64_t ids[MESSAGES_MAX];
  uint64_t tools_id;
};

static void talk_init(struct talk *t, const struct template *tpl) {
  *t = (struct talk){.tpl = tpl, .memo = template_memo_new()};
  t->opts = (struct template_options){.now = {2026, 8, 22, 12, 34, 56, 0}, .has_now = true};
  buf_init(&t->text, 1 << 26);
  t->messages = value_array();
  t->messages.u.array.items = mem_calloc(MESSAGES_MAX, sizeof(struct value));
  t->messages.u.array.cap = MESSAGES_MAX;
}

static void talk_free(struct talk *t) {
  template_memo_unref(t->memo);
  buf_free(&t->text);
  mem_free(t->messages.u.array.items);
}

static void say(struct talk *t, const struct value *message, uint64_t id) {
  size_t n = t->messages.u.array.n++;
  assert_true(n < MESSAGES_MAX);
  t->messages.u.array.items[n] = *message;
  t->ids[n] = id;
}

/* Another conversation that goes on from here by itself. */
static void fork_talk(const struct talk *from, struct talk *to) {
  *to = *from;
  template_memo_ref(to->memo);
  buf_init(&to->text, 1 << 26);
  buf_put(&to->text, from->text.data ? from->text.data : "", from->text.len);
  to->messages.u.array.items =
      mem_dup(from->messages.u.array.items, MESSAGES_MAX * sizeof(struct value));
}

/* Renders both ways; true when there is a text. */
static bool both(struct talk *t, const struct template_chat *row, const char *name) {
  struct buf whole, tail;
  struct err err, err2;
  size_t common = 0;
  struct template_chat chat = *row;
  chat.messages = &t->messages;
  chat.continue_final_message = false;
  buf_init(&whole, 1 << 26);
  buf_init(&tail, 1 << 26);
  struct template_grown grown = {.chat = &chat,
                                 .ids = t->ids,
                                 .tools_id = t->tools_id,
                                 .old = t->text.data,
                                 .old_len = t->text.len};
  int want = template_render_chat(t->tpl, &chat, &t->opts, &whole, &err);
  int rc = template_render_grown(t->tpl, &t->memo, &grown, &t->opts, &tail, &common, &err2);
  if (rc != want)
    fail_msg("%s, %zu messages: %d (%s), whole: %d (%s)", name, t->messages.u.array.n, rc,
             rc ? err2.text : "", want, want ? err.text : "");
  if (rc && strcmp(err.text, err2.text) != 0)
    fail_msg("%s: %s\nwhole: %s", name, err2.text, err.text);
  if (!rc) {
    assert_true(common <= t->text.len);
    t->text.len = common;
    buf_put(&t->text, tail.data ? tail.data : "", tail.len);
    if (t->text.len != whole.len || (whole.len && memcmp(t->text.data, whole.data, whole.len)))
      fail_msg("%s, %zu messages:\n  got  %s\n  want %s", name, t->messages.u.array.n,
               t->text.len ? t->text.data : "", whole.len ? whole.data : "");
  } else {
    t->text.len = 0;
  }
  buf_free(&whole);
  buf_free(&tail);
  return rc == 0;
}

static struct value parse(const char *json) {
  struct value v;
  struct err err;
  check_ok(json_parse(json, strlen(json), &v, &err), &err);
  return v;
}

static struct template *load(const char *source, size_t len, const char *name) {
  struct template *tpl;
  struct err err;
  check_ok(template_load(source, len, name, &tpl, &err), &err);
  return tpl;
}

/* ---- fixtures: every row, message by message ---- */

static const char *fixtures(void) {
  const char *dir = getenv("PERIGEE_FIXTURES");
  return dir ? dir : "../shared/fixtures";
}

static struct template *load_fixture(const char *name) {
  char path[1000];
  size_t len;
  snprintf(path, sizeof path, "%s/templates/%s.jinja", fixtures(), name);
  char *source = check_read_file(path, &len);
  struct template *tpl = load(source, len, name);
  free(source);
  return tpl;
}

/* Forwards to the row's end, back, forwards with another message in the middle, without tools. */
static void walk(struct talk *t, const struct value *row, struct template_chat *c) {
  const char *name = value_to_string(value_get(row, "template"));
  const struct value *all = c->messages;
  size_t n = value_count(all);
  for (size_t i = 0; i < n; i++) {
    say(t, value_at(all, i), i + 1);
    both(t, c, name);
  }
  both(t, c, name);
  if (n > 1) {
    t->messages.u.array.n = n - 1;
    both(t, c, name);
    t->messages.u.array.n = n;
    both(t, c, name);
    t->messages.u.array.items[n / 2] = *value_at(all, n - 1);
    t->ids[n / 2] = n;
    both(t, c, name);
    t->messages.u.array.items[n / 2] = *value_at(all, n / 2);
    t->ids[n / 2] = n / 2 + 1;
  }
  c->tools = NULL;
  t->tools_id++;
  both(t, c, name);
  c->add_generation_prompt = !c->add_generation_prompt;
  both(t, c, name);
}

static size_t check_rows(const char *path) {
  size_t len, rows = 0;
  char *text = check_read_file(path, &len), loaded[200] = "";
  struct template *tpl = NULL;
  for (char *line = text, *next; *line; line = next) {
    char *end = strchr(line, '\n');
    next = end ? end + 1 : line + strlen(line);
    struct value row;
    struct template_chat c;
    struct talk t;
    struct err err;
    check_ok(json_parse(line, end ? (size_t)(end - line) : strlen(line), &row, &err), &err);
    const char *name = value_to_string(value_get(&row, "template"));
    if (strcmp(name, loaded) != 0) {
      template_delete(tpl);
      tpl = load_fixture(name);
      snprintf(loaded, sizeof loaded, "%s", name);
    }
    if (template_chat_read(&row, &c, &err) == 0) {
      talk_init(&t, tpl);
      walk(&t, &row, &c);
      talk_free(&t);
      rows++;
    }
    value_free(&row);
  }
  template_delete(tpl);
  free(text);
  return rows;
}

static void each_file(const char *folder, const char *end,
                      void (*fn)(const char *, const char *, void *), void *user) {
  char path[1000];
  snprintf(path, sizeof path, "%s/%s", fixtures(), folder);
  DIR *d = opendir(path);
  if (!d) {
    print_message("%s is not here; PERIGEE_FIXTURES says where it is\n", path);
    skip();
  }
  for (const struct dirent *e; (e = readdir(d));) {
    size_t n = strlen(e->d_name), m = strlen(end);
    char file[1300];
    snprintf(file, sizeof file, "%s/%s", path, e->d_name);
    if (n > m && !strcmp(e->d_name + n - m, end))
      fn(file, e->d_name, user);
  }
  closedir(d);
}

static void rows_of(const char *file, const char *name, void *user) {
  (void)name;
  *(size_t *)user += check_rows(file);
}

static void test_fixtures(void **state) {
  (void)state;
  size_t rows = 0;
  each_file("chat", ".jsonl", rows_of, &rows);
  assert_true(rows > 5000);
}

/* ---- how much is passed over ---- */

struct count {
  size_t templates, most, some, none, failed;
};

static const char *const turns[] = {
    ("{\"role\":\"user\",\"content\":\"Please look at the file and say what is wrong with it. "
     "(%d)\"}"),
    "{\"role\":\"assistant\",\"content\":\"It lacks a semicolon in line %d.\"}"};

static struct value message(int i) {
  char json[300];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  snprintf(json, sizeof json, turns[i % 2], i);
#pragma GCC diagnostic pop
  return parse(json);
}

/* Messages, and changes of random conversations: the work grows with their squares. */
#define SAYS (CHECK_SANITIZED ? 40 : 120)
#define STEPS (CHECK_SANITIZED ? 75 : 150)

static void count_template(const char *file, const char *name, void *user) {
  struct count *count = user;
  size_t len;
  char *source = check_read_file(file, &len);
  struct template *tpl = load(source, len, name);
  struct value special = parse("{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}"), said[120];
  struct template_chat c = {.special = &special, .add_generation_prompt = true};
  struct talk t;
  uint64_t skipped, ran, skipped0 = 0, ran0 = 0;
  talk_init(&t, tpl);
  count->templates++;
  bool ok = true;
  for (int i = 0; i < SAYS; i++) {
    said[i] = message(i);
    say(&t, &said[i], (uint64_t)i + 1);
    if (i % 2 == 0)
      ok = both(&t, &c, name) && ok;
    if (i == SAYS - 21)
      template_memo_stats(t.memo, &skipped0, &ran0);
  }
  template_memo_stats(t.memo, &skipped, &ran);
  double runs = (double)(ran - ran0) / 10, skips = (double)(skipped - skipped0) / 10;
  if (!ok)
    count->failed++;
  else if (skips >= SAYS * 2 / 3 && runs <= 20)
    count->most++;
  else if (skips > 0)
    count->some++;
  else
    count->none++;
  if (getenv("ALL") || (ok && !(skips >= SAYS * 2 / 3 && runs <= 20)))
    print_message("  %s: %.1f rounds run and %.1f passed over a turn\n", name, runs, skips);
  for (int i = 0; i < SAYS; i++)
    value_free(&said[i]);
  value_free(&special);
  talk_free(&t);
  template_delete(tpl);
  free(source);
}

static void test_share(void **state) {
  (void)state;
  struct count c = {0};
  each_file("templates", ".jinja", count_template, &c);
  print_message("%zu templates: %zu run few rounds, %zu some, %zu all, %zu refuse the chat\n",
                c.templates, c.most, c.some, c.none, c.failed);
  assert_true(c.most * 10 >= (c.templates - c.failed) * 7);
}

/* ---- random conversations: appended to, cut, edited, forked, with other tools and variables ----
 */

#define KINDS 12
#define TALKS 3

static const char *const kinds[KINDS] = {
    "{\"role\":\"user\",\"content\":\"What is in it?\"}",
    "{\"role\":\"assistant\",\"content\":\"A stone.\"}",
    ("{\"role\":\"user\",\"content\":\"\\u00e9t\\u00e9 \\ud83d\\ude00 "
     "<tool_response>x</tool_response>\"}"),
    "{\"role\":\"assistant\",\"content\":\"<think>\\nhm\\n</think>\\n\\nYes. \\u4f60\"}",
    ("{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":\"hm\",\"tool_calls\":[{"
     "\"id\":"
     "\"call00001\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"x\":1}}}]"
     "}"),
    "{\"role\":\"tool\",\"name\":\"f\",\"tool_call_id\":\"call00001\",\"content\":\"12\"}",
    "{\"role\":\"user\",\"content\":\"\"}",
    ("{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"call00002\",\"type\":"
     "\"function\",\"function\":{\"name\":\"g\",\"arguments\":{}}},{\"id\":\"call00003\",\"type\":"
     "\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"y\":[1,2]}}}]}"),
    "{\"role\":\"system\",\"content\":\"Be brief.\"}",
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"In parts.\"}]}",
    "{\"role\":\"developer\",\"content\":\"Be kind.\"}",
    ("{\"role\":\"assistant\",\"content\":\"A longer answer, which is one of those that are known "
     "by the "
     "message they are in: it has more than two hundred and fifty-six bytes, all of them letters, "
     "blanks "
     "and some marks between them; and so it goes on and on, until the end of the line comes at "
     "last, and "
     "then it stops.\"}")};

static const char *const tool_lists[] = {("[{\"type\":\"function\",\"function\":{\"name\":\"f\","
                                          "\"description\":\"does f\",\"parameters\":{"
                                          "\"type\":\"object\",\"properties\":{\"x\":{\"type\":"
                                          "\"integer\",\"description\":\"a number\"}},"
                                          "\"required\":[\"x\"]}}}]"),
                                         ("[{\"type\":\"function\",\"function\":{\"name\":\"g\","
                                          "\"description\":\"does g\",\"parameters\":{"
                                          "\"type\":\"object\",\"properties\":{}}}}]")};
static const char *const variables[] = {"{}", "{\"enable_thinking\":false}",
                                        "{\"thinking\":true,\"enable_thinking\":true}",
                                        ("{\"reasoning_effort\":\"high\",\"date_string\":\"1 Jan "
                                         "2026\",\"tools_in_user_message\":false}")};

struct pool {
  struct value kinds[KINDS], tools[2], variables[4], special;
};

static void pool_init(struct pool *p) {
  for (size_t i = 0; i < KINDS; i++)
    p->kinds[i] = parse(kinds[i]);
  for (size_t i = 0; i < 2; i++)
    p->tools[i] = parse(tool_lists[i]);
  for (size_t i = 0; i < 4; i++)
    p->variables[i] = parse(variables[i]);
  p->special = parse("{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}");
}

static void pool_free(struct pool *p) {
  for (size_t i = 0; i < KINDS; i++)
    value_free(&p->kinds[i]);
  for (size_t i = 0; i < 2; i++)
    value_free(&p->tools[i]);
  for (size_t i = 0; i < 4; i++)
    value_free(&p->variables[i]);
  value_free(&p->special);
}

/* One more message: mostly the other side's, plain, so that templates which insist render. */
static void say_something(struct talk *t, struct rng *rng, const struct pool *p, uint64_t *ids) {
  size_t n = t->messages.u.array.n, kind = n % 2 ? 1 : 0;
  if (rng_int(rng, 0, 9) < 4)
    kind = (size_t)rng_int(rng, 0, KINDS - 1);
  if (n < MESSAGES_MAX - 1)
    say(t, &p->kinds[kind], ++*ids);
}

static void change_talk(struct talk *t, struct rng *rng, const struct pool *p, uint64_t *ids,
                        struct template_chat *c, bool calm) {
  size_t n = t->messages.u.array.n, at = n ? (size_t)rng_int(rng, 0, (int64_t)n - 1) : 0;
  int64_t what = n < 2 || (calm && rng_int(rng, 0, 9)) ? 99 : rng_int(rng, 0, 19);
  switch (what) {
  case 0: /* cut */
    t->messages.u.array.n = rng_int(rng, 0, 2) ? n - 1 : at;
    break;
  case 1: /* edited */
    t->messages.u.array.items[at] = p->kinds[rng_int(rng, 0, KINDS - 1)];
    t->ids[at] = ++*ids;
    break;
  case 2: /* another order */
    t->messages.u.array.items[at] = t->messages.u.array.items[n - 1];
    t->ids[at] = t->ids[n - 1];
    break;
  case 3:
    t->tools_id = (uint64_t)rng_int(rng, 0, 2);
    break;
  case 4:
    c->kwargs = &p->variables[rng_int(rng, 0, 3)];
    break;
  case 5:
    c->add_generation_prompt = rng_int(rng, 0, 1);
    break;
  case 6: /* nothing */
    break;
  default:
    say_something(t, rng, p, ids);
    if (rng_int(rng, 0, 1))
      say_something(t, rng, p, ids);
  }
  c->tools = t->tools_id ? &p->tools[t->tools_id - 1] : NULL;
}

/* Returns how many renderings there were. */
static size_t random_talks(const struct template *tpl, const char *name, uint64_t seed, int steps,
                           uint64_t *skipped) {
  bool calm = seed % 3 == 0; /* few changes but new messages: long conversations */
  struct talk talks[TALKS];
  struct template_chat chats[TALKS];
  struct pool p;
  struct rng rng;
  uint64_t ids = 0, ran;
  size_t texts = 0;
  pool_init(&p);
  rng_init(&rng, seed, 0);
  for (size_t i = 0; i < TALKS; i++) {
    talk_init(&talks[i], tpl);
    chats[i] = (struct template_chat){
        .special = &p.special, .kwargs = &p.variables[0], .add_generation_prompt = true};
  }
  for (int i = 0; i < steps; i++) {
    size_t at = (size_t)rng_int(&rng, 0, TALKS - 1), other = (size_t)rng_int(&rng, 0, TALKS - 1);
    if (at != other && rng_int(&rng, 0, 15) == 0) {
      talk_free(&talks[other]);
      fork_talk(&talks[at], &talks[other]);
      chats[other] = chats[at];
    }
    change_talk(&talks[at], &rng, &p, &ids, &chats[at], calm);
    texts += both(&talks[at], &chats[at], name);
    uint64_t now;
    template_memo_stats(talks[at].memo, &now, &ran);
    *skipped += now;
  }
  for (size_t i = 0; i < TALKS; i++)
    talk_free(&talks[i]);
  pool_free(&p);
  return texts;
}

struct random_count {
  size_t texts;
  uint64_t skipped, seed;
};

static void talks_of(const char *file, const char *name, void *user) {
  struct random_count *count = user;
  size_t len;
  char *source = check_read_file(file, &len);
  struct template *tpl = load(source, len, name);
  const char *steps = getenv("MEMO_STEPS");
  count->texts +=
      random_talks(tpl, name, ++count->seed, steps ? atoi(steps) : STEPS, &count->skipped);
  template_delete(tpl);
  free(source);
}

static void test_random_talks(void **state) {
  (void)state;
  const char *seed = getenv("MEMO_SEED");
  struct random_count count = {.seed = seed ? (uint64_t)atoi(seed) * 1000 : 0};
  each_file("templates", ".jinja", talks_of, &count);
  assert_true(count.texts > 5000);
  assert_true(count.skipped > 10000);
}

/* ---- templates that read what they should not ---- */

static const char *const odd[] = {
    /* every way to look at the loop */
    ("{% for m in messages %}{{ loop.index }}{{ loop.revindex0 }}{{ loop.length }}{{ loop }}{% "
     "endfor %}"),
    "{% for m in messages %}{{ loop.cycle('a','b','c') }}{{ loop.changed(m.role) }}{% endfor %}",
    ("{% for m in messages %}{% if loop.last %}L{% endif %}{{ loop|length }}{{ loop|attr('index0') "
     "}}{% endfor %}"),
    ("{% for m in messages %}{% if loop.nextitem is defined and loop.nextitem.role == m.role %}={% "
     "endif %}"
     "{% if loop.previtem %}{{ loop.previtem.content }}{% endif %}{% endfor %}"),
    ("{% for m in messages %}{% set l = loop %}{% for x in [1,2] %}{{ l.index0 }}{{ loop.index "
     "}}{% "
     "endfor %}{% endfor %}"),
    ("{% macro p(l, m) %}{{ l.revindex }}{{ m.role }}{% endmacro %}{% for m in messages %}{{ "
     "p(loop, m) }}{% endfor %}"),
    /* state that goes from round to round */
    ("{% set ns = namespace(n=0, s='') %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% set "
     "ns.s = ns.s ~ m.role[0] %}"
     "{{ ns.n }}{{ ns.s }}{% endfor %}{{ ns.n }}{{ ns.s }}"),
    ("{% set ns = namespace(last=none) %}{% for m in messages %}{{ ns.last.role if ns.last else "
     "'-' "
     "}}{% set ns.last = m %}{% endfor %}"),
    ("{% set ns = namespace(a=[]) %}{% for m in messages %}{% set ns.a = ns.a + [m.role] %}{% "
     "endfor %}{{ ns.a }}"),
    ("{% set a = namespace(x=0) %}{% set b = a %}{% for m in messages %}{% set b.x = a.x + "
     "m.role|length %}{{ a.x }},{% endfor %}"),
    ("{% set a = namespace(x=0) %}{% macro up(m) %}{% set a.x = a.x + 1 %}{{ a.x }}{{ m.role }}{% "
     "endmacro %}"
     "{% for m in messages %}{{ up(m) }}{% endfor %}{{ a.x }}"),
    ("{% set c = cycler('x','y','z') %}{% for m in messages %}{{ c.next() }}{% endfor %}{{ "
     "c.current }}"),
    ("{% set j = joiner('|') %}{% for m in messages %}{% if m.role == 'user' %}{{ j() }}{{ m.role "
     "}}{% endif %}{% endfor %}"),
    ("{% set it = messages|map(attribute='role') %}{% for m in messages %}{% if m.role == 'user' "
     "%}{{ it|first }}{% endif %}{% endfor %}"),
    ("{% set ns = namespace(i=0) %}{% for m in messages %}{% if ns.i is even %}{{ m.role }}{% "
     "endif "
     "%}{% set ns.i = ns.i + 1 %}{% endfor %}"),
    /* looking ahead and back */
    ("{% for m in messages %}{{ messages[loop.index0 - 1].role }}{{ messages[-1].role }}{{ "
     "messages[0].content }}{% endfor %}"),
    ("{% for m in messages %}{% if m == messages[-1] %}!{% endif %}{% if m is sameas messages[0] "
     "%}0{% endif %}{% endfor %}"),
    "{% for m in messages %}{{ messages[loop.index:]|map(attribute='role')|join }};{% endfor %}",
    "{% for m in messages %}{{ messages|selectattr('role','equalto','user')|list|length }}{% "
    "endfor %}",
    "{% for m in messages[::-1] %}{{ m.role }}{{ loop.index0 }}{% endfor %}{% for m in "
    "messages[1:] %}{{ m.role }}{% endfor %}",
    "{% for m in messages|reverse %}{{ m.role }}{% endfor %}{% for m in messages if m.role == "
    "'user' %}{{ loop.index }}{% endfor %}",
    "{% for i in range(messages|length) %}{{ i }}{{ messages[i].role }}{{ messages[i].content }}{% "
    "endfor %}",
    "{% for i in range(messages|length - 1, -1, -1) %}{% if messages[i].role == 'user' %}{{ i }}{% "
    "break %}{% endif %}{% endfor %}",
    "{% set last = messages|length - 1 %}{% for m in messages %}{% if loop.index0 == last %}X{% "
    "elif loop.index0 > last - 3 %}x{% endif %}"
    "{% if (loop.index0 % 2 == 0) != (m.role == 'user') %}?{% endif %}{{ loop.index0 // 2 }}{% "
    "endfor %}",
    /* leaving rounds */
    "{% for m in messages %}{% if m.role == 'tool' %}{% break %}{% endif %}{% if m.role == "
    "'system' %}{% continue %}{% endif %}"
    "{{ m.role }}{% else %}none{% endfor %}",
    "{% for m in messages %}{% with a = m.role %}{% if a == 'user' %}{% continue %}{% endif %}{{ a "
    "}}{% endwith %}{% else %}E{% endfor %}",
    "{% for m in messages %}{% autoescape m.role == 'user' %}{{ m.content }}{% if m.role == 'tool' "
    "%}{% continue %}{% endif %}"
    "{% endautoescape %}{{ '<' }}{% endfor %}",
    "{% for m in messages %}{% if m.role == 'developer' and loop.last %}{{ raise_exception('dev ' "
    "~ loop.index) }}{% endif %}{{ m.role }}{% endfor %}",
    /* variables set around */
    "{% set x = messages[0].role %}{% for m in messages %}{{ x }}{% set x = m.role %}{{ x }}{% "
    "endfor %}{{ x }}",
    "{% for m in messages %}{% if loop.first %}{% set y = m.role %}{% endif %}[{{ y }}]{% endfor "
    "%}",
    "{% set s = messages[-1].content %}{% for m in messages %}{{ m.role }}{{ s }}{% endfor %}",
    "{% set s %}{% for m in messages %}{{ m.role }}{% endfor %}{% endset %}{{ s }}{% for m in "
    "messages %}{{ s|length }}{% endfor %}",
    "{% if tools %}{% set t = tools|length %}{% endif %}{% for m in messages %}{{ t }}{{ tools is "
    "defined }}{{ tools[0].function.name }}{% endfor %}",
    "{% for m in messages %}{% if enable_thinking is defined and enable_thinking is false %}N{% "
    "endif %}{{ thinking }}{{ m }}{% endfor %}",
    "{% macro f() %}{% for m in messages %}{{ m.role }}{{ loop.last }}{% endfor %}{% endmacro %}{{ "
    "f() }}{{ f()|length }}",
    "{% block b %}{% for m in messages %}{{ m.role }}{{ self.c() }}{% endfor %}{% endblock %}{% "
    "block c %}{{ messages|length }}{% endblock %}",
    "{% for m in messages recursive %}{{ m.role }}{% if loop.last and m.tool_calls %}{{ "
    "loop(m.tool_calls) }}{% endif %}{% endfor %}",
    "{% for m in messages %}{% for n in messages %}{{ n.role[0] }}{% endfor %}{% endfor %}",
    "{% for r in ['user','tool'] %}{% for m in messages %}{% if m.role == r %}{{ m.content }}{{ "
    "loop.index }}{% endif %}{% endfor %}{% endfor %}",
    "{% set d = {'k': messages[0]} %}{% set l = [messages[-1], 1] %}{% for m in messages %}{{ "
    "d.k.role }}{{ l[0].role }}{{ d['k']['content'] }}{% endfor %}",
    "{% set t = (messages|length, 'a') %}{% for m in messages %}{{ t[0] }}{{ t }}{{ m.role in "
    "['user', t[1]] }}{% endfor %}",
    "{% set roles = ['user','tool'] %}{% for m in messages %}{{ m.role in roles }}{{ roles|length "
    "}}{{ roles[0] }}{% endfor %}",
    "{% set f = 1.5 %}{% set big = 99999999999999999999 %}{% for m in messages %}{{ f * loop.index "
    "}}{{ big + loop.index }}{% endfor %}",
    "{% for m in messages %}{{ undefined_thing }}{{ undefined_thing is defined }}{% if "
    "undefined_thing == nothing %}u{% endif %}{% endfor %}",
    "{% for m in messages %}{{ m.content|trim if loop.last else m.content|string|length }}{{ "
    "m.items()|list|length }}{{ m.get('name', '?') }}{% endfor %}",
    "{% call(x) f2() %}{{ x }}{% endcall %}{% macro f2() %}{% for m in messages %}{{ "
    "caller(m.role) }}{% endfor %}{% endmacro %}",
    "{% filter upper %}{% for m in messages %}{{ m.role }}{% endfor %}{% endfilter %}{% for m in "
    "messages %}{{ strftime_now('%Y') }}{% endfor %}",
    "{% for m in messages %}{% generation %}{{ m.role }}{{ loop.index if m.role == 'user' }}{% "
    "endgeneration %}{% endfor %}",
    "{% for m in (messages + messages) %}{{ m.role[0] }}{{ loop.index0 }}{% endfor %}",
    "{% for m in messages %}\xc3\xa9{{ m.content }}\xe4\xbd\xa0{% endfor %}\xe4\xbd\xa1{% if "
    "messages|length % 2 %}\xe4\xbd\xa2{% else %}\xe4\xbd\xa3{% endif %}",
};

static void test_odd(void **state) {
  (void)state;
  uint64_t skipped = 0;
  const char *steps = getenv("MEMO_STEPS");
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    struct template *tpl = load(odd[i], strlen(odd[i]), odd[i]);
    for (uint64_t seed = 1; seed < 4; seed++)
      random_talks(tpl, odd[i], seed, steps ? atoi(steps) : STEPS, &skipped);
    template_delete(tpl);
  }
  assert_true(skipped > 10000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_odd),
      cmocka_unit_test(test_fixtures),
      cmocka_unit_test(test_share),
      cmocka_unit_test(test_random_talks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

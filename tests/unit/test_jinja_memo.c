/* Conversations rendered turn by turn: what is passed over never shows, and much is. */
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

static void other_end(struct talk *from, struct talk *to) {
  *to = *from;
  template_memo_ref(to->memo);
  buf_init(&to->text, 1 << 26);
  buf_put(&to->text, from->text.data ? from->text.data : "", from->text.len);
  to->messages.u.array.items = mem_dup(from->messages.u.array.items, MESSAGES_MAX * sizeof(struct value));
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
  struct template_grown grown = {.chat = &chat, .ids = t->ids, .tools_id = t->tools_id,
                                 .old = t->text.data, .old_len = t->text.len};
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

static void each_file(const char *folder, const char *end, void (*fn)(const char *, const char *, void *),
                      void *user) {
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
    "{\"role\":\"user\",\"content\":\"Please look at the file and say what is wrong with it. (%d)\"}",
    "{\"role\":\"assistant\",\"content\":\"It lacks a semicolon in line %d.\"}"};

static struct value message(int i) {
  char json[300];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  snprintf(json, sizeof json, turns[i % 2], i);
#pragma GCC diagnostic pop
  return parse(json);
}

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
  for (int i = 0; i < 120; i++) {
    said[i] = message(i);
    say(&t, &said[i], (uint64_t)i + 1);
    if (i % 2 == 0)
      ok = both(&t, &c, name) && ok;
    if (i == 99)
      template_memo_stats(t.memo, &skipped0, &ran0);
  }
  template_memo_stats(t.memo, &skipped, &ran);
  double runs = (double)(ran - ran0) / 10, skips = (double)(skipped - skipped0) / 10;
  if (!ok)
    count->failed++;
  else if (skips >= 80 && runs <= 20)
    count->most++;
  else if (skips > 0)
    count->some++;
  else
    count->none++;
  if (getenv("ALL") || (ok && !(skips >= 80 && runs <= 20)))
    print_message("  %s: %.1f rounds run and %.1f passed over a turn\n", name, runs, skips);
  for (int i = 0; i < 120; i++)
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
  print_message("%zu templates: %zu run the new messages and few others, %zu some, %zu all, %zu "
                "refuse the conversation\n",
                c.templates, c.most, c.some, c.none, c.failed);
  assert_true(c.most * 10 >= (c.templates - c.failed) * 7);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fixtures),
      cmocka_unit_test(test_share),
  };
  (void)other_end;
  return cmocka_run_group_tests(tests, NULL, NULL);
}

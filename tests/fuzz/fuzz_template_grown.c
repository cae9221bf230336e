/* fuzz_template_grown.c: a conversation that is rendered again and again gives the text of one
 * rendering, whatever the template reads and however the conversation changes.
 *
 * The input is read byte by byte: how many pieces the template has before, in and behind its loop
 * over the messages, which they are, then what happens to the conversation. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/json.h"
#include "text/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MESSAGES 48
#define NAMES 9

static const char *const BEFORE[] = {
    "{% set ns = namespace(a=0, b=true, s='', l=none) %}",
    "{% set o = namespace(a=1) %}{% set p = o %}",
    "{% set last = messages|length - 1 %}",
    "{% set first = messages[0] %}{% set tail = messages[1:] %}",
    "{% set x = messages[-1].content %}",
    "{% macro f(m, n=2) %}{% set ns.a = ns.a + n %}<{{ m.role }}{{ last }}{{ x }}>{% endmacro %}",
    "{% set c = cycler('x', 'y', 'z') %}{% set j = joiner() %}",
    "{% set it = messages|map(attribute='role') %}",
    "{% set t = (1, 'user') %}{% set roles = ['user', 'tool'] %}",
    ("{% for m in messages[::-1] %}{% if ns.b and m.role == 'user' %}{% set ns.b = false %}"
     "{% set ns.a = messages|length - 1 - loop.index0 %}{% endif %}{% endfor %}"),
    "{{ messages|length }}",
    "\xc3\xa9{{ messages|length }}\xe4\xbd\xa0",
};
static const char *const LOOPS[] = {
    "{% for m in messages %}",
    "{% for m in messages[::-1] %}",
    "{% for m in messages[1:] %}",
    "{% for i in range(messages|length) %}{% set m = messages[i] %}",
    "{% for m in messages if m.role != 'system' %}",
    "{% for m in messages + [{'role': 'end'}] %}",
    "{% for m in messages recursive %}",
    "{% for m in (messages|list) %}",
};
static const char *const BODY[] = {
    "{{ m.role }}",
    "{{ m.content }}",
    "{{ m['content']|trim|length }}",
    "{{ loop.index0 }}",
    "{% if loop.last %}!{% endif %}{% if loop.first %}^{% endif %}",
    "{{ loop.revindex0 if m.role == 'user' }}",
    "{% if loop.index0 > ns.a %}>{% endif %}",
    "{% if loop.index0 == last %}={% elif last - loop.index0 < 3 %}~{% endif %}",
    "{% set ns.a = ns.a + 1 %}",
    "{% set ns.s = ns.s ~ m.role[0] %}{{ ns.s }}",
    "{% set ns.l = m %}",
    "{% if ns.l %}{{ ns.l.role }}{% endif %}",
    "{% set ns.b = not ns.b %}{{ ns.b }}",
    "{% set o.a = p.a + 1 %}{{ p.a }}",
    "{{ messages[loop.index0 - 1].role }}",
    "{% if loop.nextitem is defined and loop.nextitem.role == m.role %}+{% endif %}",
    "{% if messages[loop.index] is defined %}{{ messages[loop.index].content }}{% endif %}",
    "{{ messages[-1].role }}{{ first.content }}",
    "{{ tail|length }}{{ tail[0].role }}",
    "{{ x }}",
    "{{ f(m) }}",
    "{{ f(m, n=loop.index) }}{{ ns.a }}",
    "{{ c.next() }}",
    "{% if m.role == 'user' %}{{ j() }}{% endif %}",
    "{{ it|first }}",
    "{{ m.role in roles }}{{ m.role == t[1] }}{{ t[0] + loop.index }}",
    "{% if m.role == 'tool' %}{% continue %}{% endif %}",
    "{% if m.role == 'developer' %}{% break %}{% endif %}",
    "{% for n in messages %}{{ n.role[0] }}{{ loop.index }}{% endfor %}",
    "{% set l = loop %}{% for n in [1, 2] %}{{ l.index0 }}{{ l.last }}{% endfor %}",
    "{{ loop }}{{ loop|length }}{{ loop.changed(m.role) }}",
    "{% set y = m.role if loop.first %}{{ y }}",
    "{{ tools }}{{ flag }}{{ flag is defined }}{% if flag %}F{% endif %}",
    "{% if m == messages[-1] %}E{% endif %}{% if m.content is string %}s{% endif %}",
    "{% with q = loop.index0 %}{% if q % 2 %}{% continue %}{% endif %}{{ q }}{% endwith %}",
    "{% set z %}{{ m.role }}{{ loop.last }}{% endset %}{{ z }}",
    ("{% autoescape ns.b %}{{ '<' }}{% if m.role == 'tool' %}{% continue %}{% endif %}{% "
     "endautoescape %}"),
    "{% if loop.index > 3 and m.role == 'tool' %}{{ raise_exception(m.content) }}{% endif %}",
};
static const char *const AFTER[] = {
    "{{ ns.a }}{{ ns.s }}",
    "{{ m }}{{ y }}{{ loop }}",
    "{% if add_generation_prompt %}?{% endif %}",
    "{{ c.current }}{{ it|list }}",
    "{{ p.a }}{{ ns.l.role }}",
    "{% for m in messages %}{{ m.role }}{{ loop.last }}{% endfor %}",
    "{% else %}none",
};
static const char *const KINDS[] = {
    "{\"role\":\"user\",\"content\":\"a\"}",
    "{\"role\":\"assistant\",\"content\":\"b <x> \\u00e9\"}",
    "{\"role\":\"tool\",\"content\":\"c\\u00e8\"}",
    "{\"role\":\"system\",\"content\":\"\"}",
    "{\"role\":\"developer\",\"content\":null}",
    "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"d\"}]}",
};

struct input {
  const uint8_t *data;
  size_t size;
};

static size_t next(struct input *in, size_t below) {
  if (!in->size)
    return 0;
  in->size--;
  return *in->data++ % below;
}

static void require(bool ok) {
  if (!ok)
    abort();
}

static void pieces(struct input *in, struct buf *b, const char *const *from, size_t n,
                   size_t most) {
  for (size_t left = next(in, most + 1); left; left--)
    buf_puts(b, from[next(in, n)]);
}

static struct template *make(struct input *in) {
  struct template *tpl;
  struct err err;
  struct buf b;
  buf_init(&b, BUF_MAX_OWN);
  for (size_t i = 0; i < NAMES; i++) /* what pieces of the loop name */
    buf_puts(&b, BEFORE[i]);
  pieces(in, &b, BEFORE + NAMES, ARRAY_LEN(BEFORE) - NAMES, 3);
  buf_puts(&b, LOOPS[next(in, ARRAY_LEN(LOOPS))]);
  pieces(in, &b, BODY, ARRAY_LEN(BODY), 6);
  const char *last = AFTER[next(in, ARRAY_LEN(AFTER))];
  bool orelse = !strncmp(last, "{% else", 7);
  buf_puts(&b, orelse ? last : "");
  buf_puts(&b, "{% endfor %}");
  buf_puts(&b, orelse ? "" : last);
  int rc = template_load(b.data, b.len, "f", &tpl, &err);
  buf_free(&b);
  return rc ? NULL : tpl;
}

struct talk {
  struct template_memo *memo;
  struct value messages, flags[2];
  uint64_t ids[MESSAGES], last;
  struct buf text;
  struct template_chat chat;
};

static void check(const struct template *tpl, struct talk *t, bool unchanged) {
  struct template_options opts = {.now = {2026, 8, 22, 12, 34, 56, 0}, .has_now = true};
  struct template_grown grown = {.chat = &t->chat,
                                 .ids = t->ids,
                                 .unchanged = unchanged,
                                 .old = t->text.data,
                                 .old_len = t->text.len};
  struct buf whole, tail;
  struct err err, err2;
  size_t common = 0;
  buf_init(&whole, BUF_MAX_OWN);
  buf_init(&tail, BUF_MAX_OWN);
  int want = template_render_chat(tpl, &t->chat, &opts, &whole, &err);
  int rc = template_render_grown(tpl, &t->memo, &grown, &opts, &tail, &common, &err2);
  require(rc == want && (!rc || !strcmp(err.text, err2.text)));
  if (!rc) {
    require(common <= t->text.len);
    t->text.len = common;
    buf_put(&t->text, tail.len ? tail.data : "", tail.len);
    require(t->text.len == whole.len &&
            (!whole.len || !memcmp(t->text.data, whole.data, whole.len)));
  } else {
    t->text.len = 0;
  }
  buf_free(&whole);
  buf_free(&tail);
}

static void change(struct input *in, struct talk *t, const struct value *kinds) {
  size_t what = next(in, 16), n = t->messages.u.array.n;
  size_t at = n ? next(in, n) : 0;
  if (what < 10 && n < MESSAGES) {
    t->messages.u.array.items[n] = kinds[next(in, ARRAY_LEN(KINDS))];
    t->ids[n] = ++t->last;
    t->messages.u.array.n++;
  } else if (what < 12) {
    t->messages.u.array.n = at;
  } else if (what == 12 && n) {
    t->messages.u.array.items[at] = kinds[next(in, ARRAY_LEN(KINDS))];
    t->ids[at] = ++t->last;
  } else if (what == 13 && n) {
    t->messages.u.array.items[at] = t->messages.u.array.items[n - 1];
    t->ids[at] = t->ids[n - 1];
  } else if (what == 14) {
    t->chat.kwargs = at % 3 == 2 ? NULL : &t->flags[at % 3];
  } else if (what == 15) {
    t->chat.add_generation_prompt = !t->chat.add_generation_prompt;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct input in = {data, size};
  struct template *tpl = make(&in);
  struct value kinds[ARRAY_LEN(KINDS)], room[MESSAGES];
  struct err err;
  if (!tpl)
    return 0;
  for (size_t i = 0; i < ARRAY_LEN(KINDS); i++)
    require(!json_parse(KINDS[i], strlen(KINDS[i]), &kinds[i], &err));
  struct talk t = {.memo = template_memo_new(), .messages = value_array()};
  t.messages.u.array.items = room;
  t.chat.messages = &t.messages;
  buf_init(&t.text, BUF_MAX_OWN);
  require(!json_parse("{\"flag\":true}", 13, &t.flags[0], &err));
  require(!json_parse("{\"flag\":\"x\",\"last\":1}", 21, &t.flags[1], &err));
  for (int steps = 0; in.size && steps < 64; steps++) {
    change(&in, &t, kinds);
    check(tpl, &t, false);
    if (in.size % 4 == 0)
      check(tpl, &t, true);
  }
  for (size_t i = 0; i < ARRAY_LEN(KINDS); i++)
    value_free(&kinds[i]);
  value_free(&t.flags[0]);
  value_free(&t.flags[1]);
  template_memo_unref(t.memo);
  buf_free(&t.text);
  template_delete(tpl);
  return 0;
}

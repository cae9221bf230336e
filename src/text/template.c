/* template.c: loading and rendering a chat template; see template.h. */
#include "text/template.h"

#include "base/mem.h"
#include "text/jinja_trace.h"
#include "text/json.h"

#include <stdatomic.h>
#include <string.h>

struct template {
  atomic_uint refs;
  char *name;
  struct jchunk *chunks;
  struct jprogram *program;
};

#define LOAD_BYTES ((size_t)512 << 20)

static void *get_memory(void *user, size_t size) {
  return jalloc(user, size);
}

static void state_init(struct jst *st, const struct template *tpl, struct err *err) {
  memset(st, 0, sizeof *st);
  st->tpl = tpl;
  st->program = tpl->program;
  st->err = err;
  st->line = 1;
  st->big_memory = (struct bigint_memory){get_memory, st};
}

static void free_buffers(struct jst *st) {
  for (size_t i = 0; i < st->n_bufs; i++) {
    buf_free(st->bufs[i]);
    mem_free(st->bufs[i]);
  }
  mem_free(st->bufs);
}

/* Runs work(st, user), which may raise; 0 or the error's code. Nothing of this function's own lives
 * across the jump. */
static int guard(struct jst *st, void (*work)(struct jst *st, void *user), void *user) {
  if (setjmp(st->raise) != 0)
    return st->code;
  work(st, user);
  return 0;
}

struct parse_job {
  struct template *tpl;
  const char *source;
  size_t len;
};

static void parse_work(struct jst *st, void *user) {
  struct parse_job *job = user;
  job->tpl->program = jparse(st, job->source, job->len);
}

static int parse(struct template *tpl, const char *source, size_t len, struct err *err) {
  struct jst st;
  struct parse_job job = {tpl, source, len};
  state_init(&st, tpl, err);
  st.steps_left = UINT64_MAX;
  st.memory_left = LOAD_BYTES;
  int rc = guard(&st, parse_work, &job);
  tpl->chunks = st.chunks;
  free_buffers(&st);
  return rc;
}

int template_load(const char *source, size_t len, const char *name, struct template **out,
                  struct err *err) {
  *out = NULL;
  if (len > TEMPLATE_MAX_SOURCE)
    return err_set(err, ERR_LIMIT, "template '%s' has %zu bytes; at most %zu are taken", name, len,
                   TEMPLATE_MAX_SOURCE);
  size_t valid = json_utf8_valid(source, len);
  if (valid != len)
    return err_set(err, ERR_INVALID, "template '%s': byte %zu is not UTF-8", name, valid);
  struct template *tpl = MEM_NEW(struct template);
  atomic_init(&tpl->refs, 1);
  tpl->name = mem_strdup(name);
  int rc = parse(tpl, source, len, err);
  if (rc < 0) {
    template_delete(tpl);
    return rc;
  }
  *out = tpl;
  return 0;
}

struct template *template_ref(const struct template *tpl) {
  struct template *own = (struct template *)(uintptr_t)tpl; /* all but the count is constant */
  atomic_fetch_add(&own->refs, 1);
  return own;
}

void template_delete(struct template *tpl) {
  if (!tpl || atomic_fetch_sub(&tpl->refs, 1) != 1)
    return;
  jarena_free(tpl->chunks);
  mem_free(tpl->name);
  mem_free(tpl);
}

const char *template_name(const struct template *tpl) {
  return tpl->name;
}

/* ---- rendering */

struct job {
  const struct value *sources[2]; /* where variables come from; later ones go before earlier ones */
  size_t n;
  const struct template_chat *chat;
  struct buf *out;
  size_t start;
  struct jmemo_run *run; /* NULL: from nothing */
};

static bool is_array(const struct value *v) {
  return v && v->kind == VALUE_ARRAY;
}

static struct jv or_none(struct jst *st, const struct value *v) {
  return v ? jfrom(v, st) : jnone();
}

#define TAG "CONTINUE_FINAL_MESSAGE_TAG "

/* A dictionary that is `from` with one key changed; the rest is borrowed. */
static struct jv with_key(struct jst *st, const struct value *from, const char *key,
                          struct jv value) {
  struct jdict *d = jdict_new(st);
  for (size_t i = 0; i < from->u.object.n; i++) {
    const struct value_pair *p = &from->u.object.pairs[i];
    jdict_set(st, d, jstr(p->key, p->key_len), jfrom(&p->value, st));
  }
  jdict_set(st, d, jcstr(key), value);
  return jdict_value(d);
}

/* The last text block of a message's parts, with the tag behind it. */
static struct jv open_parts(struct jst *st, const struct value *parts, struct jv *text) {
  struct jlist *l = jlist_new(st, parts->u.array.n);
  for (size_t i = 0; i < parts->u.array.n; i++)
    jlist_add(st, l, jfrom(&parts->u.array.items[i], st));
  for (size_t i = l->n; i-- > 0;) {
    const struct value *part = &parts->u.array.items[i], *t = value_get(part, "text");
    if (!t)
      continue;
    *text = jfrom(t, st);
    struct jv tagged = jbinary(st, OP_ADD, *text, jcstr(TAG));
    l->items[i] = with_key(st, part, "text", tagged);
    return jlist_value(l);
  }
  jraise(st, "ValueError",
         "continue_final_message is set but we could not find any text to continue in the final "
         "message!");
}

/* The messages with the tag at the end of the last one's content; *text gets that content. */
static struct jv open_messages(struct jst *st, const struct value *messages, struct jv *text) {
  size_t n = messages->u.array.n;
  const struct value *last = n ? &messages->u.array.items[n - 1] : NULL;
  const struct value *content = value_get(last, "content");
  if (!n)
    jraise(st, "IndexError", "list index out of range");
  if (!content)
    jraise(st, "KeyError", "'content'");
  struct jlist *l = jlist_new(st, n);
  for (size_t i = 0; i < n; i++)
    jlist_add(st, l, jfrom(&messages->u.array.items[i], st));
  struct jv tagged;
  if (content->kind == VALUE_ARRAY) {
    tagged = open_parts(st, content, text);
  } else {
    *text = jfrom(content, st);
    tagged = jbinary(st, OP_ADD, *text, jcstr(TAG));
  }
  l->items[n - 1] = with_key(st, last, "content", tagged);
  return jlist_value(l);
}

/* transformers cuts the text at the tag, and what the template trimmed is trimmed here too. */
static void cut_at_tag(struct jst *st, struct jv text, struct buf *out, size_t start) {
  struct jv content = jstrip(st, jneed_str(st, text, "content"), jnone(), true, true);
  const char *p = out->data ? out->data + start : "";
  size_t len = out->len - start, tag_len = strlen(TAG) - 1, at = len;
  bool there = !content.len || (len && memmem(p, len, jbytes(st, content), content.len));
  for (size_t i = len >= tag_len ? len - tag_len + 1 : 0; i-- > 0 && at == len;)
    at = memcmp(p + i, TAG, tag_len) ? len : i;
  if (!there || at == len)
    jraise(st, "ValueError",
           "continue_final_message is set but the final message does not appear in the chat after "
           "applying the chat template! This can happen if the chat template deletes portions of "
           "the final message. Please verify the chat template and final message in your chat to "
           "ensure they are compatible.");
  bool kept = at + tag_len < len && p[at + tag_len] == ' ';
  struct jv rest = jstr(p, at);
  if (!kept)
    rest = jstrip(st, rest, jnone(), false, true);
  assert(out->data); /* the tag is in it */
  out->len = start + rest.len;
  out->data[out->len] = '\0';
}

static void set_global(struct jst *st, const char *name, struct jv v) {
  for (uint32_t i = 0; i < st->program->n_names; i++)
    if (!strcmp(st->program->by_id[i]->s, name))
      st->globals[i] = v;
}

/* Every name of the template is looked up once: functions of the environment, what a chat has, then
 * the given objects. */
static void fill_globals(struct jst *st, const struct job *job, struct jv *open_text) {
  uint32_t n = st->program->n_names;
  st->globals = jalloc(st, (n + 1) * sizeof *st->globals);
  st->exported = jalloc(st, (n + 1) * sizeof *st->exported);
  memset(st->globals, 0, (n + 1) * sizeof *st->globals);
  memset(st->exported, 0, (n + 1) * sizeof *st->exported);
  for (uint32_t i = 0; i < n; i++) {
    const struct jname *name = st->program->by_id[i];
    const struct jfunc *f = jglobal_find(name->s, name->len);
    if (f)
      st->globals[i] = (struct jv){.type = J_FUNC, .u.func = f};
  }
  if (job->chat) {
    const struct template_chat *c = job->chat;
    set_global(st, "tools", or_none(st, c->tools));
    set_global(st, "documents", jnone());
    set_global(st, "add_generation_prompt", jbool(c->add_generation_prompt));
    if (c->continue_final_message)
      set_global(st, "messages", open_messages(st, c->messages, open_text));
    else
      set_global(st, "messages", or_none(st, c->messages));
  }
  for (uint32_t i = 0; i < n; i++) {
    const struct jname *name = st->program->by_id[i];
    for (size_t k = 0; k < job->n; k++) {
      const struct value *v = value_get_len(job->sources[k], name->s, name->len);
      if (v)
        st->globals[i] = jfrom(v, st);
    }
  }
}

static void check_surrogates(struct jst *st, const char *s, size_t len) {
  size_t valid = json_utf8_valid(s, len);
  if (valid != len)
    jraise(st, "UnicodeEncodeError",
           "'utf-8' codec can't encode a lone surrogate at byte %zu of the text: surrogates not "
           "allowed",
           valid);
}

/* The tail begins with a character: what of its first one is common comes into it. */
static void begin_at_character(const struct job *job) {
  struct jsync *y = &job->run->sync;
  struct buf *tail = job->out;
  size_t common = y->at - tail->len, more = 0;
  if (!tail->len || ((unsigned char)*tail->data & 0xc0) != 0x80 || !common)
    return;
  do
    more++;
  while (more < 3 && more < common && ((unsigned char)y->old[common - more] & 0xc0) == 0x80);
  buf_put(tail, y->old, more); /* room; what is there moves */
  memmove(tail->data + more, tail->data, tail->len - more);
  memcpy(tail->data, y->old + common - more, more);
}

static void render_work(struct jst *st, void *user) {
  const struct job *job = user;
  struct jv open_text = {.type = J_MISSING};
  fill_globals(st, job, &open_text);
  jrun(st);
  if (job->chat && job->chat->continue_final_message)
    cut_at_tag(st, open_text, job->out, job->start);
  if (job->run)
    begin_at_character(job);
  check_surrogates(st, job->out->data ? job->out->data + job->start : "",
                   job->out->len - job->start);
}

static int render(const struct template *tpl, struct job *job, const struct template_options *opts,
                  struct buf *out, struct err *err) {
  static const struct template_options defaults = {0};
  struct jst st;
  struct jout root = {.direct = out};
  size_t start = out->len, max = out->max;
  job->out = out;
  job->start = start;
  if (!opts)
    opts = &defaults;
  state_init(&st, tpl, err);
  st.run = job->run;
  st.has_now = opts->has_now;
  st.now = opts->now;
  st.tojson = opts->tojson;
  st.steps_left = opts->max_steps ? opts->max_steps : TEMPLATE_MAX_STEPS;
  st.memory_left = opts->max_memory_bytes ? opts->max_memory_bytes : TEMPLATE_MAX_MEMORY;
  st.stop = opts->stop;
  st.stop_user = opts->stop_user;
  st.pause_at = opts->stop ? st.steps_left : 0;
  st.out = &root;
  size_t most = opts->max_output_bytes ? opts->max_output_bytes : TEMPLATE_MAX_OUTPUT;
  if (most < max - start)
    out->max = start + most;
  if (job->run) {
    root.sync = &job->run->sync;
    root.sync->most = most < max ? most : max;
  }
  int rc = guard(&st, render_work, job);
  if (rc < 0 && out->data) {
    out->len = start;
    out->data[start] = '\0';
  }
  out->max = max;
  jarena_free(st.chunks);
  free_buffers(&st);
  return rc;
}

int template_render(const struct template *tpl, const struct value *context,
                    const struct template_options *opts, struct buf *out, struct err *err) {
  struct job job = {.sources = {context}, .n = 1};
  return render(tpl, &job, opts, out, err);
}

static void add_sources(struct job *job, const struct template_chat *chat) {
  if (chat->special)
    job->sources[job->n++] = chat->special;
  if (chat->kwargs)
    job->sources[job->n++] = chat->kwargs;
}

int template_render_chat(const struct template *tpl, const struct template_chat *chat,
                         const struct template_options *opts, struct buf *out, struct err *err) {
  struct job job = {.chat = chat};
  if (chat->continue_final_message && chat->add_generation_prompt)
    return err_set(err, ERR_INVALID,
                   "template '%s': ValueError: continue_final_message and add_generation_prompt "
                   "are not compatible; the first leaves the last message open, the second begins "
                   "a new one",
                   tpl->name);
  if (chat->continue_final_message && !is_array(chat->messages))
    return err_set(err, ERR_INVALID, "template '%s': messages must be a list", tpl->name);
  add_sources(&job, chat);
  return render(tpl, &job, opts, out, err);
}

/* ---- again */

static bool same_text(const char *a, const char *b, size_t len) {
  return !len || !memcmp(a, b, len);
}

/* Equal, down to the order of keys. */
static bool same_value(const struct value *a, const struct value *b) {
  if (a->kind != b->kind)
    return false;
  switch (a->kind) {
  case VALUE_ARRAY:
    if (a->u.array.n != b->u.array.n)
      return false;
    for (size_t i = 0; i < a->u.array.n; i++)
      if (!same_value(&a->u.array.items[i], &b->u.array.items[i]))
        return false;
    return true;
  case VALUE_OBJECT:
    if (a->u.object.n != b->u.object.n)
      return false;
    for (size_t i = 0; i < a->u.object.n; i++) {
      const struct value_pair *p = &a->u.object.pairs[i], *q = &b->u.object.pairs[i];
      if (p->key_len != q->key_len || !same_text(p->key, q->key, p->key_len) ||
          !same_value(&p->value, &q->value))
        return false;
    }
    return true;
  case VALUE_STRING:
    return a->u.string.len == b->u.string.len &&
           same_text(a->u.string.data, b->u.string.data, a->u.string.len);
  default:
    return value_equal(a, b);
  }
}

static bool same_object(const struct value *kept, const struct value *now) {
  return now ? same_value(kept, now) : kept->kind == VALUE_NULL;
}

static bool same_time(const struct pytime *a, const struct pytime *b) {
  return a->year == b->year && a->month == b->month && a->day == b->day && a->hour == b->hour &&
         a->minute == b->minute && a->second == b->second && a->microsecond == b->microsecond;
}

static void copy_object(struct value *kept, const struct value *now) {
  value_free(kept);
  *kept = now ? value_copy(now) : value_null();
}

/* Whether all but the messages is as it was. */
static bool same_around(const struct template_memo *m, const struct template *tpl,
                        const struct template_grown *g, const struct template_options *opts) {
  const struct template_chat *c = g->chat;
  return m->valid && m->tpl == tpl && m->len == g->old_len && m->tools_id == g->tools_id &&
         m->has_tools == (c->tools != NULL) &&
         m->add_generation_prompt == c->add_generation_prompt && m->has_now == opts->has_now &&
         (!m->has_now || same_time(&m->now, &opts->now)) && same_object(&m->kwargs, c->kwargs) &&
         same_object(&m->special, c->special);
}

static void look_around(struct template_memo *m, const struct template *tpl,
                        const struct template_grown *g, const struct template_options *opts) {
  const struct template_chat *c = g->chat;
  struct template *old = m->tpl;
  jmemo_forget(m, 0);
  m->tpl = template_ref(tpl);
  template_delete(old);
  m->tools_id = g->tools_id;
  m->has_tools = c->tools != NULL;
  m->add_generation_prompt = c->add_generation_prompt;
  m->has_now = opts->has_now;
  m->now = opts->now;
  copy_object(&m->kwargs, c->kwargs);
  copy_object(&m->special, c->special);
}

/* One that this rendering may change. */
static struct template_memo *own_memo(struct template_memo **memo) {
  if ((*memo)->refs > 1) {
    struct template_memo *own = jmemo_clone(*memo);
    (*memo)->refs--;
    *memo = own;
  }
  return *memo;
}

int template_render_grown(const struct template *tpl, struct template_memo **memo,
                          const struct template_grown *g, const struct template_options *opts,
                          struct buf *tail, size_t *common, struct err *err) {
  static const struct template_options defaults = {0};
  opts = opts ? opts : &defaults;
  if (g->chat->continue_final_message)
    return err_set(err, ERR_INVALID, "template '%s': a conversation that grows is not left open",
                   tpl->name);
  bool same = same_around(*memo, tpl, g, opts);
  if (same && g->unchanged) {
    *common = g->old_len;
    return 0;
  }
  struct template_memo *m = own_memo(memo);
  struct jtrace trace;
  struct jmemo_run run = {.memo = m,
                          .messages = g->chat->messages,
                          .tools = g->chat->tools,
                          .ids = g->ids,
                          .sync = {.old = g->old_len ? g->old : "", .old_len = g->old_len},
                          .trace = &trace};
  struct job job = {.chat = g->chat, .run = &run};
  trace.run = NULL;
  trace.entries = NULL;
  trace.blocks = NULL;
  trace.n_blocks = trace.cap_blocks = 0;
  trace.n_entries = trace.n_guards = trace.n_effects = 0;
  if (!same)
    look_around(m, tpl, g, opts);
  add_sources(&job, g->chat);
  int rc = render(tpl, &job, opts, tail, err);
  jmemo_abandon(&run);
  jmemo_forget(m, rc < 0 ? 0 : run.n_loops);
  m->valid = rc == 0;
  m->len = run.sync.at;
  *common = m->len - tail->len;
  return rc;
}

/* ---- reading */

static int take(const struct value *row, const char *key, enum value_kind kind, const char *what,
                const struct value **out, struct err *err) {
  const struct value *v = value_get(row, key);
  *out = NULL;
  if (!v || v->kind == VALUE_NULL)
    return 0;
  if (v->kind != kind)
    return err_set(err, ERR_INVALID, "%s must be %s", key, what);
  *out = v;
  return 0;
}

static int take_bool(const struct value *row, const char *key, bool *out, struct err *err) {
  const struct value *v;
  int rc = take(row, key, VALUE_BOOL, "true or false", &v, err);
  *out = v && v->u.boolean;
  return rc;
}

int template_chat_read(const struct value *row, struct template_chat *out, struct err *err) {
  *out = (struct template_chat){0};
  if (!row || row->kind != VALUE_OBJECT)
    return err_set(err, ERR_INVALID, "a conversation must be one JSON object with messages");
  int rc = take(row, "messages", VALUE_ARRAY, "a list of messages", &out->messages, err);
  if (rc < 0)
    return rc;
  if (!out->messages)
    return err_set(err, ERR_INVALID, "messages are missing: a list of {role, content}");
  rc = take(row, "tools", VALUE_ARRAY, "a list of tools", &out->tools, err);
  if (rc < 0)
    return rc;
  rc = take(row, "special", VALUE_OBJECT, "an object (bos_token, eos_token…)", &out->special, err);
  if (rc < 0)
    return rc;
  rc = take(row, "kwargs", VALUE_OBJECT, "an object of template variables", &out->kwargs, err);
  if (rc < 0)
    return rc;
  rc = take_bool(row, "add_generation_prompt", &out->add_generation_prompt, err);
  if (rc < 0)
    return rc;
  return take_bool(row, "continue_final_message", &out->continue_final_message, err);
}

static const struct value *named(const struct value *list, const char *name) {
  for (size_t i = 0; i < list->u.array.n; i++) {
    const struct value *item = &list->u.array.items[i];
    const char *n = value_to_string(value_get(item, "name"));
    const struct value *text = value_get(item, "template");
    if (n && !strcmp(n, name) && text && text->kind == VALUE_STRING)
      return text;
  }
  return NULL;
}

const struct value *template_of_config(const struct value *config, bool tools, struct err *err) {
  const struct value *v = value_get(config, "chat_template"), *found = NULL;
  if (v && v->kind == VALUE_STRING)
    return v;
  if (is_array(v)) {
    if (tools)
      found = named(v, "tool_use");
    if (!found)
      found = named(v, "default");
    if (!found)
      err_set(err, ERR_NOT_FOUND, "chat_template is a list without one named \"default\"");
    return found;
  }
  err_set(err, ERR_NOT_FOUND,
          v ? "chat_template is neither text nor a list of {name, template}"
            : "there is no chat_template in it");
  return NULL;
}

/* genmodel.c: loading what the fleet plays; see genmodel.h. */
#include "sim/genmodel.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "io/loop.h"
#include "sim/genprompt.h"
#include "text/harmony.h"

const char *genmodel_template(const struct genmodel *m) {
  return m->chat ? chattemplate_name(m->chat) : GENMODEL_OWN_TEMPLATE;
}

bool genmodel_now(const struct genmodel *m, struct pytime *out) {
  *out = m->now;
  if (m->has_now || !m->loop)
    return m->has_now;
  int64_t ns = (int64_t)loop_now(m->loop) + loop_realtime_offset(m->loop);
  time_t seconds = (time_t)(ns / (int64_t)NS_PER_S);
  struct tm local;
  localtime_r(&seconds, &local);
  *out = pytime_from_epoch(seconds, (int)local.tm_gmtoff);
  out->microsecond = (int)(ns % (int64_t)NS_PER_S / 1000);
  return true;
}

static void set_hash(struct value *out, const char *field, uint64_t hash) {
  char text[20];
  snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
  value_set(out, field, value_cstring(text));
}

void genmodel_describe(const struct genmodel *m, struct value *out) {
  struct pytime now;
  value_set(out, "tokenizer", value_cstring(m->tokenizer->name));
  if (m->family)
    value_set(out, "tokenizer_family", value_cstring(m->family));
  if (m->tokenizer->kind != TOKENS_BYTES)
    set_hash(out, "tokenizer_hash", m->tokenizer->hash);
  value_set(out, "template", value_cstring(genmodel_template(m)));
  if (m->chat)
    set_hash(out, "template_hash", chattemplate_hash(m->chat));
  if (genmodel_now(m, &now)) {
    static const char form[] = "%Y-%m-%dT%H:%M:%S";
    struct buf b;
    buf_init(&b, 1 << 10);
    pytime_format(&b, &now, form, sizeof form - 1);
    value_set(out, "now", value_string(b.data, b.len));
    buf_free(&b);
  }
}

int genmodel_encode(const struct genmodel *m, const char *text, size_t len,
                    const struct tokens_options *options, struct tokens_list *out,
                    struct err *err) {
  if (m->encoder)
    return tokens_encoder_encode(m->encoder, text, len, options, out, err);
  return tokens_encode(m->tokenizer, text, len, options, out, err);
}

/* ---- loading ---- */

static int load_tokenizer(struct genmodel *m, const struct genmodel_options *o, struct err *err) {
  const char *name = o->tokenizer ? o->tokenizer : "bytes";
  struct tokens_load_options load = {.family = o->family, .shared = o->shared};
  if (o->family && !o->tokenizer)
    return err_set(err, ERR_INVALID, "--family says whose rank file --tokenizer is; give both");
  int rc = tokens_open(name, &load, &m->tokenizer, err);
  if (rc)
    return err_prefix(err, "--tokenizer");
  m->encoder = tokens_encoder_new(m->tokenizer);
  m->family = o->family ? mem_strdup(o->family) : NULL;
  return 0;
}

static int load_template(struct genmodel *m, const struct genmodel_options *o, struct err *err) {
  const char *name = o->template;
  bool bytes = m->tokenizer->kind == TOKENS_BYTES;
  int rc = 0;
  if (name && strcmp(name, GENMODEL_OWN_TEMPLATE) == 0)
    return 0;
  if (name)
    rc = chattemplate_load(name, o->tokenizer, &m->chat, err);
  else if (!bytes)
    rc = chattemplate_default(o->tokenizer, o->family, &m->chat, err);
  return rc ? err_prefix(err, "--template") : 0;
}

/* What a conversation of a few words may take: 10,000 times what the longest template in use does
 * with it. */
#define TRIAL_STEPS 10000000
#define TRIAL_BYTES ((size_t)4 << 20)
#define TRIAL_MEMORY_BYTES ((size_t)64 << 20)

struct chat_trial {
  const struct genmodel *model;
  struct err refused; /* the last conversation that was; code 0: none was */
};

/* After one that went beyond the bounds, each is refused at once: it would take as long. */
static int chat_of(void *user, const struct value *messages, struct tokens_list *out) {
  struct chat_trial *t = user;
  const struct genmodel *m = t->model;
  struct chattemplate_request r = {.messages = messages,
                                   .add_generation_prompt = true,
                                   .max_steps = TRIAL_STEPS,
                                   .max_output_bytes = TRIAL_BYTES,
                                   .max_memory_bytes = TRIAL_MEMORY_BYTES};
  if (t->refused.code == ERR_LIMIT)
    return ERR_LIMIT;
  if (m->chat) {
    r.has_now = genmodel_now(m, &r.now);
    return chattemplate_encode(m->chat, m->encoder, &r, out, &t->refused);
  }
  struct apierror e;
  struct value body = value_object();
  value_set(&body, "messages", value_copy(messages));
  int rc = genprompt_chat(m, &body, out, &e);
  value_free(&body);
  return rc ? err_set(&t->refused, ERR_INVALID, "%s", e.message) : 0;
}

/* A template that does not come to an end would keep the fleet from its first answer on. */
static int check_ends(const struct chat_trial *t, struct err *err) {
  if (t->refused.code != ERR_LIMIT)
    return 0;
  err_set(err, ERR_INVALID, "a conversation of a few words is too much for it: %s",
          t->refused.text);
  return err_prefix(err, "--template");
}

static int load_speech(struct genmodel *m, struct err *err) {
  struct speech_options o = {0};
  struct chat_trial trial = {.model = m};
  if (m->chat)
    o.eos = chattemplate_special(m->chat, "eos_token");
  /* a model that speaks Harmony, whatever its template */
  if (m->chat && harmony_knows(m->encoder)) {
    o.header = "<|channel|>final<|message|>";
    o.think = "<|channel|>analysis<|message|>";
    o.answer = "<|end|><|start|>assistant<|channel|>final<|message|>";
    o.opening = "<|start|>assistant";
    o.eos = "<|return|>";
  }
  struct speech *s = MEM_NEW(struct speech);
  int rc = speech_init(s, m->tokenizer, m->encoder, &o, err);
  if (rc) {
    mem_free(s);
    return rc;
  }
  m->speech = s;
  speech_fit(s, chat_of, &trial);
  if (!s->repeats && trial.refused.code && trial.refused.code != ERR_LIMIT)
    log_warn("event=template_refuses_a_conversation template=%s reason=\"%s\"",
             genmodel_template(m), trial.refused.text);
  return check_ends(&trial, err);
}

static struct value says_hi(void) {
  struct value messages = value_array();
  struct value *hi = value_push(&messages, value_object());
  value_set(hi, "role", value_cstring("user"));
  value_set(hi, "content", value_cstring("Hi"));
  return messages;
}

/* What speech_fit shows where there is speech. */
static int try_template(const struct genmodel *m, struct err *err) {
  struct tokens_list ids = {0};
  struct chat_trial trial = {.model = m};
  struct value messages = says_hi();
  int rc = chat_of(&trial, &messages, &ids);
  value_free(&messages);
  tokens_list_free(&ids);
  return rc ? check_ends(&trial, err) : 0;
}

/* Harmony needs its own special tokens: better found now than at the first request. */
static int check_harmony(const struct genmodel *m, struct err *err) {
  struct tokens_list ids = {0};
  struct value messages = says_hi();
  struct chattemplate_request r = {.messages = &messages, .add_generation_prompt = true};
  int rc = chattemplate_encode(m->chat, m->encoder, &r, &ids, err);
  value_free(&messages);
  tokens_list_free(&ids);
  return rc ? err_prefix(err, "--template harmony with --tokenizer %s", m->tokenizer->name) : 0;
}

int genmodel_open(struct genmodel *m, const struct genmodel_options *o, struct err *err) {
  int rc = 0;
  if (o->now) {
    rc = pytime_parse(o->now, strlen(o->now), &m->now, err);
    if (rc)
      return err_prefix(err, "--now");
    m->has_now = true;
  }
  rc = load_tokenizer(m, o, err);
  if (!rc)
    rc = load_template(m, o, err);
  if (!rc && m->chat && chattemplate_is_harmony(m->chat))
    rc = check_harmony(m, err);
  if (!rc && m->tokenizer->kind != TOKENS_BYTES)
    rc = load_speech(m, err);
  else if (!rc && m->chat)
    rc = try_template(m, err);
  if (rc)
    genmodel_close(m);
  return rc;
}

void genmodel_close(struct genmodel *m) {
  if (m->speech)
    speech_free(m->speech);
  mem_free(m->speech);
  chattemplate_delete(m->chat);
  tokens_encoder_delete(m->encoder);
  tokens_close(m->tokenizer);
  mem_free(m->family);
  m->family = NULL;
  m->speech = NULL;
  m->chat = NULL;
  m->encoder = NULL;
  m->tokenizer = NULL;
}

/* kvconfig.c: see kvconfig.h. */
#include "sim/kvconfig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "kv/pubhash.h"
#include "text/json.h"

enum kind { SWITCH, WHOLE, TEXT, ENDPOINT, REPLAY_ENDPOINT, HASHES, SCHEME, SEED, CONFIG };

struct key {
  const char *name;
  enum kind kind;
  size_t offset, size;
  double least, most;
};

#define FIELD(f) offsetof(struct kvconfig, f), sizeof(((struct kvconfig *)0)->f)

static const struct key keys[] = {
    {"kv_events", SWITCH, 0, 0, 0, 0},
    {"kv_events_port", WHOLE, FIELD(port), 0, 65535},
    {"kv_events_replay_port", WHOLE, FIELD(replay_port), 0, 65535},
    {"kv_events_endpoint", ENDPOINT, FIELD(endpoint), 0, 0},
    {"kv_events_replay_endpoint", REPLAY_ENDPOINT, FIELD(replay_endpoint), 0, 0},
    {"kv_events_topic", TEXT, FIELD(topic), 0, 0},
    {"kv_events_buffer_steps", WHOLE, FIELD(buffer_steps), 0, 1e8},
    {"kv_events_hwm", WHOLE, FIELD(hwm), 0, 1e8},
    {"kv_events_max_queue_size", WHOLE, FIELD(max_queue_size), 1, 1e8},
    {"kv_events_hashes", HASHES, 0, 0, 0, 0},
    {"kv_events_config", CONFIG, 0, 0, 0, 0},
    {"hash_scheme", SCHEME, FIELD(scheme), 0, 0},
    {"hash_seed", SEED, FIELD(seed), 0, 0},
};

void kvconfig_init(struct kvconfig *c) {
  *c = (struct kvconfig){.replay = true,
                         .buffer_steps = 10000,
                         .hwm = 100000,
                         .max_queue_size = 100000,
                         .scheme = PUBHASH_DEFAULT_SCHEME};
}

const char *kvconfig_name(size_t i) {
  return i < ARRAY_LEN(keys) ? keys[i].name : NULL;
}

void kvconfig_play_sglang(struct kvconfig *c) {
  if (!c->encoding_set)
    c->encoding = KVWIRE_SGLANG;
}

const char *kvconfig_scheme(const struct kvconfig *c) {
  return c->encoding == KVWIRE_SGLANG ? PUBHASH_SGLANG : c->scheme;
}

/* ---- settings ---- */

static int set_text(struct kvconfig *c, const struct key *k, const char *text, struct err *err) {
  size_t len = strlen(text);
  if (len >= k->size)
    return err_set(err, ERR_INVALID, "%s: %zu bytes are too many; at most %zu", k->name, len,
                   k->size - 1);
  memcpy((char *)c + k->offset, text, len + 1);
  return 0;
}

static int set_whole(struct kvconfig *c, const struct key *k, const char *text, struct err *err) {
  double x = 0;
  int rc = units_parse(text, strlen(text), UNITS_NONE, &x, NULL, NULL);
  if (rc || !(x >= k->least && x <= k->most) || x != floor(x))
    return err_set(err, ERR_INVALID, "%s=%.40s: a whole number from %.0f to %.0f is needed",
                   k->name, text, k->least, k->most);
  *(uint32_t *)(void *)((char *)c + k->offset) = (uint32_t)x;
  return 0;
}

static int set_switch(struct kvconfig *c, const char *text, struct err *err) {
  static const struct {
    const char *text;
    bool on, named;
    enum kvwire_encoding encoding;
  } words[] = {{"on", true, false, KVWIRE_MAP},       {"true", true, false, KVWIRE_MAP},
               {"map", true, true, KVWIRE_MAP},       {"array", true, true, KVWIRE_ARRAY},
               {"sglang", true, true, KVWIRE_SGLANG}, {"off", false, false, KVWIRE_MAP},
               {"false", false, false, KVWIRE_MAP}};
  for (size_t i = 0; i < ARRAY_LEN(words); i++)
    if (strcmp(words[i].text, text) == 0) {
      c->on = words[i].on;
      c->encoding = words[i].encoding;
      c->encoding_set = words[i].named;
      return 0;
    }
  return err_set(
      err, ERR_INVALID,
      "kv_events=%.40s: on, off, map (vLLM since June 2026), array (before) or sglang is needed",
      text);
}

/* Bound or connected to, by vLLM's own rule. */
static bool is_bound(const char *endpoint) {
  return strchr(endpoint, '*') || strstr(endpoint, "::") || strncmp(endpoint, "ipc://", 6) == 0;
}

/* The port that ends a tcp endpoint; −1: none that is a number. */
static long port_of(const char *endpoint) {
  const char *colon = strrchr(endpoint, ':');
  char *end;
  long port = colon ? strtol(colon + 1, &end, 10) : -1;
  return !colon || end == colon + 1 || *end || port < 0 || port > 65535 ? -1 : port;
}

static int set_endpoint(struct kvconfig *c, const struct key *k, const char *text,
                        struct err *err) {
  bool replay = k->kind == REPLAY_ENDPOINT;
  if (replay && strcmp(text, "off") == 0) {
    c->replay = false;
    return 0;
  }
  bool tcp = strncmp(text, "tcp://", 6) == 0, ipc = strncmp(text, "ipc://", 6) == 0;
  long port = tcp ? port_of(text) : 0;
  if ((!tcp && !ipc) || port < 0)
    return err_set(err, ERR_INVALID,
                   "%s=%.80s: tcp://*:5557 (bound on every address), tcp://HOST:PORT (connected "
                   "to) or ipc://PATH is needed%s",
                   k->name, text, replay ? "; or off" : "; kv_events_port binds on --host alone");
  if (tcp && !port && !replay && !is_bound(text))
    return err_set(err, ERR_INVALID,
                   "%s=%.80s: nobody can connect to port 0; tcp://*:0 takes any free port", k->name,
                   text);
  if (replay)
    c->replay = true;
  return set_text(c, k, text, err);
}

static int set_hashes(struct kvconfig *c, const char *text, struct err *err) {
  c->raw_hashes = strcmp(text, "bytes") == 0;
  if (!c->raw_hashes && strcmp(text, "int") != 0)
    return err_set(err, ERR_INVALID, "kv_events_hashes=%.40s: int or bytes is needed", text);
  return 0;
}

static int set_scheme(struct kvconfig *c, const struct key *k, const char *text, struct err *err) {
  struct pubhash *p;
  struct pubhash_options o = {.scheme = text, .seed = "", .block_size = 1};
  if (strcmp(text, PUBHASH_SGLANG) == 0)
    return err_set(err, ERR_INVALID,
                   "hash_scheme: SGLang's hashes come with its events: kv_events=sglang");
  int rc = pubhash_open(&o, &p, err);
  if (rc)
    return err_prefix(err, "hash_scheme");
  pubhash_delete(p);
  return set_text(c, k, text, err);
}

/* ---- vLLM's JSON ---- */

static int set_member(struct kvconfig *c, const char *name, const struct value *v,
                      struct err *err) {
  static const char *const known[] = {"endpoint", "replay_endpoint", "topic", "buffer_steps",
                                      "hwm",      "max_queue_size"};
  char key[64], number[32];
  for (size_t i = 0; i < ARRAY_LEN(known); i++) {
    int64_t n;
    if (strcmp(known[i], name) != 0)
      continue;
    if (v->kind == VALUE_NULL)
      return 0;
    snprintf(key, sizeof key, "kv_events_%s", name);
    bool text = i < 3;
    if (text ? v->kind != VALUE_STRING : !value_to_int(v, &n))
      return err_set(err, ERR_INVALID, "%s is no %s", name, text ? "text" : "whole number");
    if (text && strlen(value_to_string(v)) != v->u.string.len)
      return err_set(err, ERR_INVALID, "%s holds a NUL", name);
    if (!text)
      snprintf(number, sizeof number, "%lld", (long long)n);
    return kvconfig_set(c, key, text ? value_to_string(v) : number, err);
  }
  const char *near = err_nearest(name, known, ARRAY_LEN(known));
  return err_set(err, ERR_INVALID,
                 "vLLM has no field %.40s%s%s%s; there are enable_kv_cache_events, publisher, "
                 "endpoint, replay_endpoint, buffer_steps, hwm, max_queue_size, topic",
                 name, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

static int set_members(struct kvconfig *c, const struct value *v, struct err *err) {
  const struct value *enable = value_get(v, "enable_kv_cache_events");
  const struct value *publisher = value_get(v, "publisher");
  const char *kind = publisher && publisher->kind == VALUE_STRING ? value_to_string(publisher)
                     : publisher && publisher->kind != VALUE_NULL ? ""
                                                                  : "zmq";
  if (!enable || enable->kind != VALUE_BOOL)
    return err_set(err, ERR_INVALID,
                   "enable_kv_cache_events should be true; without it vLLM publishes nothing");
  if (strcmp(kind, "zmq") != 0 && strcmp(kind, "null") != 0)
    return err_set(err, ERR_INVALID, "publisher is \"zmq\" or \"null\"");
  c->replay = false; /* vLLM has none unless it is told where */
  for (size_t i = 0; i < v->u.object.n; i++) {
    const struct value_pair *pair = &v->u.object.pairs[i];
    if (strcmp(pair->key, "enable_kv_cache_events") == 0 || strcmp(pair->key, "publisher") == 0)
      continue;
    if (set_member(c, pair->key, &pair->value, err))
      return err->code;
  }
  c->on = enable->u.boolean && strcmp(kind, "zmq") == 0;
  return 0;
}

static int set_config(struct kvconfig *c, const char *text, struct err *err) {
  struct value v;
  struct kvconfig changed = *c;
  int rc = json_parse(text, strlen(text), &v, err);
  if (rc)
    return err_prefix(err, "kv_events_config");
  if (v.kind != VALUE_OBJECT)
    rc = err_set(err, ERR_INVALID, "a JSON object is needed, as vLLM's --kv-events-config takes");
  else
    rc = set_members(&changed, &v, err);
  value_free(&v);
  if (rc)
    return err_prefix(err, "kv_events_config");
  *c = changed;
  return 0;
}

int kvconfig_set(struct kvconfig *c, const char *name, const char *text, struct err *err) {
  const struct key *k = keys;
  while (strcmp(k->name, name) != 0)
    k++;
  assert(k < keys + ARRAY_LEN(keys));
  int rc = 0;
  switch (k->kind) {
  case SWITCH:
    return set_switch(c, text, err);
  case CONFIG:
    return set_config(c, text, err);
  case SCHEME:
    return set_scheme(c, k, text, err);
  case SEED:
    rc = set_text(c, k, text, err);
    c->seed_set |= !rc;
    return rc;
  case HASHES:
    rc = set_hashes(c, text, err);
    break;
  case WHOLE:
    rc = set_whole(c, k, text, err);
    break;
  case TEXT:
    rc = set_text(c, k, text, err);
    break;
  case ENDPOINT:
  case REPLAY_ENDPOINT:
    rc = set_endpoint(c, k, text, err);
    break;
  }
  if (!rc)
    c->on = true;
  return rc;
}

/* ---- endpoints ---- */

/* The first port of a range that replicas bind one by one; 0: none is, or any will do. */
static long first_port(const struct kvconfig *c, bool replay) {
  const char *text = replay ? c->replay_endpoint : c->endpoint;
  if (!*text)
    return replay ? c->replay_port : c->port;
  return strncmp(text, "tcp://", 6) == 0 && (replay || is_bound(text)) ? port_of(text) : 0;
}

int kvconfig_check(const struct kvconfig *c, size_t n, struct err *err) {
  if (!c->on)
    return 0;
  long events = first_port(c, false), replay = c->replay ? first_port(c, true) : 0;
  long more = (long)n - 1;
  if (events + more > 65535 && events)
    return err_set(err, ERR_INVALID, "kv_events: port %ld and %ld following ones go beyond 65535",
                   events, more);
  if (replay + more > 65535 && replay)
    return err_set(err, ERR_INVALID,
                   "kv_events: replay port %ld and %ld following ones go beyond 65535", replay,
                   more);
  if (events && replay && events <= replay + more && replay <= events + more)
    return err_set(err, ERR_INVALID,
                   "kv_events: %zu replicas publish on ports %ld to %ld and answer replays on %ld "
                   "to %ld; leave at least %zu between them, or say port 0",
                   n, events, events + more, replay, replay + more, n);
  return 0;
}

void kvconfig_endpoint(const struct kvconfig *c, const char *host, size_t replica, bool replay,
                       struct kvconfig_endpoint *out) {
  const char *text = replay ? c->replay_endpoint : c->endpoint;
  uint32_t port = replay ? c->replay_port : c->port;
  out->connect = *text && !replay && !is_bound(text);
  if (!*text) {
    bool v6 = strchr(host, ':') != NULL;
    snprintf(out->text, sizeof out->text, v6 ? "tcp://[%.64s]:%u" : "tcp://%.64s:%u", host,
             port ? port + (uint32_t)replica : 0);
  } else if (out->connect || replica == 0) {
    snprintf(out->text, sizeof out->text, "%s", text);
  } else if (strncmp(text, "ipc://", 6) == 0) {
    snprintf(out->text, sizeof out->text, "%s.r%zu", text, replica);
  } else {
    long first = port_of(text);
    snprintf(out->text, sizeof out->text, "%.*s:%ld", (int)(strrchr(text, ':') - text), text,
             first ? first + (long)replica : 0);
  }
}

void kvconfig_seed(const struct kvconfig *c, uint64_t seed, char out[64]) {
  bool known = strncmp(c->scheme, "vllm-sha256", 11) == 0;
  if (c->seed_set)
    snprintf(out, 64, "%s", c->seed);
  else if (known)
    snprintf(out, 64, "vllm-none-hash");
  else
    snprintf(out, 64, "os.urandom %016llx", (unsigned long long)seed);
}

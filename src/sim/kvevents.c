/* kvevents.c: events to batches, batches to the socket, in time or not. */
#include "sim/kvevents.h"

#include <stdio.h>
#include <string.h>

#include "base/blob.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "io/loop.h"
#include "kv/pubhash.h"
#include "sim/kvreplay.h"

/* A port that was closed is free when libzmq's thread has seen it. */
#define REOPEN_NS (2 * NS_PER_MS)
#define REOPEN_FOR_NS (5 * NS_PER_S)

struct late {
  struct blob *batch;
  uint64_t number, due_ns;
  bool lost;
};

struct kvevents {
  struct kvevents_options options;
  struct kvwire wire;
  struct pubhash *hashes;
  struct zmqsock *pub;
  struct kvreplay *replay;          /* NULL: off */
  char bound[2][160], told[2][160]; /* events, replay */
  struct buf topic, batch;
  struct rng rng;
  struct late *late; /* a ring: n_late from late_head on */
  size_t n_late, cap_late, late_head;
  uint64_t last_due_ns;
  struct loop_timer late_timer, reopen_timer;
  uint64_t reopen_until_ns;
  struct kvevents_counts counts;
  bool ended;
};

/* ---- sockets ---- */

/* Bound to every address: how it is reached from here. */
static void tell(char *out, size_t size, const char *endpoint) {
  static const char any4[] = "tcp://0.0.0.0:", any6[] = "tcp://[::]:";
  if (strncmp(endpoint, any4, sizeof any4 - 1) == 0)
    snprintf(out, size, "tcp://127.0.0.1:%s", endpoint + sizeof any4 - 1);
  else if (strncmp(endpoint, any6, sizeof any6 - 1) == 0)
    snprintf(out, size, "tcp://[::1]:%s", endpoint + sizeof any6 - 1);
  else
    snprintf(out, size, "%s", endpoint);
}

static void note_bound(struct kvevents *k, bool replay, const char *endpoint) {
  snprintf(k->bound[replay], sizeof k->bound[replay], "%s", endpoint);
  tell(k->told[replay], sizeof k->told[replay], endpoint);
}

/* On the ports of before, if there was one. What is open already stays. */
static int open_sockets(struct kvevents *k, struct err *err) {
  const struct kvevents_options *o = &k->options;
  struct kvconfig_endpoint e;
  int rc = 0;
  kvconfig_endpoint(o->config, o->host, o->number, false, &e);
  struct zmqsock_options pub = {.kind = ZMQSOCK_PUB,
                                .endpoint = *k->bound[false] ? k->bound[false] : e.text,
                                .connect = e.connect,
                                .hwm = o->config->hwm};
  if (!k->pub)
    rc = zmqsock_open(o->loop, o->hub, &pub, &k->pub, err);
  if (!rc)
    note_bound(k, false, zmqsock_endpoint(k->pub));
  if (rc || !k->replay || *kvreplay_endpoint(k->replay))
    return rc;
  kvconfig_endpoint(o->config, o->host, o->number, true, &e);
  rc = kvreplay_listen(k->replay, o->hub, *k->bound[true] ? k->bound[true] : e.text, err);
  if (!rc)
    note_bound(k, true, kvreplay_endpoint(k->replay));
  return rc;
}

static void on_reopen(struct loop_timer *timer) {
  struct kvevents *k = CONTAINER_OF(timer, struct kvevents, reopen_timer);
  struct err err;
  if (open_sockets(k, &err) == 0)
    return;
  uint64_t now = loop_now(k->options.loop);
  if (now < k->reopen_until_ns)
    loop_timer_set(k->options.loop, timer, now + REOPEN_NS);
  else
    log_error("KV events stay off replica=%s reason=\"%s\"", k->options.id, err.text);
}

/* ---- leaving ---- */

static void leave(struct kvevents *k, const struct late *m) {
  uint8_t number[KVWIRE_SEQUENCE_BYTES];
  kvwire_put_sequence(number, m->number);
  struct zmqsock_part parts[] = {{.data = k->topic.data, .len = k->topic.len},
                                 {.data = number, .len = sizeof number},
                                 {.data = m->batch->data, .len = m->batch->len}};
  if (!m->lost && k->pub) {
    int rc = zmqsock_send(k->pub, parts, ARRAY_LEN(parts));
    assert(rc == 0); /* PUB */
    (void)rc;
    k->counts.sent++;
  }
  if (k->replay)
    kvreplay_keep(k->replay, m->batch);
  blob_unref(m->batch);
}

static void leave_first(struct kvevents *k) {
  struct late m = k->late[k->late_head];
  k->late_head = (k->late_head + 1) % k->cap_late;
  k->n_late--;
  leave(k, &m);
}

static void on_late(struct loop_timer *timer) {
  struct kvevents *k = CONTAINER_OF(timer, struct kvevents, late_timer);
  uint64_t now = loop_now(k->options.loop);
  while (k->n_late && k->late[k->late_head].due_ns <= now)
    leave_first(k);
  if (k->n_late)
    loop_timer_set(k->options.loop, timer, k->late[k->late_head].due_ns);
}

static void wait_in_line(struct kvevents *k, struct late m) {
  if (k->n_late == k->options.config->max_queue_size)
    leave_first(k); /* no room: the oldest need not wait any longer */
  if (k->n_late == k->cap_late) {
    size_t cap = k->cap_late ? k->cap_late * 2 : 64;
    struct late *late = mem_calloc(cap, sizeof *late);
    for (size_t i = 0; i < k->n_late; i++)
      late[i] = k->late[(k->late_head + i) % k->cap_late];
    mem_free(k->late);
    k->late = late;
    k->cap_late = cap;
    k->late_head = 0;
  }
  k->late[(k->late_head + k->n_late++) % k->cap_late] = m;
  loop_timer_set(k->options.loop, &k->late_timer, k->late[k->late_head].due_ns);
}

static bool is_lost(struct kvevents *k) {
  struct eventshaping *s = k->options.shaping;
  bool lost = s->drop_count > 0;
  if (lost)
    s->drop_count--;
  else
    lost = s->drop_p > 0 && rng_unit(&k->rng) < s->drop_p;
  s->dropped += lost;
  k->counts.lost += lost;
  return lost;
}

/* ---- what the replica tells ---- */

/* 0: none, or unloaded while a request runs with it. */
static uint32_t adapter_id(const struct kvevents *k, const char *name) {
  const struct adapter *a = name ? adapters_find(k->options.adapters, name) : NULL;
  return a ? a->id : 0;
}

static void add_event(struct kvevents *k, const struct engine_event *e) {
  static const char *const media[] = {[ENGINE_GPU] = "GPU", [ENGINE_CPU] = "CPU"};
  bool gpu = e->medium == ENGINE_GPU;
  struct pubhash_said said;
  pubhash_event(k->hashes, e, &said);
  if (e->kind == ENGINE_CLEARED) {
    kvwire_add_cleared(&k->batch, &k->wire);
    return;
  }
  if (e->kind == ENGINE_REMOVED) {
    kvwire_add_removed(&k->batch, &k->wire, said.hashes, said.n, media[e->medium], gpu);
    return;
  }
  const struct engine_config *c = k->options.engine;
  struct kvwire_stored s = {
      .hashes = said.hashes,
      .parent = said.parent,
      .n_hashes = said.n,
      .tokens = e->req->tokens + (size_t)e->first_block * c->block_size,
      .block_size = gpu ? c->block_size : c->tiers.chunk_tokens,
      .medium = media[e->medium],
      .lora_id = adapter_id(k, e->req->adapter),
      .lora_name = e->req->adapter,
      .salt = gpu && (!said.parent || k->wire.encoding == KVWIRE_SGLANG) ? e->req->salt : NULL,
      .has_keys = gpu};
  kvwire_add_stored(&k->batch, &k->wire, &s);
}

static void on_events(void *user, const struct engine_event *events, size_t n) {
  struct kvevents *k = user;
  if (k->ended)
    return;
  buf_reset(&k->batch);
  kvwire_begin(&k->batch, n);
  for (size_t i = 0; i < n; i++)
    add_event(k, &events[i]);
  kvwire_end(&k->batch, 0);
}

static void on_publish(void *user, uint64_t now_ns) {
  struct kvevents *k = user;
  if (k->ended || !k->batch.len)
    return;
  double wall_s = (double)((int64_t)now_ns + loop_realtime_offset(k->options.loop)) / 1e9;
  kvwire_set_time(&k->batch, 0, wall_s);
  struct late m = {.batch = blob_from_buf(&k->batch),
                   .number = k->counts.batches++,
                   .due_ns = now_ns + k->options.shaping->delay_ns,
                   .lost = is_lost(k)};
  if (m.due_ns < k->last_due_ns)
    m.due_ns = k->last_due_ns; /* none overtakes another */
  k->last_due_ns = m.due_ns;
  if (k->n_late || m.due_ns > now_ns)
    wait_in_line(k, m);
  else
    leave(k, &m);
}

struct replica_listener kvevents_listener(struct kvevents *k) {
  return (struct replica_listener){.events = on_events, .publish = on_publish, .user = k};
}

/* ---- begin and end ---- */

static void put_topic(struct kvevents *k) {
  const struct kvevents_options *o = &k->options;
  const struct {
    const char *name, *value;
  } words[] = {{"{id}", o->id}, {"{model}", o->model}, {"{address}", o->address}};
  for (const char *p = o->config->topic; *p;) {
    size_t i = 0, len = 1;
    while (i < ARRAY_LEN(words) && strncmp(p, words[i].name, strlen(words[i].name)) != 0)
      i++;
    if (i < ARRAY_LEN(words)) {
      len = strlen(words[i].name);
      buf_puts(&k->topic, words[i].value);
    } else {
      buf_putc(&k->topic, *p);
    }
    p += len;
  }
}

int kvevents_open(const struct kvevents_options *o, struct kvevents **out, struct err *err) {
  struct kvevents *k = MEM_NEW(struct kvevents);
  k->options = *o;
  buf_init(&k->topic, BUF_MAX_OWN);
  buf_init(&k->batch, BUF_MAX_OWN);
  put_topic(k);
  rng_init_bytes(&k->rng, o->seed, "kv events", 9);
  loop_timer_init(&k->late_timer, on_late);
  loop_timer_init(&k->reopen_timer, on_reopen);
  char seed[64];
  kvconfig_seed(o->config, o->seed, seed);
  struct pubhash_options hashes = {.scheme = kvconfig_scheme(o->config),
                                   .seed = seed,
                                   .block_size = o->engine->block_size,
                                   .chunk_tokens = o->engine->tiers.chunk_tokens};
  int rc = pubhash_open(&hashes, &k->hashes, err);
  if (!rc) {
    k->wire = (struct kvwire){.encoding = o->config->encoding,
                              .raw_hashes = o->config->raw_hashes && pubhash_width(k->hashes) > 8,
                              .width = pubhash_width(k->hashes)};
    if (o->config->replay)
      k->replay = kvreplay_new(o->loop, o->config->buffer_steps, KVEVENTS_KEPT_BYTES);
    rc = open_sockets(k, err);
  }
  if (rc) {
    kvevents_close(k);
    return err_prefix(err, "KV events");
  }
  *out = k;
  return 0;
}

void kvevents_end(struct kvevents *k) {
  loop_timer_clear(k->options.loop, &k->late_timer);
  loop_timer_clear(k->options.loop, &k->reopen_timer);
  for (; k->n_late; k->n_late--, k->late_head = (k->late_head + 1) % k->cap_late)
    blob_unref(k->late[k->late_head].batch);
  zmqsock_close(k->pub);
  k->pub = NULL;
  if (k->replay)
    kvreplay_end(k->replay);
  buf_reset(&k->batch);
  k->last_due_ns = 0;
  k->counts = (struct kvevents_counts){0};
  k->ended = true;
}

void kvevents_restart(struct kvevents *k) {
  if (!k->ended)
    kvevents_end(k);
  k->ended = false;
  pubhash_reset(k->hashes);
  k->reopen_until_ns = loop_now(k->options.loop) + REOPEN_FOR_NS;
  on_reopen(&k->reopen_timer);
}

void kvevents_close(struct kvevents *k) {
  if (!k)
    return;
  kvevents_end(k);
  kvreplay_delete(k->replay);
  pubhash_delete(k->hashes);
  buf_free(&k->topic);
  buf_free(&k->batch);
  mem_free(k->late);
  mem_free(k);
}

/* ---- what it shows ---- */

const char *kvevents_endpoint(const struct kvevents *k, bool replay) {
  return k->told[replay];
}

const char *kvevents_topic(const struct kvevents *k) {
  return k->topic.len ? k->topic.data : "";
}

void kvevents_get_counts(const struct kvevents *k, struct kvevents_counts *out) {
  *out = k->counts;
  out->late = k->n_late;
  if (!k->replay)
    return;
  out->kept = kvreplay_kept(k->replay);
  kvreplay_counts(k->replay, &out->replays, &out->refused);
}

struct value kvevents_describe_config(const struct kvconfig *c) {
  char seed[64];
  kvconfig_seed(c, 0, seed);
  static const char *const encodings[] = {"map", "array", "sglang"};
  bool sglang = c->encoding == KVWIRE_SGLANG;
  bool known = !sglang && (c->seed_set || strcmp(seed, "vllm-none-hash") == 0);
  struct value v = value_object();
  value_set(&v, "encoding", value_cstring(encodings[c->encoding]));
  value_set(&v, "hashes", value_cstring(c->raw_hashes && !sglang ? "bytes" : "int"));
  value_set(&v, "hash_scheme", value_cstring(kvconfig_scheme(c)));
  value_set(&v, "hash_seed", known ? value_cstring(seed) : value_null());
  return v;
}

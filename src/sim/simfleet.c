/* simfleet.c: starting and stopping the fleet, and its faults by replica. */
#include "sim/simfleet.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "kv/tierstore.h"
#include "sim/actions.h"
#include "sim/admin.h"

#define FLUSH_NS (100 * NS_PER_MS)

static void on_flush(struct loop_chore *chore) {
  truth_flush(CONTAINER_OF(chore, struct simfleet, flush)->truth);
}

/* Who answers to a remote_engine_id, and still runs. */
static struct simhost *find_engine(void *user, const char *id) {
  const struct simfleet *f = user;
  return simfleet_find(f, id);
}

/* Those that run, by number. */
static struct simhost *host_at(void *user, size_t i) {
  const struct simfleet *f = user;
  return i < f->n_hosts ? f->hosts[i] : NULL;
}

#define MOST_REPLICAS 8192
/* Of KV events: a publisher and a replay socket each, twice: a restarted replica opens its own
 * while the old ones are still being closed. A place costs a few bytes. */
#define MOST_SOCKETS (4 * (size_t)MOST_REPLICAS)

static int start_host(struct simfleet *f, size_t number, struct simhost **out, struct err *err) {
  char id[24];
  snprintf(id, sizeof id, "r%zu", number);
  struct simhost_options host = {
      .in_memory = f->in_memory,
      .watch = f->watch,
      .id = id,
      .host = f->host_name,
      .port = f->port ? f->port + (int)number : 0,
      .model = &f->model,
      .engine = &f->config.engine,
      .profile = &f->config.time,
      .truth = f->truth,
      .seed = f->seed + number * UINT64_C(0xd1342543de82ef95),
      .face = f->face,
      .flags = f->flags,
      .events = f->hub ? &f->config.events : NULL,
      .hub = f->hub,
      .number = number,
      .find = find_engine,
      .peer = host_at,
      .user = f,
  };
  int rc = simhost_start(f->loop, &host, out, err);
  return rc ? err_prefix(err, "replica %s", id) : 0;
}

/* A port that is kept. */
static int start_spare(struct simfleet *f, size_t number, struct simhost **out, struct err *err) {
  int rc = start_host(f, number, out, err);
  if (rc)
    return rc;
  simhost_end(*out, SIMHOST_DOWN);
  (*out)->processes = 0;
  return 0;
}

static int start_hosts(struct simfleet *f, const struct simfleet_options *o, struct err *err) {
  int rc = 0;
  for (size_t i = 0; i < o->n_replicas && !rc; i++) {
    MEM_GROW(f->hosts, f->n_hosts, f->cap_hosts);
    rc = start_host(f, i, &f->hosts[f->n_hosts], err);
    f->n_hosts += rc == 0;
  }
  f->spares = mem_calloc(o->n_spares + 1, sizeof(struct simhost *));
  for (size_t i = 0; i < o->n_spares && !rc; i++) {
    rc = start_spare(f, o->n_replicas + i, &f->spares[i], err);
    f->n_spares += rc == 0;
  }
  return rc;
}

int simfleet_add_host(struct simfleet *f, struct simhost **out, struct err *err) {
  if (f->n_hosts >= MOST_REPLICAS)
    return err_set(err, ERR_LIMIT, "a fleet has at most %d replicas", MOST_REPLICAS);
  if (f->port && f->port + (int64_t)f->n_hosts > 65535)
    return err_set(err, ERR_LIMIT, "the port behind the last replica's is beyond 65535");
  if (!f->n_spares && kvconfig_check(&f->config.events, f->n_hosts + 1, err))
    return err_prefix(err, "one replica more");
  if (f->n_spares) {
    *out = f->spares[0];
    memmove(f->spares, f->spares + 1, --f->n_spares * sizeof *f->spares);
  } else {
    int rc = start_spare(f, f->n_hosts, out, err);
    if (rc)
      return rc;
  }
  MEM_GROW(f->hosts, f->n_hosts, f->cap_hosts);
  f->hosts[f->n_hosts++] = *out;
  return 0;
}

static const char *model_name(const struct simfleet_options *o) {
  return o->model ? o->model : SIMFLEET_MODEL;
}

static int check_names(const struct simfleet_options *o, struct err *err) {
  const char *model = model_name(o);
  if (!adapters_name_ok(model, strlen(model)))
    return err_set(err, ERR_INVALID, "--model: a name is UTF-8 without control characters");
  if (adapters_find(&o->adapters, model))
    return err_set(err, ERR_INVALID, "--lora-modules: %.200s is the model's own name", model);
  return 0;
}

int simfleet_start(struct loop *loop, const struct simfleet_options *o, struct simfleet **out,
                   struct err *err) {
  assert(o->n_replicas >= 1);
  size_t n = o->n_replicas + o->n_spares;
  if (o->port + (int64_t)n - 1 > 65535)
    return err_set(err, ERR_INVALID, "port %d and %zu following ones go beyond 65535", o->port,
                   n - 1);
  if (o->port && o->admin_port >= o->port && o->admin_port < o->port + (int)n)
    return err_set(err, ERR_INVALID, "admin port %d is that of replica r%d; choose another",
                   o->admin_port, o->admin_port - o->port);
  int rc = check_names(o, err);
  if (rc)
    return rc;
  struct simfleet *f = MEM_NEW(struct simfleet);
  f->loop = loop;
  f->config = o->config;
  if (o->face == FACE_SGLANG)
    kvconfig_play_sglang(&f->config.events);
  if (simconfig_check(&f->config, err) || kvconfig_check(&f->config.events, n, err)) {
    mem_free(f);
    return ERR_INVALID;
  }
  if (f->config.shared_chunks)
    f->config.engine.tiers.shared = f->shared = tierstore_new(f->config.shared_chunks);
  f->seed = o->seed;
  f->face = o->face;
  adapters_copy(&f->adapters, &o->adapters);
  f->host_name = o->host ? mem_strdup(o->host) : NULL;
  f->port = o->port;
  f->flags = o->flags;
  f->in_memory = o->in_memory;
  f->watch = o->watch;
  f->actions = simactions_new(f);
  f->model_name = mem_strdup(model_name(o));
  f->model = (struct genmodel){.name = f->model_name,
                               .max_model_len = f->config.engine.max_model_len,
                               .block_size = f->config.engine.block_size,
                               .reasoning_tokens = f->config.reasoning_tokens,
                               .tools = f->config.tools,
                               .adapters = &f->adapters,
                               .seed = o->seed};
  f->model.loop = loop;
  rc = genmodel_open(&f->model, &o->text, err);
  if (!rc && o->truth) {
    f->truth = truth_open(o->truth, err);
    rc = f->truth ? 0 : ERR_IO;
  }
  if (!rc && f->config.events.on)
    rc = zmqsock_hub_new(MOST_SOCKETS, &f->hub, err);
  if (!rc)
    rc = start_hosts(f, o, err);
  if (!rc && !o->in_memory)
    rc = admin_start(f, o->admin_port, &f->admin, err);
  if (rc) {
    simfleet_stop(f);
    return rc;
  }
  if (f->truth)
    loop_chore_start(loop, &f->flush, on_flush, FLUSH_NS);
  *out = f;
  return 0;
}

int simfleet_stop(struct simfleet *f) {
  admin_stop(f->admin);
  simactions_delete(f->actions);
  for (size_t i = 0; i < f->n_hosts; i++)
    simhost_stop(f->hosts[i]);
  for (size_t i = 0; i < f->n_spares; i++)
    simhost_stop(f->spares[i]);
  loop_chore_stop(&f->flush);
  int rc = truth_close(f->truth);
  zmqsock_hub_delete(f->hub);
  genmodel_close(&f->model);
  tierstore_delete(f->shared);
  mem_free(f->hosts);
  adapters_free(&f->adapters);
  mem_free(f->spares);
  mem_free(f->host_name);
  mem_free(f->model_name);
  mem_free(f);
  return rc;
}

struct simhost *simfleet_find(const struct simfleet *f, const char *replica) {
  for (size_t i = 0; i < f->n_hosts; i++)
    if (simfleet_names(replica, i))
      return f->hosts[i];
  return NULL;
}

static int add_fault(struct simfleet *f, const char *replica, const struct fault *fault,
                     struct err *err) {
  if (!replica || strcmp(replica, "*") == 0) {
    for (size_t i = 0; i < f->n_hosts; i++)
      simhost_add_fault(f->hosts[i], fault);
    return 0;
  }
  struct simhost *h = simfleet_find(f, replica);
  if (!h)
    return err_set(err, ERR_NOT_FOUND, "no replica \"%s\"; there are r0 to r%zu", replica,
                   f->n_hosts - 1);
  simhost_add_fault(h, fault);
  return 0;
}

int simfleet_add_fault(struct simfleet *f, const char *replica, const char *spec, struct err *err) {
  struct fault fault;
  int rc = faults_parse(spec, &fault, err);
  return rc ? rc : add_fault(f, replica, &fault, err);
}

int simfleet_parse_fault(const char *text, char **replica, struct fault *out, struct err *err) {
  /* A colon before the first space or equals sign ends a replica's name. */
  size_t len = strcspn(text, ": =");
  bool named = text[len] == ':';
  int rc = faults_parse(named ? text + len + 1 : text, out, err);
  *replica = named && !rc ? mem_strndup(text, len) : NULL;
  return rc;
}

int simfleet_add_fault_text(struct simfleet *f, const char *text, struct err *err) {
  struct fault fault;
  char *replica;
  int rc = simfleet_parse_fault(text, &replica, &fault, err);
  if (!rc)
    rc = add_fault(f, replica, &fault, err);
  mem_free(replica);
  return rc;
}

bool simfleet_names(const char *replica, size_t index) {
  char id[24];
  snprintf(id, sizeof id, "r%zu", index);
  return strcmp(replica, id) == 0 || strcmp(replica, id + 1) == 0;
}

static void describe_events(const struct kvevents *k, struct value *replica) {
  const char *replay = kvevents_endpoint(k, true);
  value_set(replica, "kv_events", value_cstring(kvevents_endpoint(k, false)));
  value_set(replica, "kv_events_replay", *replay ? value_cstring(replay) : value_null());
  value_set(replica, "kv_events_topic", value_cstring(kvevents_topic(k)));
}

static void describe_hosts(struct simhost *const *hosts, size_t n, struct value *out) {
  for (size_t i = 0; i < n; i++) {
    struct value *r = value_push(out, value_object());
    value_set(r, "id", value_cstring(hosts[i]->id));
    value_set(r, "url", value_cstring(hosts[i]->url));
    if (hosts[i]->kv)
      describe_events(hosts[i]->kv, r);
  }
}

struct value simfleet_describe(const struct simfleet *f) {
  struct value v = value_object();
  describe_hosts(f->hosts, f->n_hosts, value_set(&v, "replicas", value_array()));
  if (f->n_spares)
    describe_hosts(f->spares, f->n_spares, value_set(&v, "spares", value_array()));
  if (f->admin) {
    struct value *admin = value_set(&v, "admin", value_object());
    value_set(admin, "url", value_cstring(admin_url(f->admin)));
    value_set(admin, "token", value_cstring(admin_token(f->admin)));
  }
  value_set(&v, "model", value_cstring(f->model.name));
  value_set(&v, "profile", value_cstring(f->config.time.name));
  value_set(&v, "face", value_cstring(face_get(f->face)->name));
  genmodel_describe(&f->model, &v);
  value_set(&v, "history_repeats", value_bool(!f->model.speech || f->model.speech->repeats));
  value_set(&v, "max_model_len", value_int(f->config.engine.max_model_len));
  value_set(&v, "block_size", value_int(f->config.engine.block_size));
  value_set(&v, "kv_blocks", value_int(f->config.engine.num_blocks - 1));
  if (f->hub)
    value_set(&v, "kv_events", kvevents_describe_config(&f->config.events));
  value_set(&v, "simulated", value_bool(true));
  return v;
}

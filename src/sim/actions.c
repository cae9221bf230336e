/* actions.c: restarts, kills, drains, pressure and faults, done now or ended by timers. */
#include "sim/actions.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "sim/actionfields.h"
#include "sim/actionrules.h"
#include "sim/generation.h"
#include "sim/simfleet.h"

/* One replica's part of an action that takes time. */
struct part {
  struct loop_timer timer;
  struct act *act;
  struct simhost *host;
  void (*end)(struct part *part); /* what happens then; the part is over afterwards */
  uint64_t serial;                /* fault, pressure, events: what is to end */
  uint64_t due_ns;                /* 0: not known, a drain without a timeout */
  uint64_t idle_ns, deadline_ns;  /* drain: idle since (0: not), 0 = no deadline */
  bool keep;                      /* drain */
  struct part *next;
};

struct act {
  uint64_t id;
  const char *name;
  struct simactions *all;
  struct part *parts; /* that are not over */
  struct act *next;
};

struct simactions {
  struct simfleet *fleet;
  uint64_t last_id, last_serial;
  struct act *acts; /* that are under way */
  struct simactions_watch *watches;
};

/* What is known of the action that is being done. */
struct doing {
  struct simfleet *fleet;
  const struct value *body;
  struct simhost **hosts; /* that it is for */
  size_t n;
  struct act *act;
  struct value *answer;
};

/* ---- the end of what takes time ---- */

static void tell_watches(struct simactions *all, uint64_t id) {
  for (struct simactions_watch **at = &all->watches; *at;) {
    struct simactions_watch *w = *at;
    if (w->id != id) {
      at = &w->next;
      continue;
    }
    *at = w->next;
    w->fn(w); /* may add others: begin again */
    at = &all->watches;
  }
}

static void delete_act(struct simactions *all, struct act *act) {
  struct act **at = &all->acts;
  while (*at != act)
    at = &(*at)->next;
  *at = act->next;
  mem_free(act);
}

static void end_part(struct part *part) {
  struct act *act = part->act;
  struct part **at = &act->parts;
  loop_timer_clear(act->all->fleet->loop, &part->timer);
  while (*at != part)
    at = &(*at)->next;
  *at = part->next;
  mem_free(part);
  if (act->parts)
    return;
  struct simactions *all = act->all;
  uint64_t id = act->id;
  delete_act(all, act);
  tell_watches(all, id);
}

static void on_part_due(struct loop_timer *timer) {
  struct part *part = CONTAINER_OF(timer, struct part, timer);
  part->end(part);
}

static struct part *add_part(struct doing *d, struct simhost *h, uint64_t after_ns,
                             void (*end)(struct part *)) {
  struct part *part = MEM_NEW(struct part);
  part->act = d->act;
  part->host = h;
  part->end = end;
  part->next = d->act->parts;
  d->act->parts = part;
  loop_timer_init(&part->timer, on_part_due);
  part->due_ns = loop_now(d->fleet->loop) + after_ns;
  loop_timer_set(d->fleet->loop, &part->timer, part->due_ns);
  return part;
}

/* ---- restart, kill, add ---- */

static void begin_process(struct part *part) {
  struct err err;
  if (simhost_begin(part->host, &err))
    log_error("replica does not come back replica=%s reason=\"%s\"", part->host->id, err.text);
  end_part(part);
}

static void on_drain_look(struct part *part);
static void release_pressure(struct part *part);
static void end_fault(struct part *part);

static bool is_of_process(const struct part *p) {
  return p->end == begin_process || p->end == on_drain_look || p->end == release_pressure;
}

static bool is_of_fault(const struct part *p) {
  return p->end == end_fault;
}

/* What was to happen to this replica later, of one kind, is void. */
static void drop_parts(struct simactions *all, const struct simhost *h,
                       bool (*which)(const struct part *part)) {
  for (struct act *act = all->acts; act;) {
    struct act *next = act->next;
    for (struct part *part = act->parts; part;) {
      struct part *following = part->next;
      if (part->host == h && which(part)) {
        bool last = act->parts == part && !following;
        end_part(part); /* with the last part the act is gone */
        if (last)
          break;
      }
      part = following;
    }
    act = next;
  }
}

static int do_restart(struct doing *d, struct err *err) {
  double down_s = ACTIONS_DOWN_S;
  int rc = actionfields_seconds(d->body, "down", &down_s, err);
  for (size_t i = 0; i < d->n && !rc; i++)
    if (d->hosts[i]->life == SIMHOST_STARTING)
      rc = err_set(err, ERR_LIMIT, "replica %s is starting already", d->hosts[i]->id);
  for (size_t i = 0; i < d->n && !rc; i++) {
    struct simhost *h = d->hosts[i];
    drop_parts(d->act->all, h, is_of_process);
    if (h->life == SIMHOST_DOWN)
      simhost_set_life(h, SIMHOST_STARTING);
    else
      simhost_end(h, SIMHOST_STARTING);
    add_part(d, h, (uint64_t)(down_s * 1e9), begin_process);
  }
  return rc;
}

static int do_kill(struct doing *d, struct err *err) {
  for (size_t i = 0; i < d->n; i++)
    if (d->hosts[i]->life == SIMHOST_DOWN)
      return err_set(err, ERR_LIMIT, "replica %s is down already", d->hosts[i]->id);
  for (size_t i = 0; i < d->n; i++) {
    drop_parts(d->act->all, d->hosts[i], is_of_process);
    simhost_end(d->hosts[i], SIMHOST_DOWN);
  }
  return 0;
}

static int do_add(struct doing *d, struct err *err) {
  double start_s = 0;
  struct simhost *h;
  int rc = actionfields_seconds(d->body, "start", &start_s, err);
  if (!rc)
    rc = simfleet_add_host(d->fleet, &h, err);
  if (rc)
    return rc;
  value_push(value_get(d->answer, "replicas"), value_cstring(h->id));
  value_set(d->answer, "url", value_cstring(h->url));
  if (!(start_s > 0))
    return simhost_begin(h, err);
  simhost_set_life(h, SIMHOST_STARTING);
  add_part(d, h, (uint64_t)(start_s * 1e9), begin_process);
  return 0;
}

/* ---- drain ---- */

static void on_drain_look(struct part *part) {
  struct simhost *h = part->host;
  struct loop *loop = part->act->all->fleet->loop;
  uint64_t now = loop_now(loop);
  if (generation_open(h))
    part->idle_ns = 0;
  else if (!part->idle_ns)
    part->idle_ns = now;
  bool idle = part->idle_ns && now - part->idle_ns >= ACTIONS_DRAIN_IDLE_NS;
  bool late = part->deadline_ns && now >= part->deadline_ns;
  if (!idle && !late) {
    loop_timer_set(loop, &part->timer, now + ACTIONS_DRAIN_LOOK_NS);
    return;
  }
  if (part->keep) {
    end_part(part);
    return;
  }
  simhost_end(h, SIMHOST_DOWN);
  drop_parts(part->act->all, h, is_of_process); /* this one too */
}

static int do_drain(struct doing *d, struct err *err) {
  static const char *const words[] = {"down", "keep", NULL};
  double timeout_s = 0;
  int after = 0;
  int rc = actionfields_word(d->body, "after", words, &after, err);
  if (!rc)
    rc = actionfields_seconds(d->body, "timeout", &timeout_s, err);
  for (size_t i = 0; i < d->n && !rc; i++)
    if (d->hosts[i]->life != SIMHOST_UP)
      rc = err_set(err, ERR_LIMIT, "replica %s is %s: only one that is up can be drained",
                   d->hosts[i]->id, simhost_life_name(d->hosts[i]->life));
  for (size_t i = 0; i < d->n && !rc; i++) {
    simhost_set_life(d->hosts[i], SIMHOST_DRAINING);
    struct part *part = add_part(d, d->hosts[i], 0, on_drain_look);
    part->keep = after == 1;
    if (timeout_s > 0)
      part->deadline_ns = loop_now(d->fleet->loop) + (uint64_t)(timeout_s * 1e9);
    part->due_ns = part->deadline_ns;
  }
  return rc;
}

/* ---- the cache ---- */

static void release_pressure(struct part *part) {
  replica_release_fill(part->host->replica, part->serial);
  simhost_kick(part->host);
  end_part(part);
}

static bool has_cache(const struct simhost *h) {
  return h->life == SIMHOST_UP || h->life == SIMHOST_DRAINING;
}

static int do_pressure(struct doing *d, struct err *err) {
  const struct engine_config *config = &d->fleet->config.engine;
  double lasts_s = 0;
  uint32_t blocks = 0;
  int rc = actionfields_blocks(d->body, config->num_blocks - 1, config->block_size, &blocks, err);
  if (!rc)
    rc = actionfields_seconds(d->body, "lasts", &lasts_s, err);
  if (rc)
    return rc;
  struct value taken = value_object(), evicted = value_object(), refused = value_object();
  for (size_t i = 0; i < d->n; i++) {
    struct simhost *h = d->hosts[i];
    if (!has_cache(h)) {
      value_set(&refused, h->id, value_cstring(simhost_life_name(h->life)));
      continue;
    }
    struct engine_totals before, after;
    uint64_t hold = 0;
    engine_get_totals(replica_engine(h->replica), &before);
    uint32_t n = replica_fill(h->replica, blocks, loop_now(h->loop), lasts_s > 0 ? &hold : NULL);
    engine_get_totals(replica_engine(h->replica), &after);
    value_set(&taken, h->id, value_int(n));
    value_set(&evicted, h->id, value_int((int64_t)(after.removed - before.removed)));
    if (hold)
      add_part(d, h, (uint64_t)(lasts_s * 1e9), release_pressure)->serial = hold;
  }
  if (!value_count(&taken))
    rc = err_set(err, ERR_LIMIT, "replica %s is %s: it has no cache to fill%s", d->hosts[0]->id,
                 simhost_life_name(d->hosts[0]->life), d->n > 1 ? ", and the others neither" : "");
  value_set(d->answer, "blocks", taken);
  value_set(d->answer, "evicted_blocks", evicted);
  value_set(d->answer, "refused", refused);
  return rc;
}

static int do_reset_cache(struct doing *d, struct err *err) {
  bool running = false;
  int rc = actionfields_bool(d->body, "reset_running", &running, err);
  if (rc)
    return rc;
  struct value done = value_array(), refused = value_object();
  char why[80] = "";
  for (size_t i = 0; i < d->n; i++) {
    struct simhost *h = d->hosts[i];
    uint32_t used =
        d->fleet->config.engine.num_blocks - 1 - engine_free_blocks(replica_engine(h->replica));
    if (replica_reset_cache(h->replica, running)) {
      value_push(&done, value_cstring(h->id));
    } else {
      snprintf(why, sizeof why, "%u block%s in use%s", used, used == 1 ? "" : "s",
               running ? ", held by pressure or a transfer" : "");
      value_set(&refused, h->id, value_cstring(why));
    }
    simhost_kick(h);
  }
  if (!value_count(&done))
    rc = err_set(err, ERR_LIMIT, "no cache was reset: replica %s has %s%s%s", d->hosts[0]->id,
                 value_to_string(value_get(&refused, d->hosts[0]->id)),
                 d->n > 1 ? ", the others refuse too" : "",
                 running ? "" : "; reset_running = true empties it all the same");
  value_set(d->answer, "reset", done);
  value_set(d->answer, "refused", refused);
  return rc;
}

/* ---- faults and events ---- */

static void end_fault(struct part *part) {
  struct err err;
  simhost_end_fault(part->host, part->serial, &err);
  end_part(part);
}

static int do_fault(struct doing *d, struct err *err) {
  double lasts_s = 0;
  struct fault fault;
  int rc = actionrules_fault(d->body, &fault, err);
  if (!rc)
    rc = actionfields_seconds(d->body, "lasts", &lasts_s, err);
  for (size_t i = 0; i < d->n && !rc; i++) {
    uint64_t serial = simhost_add_fault(d->hosts[i], &fault);
    if (lasts_s > 0)
      add_part(d, d->hosts[i], (uint64_t)(lasts_s * 1e9), end_fault)->serial = serial;
  }
  return rc;
}

static int do_clear_faults(struct doing *d, struct err *err) {
  int rc = 0;
  for (size_t i = 0; i < d->n && !rc; i++)
    rc = simhost_clear_faults(d->hosts[i], err);
  for (size_t i = 0; i < d->n && !rc; i++)
    drop_parts(d->act->all, d->hosts[i], is_of_fault);
  return rc;
}

static int need_events(const struct doing *d, struct err *err) {
  if (d->fleet->hub)
    return 0;
  return err_set(err, ERR_LIMIT,
                 "the fleet publishes no KV events: start it with --sim-set kv_events=on (perigee "
                 "sim: --set kv_events=on)");
}

static void end_delay(struct part *part) {
  struct eventshaping *s = &part->host->shaping;
  if (s->delay_serial == part->serial)
    s->delay_ns = 0;
  end_part(part);
}

static int do_delay_events(struct doing *d, struct err *err) {
  double delay_s = -1, lasts_s = 0;
  int rc = actionfields_seconds(d->body, "delay", &delay_s, err);
  if (!rc && delay_s < 0)
    rc = err_set(err, ERR_INVALID, "delay: a time such as \"500ms\" is required");
  if (!rc)
    rc = actionfields_seconds(d->body, "lasts", &lasts_s, err);
  if (!rc)
    rc = need_events(d, err);
  uint64_t serial = ++d->act->all->last_serial;
  for (size_t i = 0; i < d->n && !rc; i++) {
    d->hosts[i]->shaping.delay_ns = (uint64_t)(delay_s * 1e9);
    d->hosts[i]->shaping.delay_serial = serial;
    if (lasts_s > 0)
      add_part(d, d->hosts[i], (uint64_t)(lasts_s * 1e9), end_delay)->serial = serial;
  }
  return rc;
}

static void end_drop(struct part *part) {
  struct eventshaping *s = &part->host->shaping;
  if (s->drop_serial == part->serial) {
    s->drop_p = 0;
    s->drop_count = 0;
  }
  end_part(part);
}

static int do_drop_events(struct doing *d, struct err *err) {
  double p = 1, lasts_s = 0;
  int64_t count = 0;
  bool counted = value_get(d->body, "count") != NULL;
  if (counted && value_get(d->body, "p"))
    return err_set(err, ERR_INVALID, "p and count: give one of them");
  int rc = actionfields_ratio(d->body, "p", &p, err);
  if (!rc)
    rc = actionfields_count(d->body, "count", 1, &count, err);
  if (!rc)
    rc = actionfields_seconds(d->body, "lasts", &lasts_s, err);
  if (!rc)
    rc = need_events(d, err);
  uint64_t serial = ++d->act->all->last_serial;
  for (size_t i = 0; i < d->n && !rc; i++) {
    struct eventshaping *s = &d->hosts[i]->shaping;
    s->drop_p = counted ? 0 : p;
    s->drop_count = (uint64_t)count;
    s->drop_serial = serial;
    if (lasts_s > 0)
      add_part(d, d->hosts[i], (uint64_t)(lasts_s * 1e9), end_drop)->serial = serial;
  }
  return rc;
}

/* ---- which ---- */

static int (*const doers[ACTION_COUNT])(struct doing *d, struct err *err) = {
    [ACTION_ADD] = do_add,
    [ACTION_CLEAR_FAULTS] = do_clear_faults,
    [ACTION_DELAY_EVENTS] = do_delay_events,
    [ACTION_DRAIN] = do_drain,
    [ACTION_DROP_EVENTS] = do_drop_events,
    [ACTION_FAULT] = do_fault,
    [ACTION_KILL] = do_kill,
    [ACTION_PRESSURE] = do_pressure,
    [ACTION_RESET_CACHE] = do_reset_cache,
    [ACTION_RESTART] = do_restart,
};

/* The replicas that the action is for, into d->hosts. */
static int find_hosts(struct doing *d, const struct actionrules *k, struct err *err) {
  struct simfleet *f = d->fleet;
  const struct value *v = value_get(d->body, "replica");
  bool none = !v || v->kind == VALUE_NULL;
  if (k->who == ACTION_FOR_NONE)
    return 0;
  if (none && k->who == ACTION_FOR_NAMED)
    return err_set(err, ERR_INVALID, "replica: say which, as in \"r0\", or \"*\" for all");
  const char *name = value_to_string(v);
  if (!none && !name)
    return err_set(err, ERR_INVALID, "replica should be a string such as \"r0\", or \"*\"");
  d->hosts = mem_calloc(f->n_hosts, sizeof(struct simhost *));
  if (none || strcmp(name, "*") == 0) {
    memcpy(d->hosts, f->hosts, f->n_hosts * sizeof(struct simhost *));
    d->n = f->n_hosts;
    return 0;
  }
  struct simhost *h = simfleet_find(f, name);
  if (!h)
    return err_set(err, ERR_NOT_FOUND, "no replica \"%.60s\"; there are r0 to r%zu", name,
                   f->n_hosts - 1);
  d->hosts[0] = h;
  d->n = 1;
  return 0;
}

int simfleet_act(struct simfleet *fleet, const struct value *action, struct value *answer,
                 struct err *err) {
  struct simactions *all = fleet->actions;
  const struct actionrules *k = actionrules_find(action, err);
  *answer = value_null();
  if (!k)
    return ERR_INVALID;
  struct act *act = MEM_NEW(struct act);
  *act = (struct act){.id = ++all->last_id, .name = k->name, .all = all, .next = all->acts};
  all->acts = act;
  struct doing d = {.fleet = fleet, .body = action, .act = act, .answer = answer};
  int rc = find_hosts(&d, k, err);
  *answer = value_object();
  value_set(answer, "action", value_cstring(k->name));
  value_set(answer, "id", value_int((int64_t)act->id));
  struct value *ids = value_set(answer, "replicas", value_array());
  for (size_t i = 0; i < d.n; i++)
    value_push(ids, value_cstring(d.hosts[i]->id));
  if (!rc)
    rc = doers[k->id](&d, err);
  bool done = !act->parts;
  value_set(answer, "done", value_bool(done));
  if (done)
    delete_act(all, act);
  if (rc)
    value_free(answer);
  mem_free((void *)d.hosts);
  return rc;
}

struct value simactions_under_way(const struct simfleet *fleet, const struct simhost *host) {
  struct value list = value_array();
  for (const struct act *act = fleet->actions->acts; act; act = act->next)
    for (const struct part *part = act->parts; part; part = part->next) {
      if (part->host != host)
        continue;
      struct value *v = value_push(&list, value_object());
      value_set(v, "action", value_cstring(act->name));
      value_set(v, "id", value_int((int64_t)act->id));
      value_set(v, "until_ns", part->due_ns ? value_int((int64_t)part->due_ns) : value_null());
    }
  return list;
}

/* ---- waiting ---- */

bool simactions_watch(struct simfleet *fleet, uint64_t id, struct simactions_watch *watch) {
  for (const struct act *act = fleet->actions->acts; act; act = act->next)
    if (act->id == id) {
      watch->id = id;
      watch->next = fleet->actions->watches;
      fleet->actions->watches = watch;
      return true;
    }
  return false;
}

void simactions_unwatch(struct simfleet *fleet, struct simactions_watch *watch) {
  for (struct simactions_watch **at = &fleet->actions->watches; *at; at = &(*at)->next)
    if (*at == watch) {
      *at = watch->next;
      return;
    }
}

struct simactions *simactions_new(struct simfleet *fleet) {
  struct simactions *all = MEM_NEW(struct simactions);
  all->fleet = fleet;
  return all;
}

void simactions_delete(struct simactions *all) {
  if (!all)
    return;
  all->watches = NULL;
  while (all->acts)
    for (struct part *part = all->acts->parts, *next; part; part = next) {
      next = part->next;
      end_part(part);
    }
  mem_free(all);
}

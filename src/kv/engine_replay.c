/* engine_replay.c: runs a trace through the engine and writes what happened in the form of the
 * golden traces (tests/data/engine/README.md, section 6).
 *
 * The engine's content names are hashes; a trace names contents "b1", "b2", … in the order in which
 * they are first stored, so the runner keeps a table from one to the other. */
#include "kv/engine_impl.h"

#include "base/buf.h"
#include "base/mem.h"
#include "kv/engine_trace.h"
#include "text/json.h"

/* Hash to number, open addressing; number 0 = empty slot. */
struct names {
  struct names_slot {
    uint64_t hash;
    uint32_t number;
  } * slots;
  size_t mask; /* slots − 1 */
  uint32_t n;
  /* Where name k+1 was first stored. */
  struct names_origin {
    const struct engine_request *req;
    uint32_t block;
  } * origins;
  size_t cap_origins;
};

struct replay {
  struct engine_trace trace;
  struct engine *engine;
  struct names names;
  struct buf buf;
};

static struct names_slot *names_slot(const struct names *m, uint64_t hash) {
  size_t i = (size_t)hash & m->mask;
  while (m->slots[i].number && m->slots[i].hash != hash)
    i = (i + 1) & m->mask;
  return &m->slots[i];
}

static void names_grow(struct names *m) {
  struct names_slot *old = m->slots;
  size_t n = m->slots ? m->mask + 1 : 0, size = n ? n * 2 : 64;
  m->slots = mem_calloc(size, sizeof *m->slots);
  m->mask = size - 1;
  for (size_t i = 0; i < n; i++)
    if (old[i].number)
      *names_slot(m, old[i].hash) = old[i];
  mem_free(old);
}

static void names_learn(struct names *m, uint64_t hash, const struct engine_request *req,
                        uint32_t block) {
  if (!m->slots || m->n > m->mask / 2)
    names_grow(m);
  struct names_slot *s = names_slot(m, hash);
  if (s->number)
    return;
  MEM_GROW(m->origins, m->n, m->cap_origins);
  m->origins[m->n] = (struct names_origin){.req = req, .block = block};
  *s = (struct names_slot){.hash = hash, .number = ++m->n};
}

/* ------------------------------------------------------------------------------------ writing */

static void put_id(struct buf *b, const struct engine_request *r) {
  const struct value *id = ((const struct engine_trace_request *)r->user)->id;
  json_write_string(b, id->u.string.data, id->u.string.len);
}

/* Comma between the elements of a list that begins with '['. */
static void put_comma(struct buf *b) {
  if (b->data[b->len - 1] != '[')
    buf_putc(b, ',');
}

static void put_ids(struct buf *b, const char *key, struct engine_request *const *list, size_t n) {
  if (!n)
    return;
  buf_printf(b, ",\"%s\":[", key);
  for (size_t i = 0; i < n; i++) {
    put_comma(b);
    put_id(b, list[i]);
  }
  buf_putc(b, ']');
}

static void put_pair(struct buf *b, const struct engine_request *r, uint32_t number) {
  put_comma(b);
  buf_putc(b, '[');
  put_id(b, r);
  buf_printf(b, ",%u]", number);
}

static void put_name(struct replay *p, uint64_t hash) {
  buf_printf(&p->buf, "\"b%u\"", names_slot(&p->names, hash)->number);
}

/* The names of all events of one kind, as one list. */
static void put_event_names(struct replay *p, const struct engine_step *s, const char *key,
                            enum engine_event_kind kind) {
  bool any = false;
  for (size_t i = 0; i < s->n_events; i++) {
    if (s->events[i].kind != kind)
      continue;
    if (!any)
      buf_printf(&p->buf, ",\"%s\":[", key);
    any = true;
    for (uint32_t k = 0; k < s->events[i].n; k++) {
      put_comma(&p->buf);
      put_name(p, s->events[i].hashes[k]);
    }
  }
  if (any)
    buf_putc(&p->buf, ']');
}

static void put_events(struct replay *p, const struct engine_step *s) {
  static const char *const letters[] = {"S", "R", "C"};
  struct buf *b = &p->buf;
  if (!s->n_events)
    return;
  buf_puts(b, ",\"events\":[");
  for (size_t i = 0; i < s->n_events; i++) {
    const struct engine_event *e = &s->events[i];
    put_comma(b);
    buf_printf(b, "[\"%s\"", letters[e->kind]);
    if (e->kind == ENGINE_STORED) {
      buf_putc(b, ',');
      if (e->has_parent)
        put_name(p, e->parent);
      else
        buf_puts(b, "null");
    }
    for (uint32_t k = 0; k < e->n; k++) {
      buf_putc(b, ',');
      put_name(p, e->hashes[k]);
    }
    buf_putc(b, ']');
  }
  buf_putc(b, ']');
}

/* S6. */
static void put_step(struct replay *p, uint32_t t, struct engine_request *const *aborted,
                     size_t n_aborted, const struct engine_step *s) {
  struct buf *b = &p->buf;
  put_comma(b);
  buf_printf(b, "{\"t\":%u", t);
  for (size_t i = 0; i < s->n_events; i++)
    if (s->events[i].kind == ENGINE_CLEARED) {
      buf_puts(b, ",\"all_cleared\":true");
      break;
    }
  put_ids(b, "aborted", aborted, n_aborted);
  if (s->n_scheduled)
    buf_puts(b, ",\"scheduled\":[");
  for (size_t i = 0; i < s->n_scheduled; i++)
    put_pair(b, s->scheduled[i].req, s->scheduled[i].tokens);
  if (s->n_scheduled)
    buf_putc(b, ']');
  if (s->n_admitted)
    buf_puts(b, ",\"new_cached\":[");
  for (size_t i = 0; i < s->n_admitted; i++)
    put_pair(b, s->admitted[i].req, s->admitted[i].cached);
  if (s->n_admitted)
    buf_putc(b, ']');
  put_ids(b, "preempted", s->preempted, s->n_preempted);
  put_ids(b, "finished", s->finished, s->n_finished);
  put_event_names(p, s, "stored", ENGINE_STORED);
  put_event_names(p, s, "removed", ENGINE_REMOVED);
  put_events(p, s);
  buf_printf(b, ",\"running\":%u,\"waiting\":%u,\"free_blocks\":%u,\"used\":",
             engine_running(p->engine), engine_waiting(p->engine), engine_free_blocks(p->engine));
  json_write_double(b, engine_usage(p->engine));
  buf_putc(b, '}');
}

static void put_int_or_null(struct buf *b, int64_t i) {
  if (i < 0)
    buf_puts(b, ",null");
  else
    buf_printf(b, ",%lld", (long long)i);
}

static void put_per_request(struct replay *p) {
  static const char *const reasons[] = {"", "length", "abort"};
  struct buf *b = &p->buf;
  buf_puts(b, ",\"per_request\":[");
  for (size_t i = 0; i < p->trace.n_requests; i++) {
    const struct engine_trace_request *r = &p->trace.requests[i];
    put_comma(b);
    buf_putc(b, '[');
    put_id(b, &r->req);
    put_int_or_null(b, r->req.num_cached);
    buf_printf(b, ",%u", r->req.num_preemptions);
    put_int_or_null(b, r->admitted_step);
    put_int_or_null(b, r->first_token_step);
    put_int_or_null(b, r->end_step);
    buf_printf(b, ",\"%s\",%u]", reasons[r->req.finish], r->req.num_output);
  }
  buf_putc(b, ']');
}

static void put_totals(struct replay *p) {
  struct buf *b = &p->buf;
  const struct pool *pool = &p->engine->pool;
  struct engine_totals t;
  engine_get_totals(p->engine, &t);
  const struct {
    const char *key;
    uint64_t value;
  } sums[] = {{"scheduled_tokens", t.scheduled_tokens},
              {"generated_tokens", t.generated_tokens},
              {"preemptions", t.preemptions},
              {"prefix_queries", t.prefix_queries},
              {"prefix_hits", t.prefix_hits},
              {"preempted_queries", t.preempted_queries},
              {"preempted_hits", t.preempted_hits},
              {"finished", t.finished},
              {"aborted", t.aborted},
              {"steps", t.steps},
              {"stored", t.stored},
              {"removed", t.removed},
              {"cleared", t.cleared}};
  for (size_t i = 0; i < ARRAY_LEN(sums); i++)
    buf_printf(b, "%c\"%s\":%llu", i ? ',' : '{', sums[i].key, (unsigned long long)sums[i].value);
  put_per_request(p);
  buf_puts(b, ",\"final_free_queue\":[");
  for (uint32_t id = pool_next(pool, 0); id; id = pool_next(pool, id)) {
    put_comma(b);
    if (pool->blocks[id].named)
      put_name(p, pool->blocks[id].name);
    else
      buf_puts(b, "null");
  }
  buf_puts(b, "]}");
}

/* ------------------------------------------------------------------------------------- running */

/* Keeps what the totals need from a step, and learns the new names in the order of the events. */
static void note_step(struct replay *p, const struct engine_step *s, int64_t t) {
  for (size_t i = 0; i < s->n_events; i++)
    for (uint32_t k = 0; s->events[i].kind == ENGINE_STORED && k < s->events[i].n; k++)
      names_learn(&p->names, s->events[i].hashes[k], s->events[i].req,
                  s->events[i].first_block + k);
  for (size_t i = 0; i < s->n_admitted; i++) {
    struct engine_trace_request *r = s->admitted[i].req->user;
    if (r->admitted_step < 0)
      r->admitted_step = t;
  }
  for (size_t i = 0; i < s->n_sampled; i++) {
    struct engine_trace_request *r = s->sampled[i]->user;
    if (r->first_token_step < 0)
      r->first_token_step = t;
  }
  for (size_t i = 0; i < s->n_finished; i++)
    ((struct engine_trace_request *)s->finished[i]->user)->end_step = t;
}

/* S1; ids of requests that an abort really ended go to `aborted`. */
static int apply_input(struct replay *p, const struct engine_trace_input *in,
                       struct engine_request **aborted, size_t *n_aborted, struct err *err) {
  if (in->kind == ENGINE_TRACE_RESET) {
    (void)engine_reset_cache(p->engine, in->reset_running); /* a refusal is a result too */
    return 0;
  }
  struct engine_trace_request *r = &p->trace.requests[in->index];
  if (in->kind == ENGINE_TRACE_ARRIVAL)
    return engine_add(p->engine, &r->req, err);
  if (engine_abort(p->engine, &r->req)) {
    r->end_step = in->step;
    aborted[(*n_aborted)++] = &r->req;
  }
  return 0;
}

static int run_steps(struct replay *p, struct err *err) {
  struct engine_request **aborted = mem_calloc(p->trace.n_requests, sizeof *aborted);
  size_t next = 0;
  int rc = 0;
  for (uint32_t t = 0; !t || next < p->trace.n_inputs || engine_has_work(p->engine); t++) {
    size_t n_aborted = 0;
    for (; next < p->trace.n_inputs && p->trace.inputs[next].step == t; next++)
      if ((rc = apply_input(p, &p->trace.inputs[next], aborted, &n_aborted, err)))
        goto out;
    struct engine_step step;
    engine_step_run(p->engine, t, &step);
    note_step(p, &step, t);
    put_step(p, t, aborted, n_aborted, &step);
  }
out:
  mem_free(aborted);
  return rc;
}

static int run_trace(struct replay *p, struct err *err) {
  p->engine = engine_new(&p->trace.config, err);
  if (!p->engine) {
    err_prefix(err, "trace: config");
    return ERR_INVALID;
  }
  struct buf *b = &p->buf;
  buf_puts(b, "{\"expect\":{\"steps\":[");
  int rc = run_steps(p, err);
  if (rc)
    return rc;
  buf_puts(b, "],\"names\":[");
  for (uint32_t i = 0; i < p->names.n; i++)
    put_pair(b, p->names.origins[i].req, p->names.origins[i].block);
  buf_puts(b, "],\"totals\":");
  put_totals(p);
  buf_puts(b, "}}");
  return 0;
}

int engine_replay(const char *trace_json, size_t len, struct buf *out, struct err *err) {
  struct replay p = {0};
  int rc = engine_trace_read(trace_json, len, &p.trace, err);
  if (rc)
    return rc;
  buf_init(&p.buf, BUF_MAX_OWN);
  rc = run_trace(&p, err);
  if (!rc) {
    rc = buf_add(out, p.buf.data, p.buf.len);
    if (rc)
      err_set(err, rc, "the result has %zu bytes, more than the buffer takes (%zu)", p.buf.len,
              out->max);
  }
  engine_delete(p.engine);
  engine_trace_free(&p.trace);
  mem_free(p.names.slots);
  mem_free(p.names.origins);
  buf_free(&p.buf);
  return rc;
}

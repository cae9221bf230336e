/* doctorask.c: asking a round of questions; see doctorask.h. */
#include "cmd/doctorask.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cmd/dial.h"
#include "io/loop.h"
#include "net/http.h"
#include "text/json.h"
#include "text/prom.h"

#define MAX_DIALS 16 /* threads at once */
#define MAX_BODY (64u << 20)
#define MAX_METRIC_NAMES 4096
#define MAX_SERIES 256
#define MAX_BODY_TIME_MS 600000

struct doctorask {
  const struct fleet *fleet;
  uint64_t deadline_ns;
  struct loop *loop;
  struct http_client *client;
  size_t left; /* requests of this round that have not ended */
  bool lost;
};

/* One question and what becomes of it. */
struct ask {
  struct doctorask *owner;
  const struct value *question;
  struct value reply;
  struct http_request request;
  struct blob *body;
  struct buf headers;
  bool is_dial, started, lost;
  pthread_t thread;
};

struct doctorask *doctorask_new(const struct fleet *fleet, uint64_t deadline_ns, struct err *err) {
  struct doctorask *a = MEM_NEW(struct doctorask);
  a->fleet = fleet;
  a->deadline_ns = deadline_ns;
  a->loop = loop_new(err);
  if (a->loop)
    a->client = http_client_new(&(struct http_client_options){.loop = a->loop}, err);
  if (a->client)
    return a;
  doctorask_delete(a);
  return NULL;
}

void doctorask_delete(struct doctorask *a) {
  if (!a)
    return;
  http_client_delete(a->client);
  if (a->loop)
    loop_delete(a->loop);
  mem_free(a);
}

bool doctorask_lost(const struct doctorask *a) {
  return a->lost;
}

static const char *text_of(const struct value *question, const char *key) {
  return value_to_string(value_get(question, key));
}

/* What is left of the question's own time and of the command's, in ns. */
static uint64_t time_for(const struct doctorask *a, const struct value *question) {
  int64_t ms = 0;
  uint64_t now = clock_ns();
  (void)value_to_int(value_get(question, "timeout_ms"), &ms);
  uint64_t own = (uint64_t)(ms > 0 && ms < MAX_BODY_TIME_MS ? ms : MAX_BODY_TIME_MS) * NS_PER_MS;
  uint64_t left = a->deadline_ns > now ? a->deadline_ns - now : 0;
  return own < left ? own : left;
}

static struct http_tls tls_of(const struct fleet *f) {
  return (struct http_tls){f->ca_file, f->cert_file, f->key_file, f->insecure};
}

static struct value refused(const char *why) {
  struct value reply = value_object();
  value_set(&reply, "status", value_int(0));
  value_set(&reply, "detail", value_cstring(why));
  return reply;
}

/* ---- dials ---- */

static void *do_dial(void *arg) {
  struct ask *ask = arg;
  struct dial_options options = {.url = text_of(ask->question, "url"),
                                 .tls = tls_of(ask->owner->fleet),
                                 .timeout_ns = time_for(ask->owner, ask->question)};
  ask->reply = dial(&options, &ask->lost);
  return NULL;
}

/* A few at a time; where no thread is to be had, one after the other. */
static void dial_all(struct ask *asks, size_t n) {
  for (size_t from = 0; from < n; from += MAX_DIALS) {
    size_t to = n - from < MAX_DIALS ? n : from + MAX_DIALS;
    for (size_t i = from; i < to; i++)
      if (asks[i].is_dial)
        asks[i].started = pthread_create(&asks[i].thread, NULL, do_dial, &asks[i]) == 0;
    for (size_t i = from; i < to; i++) {
      if (asks[i].started)
        pthread_join(asks[i].thread, NULL);
      else if (asks[i].is_dial)
        do_dial(&asks[i]);
      asks[i].started = false;
      asks[i].owner->lost = asks[i].owner->lost || asks[i].lost;
    }
  }
}

/* ---- what a metrics page says ---- */

struct page {
  const struct value *wanted;
  struct value *names, *series;
};

static bool is_wanted(const struct page *p, const char *name) {
  for (size_t i = 0; i < value_count(p->wanted); i++) {
    const char *want = value_to_string(value_at(p->wanted, i));
    if (want && strcmp(want, name) == 0)
      return true;
  }
  return false;
}

static void on_sample(void *user, const struct prom_sample *s) {
  struct page *p = user;
  size_t n = value_count(p->names);
  const char *last = n ? value_to_string(value_at(p->names, n - 1)) : "";
  if (n < MAX_METRIC_NAMES && strcmp(last, s->name.data) != 0)
    value_push(p->names, value_string(s->name.data, s->name.len));
  if (value_count(p->series) >= MAX_SERIES || !is_wanted(p, s->name.data))
    return;
  struct value entry = value_object(), labels = value_object();
  for (size_t i = 0; i < s->n_labels; i++)
    value_set_len(&labels, s->labels[i].name.data, s->labels[i].name.len,
                  value_string(s->labels[i].value.data, s->labels[i].value.len));
  value_set(&entry, "name", value_string(s->name.data, s->name.len));
  value_set(&entry, "labels", labels);
  value_set(&entry, "value", isfinite(s->value) ? value_double(s->value) : value_null());
  value_push(p->series, entry);
}

static struct value metrics_value(const struct http_request *r, const struct value *question) {
  size_t len = 0;
  const char *type = http_response_header(r, "content-type", &len);
  bool openmetrics = type && len >= 27 && memcmp(type, "application/openmetrics-text", 27) == 0;
  struct value names = value_array(), series = value_array(), v = value_object();
  struct page page = {value_get(question, "wanted"), &names, &series};
  struct prom_handler handler = {.on_sample = on_sample, .user = &page};
  struct prom_counts counts =
      prom_parse(r->body.data ? r->body.data : "", r->body.len, openmetrics, &handler);
  value_set(&v, "samples", value_int((int64_t)counts.samples));
  value_set(&v, "error_lines", value_int((int64_t)counts.error_lines));
  value_set(&v, "names", names);
  value_set(&v, "series", series);
  return v;
}

/* ---- requests ---- */

static void put_header(struct value *reply, const struct http_request *r, const char *header,
                       const char *key) {
  size_t len = 0;
  const char *text = http_response_header(r, header, &len);
  if (text)
    value_set(reply, key, value_string(text, len < 256 ? len : 256));
}

static void put_span(struct value *reply, const char *key, uint64_t from, uint64_t to) {
  if (from != SAMPLE_NEVER && to != SAMPLE_NEVER && to >= from)
    value_set(reply, key, value_double((double)(to - from) / 1e6));
}

static void read_reply(struct ask *ask) {
  const struct http_request *r = &ask->request;
  struct value *reply = &ask->reply;
  const char *read = text_of(ask->question, "read");
  bool stream = read && strcmp(read, "stream") == 0;
  bool prom = read && strcmp(read, "prom") == 0 && r->status == 200;
  *reply = value_object();
  value_set(reply, "status", value_int(r->status));
  if (r->error != SAMPLE_OK)
    value_set(reply, "error", value_cstring(sample_error_name(r->error)));
  value_set(reply, "detail", value_cstring(r->detail));
  put_span(reply, "ms", r->stamp_ns[STAMP_START], r->stamp_ns[STAMP_DONE]);
  put_span(reply, "first_ms", r->stamp_ns[STAMP_START],
           r->stamp_ns[stream ? STAMP_FIRST_TOKEN : STAMP_FIRST_BYTE]);
  put_header(reply, r, "location", "location");
  put_header(reply, r, "server", "server");
  put_header(reply, r, "content-type", "type");
  if (prom)
    value_set(reply, "metrics", metrics_value(r, ask->question));
  else if (r->body.len)
    value_set(reply, "body", value_string(r->body.data, r->body.len));
  if (!stream || r->status != 200)
    return;
  struct value result = openai_result_value(&r->stream.result);
  put_span(&result, "spread_ms", r->stamp_ns[STAMP_FIRST_TOKEN], r->stamp_ns[STAMP_LAST_TOKEN]);
  value_set(reply, "result", result);
}

static void on_done(struct http_request *r) {
  struct ask *ask = r->user;
  read_reply(ask);
  if (--ask->owner->left == 0)
    loop_stop(ask->owner->loop);
}

static bool names_type(const char *headers) {
  static const char name[] = "content-type:";
  for (const char *line = headers; line && *line; line = strchr(line, '\n')) {
    line += *line == '\n';
    if (strncasecmp(line, name, sizeof name - 1) == 0)
      return true;
  }
  return false;
}

/* The fleet's headers, and for a body the one that says what it is. */
static const char *headers_for(struct ask *ask, bool has_body) {
  const struct value *bare = value_get(ask->question, "bare");
  const char *fleet = bare ? NULL : ask->owner->fleet->headers;
  if (!has_body || names_type(fleet))
    return fleet;
  buf_puts(&ask->headers, fleet ? fleet : "");
  buf_puts(&ask->headers, "Content-Type: application/json\r\n");
  return ask->headers.data;
}

static int start(struct ask *ask, struct err *err) {
  struct doctorask *a = ask->owner;
  const struct value *q = ask->question;
  struct http_request *r = &ask->request;
  struct http_target_options options = {.url = text_of(q, "url"),
                                        .tls = tls_of(a->fleet),
                                        .proxy = a->fleet->proxy,
                                        .http2 = a->fleet->http2};
  const char *body = text_of(q, "body"), *read = text_of(q, "read");
  int64_t max_bytes = 0;
  if (!options.url || !text_of(q, "path") || !text_of(q, "method"))
    return err_set(err, ERR_INVALID, "a question needs url, method and path");
  int rc = http_client_target(a->client, &options, &r->target, err);
  if (rc)
    return rc;
  (void)value_to_int(value_get(q, "max_bytes"), &max_bytes);
  r->method = text_of(q, "method");
  r->path = text_of(q, "path");
  r->headers = headers_for(ask, body != NULL);
  r->max_body = max_bytes > 0 && max_bytes < MAX_BODY ? (size_t)max_bytes : MAX_BODY;
  r->timeouts.total_ns = time_for(a, q);
  if (body) {
    ask->body = blob_new(body, strlen(body));
    r->parts = &ask->body;
    r->n_parts = 1;
  }
  if (read && strcmp(read, "stream") == 0) {
    const char *api = text_of(q, "api");
    r->api = openai_api_from(api ? api : "chat");
    r->expect_stream = true;
  }
  if (!r->timeouts.total_ns)
    return err_set(err, ERR_TIMEOUT, "no time is left (--timeout)");
  r->done = on_done;
  r->user = ask;
  return http_request_start(a->client, r, err);
}

static void start_all(struct doctorask *a, struct ask *asks, size_t n, int64_t *sent) {
  for (size_t i = 0; i < n; i++) {
    struct err err = {0};
    if (asks[i].is_dial)
      continue;
    http_request_init(&asks[i].request);
    a->left++; /* it could end before start returns */
    asks[i].started = start(&asks[i], &err) == 0;
    if (!asks[i].started) {
      a->left--;
      asks[i].reply = refused(err.text);
    }
    *sent += asks[i].started;
  }
}

int doctorask_round(struct doctorask *a, const struct value *questions, struct value *endpoints,
                    int64_t *sent, struct err *err) {
  size_t n = value_count(questions);
  struct ask *asks = mem_calloc(n ? n : 1, sizeof *asks);
  for (size_t i = 0; i < n; i++) {
    asks[i] = (struct ask){.owner = a, .question = value_at(questions, i), .reply = value_null()};
    buf_init(&asks[i].headers, BUF_MAX_OWN);
    const char *kind = text_of(asks[i].question, "kind");
    asks[i].is_dial = kind && strcmp(kind, "dial") == 0;
    *sent += asks[i].is_dial;
  }
  int rc = 0;
  dial_all(asks, n);
  start_all(a, asks, n, sent);
  if (a->left)
    loop_run(a->loop);
  for (size_t i = 0; i < n; i++) {
    int64_t at = -1;
    const char *name = text_of(asks[i].question, "name");
    (void)value_to_int(value_get(asks[i].question, "endpoint"), &at);
    struct value *endpoint = at >= 0 ? value_at(endpoints, (size_t)at) : NULL;
    struct value *replies = value_get(endpoint, "replies");
    if (replies && name)
      value_set(replies, name, asks[i].reply);
    else
      value_free(&asks[i].reply);
    if (!replies || !name)
      rc = err_set(err, ERR_INVALID, "question %zu names no endpoint", i + 1);
    if (!asks[i].is_dial)
      http_request_free(&asks[i].request);
    blob_unref(asks[i].body);
    buf_free(&asks[i].headers);
  }
  mem_free(asks);
  return rc;
}

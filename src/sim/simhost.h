/* simhost.h: one replica of the fleet on the wire: its port, its step loop, its faults.
 *
 * Endpoints, as vLLM has them (facts/interfaces.md §1): POST /v1/chat/completions,
 * /v1/completions and /v1/responses (generation.c; in the background: background.c), GET
 * /v1/responses/ID, GET /v1/models, /health, /ping, /version, /metrics, POST /tokenize,
 * /detokenize, /v1/chat/completions/render, /v1/completions/render (textapi.c),
 * /reset_prefix_cache, /sleep, /wake_up and the like (devapi.c). Every answer has `x-inference-pod:
 * ID`. */
#ifndef SIM_SIMHOST_H
#define SIM_SIMHOST_H

#include "io/httpd.h"
#include "sim/events.h"
#include "sim/eventshaping.h"
#include "sim/face.h"
#include "sim/faults.h"
#include "sim/genrequest.h"
#include "sim/kvevents.h"
#include "sim/replica.h"
#include "sim/responses.h"
#include "sim/truth.h"

struct generation;
struct background_reader;

/* KV that prefill legs left here, to be fetched by the decode leg (transfer.h). */
struct transfers {
  struct transfer_hold *holds; /* the oldest first */
  size_t n, cap;
  struct loop_timer timer; /* the oldest one's end */
  /* The replica that a client names as remote_engine_id; NULL: there is none. */
  struct simhost *(*find)(void *user, const char *id);
  void *user;
};

/* How the server was started: vLLM's options by their names. */
struct simhost_flags {
  bool request_id_headers; /* --enable-request-id-headers: X-Request-Id is sent back */
  bool force_usage;        /* --enable-force-include-usage: as if every stream asked for it */
  bool no_store;           /* without VLLM_ENABLE_RESPONSES_API_STORE=1: no response is kept */
  uint64_t keep_alive_ns;  /* --sse-keep-alive-interval; 0 = the face's own */
  bool request_metrics;    /* --enable-per-request-metrics */
  bool metrics;            /* llama.cpp's --metrics */
  bool block_metrics;      /* --kv-cache-metrics */
  double block_share;      /* --kv-cache-metrics-sample */
  /* --max-num-queued-reqs: choices that wait or run; --max-num-queued-tokens: prompt tokens of
   * those without a first token yet; beyond, 503. 0 = no limit. */
  uint32_t max_queued_reqs, max_queued_tokens;
  uint32_t stream_interval; /* --stream-interval: of requests that say none themselves; 0: 1 */
  bool no_cached;           /* without --enable-prompt-tokens-details: cached_tokens never */
};

/* What is gone while the engine sleeps; nothing: it is awake. */
enum simhost_asleep { SIMHOST_WEIGHTS = 1, SIMHOST_KV_CACHE = 2 };

/* Of the process that a replica is. */
enum simhost_life {
  SIMHOST_UP,
  SIMHOST_DRAINING, /* up, and to be given nothing new; actions.h says what follows */
  SIMHOST_STARTING, /* gone, and will be back by itself */
  SIMHOST_DOWN      /* gone until it is started */
};

struct simhost {
  char id[32];
  char url[96];
  char header[64]; /* "x-inference-pod: r0\r\n" */
  struct loop *loop;
  const struct genmodel *model; /* `own` */
  struct genmodel own;          /* the fleet's, with the adapters of this replica */
  struct adapters adapters;
  struct truth *truth; /* NULL = no log */
  struct replica *replica;
  struct httpd *server; /* NULL in memory */
  bool refusing;        /* the port is closed, or in memory would be */
  const struct simhost_watch *watch;
  struct faults faults;
  uint64_t n_requests;  /* generation requests so far: the next one's number */
  uint64_t n_others;    /* of the other endpoints */
  uint64_t n_renders;   /* of those, the render ones: for their ids */
  uint64_t seed;        /* of response ids */
  uint64_t overhead_ns; /* before a request enters the engine */
  struct generation *open;
  struct background_reader *readers;
  enum face_kind face;
  struct simhost_flags flags;
  struct simhost *(*peer)(void *user, size_t i); /* the fleet's replicas that run, this one too, by
                                                    number; NULL behind the last. May be NULL */
  void *peer_user;
  struct buf scratch;   /* a body while it is put together */
  struct buf page;      /* the same of an endpoint, which may make answers to others as well */
  struct events events; /* the same of a stream */
  struct transfers transfers;
  struct response_store responses;
  struct kvevents *kv; /* its KV events; NULL = not published */
  struct eventshaping shaping;
  unsigned asleep; /* enum simhost_asleep; no step begins while it is not 0 */
  bool discarded;  /* asleep on level 2: the weights are not in memory either */
  const struct steptime_profile *profile;
  enum simhost_life life;
  uint64_t life_ns;   /* since when */
  uint64_t processes; /* so far: counters of each begin at zero */
  /* The step loop. */
  struct loop_timer step_timer, refuse_timer;
  struct loop_task step_task;
};

/* Who is told of generation requests: a dry run. */
struct simhost_watch {
  /* It was read and is about to go to the engine. */
  void (*accepted)(void *user, struct httpd_request *req, const struct genrequest *gen);
  /* A choice has ended: its prompt and what was generated of its answer. */
  void (*generated)(void *user, const uint32_t *tokens, uint32_t n, const char *salt);
  void *user;
};

struct simhost_options {
  bool in_memory; /* no port: requests come by simhost_take, the URL is http://ID.simulated */
  const struct simhost_watch *watch; /* borrowed; NULL */
  const char *id;
  const char *host; /* address; NULL = 127.0.0.1 */
  int port;
  const struct genmodel *model;       /* borrowed, its adapters too */
  const struct engine_config *engine; /* borrowed, outlives it */
  const struct steptime_profile *profile;
  struct truth *truth; /* borrowed; NULL = none */
  uint64_t seed;
  enum face_kind face;
  struct simhost_flags flags;
  const struct kvconfig *events;                       /* borrowed; NULL = none are published */
  struct zmqsock_hub *hub;                             /* with events */
  size_t number;                                       /* of the replica in the fleet, from 0 */
  struct simhost *(*find)(void *user, const char *id); /* see struct transfers; may be NULL */
  struct simhost *(*peer)(void *user, size_t i);       /* see struct simhost; may be NULL */
  void *user;                                          /* of both */
};

/* Opens the port and takes requests from the loop's next turn on. */
NODISCARD int simhost_start(struct loop *loop, const struct simhost_options *options,
                            struct simhost **out, struct err *err);
/* Closes the port and every connection; requests under way end as aborted, in the truth log too. */
void simhost_stop(struct simhost *h);

/* A request has arrived; it is answered as any other. */
void simhost_take(struct simhost *h, struct httpd_request *req);

/* The process ends at once: connections are reset, requests under way end as "abort", the port
 * refuses (and stays this replica's), cache, CPU memory, stored responses and held KV are gone.
 * `life`: SIMHOST_STARTING or SIMHOST_DOWN. Faults stay: they are the test's. */
void simhost_end(struct simhost *h, enum simhost_life life);
/* A new process on the same port: counters begin at zero, and their
 * _created is now. */
NODISCARD int simhost_begin(struct simhost *h, struct err *err);
/* Its process does not run. */
bool simhost_gone(const struct simhost *h);
void simhost_set_life(struct simhost *h, enum simhost_life life);
/* "up", "draining", "starting", "down" */
const char *simhost_life_name(enum simhost_life life);

/* Adds a fault, or removes all; `refuse` closes the port at once and opens it again. Returns the
 * fault's serial number; simhost_end_fault ends that one, false when it is over already. */
uint64_t simhost_add_fault(struct simhost *h, const struct fault *f);
bool simhost_end_fault(struct simhost *h, uint64_t serial, struct err *err);
NODISCARD int simhost_clear_faults(struct simhost *h, struct err *err);

/* Level 1 or 2. `keep`: what runs starts anew after the waking; else it ends as "abort" now. */
void simhost_sleep(struct simhost *h, int level, bool keep);
/* What comes back: enum simhost_asleep. The engine goes on when nothing is missing. */
void simhost_wake(struct simhost *h, unsigned what);

/* Something was added to the engine, or may now go on. */
void simhost_kick(struct simhost *h);

#endif

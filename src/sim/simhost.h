/* simhost.h: one replica of the fleet on the wire: its port, its step loop, its faults.
 *
 * Endpoints, as vLLM has them (facts/interfaces.md §1): POST /v1/chat/completions and
 * /v1/completions (generation.c), GET /v1/models, /health, /ping, /version, /metrics, POST
 * /tokenize, /detokenize, /v1/chat/completions/render, /v1/completions/render (textapi.c),
 * /reset_prefix_cache (endpoints.c). Every answer has `x-inference-pod:
 * ID`. */
#ifndef SIM_SIMHOST_H
#define SIM_SIMHOST_H

#include "io/httpd.h"
#include "sim/faults.h"
#include "sim/genrequest.h"
#include "sim/replica.h"
#include "sim/truth.h"

struct generation;

struct simhost {
  char id[32];
  char url[96];
  char header[64]; /* "x-inference-pod: r0\r\n" */
  struct loop *loop;
  const struct genmodel *model;
  struct truth *truth; /* NULL = no log */
  struct replica *replica;
  struct httpd *server;
  struct faults faults;
  uint64_t n_requests;  /* generation requests so far: the next one's number */
  uint64_t n_others;    /* of the other endpoints */
  uint64_t n_renders;   /* of those, the render ones: for their ids */
  uint64_t seed;        /* of response ids */
  uint64_t overhead_ns; /* before a request enters the engine */
  struct generation *open;
  struct buf scratch; /* an event or a body while it is put together */
  /* The step loop. */
  struct loop_timer step_timer, refuse_timer;
  struct loop_task step_task;
};

struct simhost_options {
  const char *id;
  const char *host; /* address; NULL = 127.0.0.1 */
  int port;
  const struct genmodel *model; /* borrowed */
  const struct engine_config *engine;
  const struct steptime_profile *profile;
  struct truth *truth; /* borrowed; NULL = none */
  uint64_t seed;
};

/* Opens the port and takes requests from the loop's next turn on. */
NODISCARD int simhost_start(struct loop *loop, const struct simhost_options *options,
                            struct simhost **out, struct err *err);
/* Closes the port and every connection; requests under way end as aborted, in the truth log too. */
void simhost_stop(struct simhost *h);

/* Adds a fault, or removes all; `refuse` closes the port at once and opens it again. */
void simhost_add_fault(struct simhost *h, const struct fault *f);
NODISCARD int simhost_clear_faults(struct simhost *h, struct err *err);

/* Something was added to the engine, or may now go on. */
void simhost_kick(struct simhost *h);

/* ---- endpoints.c ---- */

/* Answers whatever is not a generation request, faults included. */
void endpoints_answer(struct simhost *h, struct httpd_request *req);

#endif

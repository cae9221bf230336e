/* genlife.h: a generation request under way, for the files that share its life: generation.c (it
 * arrives, its choices go into the engine and come out, it is freed), genstream.c (what is sent of
 * it), gentruth.c (its line in the truth log). Others use generation.h. */
#ifndef SIM_GENLIFE_H
#define SIM_GENLIFE_H

#include "sim/delivery.h"
#include "sim/reply.h"
#include "sim/residence.h"
#include "sim/simhost.h"

enum { GENERATION_ID_MAX = 128, GENERATION_HEAD_MAX = 512 };

/* One choice in the engine. */
struct gen_part {
  struct replica_seq seq;
  struct generation *owner;
  uint32_t index, sent; /* sent: output tokens that are in events */
  bool in_engine;       /* added and not gone */
  uint64_t *token_ns;   /* ends of the steps of its tokens, for the truth log; n_tokens of them */
  uint32_t n_tokens, cap_tokens;
};

struct generation {
  struct simhost *host;
  struct generation *prev, *next; /* in host->open */
  struct genrequest gen;
  struct response_ask ask; /* of Responses */
  struct reply reply;
  struct gen_part *parts; /* gen.n_choices of them; they move when there is one turn more */
  uint32_t n_parts, n_done;
  struct delivery delivery;
  struct loop_timer start_timer; /* a stall before the head */
  struct loop_timer alive_timer; /* the next comment of a face that sends them */
  struct loop_timer tool_timer;  /* the end of a tool that the server runs */
  struct loop_timer queue_timer; /* the profile's overhead before the engine */
  uint64_t number, received_ns;
  char id[GENERATION_ID_MAX];
  char *request_id;   /* the client's X-Request-Id; NULL */
  const char *path;   /* static */
  const char *finish; /* how it ended, for the log */
  uint64_t created_s;
  uint32_t longest; /* output tokens of its longest finished choice */
  bool told;        /* its events go out without their bytes, when somebody looks (genstream.c) */
  bool working;     /* background.h: it is not to end with its answer */
  bool has_gen;     /* gen and reply are filled in */
  bool began;       /* the engine's first output was seen */
  bool held;        /* its parts are being gone through: not to be freed */
  struct residence residence; /* of its first prompt, for the truth log */
};

/* The figure that usage reports: vLLM takes that of one of the choices, here always the first; of
 * Responses it is that of all turns. */
uint32_t generation_cached(const struct generation *x);

#endif

/* simchild.h: the built-in fleet as a child process of a run.
 *
 * A shared heap or loop would show the simulator's work as client latency, so it is its own
 * process: this same binary with `sim --announce --until-eof`. It ends with its parent, also when
 * that one is killed, at any moment: the write end of its standard input is ours alone. */
#ifndef CMD_SIMCHILD_H
#define CMD_SIMCHILD_H

#include <sys/types.h>

#include "cmd/simopts.h"
#include "run/fleet.h"
#include "text/value.h"

struct simchild {
  pid_t pid; /* 0 = not running */
  int life;  /* write end of the child's standard input; −1 = none */
  struct value
      announce; /* {replicas:[{id,url}], spares, admin, model, profile, tokenizer, simulated} */
};

/* Starts `perigee sim --announce` with the given further arguments (NULL-terminated) and waits for
 * its one line, at most `timeout_ns`. What it writes on stderr is ours too. An error quotes what it
 * said. */
NODISCARD int simchild_start(struct simchild *child, const char *const *args, uint64_t timeout_ns,
                             struct err *err);
/* Starts it as wished (`replicas`, unless that says how many), with the fleet's model, tokenizer
 * and template, and makes its replicas the fleet's, which is a simulated one from then on. After an
 * error that came behind the start child->pid is not 0: simchild_stop. */
NODISCARD int simchild_start_fleet(struct simchild *child, const struct simopts *wish,
                                   int64_t replicas, int64_t seed, struct fleet *fleet,
                                   struct err *err);

/* The present of the built-in fleet, which both sides then have: now, unless it is given. */
void simchild_set_now(struct fleet *f);

/* Whether it has ended by itself; *how (80 bytes) is how. It is not waited for. */
bool simchild_has_ended(const struct simchild *child, char *how, size_t how_size);

/* Asks it to end, waits, kills after two seconds. Frees what start made. False when it had ended by
 * itself before, or failed (a crash, a truth log that could not be written: *how says how it ended,
 * 80 bytes, and its own words are on stderr). */
bool simchild_stop(struct simchild *child, char *how, size_t how_size);

#endif

/* rundir.h: the folder a run leaves behind: results/<label>-<time>/.
 *
 * Never overwrites another run's. Files appear whole or not at all (written beside, then renamed);
 * samples.jsonl and log.txt alone grow while the run goes on. */
#ifndef OUT_RUNDIR_H
#define OUT_RUNDIR_H

#include "base/err.h"
#include "text/value.h"

struct rundir {
  char *path; /* "results/demo-20261129-143816" */
  char *id;   /* its last part: the rows' `run` */
  bool has_room;
  int room_fd; /* of rundir_reserve; a file without a name */
};

/* Makes `parent` and the folder in it. The label's characters other than letters, digits, "._-"
 * become "-"; NULL or "" is "run". A name that is taken gets "-2", "-3" … ERR_IO names the path. */
NODISCARD int rundir_create(const char *parent, const char *label, uint64_t wall_ns,
                            struct rundir *out, struct err *err);
void rundir_free(struct rundir *d);

/* Keeps `bytes` of the disk for what is written at the end, so that the rows of a run that fills
 * the disk leave room for its summary; rundir_release gives them back (twice is allowed, and
 * rundir_free does it). Nothing of it can be seen in the folder, or is left when the process dies.
 * ERR_IO when the disk has not as much; the folder, when still empty, is removed then. Where files
 * cannot be that long, or the file system keeps no room, none is kept. */
NODISCARD int rundir_reserve(struct rundir *d, uint64_t bytes, struct err *err);
void rundir_release(struct rundir *d);

/* The file `name` (it may have folders: "scripts/lib/x.lua") with these bytes. ERR_IO: the text
 * says what the system said and, when a disk is full, what to do. */
NODISCARD int rundir_write(const struct rundir *d, const char *name, const void *data, size_t len,
                           struct err *err);
/* The same with a value as indented JSON: run.json, summary.json. */
NODISCARD int rundir_write_value(const struct rundir *d, const char *name, const struct value *v,
                                 struct err *err);

/* The names of what is in the folder now, in no order; folders end with "/". */
struct value rundir_names(const struct rundir *d);

/* Opens log.txt for appending; the caller closes *fd. */
NODISCARD int rundir_open_log(const struct rundir *d, int *fd, struct err *err);

/* What run.json must hold for report.lua (all optional; the command adds what else it knows):
 *   id label scenario description simulated seed started duration_s closed_loop
 *   banner [ {name, value} … ]   the effective configuration, line by line, as text
 *   versions {perigee, commit, …}   files [ {name, what} … ]   path */

#endif

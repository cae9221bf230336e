/* actionids.h: a fleet file may name replicas otherwise than the simulated fleet behind its admin
 * port does. Requests to that port carry the port's names, answers and errors the file's.
 *
 * One thread's: that of the port that uses it. */
#ifndef RUN_ACTIONIDS_H
#define RUN_ACTIONIDS_H

#include "base/err.h"
#include "run/fleet.h"
#include "text/value.h"

struct actionids;

/* Of the replicas whose admin_id is known; `f` NULL or none of them: names pass as they are. The
 * fleet is not kept. */
struct actionids *actionids_new(const struct fleet *f);
void actionids_free(struct actionids *ids); /* NULL is allowed */

/* The field `replica` of an action becomes the port's name. ERR_NOT_FOUND: the fleet file has no
 * such replica; lists those that it has. */
NODISCARD int actionids_ask(const struct actionids *ids, struct value *action, struct err *err);
/* The names in an answer (its lists of ids, its figures by id) become the file's. A replica that
 * the file does not have, such as one just added, keeps the port's name, or is called by its URL
 * where another has that name; it can be named in actions from then on. */
void actionids_answer(struct actionids *ids, struct value *answer);
/* The same in the text of an error ("replica r0 is down already"). */
void actionids_error(struct actionids *ids, struct err *err);

#endif

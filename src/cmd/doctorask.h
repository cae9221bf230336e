/* doctorask.h: what `perigee doctor` asks servers, as data: lua/perigee/doctor.lua says what to ask
 * next, this file asks it, all of a round at once, and the answers go back as data.
 *
 * So nothing of what is asked or concluded is here, and a server can say what it likes: every
 * question is bounded in time and bytes. */
#ifndef CMD_DOCTORASK_H
#define CMD_DOCTORASK_H

#include "run/fleet.h"
#include "text/value.h"

struct doctorask;

/* A loop and a client of its own; http_global_init comes first. The fleet (headers, TLS, proxy) is
 * borrowed. `deadline_ns` (clock_ns): nothing is waited for beyond it. NULL with an error. */
struct doctorask *doctorask_new(const struct fleet *fleet, uint64_t deadline_ns, struct err *err);
/* NULL is allowed. */
void doctorask_delete(struct doctorask *a);

/* Asks a list of
 *   {endpoint (index from 0), name, kind = "dial", url, timeout_ms}                  (cmd/dial.h)
 *   {endpoint, name, kind = "http", url, method, path, body (text or null), timeout_ms, max_bytes,
 *    read = "body" | "prom" | "stream", api (of a stream: "chat" | "completions"),
 *    wanted (of prom: names of series to give whole), bare (true: without the fleet's headers, so
 *     that no key goes where it is not protected)}
 * and sets endpoints[endpoint].replies[name] for each:
 *   dial: its object
 *   http: {status (0 = no answer), error (DESIGN.md's class, null), detail, ms, first_ms (to the
 *     first token of a stream, else to the first byte), location, server, type (headers, or null),
 *     body (text of at most max_bytes, of "body" and of errors), result (of "stream":
 *     openai_result_value, and spread_ms, from the first output to the last), metrics (of "prom":
 *     {samples, error_lines, names[], series [{name, labels, value}]})}
 * A question that could not be asked has status 0 and says why in `detail`. *sent counts requests
 * and dials. Returns 0, or an error of the loop. */
NODISCARD int doctorask_round(struct doctorask *a, const struct value *questions,
                              struct value *endpoints, int64_t *sent, struct err *err);

/* A look-up of a name still runs: the process must end with _exit. */
bool doctorask_lost(const struct doctorask *a);

#endif

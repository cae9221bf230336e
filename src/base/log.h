/* log.h: one line per event on stderr (and in the run's log.txt once a sink is set).
 *
 * Form: `level=info event words key=value …`. Nothing on a hot path at info; never prompt text
 * above debug; never a key or token. Lines are written whole, so threads do not mix. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/base.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Lines above `level` are dropped. Default LOG_WARN. */
void log_set_level(enum log_level level);
enum log_level log_get_level(void);
/* A second place for every line (the run folder's log.txt); fd −1 switches it off. The caller keeps
 * the descriptor. Forgets the zero. */
void log_set_sink(int fd);
/* The run's zero on clock_ns: from then on lines of the sink begin with the seconds since, as in
 * "[12.345] ". */
void log_set_zero(uint64_t zero_ns);
/* Whether lines go to stderr as well (off while the live line owns the terminal). Default on. */
void log_set_stderr(bool on);
COLD void log_line(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Where lines go instead of stderr (the live line owns the terminal, and writes them above itself).
 * NULL: stderr again. Any thread may call it until then. */
void log_set_printer(void (*print)(void *user, const char *line, size_t len), void *user);
/* A line for the sink alone, as it is (what a script printed); a line feed is added when missing.
 */
void log_keep(const char *line, size_t len);

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

#endif

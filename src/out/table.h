/* table.h: everything a run measured, in compact form: one row per request, session, value.
 *
 * Filled by the writer thread while the run goes on; after writer_stop it is the caller's to read.
 * A request costs 200 bytes, a kept gap between output events 4 (6 when its tokens are known).
 * What depends on the order of arrival is nowhere visible: the same requests from one worker or
 * from four give the same statistics, bit for bit. */
#ifndef OUT_TABLE_H
#define OUT_TABLE_H

#include "out/hist.h"
#include "out/names.h"
#include "out/sample.h"

#define TABLE_NO_ARM UINT16_MAX
#define TABLE_NO_REPLICA UINT16_MAX
#define TABLE_NO_CLUSTER UINT32_MAX
/* Gaps kept whole; beyond, all of them are in histograms only. */
#define TABLE_MAX_GAPS ((size_t)20000000)

enum table_flag {
  ROW_MEASURED = 1,
  ROW_GENERATION = 2,
  ROW_ROUTED = 4, /* a policy chose: `fallback` means something */
  ROW_FALLBACK = 8,
  ROW_STREAMED = 16,     /* an event stream: its tokens have times of their own */
  ROW_BAD_USAGE = 32,    /* usage.h: a count of the server's that cannot be true */
  ROW_STREAM_ASKED = 64, /* an event stream was asked for, whatever came */
};

enum table_replica_flag {
  REPLICA_GIVEN = 1, /* table_add_replica */
  REPLICA_USED = 2,  /* chosen for, or served, a measured generation request */
};

struct table_row {
  uint64_t request; /* XXH3 of its request_id; 0 = none */
  uint64_t session, sched, start, sent, first_token, last_token, done, first_visible;
  int64_t error_ns;    /* SAMPLE_ABSENT */
  int64_t overhead_ns; /* render + tokenize + hash, SAMPLE_ABSENT when none was done */
  uint64_t gaps;       /* its first in table.gaps; n_gaps of them */
  uint32_t n_gaps;
  /* −1 = absent; those of the server only where they can be true (usage.h) */
  int32_t prompt_tokens, prompt_local, output_tokens, output_local, cached_tokens, first_tokens,
      window_tokens, asked_tokens, survived;
  /* The token ledger, tokens; −1 = not known (verify.h fills it after the run). */
  int32_t possible, available, captured, delivered;
  uint32_t output_events, coalesced;
  uint32_t tags, turn, step, branch, block;
  uint32_t cluster; /* number of its session among the measured ones, after table_finish */
  uint16_t arm, replica, status;
  uint8_t error, cached_state, flags;
  uint8_t reconnects; /* at most 255 */
  uint8_t policy;     /* number among table.policies; means something with ROW_ROUTED */
};

struct table_session {
  uint64_t session, sched, start, end;
  uint32_t block, cluster;
  uint16_t arm;
  uint8_t error;
  bool measured;
};

struct table_value {
  uint64_t session, time;
  double value;
  uint32_t name, tags, cluster;
  uint16_t arm;
  bool is_check, measured;
};

/* The client's own lateness, merged from all workers. */
struct probe {
  struct hist start_lag, timer_late, wakeup_busy, read_error; /* ns */
  uint64_t no_kernel_stamp;
  double cpu_max;      /* the busiest worker's share of a core; NAN before one reported */
  uint32_t cpu_worker; /* which one that was */
  uint32_t n_cpu;
  /* Standstills (recorder.h): of the worker that had most of them, together; the longest of all. */
  uint64_t stalled_ns, longest_stall_ns;
};
void probe_init(struct probe *p);
void probe_merge(struct probe *p, const struct probe *other);

/* Part of the run in which an arm was measured; several with trial blocks. */
struct table_window {
  uint16_t arm;              /* TABLE_NO_ARM: all */
  uint64_t start_ns, end_ns; /* since the run's zero */
};

struct arm_hist {
  struct hist itl, itl_token; /* ns */
};

struct table {
  struct table_row *rows;
  size_t n_rows, cap_rows;
  struct table_session *sessions;
  size_t n_sessions, cap_sessions;
  struct table_value *values;
  size_t n_values, cap_values;

  /* Gaps of measured, successful generation requests, ns. */
  float *gaps;
  uint16_t *gap_tokens; /* 0 = unknown; NULL while no event's tokens were known */
  size_t n_gaps, cap_gaps, max_gaps;
  bool gaps_dropped;           /* over max_gaps: then only the histograms below */
  struct arm_hist **arm_hists; /* by arm, the last for requests without one; NULL until dropped */
  size_t n_arm_hists;

  struct names arms, replicas, policies, tags, value_names;
  uint8_t *replica_flags; /* by number: enum table_replica_flag */
  size_t n_replica_flags, cap_replica_flags;
  double *replica_rotation; /* by number, n_replica_rotation of them */
  size_t n_replica_rotation, cap_replica_rotation;
  struct value *tag_values; /* parsed tags, by number */
  size_t n_tag_values, cap_tag_values;
  /* What the first measured one of each class that ended said; owned. */
  char *detail[SAMPLE_ERROR_COUNT];           /* generation requests */
  char *other_detail[SAMPLE_ERROR_COUNT];     /* plain HTTP */
  char *session_detail[SAMPLE_ERROR_COUNT];   /* sessions */
  uint64_t detail_end[3][SAMPLE_ERROR_COUNT]; /* when those ended */
  struct probe probe;

  struct table_window *windows;
  size_t n_windows, cap_windows;
  uint64_t dropped;    /* rows, sessions and values that there was no memory for */
  bool has_generation; /* any chat, completions or responses request at all */
  uint32_t n_clusters; /* after table_finish */
};

/* max_gaps 0 = TABLE_MAX_GAPS. */
struct table *table_new(size_t max_gaps);
void table_free(struct table *t);
/* Without memory for it a row is dropped and counted: then memory is low (base/mem.h). */
void table_add_sample(struct table *t, const struct sample *s);
void table_add_session(struct table *t, const struct session_record *s);
void table_add_value(struct table *t, const struct value_record *v);
/* A replica that must be listed even when it gets nothing. `rotation`: the part of the run's
 * placements, 0 to 1, that were made while it could be chosen; -1: it never could, and is listed if
 * it got something all the same. */
void table_add_replica(struct table *t, const char *id, double rotation);
/* That part; 1 where nothing is known. */
double table_replica_rotation(const struct table *t, size_t replica);
/* `arm` NULL: of all arms. */
void table_add_window(struct table *t, const char *arm, uint64_t start_ns, uint64_t end_ns);
/* Numbers the measured sessions (table_row.cluster …) in the order of their ids, and makes an
 * inferred zero of a reply that said nothing of cached tokens, when its replica did say at any time
 * of the run. Again after more rows. */
void table_finish(struct table *t);

/* Seconds of all windows of `arm` (TABLE_NO_ARM: of the whole run); 0 when none is known. */
double table_window_seconds(const struct table *t, uint16_t arm);
/* Whether a time lies in a window of `arm`. */
bool table_in_window(const struct table *t, uint16_t arm, uint64_t time_ns);
/* Output tokens of a request that were stamped inside the window; those of a request whose stamps
 * per token are not known are spread evenly from its first to its last. 0 without output. */
double table_window_tokens(const struct table *t, const struct table_row *row);
/* n of DESIGN.md: the server's count, else ours; −1 when neither is known. */
int32_t table_row_output(const struct table_row *row);
int32_t table_row_prompt(const struct table_row *row);

#endif

/* interrupt.c: signals end the load, then the drain, then what is left. */
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/log.h"
#include "run/conductor.h"

static void interrupt(struct conductor *c, int number) {
  if (c->interrupts++ == 0)
    c->interrupted_ns = loop_refresh(c->run.loop);
  c->result->interrupted = true;
  log_warn("interrupted signal=%s phase=%s", strsignal(number), run_phase_name(c->phase));
  if (c->phase == RUN_LOADING)
    conductor_quit(c);
  else if (c->phase != RUN_TEARDOWN)
    conductor_cancel_all(c, SAMPLE_INCOMPLETE, "the run was interrupted");
  if (c->interrupts > 1) {
    conductor_tell_all(c, WORKER_ABORT);
    rescue_look(c);
  }
  conductor_show_progress(c);
}

static void on_signal(uv_signal_t *handle, int number) {
  interrupt(handle->data, number);
}

static const int numbers[CONDUCTOR_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};

static void hold_signals(bool on) {
  sigset_t set;
  sigemptyset(&set);
  for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
    sigaddset(&set, numbers[i]);
  pthread_sigmask(on ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

void interrupt_open(struct conductor *c) {
  for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
    struct sigaction now_is;
    if (sigaction(numbers[i], NULL, &now_is) == 0 && now_is.sa_handler == SIG_IGN)
      continue;
    uv_signal_t *handle = &c->signals[c->n_signals++];
    uv_signal_init(loop_uv(c->run.loop), handle);
    handle->data = c;
    uv_signal_start(handle, on_signal, numbers[i]);
  }
  hold_signals(false);
}

void interrupt_close(struct conductor *c) {
  if (c->config.catch_signals)
    hold_signals(true);
  for (size_t i = 0; i < c->n_signals; i++)
    uv_close((uv_handle_t *)&c->signals[i], NULL);
}

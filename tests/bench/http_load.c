/* http_load.c: our HTTP client at its barest: N connections, one POST of 270 bytes after the other
 * on each, no script. To be set beside wrk on the same server.
 * Usage: http_load [--connections N] [--seconds D] [--full] [--kernel-stamps] URL; prints one line
 * of JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "io/loop.h"
#include "net/http.h"

static const char headers[] = "Content-Type: application/json\r\nAuthorization: Bearer bench\r\n"
                              "X-Request-Id: 1-1\r\nX-Session: 1\r\n";
static const char text[] =
    "{\"max_tokens\":64,\"messages\":[{\"content\":\"You are a helpful assistant.\",\"role\":"
    "\"system\"},{\"content\":\"Which of the three replicas keeps the longest prefix of this "
    "conversation in its cache, and "
    "why?\",\"role\":\"user\"}],\"model\":\"bench\",\"stream\":false,"
    "\"temperature\":0.5}";

struct load {
  struct loop *loop;
  struct http_client *client;
  uint64_t end_ns, requests, failed;
  size_t running;
  char problem[320];
};

struct connection {
  struct load *load;
  struct http_request request;
};

static void start(struct connection *c) {
  struct err err;
  if (http_request_start(c->load->client, &c->request, &err)) {
    fprintf(stderr, "http_load: %s\n", err.text);
    exit(2);
  }
}

static void on_done(struct http_request *r) {
  struct connection *c = r->user;
  struct load *load = c->load;
  load->requests++;
  if (r->error != SAMPLE_OK) {
    load->failed++;
    memcpy(load->problem, r->detail, sizeof load->problem);
  }
  if (loop_now(load->loop) < load->end_ns && !load->failed) {
    start(c);
  } else if (--load->running == 0) {
    loop_stop(load->loop);
  }
}

static int usage(void) {
  fprintf(stderr,
          "usage: http_load [--connections N] [--seconds D] [--full] [--kernel-stamps] URL\n");
  return 2;
}

static void run(struct load *load, struct http_target *target, size_t n) {
  struct connection *all = mem_calloc(n, sizeof *all);
  struct blob *body = blob_new(text, sizeof text - 1);
  for (size_t i = 0; i < n; i++) {
    struct http_request *r = &all[i].request;
    all[i].load = load;
    http_request_init(r);
    r->target = target;
    r->method = "POST";
    r->path = "/v1/chat/completions";
    r->headers = headers;
    r->parts = &body;
    r->n_parts = 1;
    r->user = &all[i];
    r->done = on_done;
    start(&all[i]);
  }
  load->running = n;
  loop_run(load->loop);
  for (size_t i = 0; i < n; i++)
    http_request_free(&all[i].request);
  mem_free(all);
  blob_unref(body);
}

int main(int argc, char **argv) {
  struct load load = {0};
  struct http_target_options target_options = {0};
  struct http_client_options options = {0};
  struct http_target *target;
  struct err err;
  size_t n = 64;
  double seconds = 3;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--connections") == 0 && i + 1 < argc)
      n = strtoul(argv[++i], NULL, 10);
    else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
      seconds = strtod(argv[++i], NULL);
    else if (strcmp(argv[i], "--full") == 0)
      target_options.full = true;
    else if (strcmp(argv[i], "--kernel-stamps") == 0)
      options.kernel_stamps = true;
    else if (argv[i][0] != '-' && !target_options.url)
      target_options.url = argv[i];
    else
      return usage();
  }
  if (!target_options.url || n == 0)
    return usage();
  if (http_global_init(&err) || !(load.loop = loop_new(&err)))
    goto failed;
  options.loop = load.loop;
  options.max_connections = (uint32_t)n;
  if (!(load.client = http_client_new(&options, &err)) ||
      http_client_target(load.client, &target_options, &target, &err))
    goto failed;
  uint64_t start_ns = clock_ns(), cpu = clock_thread_cpu_ns();
  load.end_ns = start_ns + (uint64_t)(seconds * 1e9);
  run(&load, target, n);
  double took = (double)(clock_ns() - start_ns) / 1e9;
  double cpu_us = (double)(clock_thread_cpu_ns() - cpu) / 1e3 / (double)load.requests;
  if (load.failed)
    fprintf(stderr, "http_load: %s\n", load.problem);
  printf("{\"requests\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"seconds\":%.3f,\"per_second\":%.0f,"
         "\"cpu_us\":%.3f}\n",
         load.requests, load.failed, took, (double)load.requests / took, cpu_us);
  http_client_delete(load.client);
  loop_delete(load.loop);
  return load.failed ? 1 : 0;

failed:
  fprintf(stderr, "http_load: %s\n", err.text);
  return 2;
}

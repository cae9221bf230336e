/* httpd_hello.c: the smallest server on io/httpd: 200 bytes of JSON for every request. What wrk and
 * our own client are measured against, so that the server is the same for both.
 * Usage: httpd_hello PORT [spin]; with `spin` it looks for requests all the time instead of
 * sleeping, so that no client pays for waking it (a slow one would for each request, a fast one
 * hardly ever); ends on SIGINT or SIGTERM and prints requests and CPU to stderr. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "io/httpd.h"

struct hello {
  struct loop *loop;
  uint64_t requests;
};

static const char body[] = "{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion\",\"created\":0,"
                           "\"model\":\"hello\",\"choices\":[{"
                           "\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"Hello.\"}"
                           ",\"finish_reason\":\"stop\"}],"
                           "\"usage\":{\"prompt_tokens\":8}}";

static void on_request(void *user, struct httpd_request *req) {
  struct hello *hello = user;
  hello->requests++;
  httpd_reply(req, 200, "Content-Type: application/json\r\n", body, sizeof body - 1);
}

static bool look_again(void *user) {
  (void)user;
  return true;
}

static void on_signal(uv_signal_t *signal, int number) {
  (void)number;
  struct hello *hello = signal->data;
  loop_stop(hello->loop);
}

int main(int argc, char **argv) {
  bool spin = argc == 3 && strcmp(argv[2], "spin") == 0;
  if (argc != 2 && !spin) {
    fprintf(stderr, "usage: httpd_hello PORT [spin]\n");
    return 2;
  }
  struct err err;
  struct hello hello = {.loop = loop_new(&err)};
  struct httpd *server;
  struct httpd_options options = {.port = atoi(argv[1]), .on_request = on_request, .user = &hello};
  if (!hello.loop || httpd_listen(hello.loop, &options, &server, &err)) {
    fprintf(stderr, "httpd_hello: %s\n", err.text);
    return 1;
  }
  uv_signal_t signals[2];
  static const int numbers[] = {SIGINT, SIGTERM};
  for (int i = 0; i < 2; i++) {
    uv_signal_init(loop_uv(hello.loop), &signals[i]);
    signals[i].data = &hello;
    uv_signal_start(&signals[i], on_signal, numbers[i]);
  }
  if (spin)
    loop_set_idle(hello.loop, look_again, NULL, 0);
  printf("%d\n", httpd_port(server));
  fflush(stdout);
  loop_run(hello.loop);
  struct loop_stats stats;
  loop_get_stats(hello.loop, &stats);
  double per = hello.requests ? (double)stats.cpu_ns / 1e3 / (double)hello.requests : 0;
  fprintf(stderr, "requests=%" PRIu64 " cpu_s=%.2f cpu_us_per_request=%.2f\n", hello.requests,
          (double)stats.cpu_ns / 1e9, per);
  for (int i = 0; i < 2; i++)
    uv_close((uv_handle_t *)&signals[i], NULL);
  httpd_close(server);
  loop_delete(hello.loop);
  return 0;
}

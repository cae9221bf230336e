/* render_speed.c: how fast a chat template renders a long conversation.
 *
 * Usage: render_speed TEMPLATE CHAT.json [SECONDS]; TEMPLATE is a .jinja or a
 * tokenizer_config.json, CHAT has the fields of fixtures/chat. Prints
 * {"bytes", "seconds", "renders", "parse_seconds"}: bytes of one rendering, thread CPU of one
 * (mean), and of reading the template. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "text/json.h"
#include "text/template.h"

#include "readfile.h"

static void need(int rc, const struct err *err) {
  if (rc < 0) {
    fprintf(stderr, "render_speed: %s\n", err->text);
    exit(1);
  }
}

/* The template's text out of a tokenizer_config.json. */
static char *source_of(char *file, size_t *len) {
  struct value config;
  struct err err;
  need(json_parse(file, *len, &config, &err), &err);
  const struct value *text = template_of_config(&config, true, &err);
  need(text ? 0 : err.code, &err);
  char *source = mem_strndup(text->u.string.data, text->u.string.len);
  *len = text->u.string.len;
  value_free(&config);
  mem_free(file);
  return source;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: render_speed TEMPLATE CHAT.json [SECONDS]\n");
    return 2;
  }
  size_t source_len, json_len;
  char *source = read_file(argv[1], &source_len), *json = read_file(argv[2], &json_len);
  size_t name_len = strlen(argv[1]);
  if (name_len > 5 && !strcmp(argv[1] + name_len - 5, ".json"))
    source = source_of(source, &source_len);
  double limit = argc > 3 ? atof(argv[3]) : 1;
  struct err err;
  struct value row;
  struct template *tpl;
  struct template_chat chat;
  struct template_options opts = {.now = {2026, 8, 22, 12, 34, 56, 0}, .has_now = true};
  struct buf out;
  buf_init(&out, BUF_MAX_OWN);
  need(json_parse(json, json_len, &row, &err), &err);
  uint64_t start = clock_thread_cpu_ns();
  need(template_load(source, source_len, argv[1], &tpl, &err), &err);
  double parse = (double)(clock_thread_cpu_ns() - start) / 1e9;
  need(template_chat_read(&row, &chat, &err), &err);
  uint64_t renders = 0;
  start = clock_thread_cpu_ns();
  do {
    buf_reset(&out);
    need(template_render_chat(tpl, &chat, &opts, &out, &err), &err);
    renders++;
  } while ((double)(clock_thread_cpu_ns() - start) < limit * 1e9);
  double seconds = (double)(clock_thread_cpu_ns() - start) / 1e9 / (double)renders;
  printf("{\"bytes\": %zu, \"seconds\": %.9f, \"renders\": %llu, \"parse_seconds\": %.9f}\n",
         out.len, seconds, (unsigned long long)renders, parse);
  buf_free(&out);
  template_delete(tpl);
  value_free(&row);
  mem_free(source);
  mem_free(json);
  return 0;
}

/* fleetopts.h: the options that say where requests go, and the fleet they describe.
 *
 * Shared by every command that talks to servers. A fleet file is a Lua table (API.md); options on
 * the command line stand over it. */
#ifndef CMD_FLEETOPTS_H
#define CMD_FLEETOPTS_H

#include "cmd/options.h"
#include "run/fleet.h"

struct fleet_options {
  const char *fleet_file, *gateway, *model, *tokenizer, *family, *template, *tenant, *now;
  const char *api_key_env, *api_key_file;
  const char *ca_file, *cert_file, *key_file, *proxy;
  struct options_list replicas, metrics, headers;
  bool insecure, http2;
};

/* The rows for a command's table; `type` has a field `field` of struct fleet_options. */
#define FLEET_OPTIONS_SPECS(type, field)                                                           \
  {"--replica", "ID=URL", OPTIONS_LIST, offsetof(type, field.replicas),                            \
   "a server to send to; repeat for more (URL alone: r0, r1, ...; ID|URL also works). Those of "   \
   "--fleet come first"},                                                                          \
      {"--fleet", "FILE", OPTIONS_TEXT, offsetof(type, field.fleet_file),                          \
       "a Lua file that returns {replicas = {{id=, url=}, ...}, model =, headers = {...}, ...}"},  \
      {"--gateway", "URL", OPTIONS_ONE_TEXT, offsetof(type, field.gateway),                        \
       "send every request to this URL; the gateway chooses the replica"},                         \
      {"--metrics", "ID=URL", OPTIONS_LIST, offsetof(type, field.metrics),                         \
       "where a replica's metrics are, when not at its URL plus /metrics (checked and kept; this " \
       "version does not scrape them yet)"},                                                       \
      {"--model", "NAME", OPTIONS_TEXT, offsetof(type, field.model),                               \
       "the model to ask for (default: the first one that /v1/models lists)"},                     \
      {"--tokenizer", "NAME", OPTIONS_TEXT, offsetof(type, field.tokenizer),                       \
       "the model's tokenizer: a tokenizer.json or its folder, a tiktoken rank file, a name that " \
       "`make deps` fetched (qwen3), or bytes (one byte, one token). The built-in fleet serves "   \
       "with this, its family and its template too (default: bytes)"},                             \
      {"--family", "NAME", OPTIONS_TEXT, offsetof(type, field.family),                             \
       "whose rank file --tokenizer is: cl100k_base, o200k_base, o200k_harmony, llama4, kimi_k2"}, \
      {"--template", "PATH", OPTIONS_TEXT, offsetof(type, field.template),                         \
       "the model's chat template: a file, the folder of its tokenizer_config.json, or qwen3; "    \
       "harmony "                                                                                  \
       "is gpt-oss's own format"},                                                                 \
      {"--now", "TIME", OPTIONS_TEXT, offsetof(type, field.now),                                   \
       "the present as the servers have it, for templates that print it and for Harmony's date, "  \
       "as in 2026-08-22 or 2026-08-22T12:00:00 (vLLM: VLLM_SYSTEM_START_DATE, else its day). "    \
       "The built-in fleet is given it too (default: what a simulated server says, else the "      \
       "clock)"},                                                                                  \
      {"--tenant", "NAME", OPTIONS_TEXT, offsetof(type, field.tenant),                             \
       "the tenant that routers are told"},                                                        \
      {"--header", "LINE", OPTIONS_LIST, offsetof(type, field.headers),                            \
       "\"Name: value\" on every request; masked in run.json"},                                    \
      {"--api-key-env", "VAR", OPTIONS_TEXT, offsetof(type, field.api_key_env),                    \
       "environment variable with the key for \"Authorization: Bearer\""},                         \
      {"--api-key-file", "FILE", OPTIONS_TEXT, offsetof(type, field.api_key_file),                 \
       "file with that key (its first line)"},                                                     \
      {"--ca-file", "FILE", OPTIONS_TEXT, offsetof(type, field.ca_file),                           \
       "certificate authorities to trust, PEM (default: the system's)"},                           \
      {"--cert-file", "FILE", OPTIONS_TEXT, offsetof(type, field.cert_file),                       \
       "client certificate, PEM"},                                                                 \
      {"--key-file", "FILE", OPTIONS_TEXT, offsetof(type, field.key_file),                         \
       "private key of the client certificate, PEM"},                                              \
      {"--insecure", NULL, OPTIONS_FLAG, offsetof(type, field.insecure),                           \
       "do not verify certificates (the report says so)"},                                         \
      {"--http2", NULL, OPTIONS_FLAG, offsetof(type, field.http2), "HTTP/2, over TLS only"}, {     \
    "--proxy", "URL", OPTIONS_TEXT, offsetof(type, field.proxy),                                   \
        "reach the fleet through this proxy: http, https, socks4, socks4a, socks5, socks5h (the "  \
        "environment's are never used)"                                                            \
  }

/* Builds *fleet (zeroed by the caller) from file and options. No replica and no gateway given:
 * n_replicas stays 0 and the caller starts the built-in fleet. Errors name the option, or the file
 * and the field. */
NODISCARD int fleet_options_build(const struct fleet_options *o, struct fleet *fleet,
                                  struct err *err);

/* The name of a tokenizer that came with a template becomes that one's folder in f->template, which
 * is set. ERR_NOT_FOUND: neither that, nor a file or folder, nor "harmony". */
NODISCARD int fleet_options_find_template(struct fleet *f, struct err *err);
/* What can be said once every server is known, the plan's own target included; none: the built-in
 * fleet's. */
NODISCARD int fleet_options_check(const struct fleet *fleet, struct err *err);

#endif

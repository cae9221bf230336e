/* h1_parse.c: llhttp's callbacks into calls of net/exchange.h.
 *
 * The reply that most requests get, whole in one read and framed by its Content-Length alone, is
 * read without llhttp, at a third of the cost; what is reported is the same.
 *
 * The body of a read is collected before it is handed on: chunked framing would cut it into one
 * piece per chunk, and what came in one read must be seen as one. Bytes only move towards the front
 * of the buffer that llhttp has already passed. */
#include "net/h1_parse.h"

#include <string.h>
#include <strings.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "net/client.h"

static int on_message_begin(llhttp_t *llhttp) {
  struct h1_parser *p = llhttp->data;
  p->interim = p->in_body = false;
  http_exchange_head(p->x);
  return 0;
}

static int too_many(llhttp_t *llhttp, int rc) {
  struct h1_parser *p = llhttp->data;
  if (rc)
    p->why = p->in_body ? "its trailers are too long" : "its headers are too long";
  return rc ? -1 : 0;
}

/* Trailers are counted, not kept. */
static int count(llhttp_t *llhttp, size_t len) {
  struct h1_parser *p = llhttp->data;
  return too_many(llhttp, http_exchange_count_head(p->x, len));
}

static int on_status(llhttp_t *llhttp, const char *at, size_t len) {
  (void)at;
  return count(llhttp, len);
}

static int on_header_field(llhttp_t *llhttp, const char *at, size_t len) {
  struct h1_parser *p = llhttp->data;
  int rc = count(llhttp, len);
  return rc || p->in_body ? rc : too_many(llhttp, http_exchange_header_name(p->x, at, len));
}

static int on_header_field_complete(llhttp_t *llhttp) {
  struct h1_parser *p = llhttp->data;
  return p->in_body ? 0 : too_many(llhttp, http_exchange_header_name_end(p->x));
}

static int on_header_value(llhttp_t *llhttp, const char *at, size_t len) {
  struct h1_parser *p = llhttp->data;
  int rc = count(llhttp, len);
  return rc || p->in_body ? rc : too_many(llhttp, http_exchange_header_value(p->x, at, len));
}

/* Each header with its ": " and line break. */
static int on_header_value_complete(llhttp_t *llhttp) {
  struct h1_parser *p = llhttp->data;
  int rc = count(llhttp, 4);
  return rc || p->in_body ? rc : too_many(llhttp, http_exchange_header_value_end(p->x));
}

/* What no client may take for a reply, whatever llhttp thinks of it. */
static const char *refusal(const llhttp_t *llhttp, const struct http_request *r) {
  size_t len = 0;
  if (llhttp->http_major != 1)
    return "its version is not HTTP/1";
  if (llhttp->status_code < 100)
    return "its status is none";
  if (llhttp->status_code == 101)
    return "it wants to switch protocols";
  if (llhttp->flags & F_TRANSFER_ENCODING) {
    const char *coding = http_response_header(r, "transfer-encoding", &len);
    if (!coding || http_odd_transfer_coding(coding, len))
      return "its Transfer-Encoding is one that nobody asked for";
  }
  return NULL;
}

/* Returns 1 where no body may follow whatever the headers say. */
static int on_headers_complete(llhttp_t *llhttp) {
  struct h1_parser *p = llhttp->data;
  int status = llhttp->status_code;
  p->why = refusal(llhttp, p->x->request);
  if (p->why)
    return -1;
  if (status < 200) {
    p->interim = true;
    return count(llhttp, 16);
  }
  p->in_body = true;
  http_exchange_headers_done(p->x, status, p->read);
  return p->head_request || status == 204 || status == 304 ? 1 : 0;
}

static int on_body(llhttp_t *llhttp, const char *at, size_t len) {
  struct h1_parser *p = llhttp->data;
  if (!p->body)
    p->body = (char *)at; /* it is in the caller's buffer, which may be written to */
  else
    memmove(p->body + p->body_len, at, len);
  p->body_len += len;
  p->pieces++;
  return 0;
}

static int on_message_complete(llhttp_t *llhttp) {
  struct h1_parser *p = llhttp->data;
  if (p->interim)
    return 0;
  p->whole = true;
  p->keep_alive = llhttp_should_keep_alive(llhttp) != 0;
  return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_message_begin = on_message_begin,
    .on_status = on_status,
    .on_header_field = on_header_field,
    .on_header_field_complete = on_header_field_complete,
    .on_header_value = on_header_value,
    .on_header_value_complete = on_header_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

/* ---- the usual reply ---- */

#define PLAIN_HEAD_MAX ((size_t)16 << 10) /* whether more is too much, llhttp's callbacks say */
#define PLAIN_LENGTH_DIGITS 9

/* What names are mostly made of, in lower case; 0: let llhttp have a look. */
static const char name_chars[256] = {
    ['-'] = '-', ['_'] = '_', ['0'] = '0', ['1'] = '1', ['2'] = '2', ['3'] = '3', ['4'] = '4',
    ['5'] = '5', ['6'] = '6', ['7'] = '7', ['8'] = '8', ['9'] = '9', ['A'] = 'a', ['B'] = 'b',
    ['C'] = 'c', ['D'] = 'd', ['E'] = 'e', ['F'] = 'f', ['G'] = 'g', ['H'] = 'h', ['I'] = 'i',
    ['J'] = 'j', ['K'] = 'k', ['L'] = 'l', ['M'] = 'm', ['N'] = 'n', ['O'] = 'o', ['P'] = 'p',
    ['Q'] = 'q', ['R'] = 'r', ['S'] = 's', ['T'] = 't', ['U'] = 'u', ['V'] = 'v', ['W'] = 'w',
    ['X'] = 'x', ['Y'] = 'y', ['Z'] = 'z', ['a'] = 'a', ['b'] = 'b', ['c'] = 'c', ['d'] = 'd',
    ['e'] = 'e', ['f'] = 'f', ['g'] = 'g', ['h'] = 'h', ['i'] = 'i', ['j'] = 'j', ['k'] = 'k',
    ['l'] = 'l', ['m'] = 'm', ['n'] = 'n', ['o'] = 'o', ['p'] = 'p', ['q'] = 'q', ['r'] = 'r',
    ['s'] = 's', ['t'] = 't', ['u'] = 'u', ['v'] = 'v', ['w'] = 'w', ['x'] = 'x', ['y'] = 'y',
    ['z'] = 'z'};

struct plain_reply {
  const char *cur, *end;
  size_t counted; /* bytes that http_exchange_count_head is told */
  size_t length;  /* of the body */
  bool has_length;
  int n; /* headers */
};

/* The first byte that is no printable ASCII. */
static const char *text_end(const char *p, const char *end) {
#ifdef __SSE2__
  for (; end - p >= 16; p += 16) {
    __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m128i low = _mm_cmplt_epi8(x, _mm_set1_epi8(' ')); /* signed: those above ASCII, too */
    int odd = _mm_movemask_epi8(_mm_or_si128(low, _mm_cmpeq_epi8(x, _mm_set1_epi8(0x7f))));
    if (odd)
      return p + __builtin_ctz((unsigned)odd);
  }
#endif
  while (p < end && *p >= ' ' && *p < 0x7f)
    p++;
  return p;
}

/* Text up to a line break: its length, cur behind the break. 0: it is empty, holds anything but
 * printable ASCII, begins or ends with a space, or the break is not all there. */
static size_t plain_text(struct plain_reply *r) {
  const char *text = r->cur, *end = r->end, *p = text_end(text, end);
  if (end - p < 2 || p[0] != '\r' || p[1] != '\n' || p == text || *text == ' ' || p[-1] == ' ')
    return 0;
  r->cur = p + 2;
  return (size_t)(p - text);
}

#define IS_NAME(name, len, literal)                                                                \
  ((len) == sizeof(literal) - 1 && memcmp((name), (literal), sizeof(literal) - 1) == 0)

/* Whether a header leaves the framing to Content-Length, which is taken. */
static bool plain_framing(struct plain_reply *r, const char *name, size_t name_len,
                          const char *value, size_t len) {
  if (IS_NAME(name, name_len, "content-length")) {
    size_t length = 0;
    if (r->has_length || len > PLAIN_LENGTH_DIGITS)
      return false;
    for (size_t i = 0; i < len; i++) {
      if (value[i] < '0' || value[i] > '9')
        return false;
      length = length * 10 + (size_t)(value[i] - '0');
    }
    r->has_length = true;
    r->length = length;
    return true;
  }
  if (IS_NAME(name, name_len, "connection"))
    return len == 10 && strncasecmp(value, "keep-alive", 10) == 0;
  return !IS_NAME(name, name_len, "transfer-encoding") && !IS_NAME(name, name_len, "upgrade") &&
         !IS_NAME(name, name_len, "proxy-connection");
}

/* One header, as http_exchange_header_name and its sisters write it. */
static bool plain_header(struct plain_reply *r, struct http_request *request) {
  struct buf *b = &request->response_headers;
  const char *name = r->cur, *p = name;
  while (p < r->end && name_chars[(unsigned char)*p])
    p++;
  size_t name_len = (size_t)(p - name);
  if (!name_len || p == r->end || *p != ':')
    return false;
  p++;
  while (p < r->end && *p == ' ')
    p++;
  r->cur = p;
  size_t len = plain_text(r);
  if (!len || buf_reserve(b, name_len + len + 3))
    return false;
  char *out = b->data + b->len;
  for (size_t i = 0; i < name_len; i++)
    out[i] = name_chars[(unsigned char)name[i]];
  if (!plain_framing(r, out, name_len, p, len))
    return false;
  out[name_len] = ':';
  out[name_len + 1] = ' ';
  memcpy(out + name_len + 2, p, len);
  out[name_len + 2 + len] = '\n';
  if (r->n < HTTP_HEADERS_LISTED)
    request->listed[r->n] = (struct http_header){.name_at = (uint32_t)b->len,
                                                 .name_len = (uint32_t)name_len,
                                                 .value_at = (uint32_t)(b->len + name_len + 2),
                                                 .value_len = (uint32_t)len};
  r->n++;
  b->len += name_len + len + 3;
  b->data[b->len] = '\0';
  r->counted += name_len + len + 4;
  return r->counted <= PLAIN_HEAD_MAX;
}

/* The head, up to the body: its status. 0: it is llhttp's, to which everything is new then. */
static int plain_head(struct plain_reply *r, struct http_request *request) {
  const char *p = r->cur;
  if (r->end - p < 16 || memcmp(p, "HTTP/1.1 ", 9) != 0 || p[12] != ' ')
    return 0;
  int status = 0;
  for (int i = 9; i < 12; i++) {
    if (p[i] < '0' || p[i] > '9')
      return 0;
    status = status * 10 + (p[i] - '0');
  }
  r->cur += 13;
  r->counted = plain_text(r);
  if (!r->counted || status < 200 || status == 204 || status == 304)
    return 0;
  while (r->cur < r->end && *r->cur != '\r')
    if (!plain_header(r, request))
      return 0;
  if (r->end - r->cur < 2 || r->cur[1] != '\n' || !r->has_length)
    return 0;
  r->cur += 2;
  return (size_t)(r->end - r->cur) >= r->length ? status : 0;
}

/* Replies of one server mostly have the same head, byte for byte: read once. */
static int known_head(struct plain_reply *r, struct http_exchange *x) {
  const struct head_memo *m = &x->client->head;
  struct http_request *request = x->request;
  if (!m->len || (size_t)(r->end - r->cur) < m->len + m->length ||
      memcmp(r->cur, m->bytes, m->len) != 0 ||
      buf_add(&request->response_headers, m->headers, m->headers_len))
    return 0;
  memcpy(request->listed, m->listed, (size_t)m->n_listed * sizeof *m->listed);
  r->cur += m->len;
  r->counted = m->counted;
  r->length = m->length;
  r->n = m->n_listed;
  return m->status;
}

static void remember_head(const struct plain_reply *r, const char *bytes, int status,
                          const struct http_exchange *x) {
  struct head_memo *m = &x->client->head;
  const struct buf *headers = &x->request->response_headers;
  size_t len = (size_t)(r->cur - bytes);
  m->len = 0;
  if (len > sizeof m->bytes || headers->len > sizeof m->headers || r->n > HTTP_HEADERS_LISTED)
    return;
  memcpy(m->bytes, bytes, len);
  memcpy(m->headers, headers->data, headers->len);
  memcpy(m->listed, x->request->listed, (size_t)r->n * sizeof *m->listed);
  m->len = len;
  m->headers_len = headers->len;
  m->counted = r->counted;
  m->length = r->length;
  m->status = status;
  m->n_listed = r->n;
}

/* The whole reply, if it is such a one; else false, and nothing has been reported. */
static bool read_plain(struct h1_parser *p, const char *bytes, size_t len,
                       const struct http_read *read, size_t *used, enum h1_verdict *verdict) {
  struct http_exchange *x = p->x;
  struct plain_reply r = {.cur = bytes, .end = bytes + len};
  if (p->head_request)
    return false;
  http_exchange_head(x);
  int status = known_head(&r, x);
  if (!status && (status = plain_head(&r, x->request)))
    remember_head(&r, bytes, status, x);
  if (!status)
    return false;
  int rc = http_exchange_count_head(x, r.counted);
  assert(rc == 0); /* these are the first */
  (void)rc;
  if (r.n <= HTTP_HEADERS_LISTED)
    x->request->n_listed = r.n;
  http_exchange_headers_done(x, status, read);
  p->whole = p->keep_alive = true;
  *verdict = H1_WHOLE;
  *used = (size_t)(r.cur - bytes) + r.length;
  if (r.length && http_exchange_body(x, r.cur, r.length, read)) {
    *verdict = H1_STOP;
    *used = len;
  }
  return true;
}

/* ---- */

void h1_parser_begin(struct h1_parser *p, struct http_exchange *x) {
  p->x = x;
  p->why = NULL;
  p->head_request = strcmp(x->request->method, "HEAD") == 0;
  p->fresh = true;
  p->interim = p->whole = p->in_body = p->keep_alive = false;
  p->pieces = 0;
}

static void begin_llhttp(struct h1_parser *p) {
  p->fresh = false;
  llhttp_init(&p->llhttp, HTTP_RESPONSE, &settings);
  p->llhttp.data = p;
}

enum h1_verdict h1_parser_feed(struct h1_parser *p, char *bytes, size_t len,
                               const struct http_read *read, size_t *used) {
  enum h1_verdict verdict;
  if (p->fresh) {
    if (read_plain(p, bytes, len, read, used, &verdict))
      return verdict;
    begin_llhttp(p);
  }
  p->read = read;
  p->body = NULL;
  p->body_len = p->pieces = 0;
  llhttp_errno_t rc = llhttp_execute(&p->llhttp, bytes, len);
  *used = len;
  if (p->body_len && http_exchange_body(p->x, p->body, p->body_len, read))
    return H1_STOP;
  if (p->whole) {
    *used = (size_t)(llhttp_get_error_pos(&p->llhttp) - bytes);
    return H1_WHOLE;
  }
  if (rc == HPE_OK)
    return H1_MORE;
  if (!p->why)
    p->why = llhttp_get_error_reason(&p->llhttp);
  return H1_GARBLED;
}

enum h1_verdict h1_parser_finish(struct h1_parser *p, const struct http_read *read) {
  if (p->fresh)
    return H1_MORE;
  p->read = read;
  llhttp_errno_t rc = llhttp_finish(&p->llhttp);
  if (p->whole) {
    p->keep_alive = false;
    return H1_WHOLE;
  }
  (void)rc; /* an end in the middle, or before the first byte */
  return H1_MORE;
}

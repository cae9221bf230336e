/* h1_pool.c: a target's connections. Last in, first out: as many stay warm as the load needs, and
 * what lies below is what the server may close. At the limit requests wait in line. */
#include "base/mem.h"
#include "net/h1.h"

struct h1_pool *h1_pool_of(struct h1 *h1, struct http_target *t) {
  if (!t->h1) {
    struct h1_pool *pool = MEM_NEW(struct h1_pool);
    pool->h1 = h1;
    pool->target = t;
    pool->next = h1->pools;
    h1->pools = pool;
    t->h1 = pool;
  }
  return t->h1;
}

void h1_pool_forget(struct h1_conn *c) {
  if (c->prev)
    c->prev->next = c->next;
  else
    c->pool->idle = c->next;
  if (c->next)
    c->next->prev = c->prev;
  c->next = c->prev = NULL;
}

struct h1_conn *h1_pool_take(struct h1_pool *pool) {
  struct h1_conn *c = pool->idle;
  if (c)
    h1_pool_forget(c);
  return c;
}

void h1_pool_put(struct h1_conn *c) {
  struct h1_pool *pool = c->pool;
  c->next = pool->idle;
  c->prev = NULL;
  if (c->next)
    c->next->prev = c;
  pool->idle = c;
}

bool h1_pool_full(const struct h1_pool *pool) {
  return pool->open >= pool->h1->client->options.max_connections;
}

void h1_pool_close(struct h1 *h1) {
  for (struct h1_pool *pool = h1->pools, *next; pool; pool = next) {
    next = pool->next;
    assert(!pool->idle && !pool->line.first && pool->open == 0);
    pool->target->h1 = NULL;
    mem_free(pool);
  }
  h1->pools = NULL;
}

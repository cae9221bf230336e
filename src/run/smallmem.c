/* smallmem.c: small blocks by length class; see smallmem.h. */
#include "run/smallmem.h"

#include <stdalign.h>
#include <string.h>

#include "base/mem.h"

#define PAGE_BYTES_MIN ((size_t)8 << 10)
#define PAGE_BYTES_MAX ((size_t)64 << 10)

struct smallmem_page {
  struct smallmem_page *next;
  size_t bytes;
  alignas(SMALLMEM_STEP) char data[];
};

/* What is left of the old page goes to the lists. */
static void keep_rest(struct smallmem *m) {
  while (m->fresh_bytes >= SMALLMEM_STEP) {
    size_t bytes = m->fresh_bytes;
    if (bytes > SMALLMEM_STEP * SMALLMEM_CLASSES)
      bytes = SMALLMEM_STEP * SMALLMEM_CLASSES;
    m->fresh_bytes -= bytes;
    smallmem_release(m, m->fresh + m->fresh_bytes, bytes);
  }
}

/* Pages double, so that a state with little in it is small. False when there is no memory. */
static bool add_page(struct smallmem *m) {
  size_t bytes = m->pages ? m->pages->bytes * 2 : PAGE_BYTES_MIN;
  if (bytes > PAGE_BYTES_MAX)
    bytes = PAGE_BYTES_MAX;
  struct smallmem_page *page = mem_try_resize(NULL, bytes);
  if (!page)
    return false;
  keep_rest(m);
  page->next = m->pages;
  page->bytes = bytes;
  m->pages = page;
  m->fresh = page->data;
  m->fresh_bytes = (bytes - sizeof *page) / SMALLMEM_STEP * SMALLMEM_STEP;
  return true;
}

static void *take(struct smallmem *m, size_t size) {
  void *block = smallmem_take(m, size);
  if (block)
    return block;
  size_t bytes = (smallmem_class(size) + 1) * SMALLMEM_STEP;
  if (m->fresh_bytes < bytes && !add_page(m))
    return NULL;
  m->fresh_bytes -= bytes;
  return m->fresh + m->fresh_bytes;
}

void smallmem_release(struct smallmem *m, void *p, size_t size) {
  if (p && !smallmem_put(m, p, size))
    mem_free(p);
}

void *smallmem_resize(struct smallmem *m, void *p, size_t old_size, size_t size) {
  if (!p)
    return smallmem_is_small(size) ? take(m, size) : mem_try_resize(NULL, size);
  bool was_small = smallmem_is_small(old_size), small = smallmem_is_small(size);
  if (!was_small && !small)
    return mem_try_resize(p, size);
  if (was_small && small && smallmem_class(old_size) == smallmem_class(size))
    return p;
  void *q = small ? take(m, size) : mem_try_resize(NULL, size);
  if (!q)
    return was_small && size < old_size ? p : NULL; /* a block of a larger class does as well */
  memcpy(q, p, old_size < size ? old_size : size);
  smallmem_release(m, p, old_size);
  return q;
}

void smallmem_free(struct smallmem *m) {
  for (struct smallmem_page *page = m->pages, *next; page; page = next) {
    next = page->next;
    mem_free(page);
  }
  *m = (struct smallmem){0};
}

/* pychar_table.h: the tables behind pychar.h; written by pychar_table.py. */
#ifndef TEXT_PYCHAR_TABLE_H
#define TEXT_PYCHAR_TABLE_H

#include "base/base.h"

struct pychar_range {
  uint32_t first, last, classes;
};
/* Sorted; code points of no class are left out. */
extern const struct pychar_range pychar_ranges[];
extern const size_t pychar_n_ranges;

struct pychar_mapping {
  uint32_t c;
  uint32_t to[4]; /* by enum pychar_case; the high bit marks an index into pychar_multi */
};
extern const struct pychar_mapping pychar_mappings[];
extern const size_t pychar_n_mappings;
extern const uint32_t pychar_multi[][3]; /* 0 ends a shorter one */

extern const uint32_t pychar_zeros[]; /* the zero of every run of ten decimal digits */
extern const size_t pychar_n_zeros;

#endif

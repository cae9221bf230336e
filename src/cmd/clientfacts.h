/* clientfacts.h: what this machine offers to a measurement, for `perigee doctor`. */
#ifndef CMD_CLIENTFACTS_H
#define CMD_CLIENTFACTS_H

#include "text/value.h"

/* {descriptors, descriptors_hard (numbers), kernel_stamps (a received byte really has one), cpus
 * (that this process may use), cpus_online, governor (null: not readable), versions (one line of
 * text), tokenizers [{path, names[]}]}. Any thread; the caller frees. */
struct value clientfacts_value(void);

#endif

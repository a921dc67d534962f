/*-------------------------------------------------------------------------
 *
 * la_late_start.h
 *	  starts a query without most children of nodes that are pruned at run time
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_LATE_START_H
#define LA_LATE_START_H

#include "executor/execdesc.h"

extern void *la_late_begin(QueryDesc *queryDesc, int eflags);
extern void la_late_end(void *begun);
extern void la_late_settle(QueryDesc *queryDesc, int eflags);

#endif							/* LA_LATE_START_H */

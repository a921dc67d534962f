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

#include "attach/la_methods.h"
#include "la_guc.h"

extern const LaFeatureMethods la_late_start_methods;

extern void *la_late_begin_start(QueryDesc *queryDesc, int eflags);
extern void la_late_end_start(void *begun);
extern void la_late_started(QueryDesc *queryDesc, int eflags);

extern const LaSetting la_late_settings[];


#endif							/* LA_LATE_START_H */

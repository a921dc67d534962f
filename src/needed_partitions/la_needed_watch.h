/*-------------------------------------------------------------------------
 *
 * la_needed_watch.h
 *	  which statements are looked at: by the setting, and by the tables that have a policy
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_NEEDED_WATCH_H
#define LA_NEEDED_WATCH_H

#include "executor/execdesc.h"

#include "la_guc.h"
#include "needed_partitions/la_needed_statement.h"

extern const LaSetting la_needed_settings[];

extern void la_needed_start(QueryDesc *query, int eflags);
extern LaNeeded *la_needed_watch(ModifyTableState *node);

#endif							/* LA_NEEDED_WATCH_H */

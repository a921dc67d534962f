/*-------------------------------------------------------------------------
 *
 * la_interval_owner.h
 *	  work that is done as the owner of a table
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INTERVAL_OWNER_H
#define LA_INTERVAL_OWNER_H

#include "la_try.h"

/* What was before. */
typedef struct LaIntervalOwner
{
	Oid			user;
	int			security_context;
	int			guc_level;
} LaIntervalOwner;

extern void la_interval_owner_begin(LaIntervalOwner *before, Oid relation,
									const char *time_zone);
extern void la_interval_owner_execute(const char *command);
extern const char *la_interval_owner_name(Oid relation);
extern void la_interval_owner_end(const LaIntervalOwner *before);

extern ErrorData *la_interval_try(LaTriedWork work, void *arg);
extern bool la_interval_interrupted(const ErrorData *error, int sqlstate);

#endif							/* LA_INTERVAL_OWNER_H */

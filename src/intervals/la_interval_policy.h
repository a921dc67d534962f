/*-------------------------------------------------------------------------
 *
 * la_interval_policy.h
 *	  which partitions a table shall have
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INTERVAL_POLICY_H
#define LA_INTERVAL_POLICY_H

#include "datatype/timestamp.h"

/* Steps and bounds are texts of the key's type, as in the table of policies. */
typedef struct LaIntervalPolicy
{
	Oid			parent;
	char	   *step;
	char	   *origin;			/* some bound of the series */
	int			changes;		/* of the step, in ascending order */
	char	  **change_starts;
	char	  **change_steps;
	char	   *time_zone;		/* of keys of times, else NULL */
	int			premake;		/* partitions after the one in use */
	char	   *retention;		/* or NULL: partitions stay */
	bool		drops;			/* those that were detached */
	char	   *names;			/* pattern, or NULL */
	char	   *tablespace;		/* or NULL */
	char	   *storage;		/* or NULL */
	int			max_partitions; /* that a statement's rows may need */
	int			max_distance;	/* in steps, from the last partition */
	Interval   *analyze_every;	/* or NULL */
	char	   *version;		/* another one after each change; of a policy
								 * that was read */
} LaIntervalPolicy;

extern LaIntervalPolicy *la_interval_policy_read(Oid parent);
extern LaIntervalPolicy *la_interval_policy_lock(Oid parent);
extern LaIntervalPolicy *la_interval_policy_need(Oid parent);
extern void la_interval_policy_write(const LaIntervalPolicy *policy);
extern bool la_interval_policy_remove(Oid parent);
extern bool la_interval_policy_remove_stale(Oid parent);
extern List *la_interval_policy_parents(void);

#endif							/* LA_INTERVAL_POLICY_H */

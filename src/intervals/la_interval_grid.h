/*-------------------------------------------------------------------------
 *
 * la_interval_grid.h
 *	  the series of ranges into which a policy divides the values of a key
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INTERVAL_GRID_H
#define LA_INTERVAL_GRID_H

#include "fmgr.h"
#include "utils/relcache.h"

#include "intervals/la_interval_policy.h"
#include "partitions/la_partition_series.h"

/* A value of the key, and its text, or NULL where nobody needed it so far. */
typedef struct LaIntervalBound
{
	Datum		value;
	char	   *text;
} LaIntervalBound;

/* A range of values, from the lower bound to just below the upper one. */
typedef struct LaIntervalRange
{
	LaIntervalBound lower;
	LaIntervalBound upper;
	const LaPartitionSeries *series;	/* that it belongs to */
	int64		number;			/* in the series */
	bool		is_whole;		/* as in the series, nothing is cut off */
} LaIntervalRange;

/* Ranges of a step, from a value on. */
typedef struct LaIntervalSegment
{
	LaIntervalBound start;		/* of the first segment unused */
	LaPartitionSeries *series;
} LaIntervalSegment;

typedef struct LaIntervalGrid
{
	Oid			key_type;		/* of a domain the type below it */
	int32		modifier;
	FmgrInfo	compare;
	Oid			collation;
	int			count;			/* segments */
	LaIntervalSegment *segments;	/* in ascending order */
} LaIntervalGrid;

extern Relation la_interval_grid_open(Oid parent);
extern bool la_interval_grid_is_time(Oid key_type);
extern LaIntervalGrid *la_interval_grid_make(const LaIntervalPolicy *policy,
											 Relation parent);
extern LaIntervalBound la_interval_grid_bound(const LaIntervalGrid *grid,
											  char *text);
extern LaIntervalBound la_interval_grid_complete(Oid key_type, const LaIntervalBound *bound);
extern bool la_interval_grid_is_finite(Oid key_type, const LaIntervalBound *bound);
extern int	la_interval_grid_compare(const LaIntervalGrid *grid,
									 const LaIntervalBound *a,
									 const LaIntervalBound *b);
extern bool la_interval_grid_ends(const LaIntervalGrid *grid,
								  const LaIntervalBound *value);
extern LaIntervalRange la_interval_grid_find(const LaIntervalGrid *grid,
											 const LaIntervalBound *value);

#endif							/* LA_INTERVAL_GRID_H */

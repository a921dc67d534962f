/*-------------------------------------------------------------------------
 *
 * la_late_settings.c
 *	  settings of late starts
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "late_start/la_late_settings.h"

/*
 * With fewer children than this all are started: there is little to gain.  Arbitrary.
 */
#define LEAST_CHILDREN 16

bool		la_enable_late_start = false;

#ifdef LA_TEST
static int	test_late_children = -1;
#endif

const LaSetting la_late_settings[] = {
	{
		.name = "pg_lookahead.enable_late_start",
		.summary = "Enables starting scans of partitions only once pruning at run time has left them.",
		.flag = &la_enable_late_start,
		.context = PGC_USERSET,
		.flags = GUC_EXPLAIN,
	},
#ifdef LA_TEST
	{
		.name = "pg_lookahead.test_late_children",
		.summary = "Sets the number of children from which on they start late.",
		.detail = "-1 uses the default.",
		.number = &test_late_children,
		.least = -1,
		.most = INT_MAX,
		.context = PGC_SUSET,
		.flags = GUC_NOT_IN_SAMPLE,
	},
#endif
	{0}
};

/*
 * How many children a node has at least, for them to start late.
 */
int
la_late_least_children(void)
{
#ifdef LA_TEST
	if (test_late_children >= 0)
		return Max(test_late_children, 2);
#endif
	return LEAST_CHILDREN;
}

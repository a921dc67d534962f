/*-------------------------------------------------------------------------
 *
 * la_guc.h
 *	  how settings are described, and those that belong to no room
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_GUC_H
#define LA_GUC_H

#include "utils/guc.h"

/*
 * A setting.  Each room has an array of its own, which ends with a name of NULL.
 */
typedef struct LaSetting
{
	const char *name;
	const char *summary;
	const char *detail;			/* such as the meaning of special values */

	/*
	 * One of these: the variable.  A flag or number has its default from the
	 * beginning; that of a text is the empty string.
	 */
	bool	   *flag;
	int		   *number;
	char	  **text;

	int			least;			/* of a number */
	int			most;
	GucContext	context;
	int			flags;
	GucStringCheckHook check;	/* of a text, or NULL */
	GucIntAssignHook assign;	/* of a number, or NULL */
} LaSetting;

extern bool la_enabled;
extern bool la_disable;

#ifdef LA_TEST
/* What all numbers have that are set by tests only. */
#define LA_TEST_NUMBER(variable, low, high) \
	.number = variable, .least = low, .most = high, \
	.context = PGC_SUSET, .flags = GUC_NOT_IN_SAMPLE

extern bool la_test_fail_self_check;
extern bool la_test_fail_worker_table;
extern char *la_test_counter_file;
#endif

extern void la_guc_define(const LaSetting *const *rooms, int count);

#endif							/* LA_GUC_H */

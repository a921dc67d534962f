/*-------------------------------------------------------------------------
 *
 * la_self_check.h
 *	  private structures of core that are not as expected
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_SELF_CHECK_H
#define LA_SELF_CHECK_H

#include "la_reason.h"

/* What is trusted, or not, together. */
typedef struct LaSelfCheck
{
	const char *subject;		/* "index scans" */
	bool		failed;			/* in this session: left to core from then on */
} LaSelfCheck;

extern bool la_self_check(LaSelfCheck *check, bool as_expected,
						  LaReason *reason);

#endif							/* LA_SELF_CHECK_H */

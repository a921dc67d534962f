/*-------------------------------------------------------------------------
 *
 * la_self_check.c
 *	  private structures of core that are not as expected
 *
 * Features that read such structures compare them with what core has just
 * returned before they rely on them.  One mismatch is enough: what has been wrong
 * in one scan is not looked at in another.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "la_guc.h"
#include "la_self_check.h"

/*
 * Takes the result of a check, and returns it.  A bad one is reported, and
 * becomes the reason of the scan.
 */
bool
la_self_check(LaSelfCheck *check, bool as_expected, LaReason *reason)
{
#ifdef LA_TEST
	if (la_test_fail_self_check)
		as_expected = false;
#endif
	if (as_expected)
		return true;

	check->failed = true;
	*reason = LA_REASON_SELF_CHECK;
	ereport(LOG,
			(errmsg("pg_lookahead leaves %s of this session to core",
					check->subject),
			 errdetail("Private structures of this server are not as expected."),
			 errhint("Rebuild pg_lookahead against this server's header files.")));
	return false;
}

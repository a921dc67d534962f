/*-------------------------------------------------------------------------
 *
 * la_interval_try.c
 *	  steps of maintenance whose errors are caught
 *
 * A cancel is known by who has thrown it.  A function of a table's owner can throw any
 * SQLSTATE, and must not stop the maintenance of other tables by that.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "intervals/la_interval_try.h"

/*
 * As la_try(), but a cancel is thrown.
 */
ErrorData *
la_interval_try(LaTriedWork work, void *arg)
{
	ErrorData  *error = la_try(work, arg);

	if (error != NULL && la_interval_interrupted(error, ERRCODE_QUERY_CANCELED))
		ReThrowError(error);
	return error;
}

/*
 * Whether the session was interrupted: cancelled, by a user or by its statement_timeout, or at the end of its
 * lock_timeout.  Relies on ProcessInterrupts() in postgres.c, which takes the flag of the interrupt back
 * before it throws, so that the flag does not tell.
 */
bool
la_interval_interrupted(const ErrorData *error, int sqlstate)
{
	return error->sqlerrcode == sqlstate &&
		error->funcname != NULL &&
		strcmp(error->funcname, "ProcessInterrupts") == 0;
}

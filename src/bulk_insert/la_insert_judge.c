/*-------------------------------------------------------------------------
 *
 * la_insert_judge.c
 *	  whether the rows of an insert may be collected
 *
 * A function that is called for one row can see, in PostgreSQL, the rows before
 * it, when it is volatile: it takes a new snapshot.  Rows that wait in a batch
 * cannot be seen, so such inserts are left to core.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "optimizer/optimizer.h"

#include "bulk_insert/la_insert_judge.h"

/*
 * Why an insert must be left to core, as far as its query tells.
 */
LaReason
la_insert_judge(Query *query)
{
	if (query->returningList != NIL)
		return LA_REASON_RETURNING;
	if (query->onConflict != NULL)
		return LA_REASON_ON_CONFLICT;
	if (query->hasModifyingCTE)
		return LA_REASON_MODIFYING_WITH;
	if (contain_volatile_functions_not_nextval((Node *) query))
		return LA_REASON_VOLATILE;
	return LA_REASON_NONE;
}

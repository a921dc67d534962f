/*-------------------------------------------------------------------------
 *
 * la_take_over.c
 *	  takes the place of core's stream in the middle of a bitmap
 *
 * What core's stream has taken from the bitmap's iterator must be used before ours
 * begins.  So the scan is given the iterator of an empty bitmap in the
 * meantime: core's stream delivers what it has, and comes to an end.
 *
 * Reads TableScanDescData of relscan.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"
#include "utils/memutils.h"

#include "heap_scan/la_take_over.h"

/*
 * Has core's stream come to its end.
 */
void
la_take_over_begin(LaTakeOver *take_over, TableScanDesc scan,
				   MemoryContext context)
{
	MemoryContext old_context = MemoryContextSwitchTo(context);

	take_over->nothing = tbm_create(work_mem * (Size) 1024, NULL);
	take_over->iterator = scan->st.rs_tbmiterator;
	scan->st.rs_tbmiterator = tbm_begin_iterate(take_over->nothing, NULL,
												InvalidDsaPointer);
	MemoryContextSwitchTo(old_context);
}

/*
 * Core's stream has been used up, or a rescan has dropped it: the iterator comes
 * back unless it was of a bitmap that is gone.
 */
void
la_take_over_finish(LaTakeOver *take_over, TableScanDesc scan,
					bool same_bitmap)
{
	TBMIterator *iterator = &scan->st.rs_tbmiterator;

	if (same_bitmap)
	{
		tbm_end_iterate(iterator);
		*iterator = take_over->iterator;
	}
	else if (!tbm_exhausted(&take_over->iterator))
		tbm_end_iterate(&take_over->iterator);
	memset(&take_over->iterator, 0, sizeof(take_over->iterator));
	tbm_free(take_over->nothing);
	take_over->nothing = NULL;
}

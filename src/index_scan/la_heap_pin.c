/*-------------------------------------------------------------------------
 *
 * la_heap_pin.c
 *	  the pin of the heap AM on the page of the current row
 *
 * An index scan has one page of the table pinned, that of its current row, and
 * the heap AM knows which.  A page that a read stream has pinned is given to it,
 * so that there is never a second pin of ours.
 *
 * Reads IndexFetchHeapData of heapam.h, the heap AM's private struct, as the only
 * file.  Its one field, the pinned buffer, is compared with the row just
 * returned by core before a scan starts to look ahead (la_index_trust.c).
 * Reads IndexScanDescData and IndexFetchTableData of relscan.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "storage/bufmgr.h"

#include "index_scan/la_heap_pin.h"
#include "la_compat.h"

/*
 * Makes a pinned buffer, the page of the next row, the current buffer of the
 * heap AM, which takes over the pin.  A second pin of ours on the page would
 * switch off pruning, which needs the only one (relies on
 * ConditionalLockBufferForCleanup() in bufmgr.c).  The heap AM prunes when it
 * changes buffers, which it now cannot notice, so that is done here: mirrors
 * heapam_index_fetch_tuple() in heapam_handler.c.
 */
void
la_heap_pin_take(IndexFetchTableData *heap_fetch, Buffer buffer)
{
	IndexFetchHeapData *state = (IndexFetchHeapData *) heap_fetch;
	Buffer		previous = state->xs_cbuf;

	if (BufferIsValid(previous))
		ReleaseBuffer(previous);
	state->xs_cbuf = buffer;
	if (previous != buffer)
		la_compat_prune(heap_fetch->rel, buffer);
}

/*
 * Releases the pin: at the end of the scan.
 */
void
la_heap_pin_release(IndexFetchTableData *heap_fetch)
{
	GetHeapamTableAmRoutine()->index_fetch_reset(heap_fetch);
}

/*
 * Does the heap AM's struct look as heapam.h says?  Its pin is compared with the
 * row that core has returned last; before the first entry there is none.
 */
bool
la_heap_pin_as_expected(IndexFetchTableData *heap_fetch, IndexScanDesc scan,
						bool has_entry)
{
	Buffer		pinned = ((IndexFetchHeapData *) heap_fetch)->xs_cbuf;

	if (heap_fetch->rel != scan->heapRelation)
		return false;
	return !has_entry || !BufferIsValid(pinned) ||
		BufferGetBlockNumber(pinned) == ItemPointerGetBlockNumber(&scan->xs_heaptid);
}

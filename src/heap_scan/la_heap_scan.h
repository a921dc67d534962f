/*-------------------------------------------------------------------------
 *
 * la_heap_scan.h
 *	  what scans of a table without an index have in common
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_HEAP_SCAN_H
#define LA_HEAP_SCAN_H

#include "access/heapam.h"
#include "executor/instrument.h"

#include "attach/la_registry.h"
#include "la_guc.h"

/*
 * Pages found in buffers one after the other after which a scan no longer looks
 * ahead, until one has to be read: arbitrary, several reads of the largest
 * usual size.
 */
#define LA_HEAP_SCAN_SLEEP_AFTER 128

extern LaReason la_heap_scan_reason(LaNode *node, int eflags);
extern bool la_heap_scan_may_swap(LaNode *node, TableScanDesc scan);

/*
 * How many pages this process has had to read so far.  While the number stands
 * still, a scan finds its pages in buffers.  An asynchronous read is counted
 * when it begins.
 */
static inline int64
la_heap_scan_reads(void)
{
	return pgBufferUsage.shared_blks_read + pgBufferUsage.local_blks_read;
}

/*
 * Shall scans look ahead at pages that are in buffers, too?  Only a test build
 * can be told so: the tables of tests are seldom anywhere else.
 */
static inline bool
la_heap_scan_forced(void)
{
#ifdef LA_TEST
	return la_test_start_after >= 0;
#else
	return false;
#endif
}

#endif							/* LA_HEAP_SCAN_H */

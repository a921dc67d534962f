/*-------------------------------------------------------------------------
 *
 * la_btree_kill.h
 *	  leaf pages of a btree scan that looks ahead, and their dead items
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BTREE_KILL_H
#define LA_BTREE_KILL_H

#include "access/genam.h"
#include "access/relscan.h"
#include "access/sdir.h"

#include "index_scan/la_tid_entry.h"
#include "la_stats.h"

/*
 * Leaf pages that can have unconsumed entries at a time.  Arbitrary; look-
 * ahead waits when it would need more, which takes entries of 64 leaf pages
 * in fewer than LA_RING_SIZE_MAX entries.
 */
#define LA_LEAVES_MAX 64

/* A leaf page, as the index AM read it. */
typedef struct LaLeaf
{
	BlockNumber page;
	XLogRecPtr	lsn;			/* at the time of reading */
	uint32		pending;		/* entries read and not consumed */
} LaLeaf;

/* An index entry whose rows are dead to everybody. */
typedef struct LaDeadItem
{
	ItemPointerData tid;
	OffsetNumber offset;		/* of the index tuple on the leaf */
	uint16		item;			/* in BTScanPosData.items */
} LaDeadItem;

/*
 * The leaf pages between the entry consumed last and the entry read last.
 * Entries are consumed in the order in which they were read, so only the
 * oldest leaf can have dead items.
 */
typedef struct LaLeafQueue
{
	LaLeaf		leaves[LA_LEAVES_MAX];
	uint32		oldest;			/* number of the leaf being consumed */
	uint32		newest;			/* number of the leaf read last */
	bool		left;			/* has the AM left the newest leaf? */
	LaDeadItem *dead;			/* of the oldest leaf */
	int			ndead;
	int			maxdead;
	MemoryContext context;
} LaLeafQueue;

/*
 * The entries of the leaf on which a btree scan stands.  Positions ascend in
 * the direction of the scan.
 */
typedef struct LaLeafWindow
{
	BlockNumber page;
	XLogRecPtr	lsn;
	int			current;		/* position of the entry returned last */
	int			end;			/* position after the last entry */
} LaLeafWindow;

extern bool la_btree_window(IndexScanDesc scan, ScanDirection direction,
							LaLeafWindow *window);
extern BlockNumber la_btree_block_at(IndexScanDesc scan,
									 ScanDirection direction, int position);
extern bool la_btree_layout_as_expected(IndexScanDesc scan, bool has_entry);
extern void la_leaf_queue_init(LaLeafQueue *queue, MemoryContext context);
extern void la_leaf_queue_start(LaLeafQueue *queue, IndexScanDesc scan);
extern bool la_leaf_queue_may_advance(LaLeafQueue *queue, IndexScanDesc scan,
									  ScanDirection direction,
									  bool *leaves_page);
extern void la_leaf_queue_advanced(LaLeafQueue *queue, IndexScanDesc scan,
								   bool found, bool leaves_page,
								   LaTidEntry *entry);
extern uint32 la_leaf_queue_take(LaLeafQueue *queue, IndexScanDesc scan,
								 ScanDirection direction,
								 LaTidEntry *entries, uint32 max_entries);
extern void la_leaf_queue_add_dead(LaLeafQueue *queue,
								   const LaTidEntry *entry);
extern void la_leaf_queue_finish_oldest(LaLeafQueue *queue,
										IndexScanDesc scan);
extern void la_leaf_queue_reset(LaLeafQueue *queue, IndexScanDesc scan);

static inline LaLeaf *
la_leaf_by_number(LaLeafQueue *queue, uint32 number)
{
	return &queue->leaves[number % LA_LEAVES_MAX];
}

/*
 * The row of an entry has been examined; is_dead says that no transaction can
 * see any row behind it.
 */
static inline void
la_leaf_queue_consumed(LaLeafQueue *queue, IndexScanDesc scan,
					   const LaTidEntry *entry, bool is_dead,
					   LaScanCounters *counters)
{
	LaLeaf	   *leaf = la_leaf_by_number(queue, queue->oldest);

	Assert(entry->leaf == queue->oldest % LA_LEAVES_MAX);
	Assert(leaf->pending > 0);
	if (is_dead)
	{
		la_leaf_queue_add_dead(queue, entry);
		counters->killed++;
	}
	if (--leaf->pending == 0)
		la_leaf_queue_finish_oldest(queue, scan);
}

#endif							/* LA_BTREE_KILL_H */

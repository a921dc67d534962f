/*-------------------------------------------------------------------------
 *
 * la_leaf_queue.h
 *	  leaf pages whose entries a btree scan has read ahead
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_LEAF_QUEUE_H
#define LA_LEAF_QUEUE_H

#include "access/genam.h"
#include "access/sdir.h"
#include "storage/itemptr.h"

#include "index_scan/la_btree_kill.h"
#include "la_counters.h"

typedef struct LaTidEntry
{
	ItemPointerData tid;
	uint16		item;			/* btree: in BTScanPosData.items */
	OffsetNumber offset;		/* btree: of the index tuple on its leaf */
	uint8		leaf;			/* btree: slot in LaLeafQueue.leaves */
	bool		recheck;		/* the AM's xs_recheck */
} LaTidEntry;

StaticAssertDecl(sizeof(LaTidEntry) == 12, "a ring entry has 12 bytes");

/*
 * Leaf pages that can have unconsumed entries at a time.  Arbitrary; look-
 * ahead waits when it would need more, which takes entries of 64 leaf pages
 * in fewer than LA_RING_SIZE entries.
 */
#define LA_LEAVES_MAX 64

/* A leaf page, as the index AM read it. */
typedef struct LaLeaf
{
	BlockNumber page;
	XLogRecPtr	lsn;			/* at the time of reading */
	uint32		pending;		/* entries read and not consumed */
} LaLeaf;

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
	LaDeadItems dead;			/* of the oldest leaf */
} LaLeafQueue;

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
extern void la_leaf_queue_finish_oldest(LaLeafQueue *queue,
										IndexScanDesc scan);
extern void la_leaf_queue_reset(LaLeafQueue *queue, IndexScanDesc scan);
extern void la_leaf_queue_free(LaLeafQueue *queue);

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
					   LaCounters *counters)
{
	LaLeaf	   *leaf = la_leaf_by_number(queue, queue->oldest);

	Assert(entry->leaf == queue->oldest % LA_LEAVES_MAX);
	Assert(leaf->pending > 0);
	if (is_dead)
	{
		la_btree_kill_add(&queue->dead, entry->tid, entry->offset, entry->item);
		counters->killed++;
	}
	if (--leaf->pending == 0)
		la_leaf_queue_finish_oldest(queue, scan);
}

#endif							/* LA_LEAF_QUEUE_H */

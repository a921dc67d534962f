/*-------------------------------------------------------------------------
 *
 * la_join_peek.h
 *	  a look into a btree: which table pages has a key?
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_JOIN_PEEK_H
#define LA_JOIN_PEEK_H

#include "access/nbtree.h"
#include "storage/block.h"
#include "utils/relcache.h"

/* Most table pages of one key: arbitrary, as many as requests in flight. */
#define LA_PEEK_BLOCKS 64

/*
 * What was found: a page of the index that is not in shared buffers, at which to go
 * on when it has come; or table pages, in the order of the index.
 */
typedef struct LaPeek
{
	BlockNumber missing;		/* or InvalidBlockNumber */
	bool		complete;		/* were all table pages of the key found? */
	int			nblocks;
	BlockNumber blocks[LA_PEEK_BLOCKS];
} LaPeek;

/* How far the entries go, by the column behind those that are compared by =. */
typedef struct LaJoinBound
{
	bool		is_there;
	bool		is_strict;		/* < or >, not <= or >= */
	ScanKeyData key;
} LaJoinBound;

/*
 * What is looked for: entries that have these values in the first columns, and
 * are between the bounds, from the one at which the scan begins.
 */
typedef struct LaJoinSearch
{
	BTScanInsert key;
	int			nkeys;			/* columns that are compared by = */
	bool		backward;		/* are the last entries read first? */
	LaJoinBound start;
	LaJoinBound end;
} LaJoinSearch;

extern void la_join_peek(Relation index, const LaJoinSearch *search,
						 BlockNumber from, int most, LaPeek *peek);

#endif							/* LA_JOIN_PEEK_H */

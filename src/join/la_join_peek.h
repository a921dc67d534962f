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

/* Pages found in shared buffers so far, in all and of one relation. */
typedef struct LaJoinHits
{
	int64		all;
	int64		relation;
} LaJoinHits;

extern LaJoinHits la_join_hits(Relation relation);
extern void la_join_forget_hits(Relation relation, LaJoinHits hits);
extern void la_join_peek(Relation index, BTScanInsert key, BlockNumber from,
						 int most, LaPeek *peek);

#endif							/* LA_JOIN_PEEK_H */

/*-------------------------------------------------------------------------
 *
 * la_hits.c
 *	  pages that a look ahead finds in shared buffers, which are not counted
 *
 * Core, which will look at them again on their turn, counts them then.
 *
 * Reads BufferUsage of instrument.h and PgStat_TableStatus of pgstat.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/instrument.h"
#include "pgstat.h"
#include "utils/rel.h"

#include "prefetch/la_hits.h"

/*
 * A look begins: what is counted so far.
 */
LaHits
la_hits_begin(Relation relation)
{
	LaHits		hits = {.all = pgBufferUsage.shared_blks_hit};

	if (pgstat_should_count_relation(relation))
		hits.relation = relation->pgstat_info->counts.blocks_hit;
	return hits;
}

/*
 * It is over: takes back what was counted since.  What pg_stat_io shows of it stays.
 */
void
la_hits_forget(Relation relation, LaHits hits)
{
	PgStat_TableStatus *status = relation->pgstat_info;

	pgBufferUsage.shared_blks_hit = hits.all;
	if (status != NULL)
	{
		status->counts.blocks_fetched -= status->counts.blocks_hit - hits.relation;
		status->counts.blocks_hit = hits.relation;
	}
}

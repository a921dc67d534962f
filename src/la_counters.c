/*-------------------------------------------------------------------------
 *
 * la_counters.c
 *	  the table of counters
 *
 * All that adds counters up or shows them goes through this table: EXPLAIN, the
 * view (whose columns sql/ repeats, as SQL must), the counter file of test
 * builds.  Which of them a feature has is said by its LaFeatureInfo.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "la_counters.h"

#define COUNTER(field) [LA_COUNTER_POSITION(field)]

const LaCounter la_counter_table[] = {
	COUNTER(scans) = {"scans", "Scans", "scans"},
	COUNTER(prefetched) = {"prefetched", "Prefetched Blocks", "prefetched_blocks"},
	COUNTER(requests) = {"requests", "Requests", "requests"},
	COUNTER(advised) = {"advised", "Advised Blocks", "advised_blocks"},
	COUNTER(bridged) = {"bridged", "Bridged Blocks", "bridged_blocks"},
	COUNTER(pauses) = {"pauses", "Pauses", "pauses"},
	COUNTER(direct) = {"direct", "Direct Blocks", "direct_blocks"},
	COUNTER(repeated) = {"repeated", "Repeated Blocks", "repeated_blocks"},
	COUNTER(distance_sum) = {"distance", "Mean Distance", NULL},
	COUNTER(distance_max) = {NULL, "Max Distance", NULL},
	COUNTER(killed) = {"kills", "Killed Items", "killed_items"},
	COUNTER(restarts) = {"restarts", "Restarts", "restarts"},
	COUNTER(rows) = {"rows", "Batched Rows", "batched_rows"},
	COUNTER(batches) = {"batches", "Batches", "batches"},
	COUNTER(extensions) = {"extensions", "Extensions", "extensions"},
	COUNTER(extended) = {"extended", "Extended Blocks", "extended_blocks"},
	COUNTER(sorted) = {"sorted", "Sorted Entries", "sorted_entries"},
	COUNTER(drawn) = {"drawn", "Drawn Rows", "drawn_rows"},
};

StaticAssertDecl(lengthof(la_counter_table) == LA_COUNTER_COUNT,
				 "every counter needs a row");
StaticAssertDecl(LA_COUNTER_COUNT < 64, "sets of counters are of 64 bits");

/*
 * The counter at a position of the table.
 */
uint64
la_counter_value(const LaCounters *counters, int position)
{
	return ((const uint64 *) counters)[position];
}

/*
 * Adds counters to others.  Must not throw.  All but one are sums, added without a
 * look at the table: each statement that looks ahead or inserts comes here twice.
 */
void
la_counters_add(LaCounters *sum, const LaCounters *counters)
{
	uint64	   *sums = (uint64 *) sum;
	uint64		distance_max = Max(sum->distance_max, counters->distance_max);

	for (int i = 0; i < LA_COUNTER_COUNT; i++)
		sums[i] += la_counter_value(counters, i);
	sum->distance_max = distance_max;
}

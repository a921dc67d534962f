/*-------------------------------------------------------------------------
 *
 * la_totals.c
 *	  all that is counted, by a session or in the whole cluster
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "statistics/la_totals.h"

/*
 * Adds totals to others.
 */
void
la_totals_add(LaTotals *sum, const LaTotals *totals)
{
	for (int f = 0; f < LA_FEATURE_COUNT; f++)
	{
		for (int i = 0; i < LA_REASON_COUNT; i++)
			sum->features[f].nodes[i] += totals->features[f].nodes[i];
		la_counters_add(&sum->features[f].counters,
						&totals->features[f].counters);
	}
}

/*
 * Ours and those left to core.
 */
uint64
la_totals_nodes(const LaFeatureTotals *totals)
{
	uint64		sum = 0;

	for (int i = 0; i < LA_REASON_COUNT; i++)
		sum += totals->nodes[i];
	return sum;
}

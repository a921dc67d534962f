/*-------------------------------------------------------------------------
 *
 * la_late_feature.c
 *	  what late starts are to the rest of the library: name, counters, hooks
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "late_start/la_late_children.h"
#include "late_start/la_late_feature.h"
#include "late_start/la_late_settings.h"
#include "late_start/la_late_start.h"
#include "la_counters.h"

static const LaFeatureInfo late_start = {
	.name = "late_start",
	.enabled = &la_enable_late_start,
	.counters = LA_COUNTER(scans),
};

const LaFeatureMethods la_late_start_methods = {
	.info = &late_start,
	.begin_start = la_late_begin,
	.end_start = la_late_end,
	.started = la_late_settle,
	.begin_utility = la_late_begin_utility,
};

/*-------------------------------------------------------------------------
 *
 * la_module.c
 *	  what happens when the library is loaded
 *
 * The features, what rooms do in hooks, and the settings of each room, are listed here.
 *
 * Order matters: settings before hooks, because a hook may run as soon
 * as it is installed; hooks last, because nothing after them may fail.  The library
 * can be loaded by session_preload_libraries, shared_preload_libraries,
 * local_preload_libraries or LOAD, in any order with other libraries.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "fmgr.h"
#include "utils/guc.h"

#include "attach/la_hooks.h"
#include "attach/la_methods.h"
#include "bulk_insert/la_insert_feature.h"
#include "bulk_insert/source/la_copy.h"
#include "bulk_insert/source/la_insert_reason.h"
#include "bulk_insert/source/la_insert_receiver.h"
#include "device/la_machine_profile.h"
#include "heap_scan/la_heap_feature.h"
#include "index_build/la_build_feature.h"
#include "index_scan/la_index_feature.h"
#include "join/la_join_feature.h"
#include "la_compat.h"
#include "la_explain.h"
#include "la_feature.h"
#include "la_guc.h"
#include "late_start/la_late_children.h"
#include "late_start/la_late_start.h"
#include "maintenance_worker/la_maintenance_launcher.h"
#include "needed_partitions/la_needed_watch.h"
#include "prefetch/la_prefetch_settings.h"

PG_MODULE_MAGIC_EXT(
					.name = "pg_lookahead",
					.version = LA_VERSION
);

/* What the library does: its table of contents. */
static const LaFeatureMethods *const features[] = {
	[LA_FEATURE_INDEX_SCAN] = &la_index_scan_methods,
	[LA_FEATURE_BITMAP_SCAN] = &la_bitmap_scan_methods,
	[LA_FEATURE_SEQ_SCAN] = &la_seq_scan_methods,
	[LA_FEATURE_INDEX_BUILD] = &la_index_build_methods,
	[LA_FEATURE_BULK_INSERT] = &la_bulk_insert_methods,
	[LA_FEATURE_NESTED_LOOP] = &la_nested_loop_methods,
	[LA_FEATURE_SUBPLAN] = &la_subplan_methods,
	[LA_FEATURE_LATE_START] = &la_late_start_methods,
};

StaticAssertDecl(lengthof(features) == LA_FEATURE_COUNT,
				 "every LaFeature needs a room");

/* What rooms do in hooks. */
static const LaHooks hooks = {
	.explain_node = la_explain_node,
	.explain_plan = la_explain_plan,
	.modify_start = la_needed_start,
	.begin_start = la_late_begin_start,
	.end_start = la_late_end_start,
	.started = la_late_started,
	.judge_query = la_insert_judge_query,
	.mark_plan = la_insert_mark_plan,
	.begin_filling = la_insert_begin_filling,
	.end_filling = la_insert_end_filling,
	.plan_relation = la_ambuild_plan_relation,
	.before_utility = la_late_before_utility,
	.begin_utility = la_insert_begin_utility,
	.end_utility = la_insert_end_utility,
	.copy_feature = LA_FEATURE_BULK_INSERT,
	.concerns_copy = la_copy_concerns,
	.run_copy = la_copy_run,
};

/* The settings of each room. */
static const LaSetting *const settings[] = {
	la_build_settings,
	la_device_settings,
	la_heap_settings,
	la_index_settings,
	la_insert_settings,
	la_join_settings,
	la_late_settings,
	la_maintenance_settings,
	la_needed_settings,
	la_prefetch_settings,
};

/* What the rendezvous variable points to. */
static char build_id[] = LA_BUILD_ID;

void		_PG_init(void);

/*
 * Refuses a second copy of the library in one process: both would replace
 * the same plan nodes, and settings cannot be defined twice.
 */
static void
claim_process(void)
{
	void	  **owner = find_rendezvous_variable("pg_lookahead");

	if (*owner != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("another copy of pg_lookahead is already loaded"),
				 errdetail("The loaded copy is build \"%s\", this one is build \"%s\".",
						   (const char *) *owner, build_id),
				 errhint("Name the library in one place only: session_preload_libraries, shared_preload_libraries or LOAD.")));
	*owner = build_id;
}

/*
 * Says so, once for a process, when the server is a newer minor release
 * than the headers.  Its private structures are checked before use (see
 * la_self_check.c), so this is no reason to stay off.
 */
static void
report_newer_server(void)
{
	int			server = strtol(GetConfigOption("server_version_num", false, false),
								NULL, 10);

	if (server > PG_VERSION_NUM && !IsParallelWorker())
		ereport(LOG,
				(errmsg("pg_lookahead was built for PostgreSQL %d.%d and runs on %d.%d",
						PG_VERSION_NUM / 10000, PG_VERSION_NUM % 10000,
						server / 10000, server % 10000)));
}

void
_PG_init(void)
{
	claim_process();
	la_methods_init(features);
	la_guc_define(settings, lengthof(settings));
	report_newer_server();
	la_explain_init();
	la_maintenance_launcher_register();
	la_hooks_install(&hooks);
}

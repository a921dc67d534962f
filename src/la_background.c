/*-------------------------------------------------------------------------
 *
 * la_background.c
 *	  what our background workers have in common
 *
 * Reads BackgroundWorker of bgworker.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dlfcn.h>

#include "pgstat.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "la_background.h"

/*
 * By which a session may wait too long, be interrupted, or find something
 * else: not those of the database or a role.
 */
static const char *const common[][2] = {
	{"default_transaction_isolation", "read committed"},
	{"idle_in_transaction_session_timeout", "0"},
	{"search_path", ""},
	{"statement_timeout", "0"},
	{"zero_damaged_pages", "off"},
};

/*
 * The file of this library, by which other processes load it: it may have been loaded by its path.
 */
const char *
la_background_library(void)
{
	Dl_info		file;

	if (dladdr(&common, &file) == 0)
		elog(ERROR, "could not find the file of pg_lookahead");
	return file.dli_fname;
}

/*
 * A worker of this type, which is its name, too, and is not started again.
 */
BackgroundWorker
la_background_worker(const char *type, const char *function)
{
	BackgroundWorker worker = {
		.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION,
		.bgw_start_time = BgWorkerStart_RecoveryFinished,
		.bgw_restart_time = BGW_NEVER_RESTART,
	};

	strlcpy(worker.bgw_name, type, BGW_MAXLEN);
	strlcpy(worker.bgw_type, type, BGW_MAXLEN);
	strlcpy(worker.bgw_library_name, la_background_library(), MAXPGPATH);
	strlcpy(worker.bgw_function_name, function, BGW_MAXLEN);
	return worker;
}

static void
set_settings(LaBackgroundSetting * settings, int count)
{
	for (int i = 0; i < count; i++)
		SetConfigOption(settings[i][0], settings[i][1], PGC_SUSET, PGC_S_OVERRIDE);
}

/*
 * A worker begins: with settings of its own.
 */
void
la_background_connect(Oid database, LaBackgroundSetting * own, int count)
{
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, 0);
	set_settings(common, lengthof(common));
	set_settings(own, count);
}

/*
 * Shows in pg_stat_activity and in the log what is being done, or NULL.
 */
void
la_background_show(const char *activity)
{
	debug_query_string = activity == NULL ? NULL
		: MemoryContextStrdup(TopMemoryContext, activity);
	pgstat_report_activity(STATE_RUNNING, debug_query_string);
}

/*-------------------------------------------------------------------------
 *
 * la_guc.c
 *	  how settings are defined, and those of no room
 *
 * Behaviour settings are PGC_USERSET within hard bounds: none of them can
 * change a result, only which I/O produces it.  pg_lookahead.disable and
 * device_profile are the administrator's: they take effect in every session at the
 * next reload and no session can override them.
 *
 * The test settings exist only in a library built with LA_TEST=1, and only a
 * superuser may change them.  Those here make rare failures happen, or write
 * counters to a file; rooms have those that force look-ahead into states that a
 * small table would never reach.  `make lint` proves that the released
 * library does not contain them.
 *
 * Rooms describe their settings themselves, beside the variables that their
 * code reads; la_module.c lists the rooms.  Here are those of no room.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "la_guc.h"

bool		la_enabled = true;
bool		la_disable = false;

#ifdef LA_TEST
bool		la_test_fail_self_check = false;
bool		la_test_fail_worker_table = false;
char	   *la_test_counter_file = NULL;
#endif

static const LaSetting general_settings[] = {
	{
		.name = "pg_lookahead.disable",
		.summary = "Disables pg_lookahead in the whole cluster.",
		.detail = "Overrides the settings of every session as soon as the configuration is reloaded.",
		.flag = &la_disable,
		.context = PGC_SIGHUP,
		.flags = GUC_EXPLAIN,
	},
	{
		.name = "pg_lookahead.enabled",
		.summary = "Enables pg_lookahead.",
		.detail = "When off, statements run exactly as without the library.",
		.flag = &la_enabled,
		.context = PGC_USERSET,
		.flags = GUC_EXPLAIN,
	},
#ifdef LA_TEST
	{
		.name = "pg_lookahead.test_counter_file",
		.summary = "Sets the file to which a backend appends its counters at exit.",
		.detail = "An empty string writes none.",
		.text = &la_test_counter_file,
		.context = PGC_SUSET,
		.flags = GUC_NOT_IN_SAMPLE,
	},
	{
		.name = "pg_lookahead.test_fail_self_check",
		.summary = "Makes the check of private structures fail.",
		.flag = &la_test_fail_self_check,
		.context = PGC_SUSET,
		.flags = GUC_NOT_IN_SAMPLE,
	},
	{
		.name = "pg_lookahead.test_fail_worker_table",
		.summary = "Makes it fail to share counters with parallel workers.",
		.flag = &la_test_fail_worker_table,
		.context = PGC_SUSET,
		.flags = GUC_NOT_IN_SAMPLE,
	},
#endif
	{0}
};

static void
define_room(const LaSetting *settings)
{
	for (const LaSetting *setting = settings; setting->name != NULL; setting++)
	{
		if (setting->flag != NULL)
			DefineCustomBoolVariable(setting->name, setting->summary,
									 setting->detail, setting->flag,
									 *setting->flag, setting->context,
									 setting->flags, NULL, NULL, NULL);
		else if (setting->number != NULL)
			DefineCustomIntVariable(setting->name, setting->summary,
									setting->detail, setting->number,
									*setting->number, setting->least,
									setting->most, setting->context,
									setting->flags, NULL,
									setting->assign, NULL);
		else
			DefineCustomStringVariable(setting->name, setting->summary,
									   setting->detail, setting->text, "",
									   setting->context, setting->flags,
									   setting->check, NULL, NULL);
	}
}

/*
 * Defines every setting and reserves the prefix, so that a misspelt
 * pg_lookahead.* is an error.
 */
void
la_guc_define(const LaSetting *const *rooms, int count)
{
	define_room(general_settings);
	for (int i = 0; i < count; i++)
		define_room(rooms[i]);
	MarkGUCPrefixReserved("pg_lookahead");
}

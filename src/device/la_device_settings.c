/*-------------------------------------------------------------------------
 *
 * la_device_settings.c
 *	  where it is written what the devices can do
 *
 * The path tells of the machine's layout, so it is hidden as core hides those
 * of its files.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "device/la_device_settings.h"

char	   *la_device_profile = NULL;

static bool check_device_profile(char **newval, void **extra, GucSource source);

const LaSetting la_device_settings[] = {
	{
		.name = "pg_lookahead.device_profile",
		.summary = "Sets the file with the measurements of this machine's devices.",
		.detail = "An empty string uses none.",
		.text = &la_device_profile,
		.context = PGC_SIGHUP,
		.flags = GUC_SUPERUSER_ONLY,
		.check = check_device_profile,
	},
	{0}
};

/*
 * Check hook.  Whether the file is any good is not seen before it is needed:
 * it may be written after the setting.
 */
static bool
check_device_profile(char **newval, void **extra, GucSource source)
{
	if (**newval == '\0' || is_absolute_path(*newval))
		return true;
	GUC_check_errdetail("\"%s\" is not an absolute path.", *newval);
	GUC_check_errhint("Name a file outside of the data directory, as \"lookahead probe --profile\" writes it.");
	return false;
}

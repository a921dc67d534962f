/*-------------------------------------------------------------------------
 *
 * la_machine_profile.c
 *	  the device profile of this machine, as the setting names it now
 *
 * The file that pg_lookahead.device_profile names is read by each process
 * when it first needs it, and again after a reload of the configuration.  In
 * any doubt there is no profile; the view pg_lookahead_device says why.
 *
 * The path tells of the machine's layout, so it is hidden as core hides those
 * of its files.
 *
 * The file decides how much every session reads, so it is taken only from
 * whom the server trusts anyway: it belongs to root or to the server's
 * account, and nobody else may write to it.  It must not lie in the data
 * directory: base backups would carry it to other machines.
 *
 * Nothing here throws: without a usable file there is no profile, and scans
 * use their defaults.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "miscadmin.h"
#include "port.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "device/la_machine_profile.h"

/* The file as it was when it was read. */
typedef struct LaReadProfile
{
	bool		was_read;
	TimestampTz configured;		/* the reload it was read after */
	LaProfile  *profile;		/* NULL until the first file is read */
	bool		usable;
	char		reason[LA_PROFILE_REASON_SIZE]; /* why it is not */
	char		machine[LA_PROFILE_MACHINE_LENGTH + 1];
} LaReadProfile;

static LaReadProfile current;

char	   *la_device_profile = NULL;

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

static bool
check_status(const struct stat *status, char *reason)
{
	const char *wrong = NULL;

	if (!S_ISREG(status->st_mode))
		wrong = "it is not a regular file";
	else if (status->st_uid != 0 && status->st_uid != geteuid())
		wrong = "the file belongs neither to root nor to the server's account";
	else if (status->st_mode & (S_IWGRP | S_IWOTH))
		wrong = "others than its owner may write to the file";
	else if (status->st_size > LA_PROFILE_MAX_BYTES)
		wrong = "the file is larger than 64 kB";
	if (wrong != NULL)
		strlcpy(reason, wrong, LA_PROFILE_REASON_SIZE);
	return wrong == NULL;
}

/*
 * Reads up to size bytes; -1 when that fails.
 */
static ssize_t
read_whole(int file, char *text, size_t size)
{
	size_t		length = 0;

	while (length < size)
	{
		ssize_t		count = read(file, text +length, size - length);

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return -1;
		if (count == 0)
			break;
		length += count;
	}
	return length;
}

static bool
read_checked(int file, LaProfile *profile, char *reason)
{
	struct stat status;
	LaProfileError error;
	char	   *text;
	ssize_t		length;
	bool		done = false;

	if (fstat(file, &status) != 0)
	{
		snprintf(reason, LA_PROFILE_REASON_SIZE,
				 "the file cannot be examined: %s", strerror(errno));
		return false;
	}
	if (!check_status(&status, reason))
		return false;

	text = malloc(LA_PROFILE_MAX_BYTES + 1);

	if (text == NULL)
	{
		strlcpy(reason, "out of memory", LA_PROFILE_REASON_SIZE);
		return false;
	}
	length = read_whole(file, text, LA_PROFILE_MAX_BYTES + 1);
	if (length < 0)
		snprintf(reason, LA_PROFILE_REASON_SIZE,
				 "the file cannot be read: %s", strerror(errno));
	else if (la_profile_parse(text, length, profile, &error))
		done = true;
	else
		snprintf(reason, LA_PROFILE_REASON_SIZE, "line %d: %s",
				 error.line, error.what);
	free(text);
	return done;
}

/*
 * Reads a profile.  Returns false, and why in reason, when the file is not
 * usable; reason has room for LA_PROFILE_REASON_SIZE bytes.
 */
static bool
read_file(const char *path, LaProfile *profile, char *reason)
{
	char		resolved[PATH_MAX];
	char		directory[PATH_MAX];

	int			file;
	bool		done;

	if (realpath(path, resolved) == NULL)
	{
		snprintf(reason, LA_PROFILE_REASON_SIZE,
				 "the file cannot be found: %s", strerror(errno));
		return false;
	}
	if (realpath(DataDir, directory) == NULL ||
		path_is_prefix_of_path(directory, resolved))
	{
		strlcpy(reason, "the file is in the data directory",
				LA_PROFILE_REASON_SIZE);
		return false;
	}
	/* a pipe would have us wait for its other end */
	file = open(resolved, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (file < 0)
	{
		snprintf(reason, LA_PROFILE_REASON_SIZE,
				 "the file cannot be opened: %s", strerror(errno));
		return false;
	}
	done = read_checked(file, profile, reason);
	close(file);
	return done;
}

/*
 * Reads the file; false when it is not usable or says nothing of this
 * machine.
 */
static bool
read_for_machine(void)
{
	if (BLCKSZ != LA_PROFILE_BLOCK_SIZE)
	{
		strlcpy(current.reason, "profiles are for blocks of 8 kB",
				sizeof(current.reason));
		return false;
	}
	if (current.profile == NULL)
		current.profile = MemoryContextAlloc(TopMemoryContext, sizeof(LaProfile));

	if (!read_file(la_device_profile, current.profile, current.reason))
		return false;
	if (!la_device_id_of_machine(current.machine))
	{
		strlcpy(current.reason, "this machine has no identity",
				sizeof(current.reason));
		return false;
	}
	for (int i = 0; i < current.profile->nsections; i++)
	{
		if (strcmp(current.profile->sections[i].machine, current.machine) == 0)
			return true;
	}
	strlcpy(current.reason, "it was measured on another machine",
			sizeof(current.reason));
	return false;
}

/*
 * Reads the file unless this was done since the last reload.  Returns whether
 * it was read: what was found before may be gone.
 */
bool
la_machine_profile_refresh(void)
{
	if (current.was_read && current.configured == PgReloadTime)
		return false;
	if (la_device_profile == NULL || la_device_profile[0] == '\0')
	{
		current.usable = false;
		strlcpy(current.reason, "pg_lookahead.device_profile is empty",
				sizeof(current.reason));
	}
	else
	{
		current.usable = read_for_machine();
		if (!current.usable)
			elog(DEBUG1, "pg_lookahead ignores its device profile: %s",
				 current.reason);
	}
	current.was_read = true;
	current.configured = PgReloadTime;
	return true;
}

/*
 * The section of a device on this machine, or NULL, and why there is none.
 * Both are good until the file is read again.
 */
const LaProfileSection *
la_machine_profile_find(const LaDeviceId *id, const char **reason)
{
	if (!current.usable)
	{
		*reason = current.reason;
		return NULL;
	}
	for (int i = 0; i < current.profile->nsections; i++)
	{
		const LaProfileSection *section = &current.profile->sections[i];

		if (strcmp(section->machine, current.machine) == 0 &&
			la_device_id_matches(id, section))
			return section;
	}
	*reason = "the device was not measured";
	return NULL;
}

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

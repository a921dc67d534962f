/*-------------------------------------------------------------------------
 *
 * la_profile_file.c
 *	  reads the file of a device profile
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

#include "common/file_perm.h"
#include "miscadmin.h"
#include "port.h"

#include "device/la_profile_file.h"

static bool read_checked(int file, LaProfile *profile, char *reason);
static bool check_status(const struct stat *status, char *reason);
static ssize_t read_whole(int file, char *text, size_t size);

/*
 * Reads a profile.  Returns false, and why in reason, when the file is not
 * usable; reason has room for LA_PROFILE_REASON_SIZE bytes.
 */
bool
la_profile_file_read(const char *path, LaProfile *profile, char *reason)
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
 * Is this a file to be trusted?
 */
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

/*-------------------------------------------------------------------------
 *
 * la_device_id.c
 *	  names for this machine and for the device below a folder
 *
 * A profile must not be taken for another device than the one measured: it
 * may have been copied with a backup, a disk may have been replaced, or the
 * kernel may have numbered its disks anew.  So a device is named by its
 * number, by the file system on it and by its size, and by its serial number
 * where there is one; a machine by a hash of its id, which is not to be shown
 * as it is (machine-id(5)).  device/block_device.py of the lab makes the same names
 * from the same sources; a test compares them.
 *
 * Nothing here throws, and no file is waited for but those of the kernel.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#ifdef __linux__
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#endif
#include <unistd.h>

#include "common/cryptohash.h"
#include "common/sha2.h"

#include "device/la_device_id.h"

/* Longest text that is read from a file of the kernel, and kept of it. */
#define MAX_TEXT 255
#define MAX_SERIAL 64

#ifdef __linux__
/*
 * The hash that stands for an id: the first 32 digits of a SHA-256.
 */
static bool
hash_name(const char *prefix, const char *id, char *name)
{
	static const char digits[] = "0123456789abcdef";
	static const char purpose[] = "pg_lookahead:";
	pg_cryptohash_ctx *hash = pg_cryptohash_create(PG_SHA256);
	uint8		digest[PG_SHA256_DIGEST_LENGTH];
	bool		done;

	if (hash == NULL)
		return false;
	done = pg_cryptohash_init(hash) == 0 &&
		pg_cryptohash_update(hash, (const uint8 *) purpose, strlen(purpose)) == 0 &&
		pg_cryptohash_update(hash, (const uint8 *) id, strlen(id)) == 0 &&
		pg_cryptohash_final(hash, digest, sizeof(digest)) == 0;
	pg_cryptohash_free(hash);
	if (!done)
		return false;

	strcpy(name, prefix);
	name += strlen(prefix);
	for (int i = 0; i < 16; i++)
	{
		*name++ = digits[digest[i] >> 4];
		*name++ = digits[digest[i] & 15];
	}
	*name = '\0';
	return true;
}

static bool
read_text(const char *path, char *text)
{
	int			file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t		length;

	if (file < 0)
		return false;
	length = read(file, text, MAX_TEXT);
	close(file);
	if (length <= 0)
		return false;
	text[		length] = '\0';
	text[		strcspn(text, "\n")] = '\0';
	return text[0] != '\0';
}

/*
 * The name of this machine, of LA_PROFILE_MACHINE_LENGTH characters at most.
 * Where no machine id was set up, as in a container, it is that of the time
 * since the last start of the system.
 */
bool
la_device_id_of_machine(char *name)
{
	char		id[MAX_TEXT + 1];

	if ((read_text("/etc/machine-id", id) ||
		 read_text("/var/lib/dbus/machine-id", id)) && strlen(id) == 32)
		return hash_name("id-", id, name);
	if (read_text("/proc/sys/kernel/random/boot_id", id))
		return hash_name("boot-", id, name);
	return false;
}

/*
 * Takes out everything but letters, digits and a few signs.
 */
static void
keep_plain(char *text)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
		"abcdefghijklmnopqrstuvwxyz0123456789._-";
	char	   *kept = text;

	for (; *text !='\0'; text ++)
	{
		if (strchr(plain, *text) != NULL)
			*kept++ = *text;
	}
	*kept = '\0';
}

/*
 * What identifies the disk that a block device is, or is a part of: the first
 * of the kernel's names for it that is not empty.
 */
static void
find_serial(const char *device, char *serial)
{
	static const char *const names[] = {"dm/uuid", "md/uuid", "wwid",
	"device/wwid", "serial", "device/serial"};
	char		path[128];
	bool		is_partition;

	snprintf(path, sizeof(path), "%s/partition", device);
	is_partition = access(path, F_OK) == 0;
	for (int i = 0; i < lengthof(names); i++)
	{
		snprintf(path, sizeof(path), "%s/%s%s", device,
				 is_partition ? "../" : "", names[i]);
		if (!read_text(path, serial))
			continue;
		keep_plain(serial);
		serial[MAX_SERIAL] = '\0';
		if (serial[0] != '\0')
			return;
	}
	serial[0] = '\0';
}

/*
 * The device below a folder.  False when the folder is not accessible, or
 * when nothing tells its file system from others.
 */
bool
la_device_id_of_folder(const char *folder, LaDeviceId *id)
{
	struct stat status;
	struct statvfs filesystem;
	char		device[64];
	char		path[128];
	char		sectors[MAX_TEXT + 1];
	char		serial[MAX_TEXT + 1];

	if (stat(folder, &status) != 0 || statvfs(folder, &filesystem) != 0)
		return false;
	id->device_major = major(status.st_dev);
	id->device_minor = minor(status.st_dev);
	snprintf(device, sizeof(device), "/sys/dev/block/%u:%u",
			 id->device_major, id->device_minor);
	snprintf(path, sizeof(path), "%s/size", device);

	if (id->device_major == 0 || !read_text(path, sectors))
	{
		snprintf(id->identity, sizeof(id->identity), "fs=%lx",
				 (unsigned long) filesystem.f_fsid);
		return filesystem.f_fsid != 0;
	}
	find_serial(device, serial);
	keep_plain(sectors);
	snprintf(id->identity, sizeof(id->identity), "fs=%lx;sectors=%.20s;serial=%s",
			 (unsigned long) filesystem.f_fsid, sectors, serial);
	return true;
}

#else							/* not Linux: no device is known */

bool
la_device_id_of_machine(char *name)
{
	return false;
}

bool
la_device_id_of_folder(const char *folder, LaDeviceId *id)
{
	return false;
}
#endif

/*
 * Is this the device of a section?  Major number 0 stands for no block device
 * (btrfs, overlay, NFS): the kernel gives such numbers anew at each mount.
 */
bool
la_device_id_matches(const LaDeviceId *id, const LaProfileSection *section)
{
	if (strcmp(id->identity, section->identity) != 0 ||
		id->device_major != section->device_major)
		return false;
	return id->device_major == 0 || id->device_minor == section->device_minor;
}

/*-------------------------------------------------------------------------
 *
 * la_profile.c
 *	  what was measured of the device below a tablespace
 *
 * The file that pg_lookahead.device_profile names is read by each process
 * when it first needs it, and again after a reload of the configuration.  A
 * section of it counts for a tablespace when machine, device number and
 * identity of the device are those that were measured.  In any doubt there is
 * no profile, and scans use their defaults; the view pg_lookahead_device says
 * why, and the log says it once for each process and reload.
 *
 * Looking up is cheap after the first time: one hash probe.  Entries are
 * never removed, so that what a caller holds stays readable; a reload may
 * change it under its eyes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "catalog/pg_tablespace_d.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "device/la_device_id.h"
#include "device/la_profile.h"
#include "device/la_profile_file.h"
#include "device/la_tablespace_profile.h"
#include "la_guc.h"

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

/* LaTablespaceProfile by tablespace; NULL until the first look-up. */
static HTAB *tablespaces = NULL;

static void forget_tablespaces(Datum arg, int cacheid, uint32 hashvalue);
static void make_table(void);
static void refresh(void);
static void read_current(void);
static bool read_for_machine(void);
static void resolve(LaTablespaceProfile *entry);
static const char *folder_of(Oid tablespace, char *path, size_t size);

/*
 * The profile of the device below a tablespace, or NULL when there is none.
 * InvalidOid stands for the default tablespace of the database, as in
 * pg_class.  Needs no catalog and throws nothing but out of memory.
 */
const LaDeviceProfile *
la_profile_for_tablespace(Oid spcOid)
{
	const LaTablespaceProfile *found;

	if (la_device_profile == NULL || la_device_profile[0] == '\0')
		return NULL;
	found = la_tablespace_profile_find(spcOid);
	return found->usable ? &found->section.values : NULL;
}

/*
 * The same, with everything the file says or the reason why it says nothing.
 */
const LaTablespaceProfile *
la_tablespace_profile_find(Oid tablespace)
{
	LaTablespaceProfile *entry;
	bool		found;

	if (!OidIsValid(tablespace))
		tablespace = MyDatabaseTableSpace;
	if (tablespaces == NULL)
		make_table();
	refresh();

	entry = hash_search(tablespaces, &tablespace, HASH_ENTER, &found);
	if (!found)
		entry->resolved = false;
	if (!entry->resolved)
		resolve(entry);
	return entry;
}

static void
make_table(void)
{
	HASHCTL		control = {0};
	HTAB	   *made;

	control.keysize = sizeof(Oid);
	control.entrysize = sizeof(LaTablespaceProfile);
	control.hcxt = TopMemoryContext;
	made = hash_create("pg_lookahead device profiles", 8, &control,
					   HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	CacheRegisterSyscacheCallback(TABLESPACEOID, forget_tablespaces, (Datum) 0);
	tablespaces = made;
}

/*
 * Syscache callback: some tablespace was created, altered or dropped; after
 * a drop, its Oid may come again for another one.
 */
static void
forget_tablespaces(Datum arg, int cacheid, uint32 hashvalue)
{
	HASH_SEQ_STATUS status;
	LaTablespaceProfile *entry;

	if (tablespaces == NULL)
		return;
	hash_seq_init(&status, tablespaces);
	while ((entry = hash_seq_search(&status)) != NULL)
		entry->resolved = false;
}

/*
 * Reads the file unless this was done since the last reload.
 */
static void
refresh(void)
{
	if (current.was_read && current.configured == PgReloadTime)
		return;
	read_current();
	current.was_read = true;
	current.configured = PgReloadTime;

	forget_tablespaces((Datum) 0, TABLESPACEOID, 0);
}

/*
 * A leader says what its workers would say again.
 */
static void
read_current(void)
{
	if (la_device_profile == NULL || la_device_profile[0] == '\0')
	{
		current.usable = false;

		strlcpy(current.reason, "pg_lookahead.device_profile is empty",
				sizeof(current.reason));
		return;
	}
	current.usable = read_for_machine();

	if (!current.usable && !IsParallelWorker())
		ereport(LOG,
				(errmsg("device profile \"%s\" is ignored: %s",
						la_device_profile, current.reason),
				 errhint("Write it again with \"lookahead probe --profile\", or set \"%s\" to an empty string.",
						 "pg_lookahead.device_profile")));
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

	if (!la_profile_file_read(la_device_profile, current.profile, current.reason))
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
 * Finds the section of a tablespace.
 */
static void
resolve(LaTablespaceProfile *entry)
{
	char		path[MAXPGPATH];
	LaDeviceId	id;

	entry->resolved = true;
	entry->usable = false;
	entry->device[0] = '\0';
	if (!la_device_id_of_folder(folder_of(entry->tablespace, path, sizeof(path)),
								&id))
	{
		strlcpy(entry->reason, "the device of the tablespace has no identity",
				sizeof(entry->reason));
		return;
	}
	snprintf(entry->device, sizeof(entry->device), "%u:%u",
			 id.device_major, id.device_minor);
	if (!current.usable)
	{
		strlcpy(entry->reason, current.reason, sizeof(entry->reason));
		return;
	}
	for (int i = 0; i < current.profile->nsections; i++)
	{
		const LaProfileSection *section = &current.profile->sections[i];

		if (strcmp(section->machine, current.machine) == 0 &&
			la_device_id_matches(&id, section))
		{
			entry->section = *section;
			entry->usable = true;
			return;
		}
	}
	strlcpy(entry->reason, "the device was not measured", sizeof(entry->reason));
}

/*
 * Where the files of a tablespace are, relative to the data directory, which
 * is the working directory of the server.  Mirrors GetDatabasePath() in
 * relpath.c.
 */
static const char *
folder_of(Oid tablespace, char *path, size_t size)
{
	if (tablespace == GLOBALTABLESPACE_OID)
		return "global";
	if (tablespace == DEFAULTTABLESPACE_OID)
		return "base";
	snprintf(path, size, "%s/%u", PG_TBLSPC_DIR, tablespace);
	return path;
}

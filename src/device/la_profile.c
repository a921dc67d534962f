/*-------------------------------------------------------------------------
 *
 * la_profile.c
 *	  what was measured of the device below a tablespace
 *
 * A section of the machine's profile counts for a tablespace when number and
 * identity of the device below it are those that were measured.  In any doubt
 * there is none, and scans use their defaults.
 *
 * Looking up is cheap after the first time: one hash probe.  Entries are
 * never removed, so that what a caller holds stays readable; a reload may
 * change it under its eyes.
 *
 * pg_lookahead_device_profile() shows what the current session has read, which
 * is what its scans use.  The path of the file is for those who may see the
 * setting.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_authid_d.h"
#include "catalog/pg_tablespace_d.h"
#include "common/relpath.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/syscache.h"

#include "device/la_device_id.h"
#include "device/la_machine_profile.h"
#include "device/la_profile.h"
#include "la_sql_function.h"

/*
 * An entry of a cache of the process: it stays readable as long as that runs,
 * but a reload may change it, so whoever needs the values for long copies them.
 */
typedef struct LaTablespaceProfile
{
	Oid			tablespace;		/* hash key */
	bool		resolved;
	bool		usable;
	char		device[24];		/* MAJOR:MINOR, or empty */
	char		reason[LA_PROFILE_REASON_SIZE]; /* unless usable */
	LaProfileSection section;	/* if usable */
} LaTablespaceProfile;

/* LaTablespaceProfile by tablespace; NULL until the first look-up. */
static HTAB *tablespaces = NULL;

/*
 * Syscache callback: some tablespace was created, altered or dropped; after
 * a drop, its Oid may come again for another one.
 */
static void
forget_tablespaces(Datum arg, int cacheid, uint32 hashvalue)
{
	HASH_SEQ_STATUS status;
	LaTablespaceProfile *entry;

	hash_seq_init(&status, tablespaces);
	while ((entry = hash_seq_search(&status)) != NULL)
		entry->resolved = false;
}

static void
resolve_tablespace(LaTablespaceProfile *entry)
{
	char		path[MAXPGPATH];
	LaDeviceId	id;
	const LaProfileSection *section;
	const char *reason;

	entry->resolved = true;
	entry->usable = false;
	entry->device[0] = '\0';

	/*
	 * Relative to the data directory.  Mirrors GetDatabasePath() in
	 * relpath.c.
	 */
	if (entry->tablespace == GLOBALTABLESPACE_OID)
		strcpy(path, "global");
	else if (entry->tablespace == DEFAULTTABLESPACE_OID)
		strcpy(path, "base");
	else
		snprintf(path, sizeof(path), "%s/%u", PG_TBLSPC_DIR, entry->tablespace);
	if (!la_device_id_of_folder(path, &id))
	{
		strlcpy(entry->reason, "the device of the tablespace has no identity",
				sizeof(entry->reason));
		return;
	}
	snprintf(entry->device, sizeof(entry->device), "%u:%u",
			 id.device_major, id.device_minor);
	section = la_machine_profile_find(&id, &reason);
	if (section == NULL)
		strlcpy(entry->reason, reason, sizeof(entry->reason));
	else
	{
		entry->section = *section;
		entry->usable = true;
	}
}

/*
 * What is known of a tablespace, with everything the file says or the reason why it says nothing.
 */
static const LaTablespaceProfile *
find_profile(Oid tablespace)
{
	LaTablespaceProfile *entry;
	bool		found;

	if (!OidIsValid(tablespace))
		tablespace = MyDatabaseTableSpace;
	if (tablespaces == NULL)
	{
		HASHCTL		control = {
			.keysize = sizeof(Oid),.entrysize = sizeof(LaTablespaceProfile)
		};
		HTAB	   *made = hash_create("pg_lookahead device profiles", 8, &control,
									   HASH_ELEM | HASH_BLOBS);

		CacheRegisterSyscacheCallback(TABLESPACEOID, forget_tablespaces, (Datum) 0);
		tablespaces = made;
	}
	if (la_machine_profile_refresh())
		forget_tablespaces((Datum) 0, TABLESPACEOID, 0);

	entry = hash_search(tablespaces, &tablespace, HASH_ENTER, &found);
	if (!found || !entry->resolved)
		resolve_tablespace(entry);
	return entry;
}

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
	found = find_profile(spcOid);
	return found->usable ? &found->section.values : NULL;
}

#define PROFILE_COLUMNS 7

PG_FUNCTION_INFO_V1(pg_lookahead_device_profile);

/*
 * SQL function pg_lookahead_device_profile(tablespace oid).  Null when there
 * is no such tablespace; 0 is the database's own.
 */
Datum
pg_lookahead_device_profile(PG_FUNCTION_ARGS)
{
	const LaTablespaceProfile *found;
	const LaDeviceProfile *profile;
	Oid			tablespace;
	TupleDesc	descriptor = la_sql_function_row(fcinfo, PROFILE_COLUMNS);
	Datum		values[PROFILE_COLUMNS] = {0};
	bool		nulls[PROFILE_COLUMNS];

	/* a cache entry stays for good, so there is none for made-up numbers */
	tablespace = PG_GETARG_OID(0);
	if (OidIsValid(tablespace) &&
		!SearchSysCacheExists1(TABLESPACEOID, ObjectIdGetDatum(tablespace)))
		PG_RETURN_NULL();

	memset(nulls, true, sizeof(nulls));
	found = find_profile(tablespace);
	profile = &found->section.values;
	if (found->device[0] != '\0')
	{
		values[0] = CStringGetTextDatum(found->device);
		nulls[0] = false;
	}
	if (la_device_profile[0] != '\0' &&
		has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_SETTINGS))
	{
		values[1] = CStringGetTextDatum(la_device_profile);
		nulls[1] = false;
	}
	if (found->usable)
	{
		memset(nulls + 2, false, 4 * sizeof(bool));
		values[2] = CStringGetTextDatum(found->section.measured_at);
		values[3] = Float8GetDatum(profile->iops);
		values[4] = Int32GetDatum(profile->depth);
		values[5] = Float8GetDatum(profile->bandwidth_mb);
	}
	else
	{
		values[6] = CStringGetTextDatum(found->reason);
		nulls[6] = false;
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(descriptor, values,
													  nulls)));
}

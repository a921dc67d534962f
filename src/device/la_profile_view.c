/*-------------------------------------------------------------------------
 *
 * la_profile_view.c
 *	  pg_lookahead_device_profile(): what counts for a tablespace, and why
 *
 * Shows what the current session has read, which is what its scans use.  The
 * path of the file is for those who may see the setting.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_authid_d.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "device/la_machine_profile.h"
#include "device/la_profile.h"
#include "la_sql_function.h"

#define PROFILE_COLUMNS 10

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
	found = la_profile_find(tablespace);
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
		/* What the file does not say is null. */
		memset(nulls + 2, false, 7 * sizeof(bool));
		values[2] = CStringGetTextDatum(found->section.measured_at);
		values[3] = Float8GetDatum(profile->random_read_us);
		nulls[3] = profile->random_read_us == 0;
		values[4] = Float8GetDatum(profile->iops);
		values[5] = Int32GetDatum(profile->depth);
		values[6] = Int32GetDatum(profile->request_blocks);
		nulls[6] = profile->request_blocks == 0;
		values[7] = Int32GetDatum(profile->gap_limit);
		nulls[7] = profile->gap_limit < 0;
		values[8] = Float8GetDatum(profile->bandwidth_mb);
	}
	else
	{
		values[9] = CStringGetTextDatum(found->reason);
		nulls[9] = false;
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(descriptor, values,
													  nulls)));
}

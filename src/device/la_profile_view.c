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

#include "catalog/pg_authid_d.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "device/la_profile.h"
#include "device/la_tablespace_profile.h"
#include "la_guc.h"

#define PROFILE_COLUMNS 10

PG_FUNCTION_INFO_V1(pg_lookahead_device_profile);

static void fill_values(const LaProfileSection *section, Datum *values,
						bool *nulls);

/*
 * SQL function pg_lookahead_device_profile(tablespace oid).  Null when there
 * is no such tablespace; 0 is the database's own.
 */
Datum
pg_lookahead_device_profile(PG_FUNCTION_ARGS)
{
	const LaTablespaceProfile *found;
	Oid			tablespace;
	TupleDesc	descriptor;
	Datum		values[PROFILE_COLUMNS] = {0};
	bool		nulls[PROFILE_COLUMNS];

	if (get_call_result_type(fcinfo, NULL, &descriptor) != TYPEFUNC_COMPOSITE ||
		descriptor->natts != PROFILE_COLUMNS)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("function pg_lookahead_device_profile belongs to another version of pg_lookahead"),
				 errhint("Run ALTER EXTENSION pg_lookahead UPDATE, or start a new session.")));

	/* a cache entry stays for good, so there is none for made-up numbers */
	tablespace = PG_GETARG_OID(0);
	if (OidIsValid(tablespace) &&
		!SearchSysCacheExists1(TABLESPACEOID, ObjectIdGetDatum(tablespace)))
		PG_RETURN_NULL();

	memset(nulls, true, sizeof(nulls));
	found = la_tablespace_profile_find(tablespace);
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
		fill_values(&found->section, values, nulls);
	else
	{
		values[9] = CStringGetTextDatum(found->reason);
		nulls[9] = false;
	}
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(descriptor, values,
													  nulls)));
}

/*
 * Columns 2 to 8: when it was measured, and LaDeviceProfile.
 */
static void
fill_values(const LaProfileSection *section, Datum *values, bool *nulls)
{
	const LaDeviceProfile *profile = &section->values;
	int			i = 2;

	values[i++] = CStringGetTextDatum(section->measured_at);
	values[i++] = Float8GetDatum(profile->random_read_us);
	values[i++] = Float8GetDatum(profile->iops);
	values[i++] = Int32GetDatum(profile->depth);
	values[i++] = Int32GetDatum(profile->request_blocks);
	values[i++] = Int32GetDatum(profile->gap_limit);
	values[i++] = Float8GetDatum(profile->bandwidth_mb);
	memset(nulls + 2, false, (i - 2) * sizeof(bool));
}

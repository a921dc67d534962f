/*-------------------------------------------------------------------------
 *
 * la_partition_uuid.c
 *	  times in uuids of version 7, which such keys ascend by
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/datetime.h"
#include "utils/fmgrprotos.h"
#include "utils/uuid.h"

#include "partitions/la_partition_uuid.h"

/*
 * The time in a uuid of any version: RFC 9562 has the milliseconds since 1970 in the first 48
 * bits of version 7.
 */
TimestampTz
la_partition_uuid_time(const char *text)
{
	pg_uuid_t  *uuid = DatumGetUUIDP(DirectFunctionCall1(uuid_in,
														 CStringGetDatum(text)));
	int64		milliseconds = 0;

	for (int i = 0; i < 6; i++)
		milliseconds = milliseconds << 8 | uuid->data[i];
	return milliseconds * 1000 -
		(POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;
}

/*
 * The least uuid of the millisecond, whatever its version.
 */
char *
la_partition_uuid_text(TimestampTz time)
{
	int64		since_1970 = time +
		(POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;
	uint64		milliseconds;

	if (since_1970 < 0 || since_1970 / 1000 >= INT64CONST(1) << 48)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("a partition bound is out of range for uuid"),
				 errdetail("A uuid of version 7 begins with the milliseconds since 1970.")));
	milliseconds = since_1970 / 1000;
	return psprintf("%08x-%04x-0000-0000-000000000000",
					(uint32) (milliseconds >> 16),
					(uint32) (milliseconds & 0xFFFF));
}

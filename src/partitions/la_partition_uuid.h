/*-------------------------------------------------------------------------
 *
 * la_partition_uuid.h
 *	  times in uuids of version 7, which such keys ascend by
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PARTITION_UUID_H
#define LA_PARTITION_UUID_H

#include "datatype/timestamp.h"

extern TimestampTz la_partition_uuid_time(const char *text);
extern char *la_partition_uuid_text(TimestampTz time);

#endif							/* LA_PARTITION_UUID_H */

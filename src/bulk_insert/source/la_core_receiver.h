/*-------------------------------------------------------------------------
 *
 * la_core_receiver.h
 *	  core's receivers of rows that become a new table
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_CORE_RECEIVER_H
#define LA_CORE_RECEIVER_H

#include "tcop/dest.h"
#include "utils/rel.h"

/*
 * What such a receiver does with rows.
 */
typedef struct LaCoreReceiver
{
	Relation	table;
	CommandId	cid;
	int			options;		/* of heap_insert() */
} LaCoreReceiver;

extern bool la_core_receiver_read(const DestReceiver *receiver,
								  LaCoreReceiver *result);

#endif							/* LA_CORE_RECEIVER_H */

/*-------------------------------------------------------------------------
 *
 * la_partition_functions.h
 *	  whether functions of users run while partitions are created
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PARTITION_FUNCTIONS_H
#define LA_PARTITION_FUNCTIONS_H

#include "utils/relcache.h"

extern bool la_partition_calls_functions(Relation parent);
extern bool la_partition_checks_call_functions(Relation parent);

#endif							/* LA_PARTITION_FUNCTIONS_H */

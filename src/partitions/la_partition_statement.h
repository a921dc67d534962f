/*-------------------------------------------------------------------------
 *
 * la_partition_statement.h
 *	  the statement by which core would create a partition
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PARTITION_STATEMENT_H
#define LA_PARTITION_STATEMENT_H

#include "nodes/parsenodes.h"

#include "partitions/la_partition_request.h"

extern char *la_partition_statement_text(const LaPartitionRequest *request,
										 const char *name, int i);
extern CreateStmt *la_partition_statement_parse(const LaPartitionRequest *request,
												char *text);
extern Datum la_partition_statement_storage(const LaPartitionRequest *request,
											const char *name, Datum *toast);
extern void la_partition_statement_check_tablespace(Oid tablespace);
extern void la_partition_statement_execute(const LaPartitionRequest *request,
										   const char *name, int i);
extern void la_partition_statement_begin_blame(ErrorContextCallback *callback,
											   char *text);

extern char *la_partition_name(const char *pattern, const char *parent,
							   const LaPartitionSeries *series, int i);

#endif							/* LA_PARTITION_STATEMENT_H */

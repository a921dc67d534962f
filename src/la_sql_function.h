/*-------------------------------------------------------------------------
 *
 * la_sql_function.h
 *	  what the SQL functions of the extension have in common
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_SQL_FUNCTION_H
#define LA_SQL_FUNCTION_H

#include "access/tupdesc.h"
#include "fmgr.h"

extern TupleDesc la_sql_function_row(FunctionCallInfo fcinfo, int columns);
extern void la_sql_function_check_row(FunctionCallInfo fcinfo, TupleDesc row,
									  int columns);

#endif							/* LA_SQL_FUNCTION_H */

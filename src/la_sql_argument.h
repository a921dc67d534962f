/*-------------------------------------------------------------------------
 *
 * la_sql_argument.h
 *	  arguments of SQL functions, as texts
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_SQL_ARGUMENT_H
#define LA_SQL_ARGUMENT_H

#include "datatype/timestamp.h"
#include "fmgr.h"

extern char *la_sql_argument_text(FunctionCallInfo fcinfo, int argument);
extern char *la_sql_argument_any(FunctionCallInfo fcinfo, int argument,
								 const char *name);
extern int	la_sql_argument_begin_output(void);
extern void la_sql_argument_set(const char *setting, const char *value);
extern char *la_sql_argument_text_of(Datum value, Oid type);
extern Datum la_sql_argument_numeric(const char *text);
extern Interval *la_sql_argument_interval(const char *text, const char *argument);

#endif							/* LA_SQL_ARGUMENT_H */

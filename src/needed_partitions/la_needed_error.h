/*-------------------------------------------------------------------------
 *
 * la_needed_error.h
 *	  the error of a row that has no partition, and gets none
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_NEEDED_ERROR_H
#define LA_NEEDED_ERROR_H

#include "utils/relcache.h"

pg_noreturn extern void la_needed_refuse(Relation table, Datum key,
										 bool is_null, const char *why);

#endif							/* LA_NEEDED_ERROR_H */

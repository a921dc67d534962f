/*-------------------------------------------------------------------------
 *
 * la_insert_function.h
 *	  which functions see the rows that a statement has inserted so far
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_FUNCTION_H
#define LA_INSERT_FUNCTION_H

extern bool la_insert_is_volatile(Oid function);
extern bool la_insert_sees_rows(Oid function);
extern bool la_insert_calls_by_name(Oid function);

#endif							/* LA_INSERT_FUNCTION_H */

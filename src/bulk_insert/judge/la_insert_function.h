/*-------------------------------------------------------------------------
 *
 * la_insert_function.h
 *	  could a function see the rows of an insert?
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_FUNCTION_H
#define LA_INSERT_FUNCTION_H

#include "nodes/pg_list.h"

#include "bulk_insert/judge/la_insert_known.h"

/*
 * What has come up in a search.  Starts as {0}.
 */
typedef struct LaInsertSearch
{
	bool		of_row;			/* is a row of the table looked at? */
	bool		deferred;		/* may it be evaluated when later rows have
								 * been made?  Then any volatile function
								 * counts */
	bool		of_default;		/* is it the default of an argument? */
	const List *tables;			/* those of the query that is searched */
	Oid			harmless;		/* the function that was looked at last */
	List	   *functions;		/* of users, that have been looked at */
	List	   *types;			/* the same */
	List	   *defaulted;		/* functions whose defaults of arguments have
								 * been, too */
	bool		users;			/* are functions of users called for these? */
} LaInsertSearch;

extern bool la_insert_search_function(LaInsertSearch *search, Oid function);
extern bool la_insert_function_is_volatile(Oid function);
extern bool la_insert_function_serves(Oid function, Oid handler);
extern Oid	la_insert_language(Oid function, char volatility);

/*
 * What has been found out, if the search has not found a function that sees rows.
 */
static inline LaInsertCalls
la_insert_search_result(const LaInsertSearch *search)
{
	return search->functions == NIL && !search->users ?
		LA_CALLS_CORE : LA_CALLS_USERS;
}

#endif							/* LA_INSERT_FUNCTION_H */

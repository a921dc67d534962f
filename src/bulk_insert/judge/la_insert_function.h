/*-------------------------------------------------------------------------
 *
 * la_insert_function.h
 *	  which functions see the rows that a statement has inserted so far
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_FUNCTION_H
#define LA_INSERT_FUNCTION_H

#include "nodes/nodes.h"
#include "nodes/pg_list.h"

/*
 * What comes up in a search for such functions.  Starts as {0}.
 */
typedef struct LaInsertSearch
{
	bool		late;			/* does any volatile function count? */
	Oid			harmless;		/* the function that was looked at last */
	List	   *functions;		/* that somebody made, and that have been
								 * looked at */
	List	   *types;			/* that somebody made */
	uint64		types_seen[4];	/* a bit is set for each, shared by many */
	List	   *tables;			/* of row types among these */
	int			types_searched; /* how many of these have been looked at */
	int			era;			/* of the first that was noted, or 0 */
	bool		has_caught_up;	/* with changes that others have made? */
} LaInsertSearch;

extern bool la_insert_search_function(LaInsertSearch *search, Oid function);
extern bool la_insert_search_io_function(LaInsertSearch *search, Oid function);

#endif							/* LA_INSERT_FUNCTION_H */

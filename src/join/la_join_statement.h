/*-------------------------------------------------------------------------
 *
 * la_join_statement.h
 *	  what the whole statement says about rows drawn ahead
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_JOIN_STATEMENT_H
#define LA_JOIN_STATEMENT_H

#include "attach/la_registry.h"

/* Lives as long as the query. */
typedef struct LaJoinStatement
{
	EState	   *estate;
	Bitmapset  *set_again;		/* parameters whose InitPlans may be executed
								 * again */
	bool		is_volatile;	/* may anything in it be? */
	bool		has_effects;	/* that outlast an error, or are seen before */
} LaJoinStatement;

extern const LaJoinStatement *la_join_statement(LaQuery *query);

#endif							/* LA_JOIN_STATEMENT_H */

/*-------------------------------------------------------------------------
 *
 * la_insert_finding.h
 *	  what was found out when something was looked at, kept for the next time
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_FINDING_H
#define LA_INSERT_FINDING_H

#include "bulk_insert/judge/la_insert_function.h"

/*
 * What kind of thing was looked at.
 */
typedef enum LaInsertKind
{
	LA_INSERT_TYPE,
	LA_INSERT_CHECK,			/* of a table, by its place in the list */
	LA_INSERT_GENERATED,		/* column of a table, by its number */
	LA_INSERT_PARTITION_KEY,	/* of a table: all expressions in it */
	LA_INSERT_PARTITION_KEYS,	/* of a table and those below it */
	LA_INSERT_CONDITION,		/* of a trigger */
} LaInsertKind;

/*
 * What was looked at.
 */
typedef struct LaInsertSubject
{
	LaInsertKind kind;
	Oid			object;
	int			number;			/* which one of this kind the object has */
	bool		late;			/* as in the search, which fills it in */
} LaInsertSubject;

/*
 * What was found out, as long as catalogs do not change.
 */
typedef struct LaInsertFinding
{
	LaInsertSubject subject;
	bool		sees_rows;		/* can it call a function that counts? */
	List	   *functions;		/* that somebody made, and it names ... */
	List	   *types;			/* ... and types; what these name, too, of
								 * LA_INSERT_PARTITION_KEYS */
	List	   *tables;			/* of a row type */
	char	   *stored;			/* the expression, NULL where there is none */
} LaInsertFinding;

extern const LaInsertFinding *la_insert_recall(const LaInsertSubject *subject,
											   const char *stored);
extern void la_insert_remember(const LaInsertFinding *finding);

#endif							/* LA_INSERT_FINDING_H */

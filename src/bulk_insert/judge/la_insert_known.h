/*-------------------------------------------------------------------------
 *
 * la_insert_known.h
 *	  what a session knows of types and tables, until any of it changes
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_INSERT_KNOWN_H
#define LA_INSERT_KNOWN_H

/*
 * What is called for rows, as far as it matters; the worst comes last.
 */
typedef enum LaInsertCalls
{
	LA_CALLS_CORE,				/* the server's own functions only */
	LA_CALLS_USERS,				/* functions of users that see no rows */
	LA_CALLS_SEEING,			/* functions that could see the rows so far */
} LaInsertCalls;

/*
 * What is known of an object.
 */
typedef enum LaInsertSubject
{
	LA_INSERT_TYPE,				/* what is called for values of a type */
	LA_INSERT_STORED,			/* by expressions that are stored with a table */
	LA_INSERT_KEY,				/* by the key of a partitioned table */
	LA_INSERT_FOREIGN,			/* has it a foreign partition? */
	LA_INSERT_CLASSES,			/* do functions of operator classes see rows? */
} LaInsertSubject;

/* Finds it out. */
typedef int (*LaInsertLook) (void *arg);

extern int	la_insert_known(LaInsertSubject subject, Oid object,
							LaInsertLook look, void *arg);

#endif							/* LA_INSERT_KNOWN_H */

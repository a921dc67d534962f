/*-------------------------------------------------------------------------
 *
 * la_needed_request.h
 *	  a session asks for a partition, and waits for it
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_NEEDED_REQUEST_H
#define LA_NEEDED_REQUEST_H

#include "port/atomics.h"
#include "storage/dsm_impl.h"
#include "storage/lock.h"
#include "storage/procnumber.h"

/* Texts of an error, the longest that are told. */
#define LA_NEEDED_TEXT 1024

typedef enum LaNeededState
{
	LA_NEEDED_ASKED,
	LA_NEEDED_LOCKED,			/* the worker has its lock, and can be waited
								 * for */
	LA_NEEDED_DONE
} LaNeededState;

/*
 * A request, in shared memory of its own.  The session writes it before the worker starts; the
 * worker writes the answer before the state.
 */
typedef struct LaNeededRequest
{
	Oid			database;
	Oid			table;
	ProcNumber	session;
	int			created;		/* partitions, by the same statement so far */

	pg_atomic_uint32 state;		/* LaNeededState */
	bool		is_created;		/* by this request; else it was there */
	int			sqlstate;		/* of the error, or 0 */
	char		message[LA_NEEDED_TEXT];
	char		detail[LA_NEEDED_TEXT]; /* or empty, as the next one */
	char		hint[LA_NEEDED_TEXT];

	char		value[FLEXIBLE_ARRAY_MEMBER];	/* of the key, as text */
} LaNeededRequest;

/* What becomes of a request. */
typedef struct LaNeededAnswer
{
	bool		is_created;
	const char *refusal;		/* why there is no partition, or NULL */
} LaNeededAnswer;

extern bool la_needed_request_begin(Oid table, bool has_waited);
extern LaNeededAnswer la_needed_request(Oid table, const char *value,
										int created);
extern void la_needed_request_end(Oid table);
extern void la_needed_worker_tag(LOCKTAG *tag, dsm_handle request);

extern PGDLLEXPORT void la_needed_worker_main(Datum arg);

#endif							/* LA_NEEDED_REQUEST_H */

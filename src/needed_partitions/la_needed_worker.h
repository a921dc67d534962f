/*-------------------------------------------------------------------------
 *
 * la_needed_worker.h
 *	  creates a partition that a session's row needs
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_NEEDED_WORKER_H
#define LA_NEEDED_WORKER_H

extern PGDLLEXPORT void la_needed_worker_main(Datum arg);

#endif							/* LA_NEEDED_WORKER_H */

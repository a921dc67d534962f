/*-------------------------------------------------------------------------
 *
 * la_maintenance_worker.h
 *	  maintains the interval partitions of a database
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_MAINTENANCE_WORKER_H
#define LA_MAINTENANCE_WORKER_H

extern PGDLLEXPORT void la_maintenance_worker_main(Datum arg);

#endif							/* LA_MAINTENANCE_WORKER_H */

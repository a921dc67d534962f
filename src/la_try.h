/*-------------------------------------------------------------------------
 *
 * la_try.h
 *	  work whose errors are caught
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_TRY_H
#define LA_TRY_H

typedef void (*LaTriedWork) (void *arg);

extern ErrorData *la_try(LaTriedWork work, void *arg);

#endif							/* LA_TRY_H */

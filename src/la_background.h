/*-------------------------------------------------------------------------
 *
 * la_background.h
 *	  what our background workers have in common
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BACKGROUND_H
#define LA_BACKGROUND_H

#include "postmaster/bgworker.h"

/* A setting of a worker's session, and its value. */
typedef const char *const LaBackgroundSetting[2];

extern const char *la_background_library(void);
extern BackgroundWorker la_background_worker(const char *type,
											 const char *function);
extern void la_background_connect(Oid database, LaBackgroundSetting * own,
								  int count);
extern void la_background_show(const char *activity);

#endif							/* LA_BACKGROUND_H */

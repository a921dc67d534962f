/*-------------------------------------------------------------------------
 *
 * la_maintenance_launcher.h
 *	  starts workers that maintain interval partitions
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_MAINTENANCE_LAUNCHER_H
#define LA_MAINTENANCE_LAUNCHER_H

#include "la_guc.h"

extern const LaSetting la_maintenance_settings[];

extern void la_maintenance_launcher_register(void);
extern PGDLLEXPORT void la_maintenance_launcher_main(Datum arg);

#endif							/* LA_MAINTENANCE_LAUNCHER_H */

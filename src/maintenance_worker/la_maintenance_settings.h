/*-------------------------------------------------------------------------
 *
 * la_maintenance_settings.h
 *	  settings of maintenance without a session
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_MAINTENANCE_SETTINGS_H
#define LA_MAINTENANCE_SETTINGS_H

#include "la_guc.h"

extern const LaSetting la_maintenance_settings[];

extern int	la_maintenance_interval;
extern bool la_maintenance_has_launcher;

#endif							/* LA_MAINTENANCE_SETTINGS_H */

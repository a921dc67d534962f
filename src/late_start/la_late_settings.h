/*-------------------------------------------------------------------------
 *
 * la_late_settings.h
 *	  settings of late starts
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_LATE_SETTINGS_H
#define LA_LATE_SETTINGS_H

#include "la_guc.h"

extern const LaSetting la_late_settings[];

extern bool la_enable_late_start;

extern int	la_late_least_children(void);

#endif							/* LA_LATE_SETTINGS_H */

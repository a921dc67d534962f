/*-------------------------------------------------------------------------
 *
 * la_needed_settings.h
 *	  settings of partitions that are created for rows
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_NEEDED_SETTINGS_H
#define LA_NEEDED_SETTINGS_H

#include "la_guc.h"

extern const LaSetting la_needed_settings[];

extern bool la_enable_interval_creation;

#endif							/* LA_NEEDED_SETTINGS_H */

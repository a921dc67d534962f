/*-------------------------------------------------------------------------
 *
 * la_device_settings.h
 *	  where it is written what the devices can do
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_DEVICE_SETTINGS_H
#define LA_DEVICE_SETTINGS_H

#include "la_guc.h"

extern const LaSetting la_device_settings[];

extern char *la_device_profile;

#endif							/* LA_DEVICE_SETTINGS_H */

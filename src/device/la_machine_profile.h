/*-------------------------------------------------------------------------
 *
 * la_machine_profile.h
 *	  the device profile of this machine, as the setting names it now
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_MACHINE_PROFILE_H
#define LA_MACHINE_PROFILE_H

#include "device/la_device_id.h"
#include "device/la_profile_parse.h"
#include "la_guc.h"

extern const LaSetting la_device_settings[];

extern char *la_device_profile;

extern bool la_machine_profile_refresh(void);
extern const LaProfileSection *la_machine_profile_find(const LaDeviceId *id,
													   const char **reason);

/* Room for the reason why a profile is not taken. */
#define LA_PROFILE_REASON_SIZE 160

#endif							/* LA_MACHINE_PROFILE_H */

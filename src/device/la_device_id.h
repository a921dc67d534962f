/*-------------------------------------------------------------------------
 *
 * la_device_id.h
 *	  names for this machine and for the device below a folder
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_DEVICE_ID_H
#define LA_DEVICE_ID_H

#include "device/la_profile_parse.h"

/* A device as a profile names it. */
typedef struct LaDeviceId
{
	uint32		device_major;
	uint32		device_minor;
	char		identity[LA_PROFILE_IDENTITY_LENGTH + 1];
} LaDeviceId;

extern bool la_device_id_of_machine(char *name);
extern bool la_device_id_of_folder(const char *folder, LaDeviceId *id);
extern bool la_device_id_matches(const LaDeviceId *id,
								 const LaProfileSection *section);

#endif							/* LA_DEVICE_ID_H */

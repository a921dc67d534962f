/*-------------------------------------------------------------------------
 *
 * la_profile.h
 *	  what was measured of the device below a tablespace
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PROFILE_H
#define LA_PROFILE_H

#include "device/la_machine_profile.h"
#include "device/la_profile_parse.h"

/*
 * An entry of a cache of the process: it stays readable as long as that runs,
 * but a reload may change it, so whoever needs the values for long copies them.
 */
typedef struct LaTablespaceProfile
{
	Oid			tablespace;		/* hash key */
	bool		resolved;
	bool		usable;
	char		device[24];		/* MAJOR:MINOR, or empty */
	char		reason[LA_PROFILE_REASON_SIZE]; /* unless usable */
	LaProfileSection section;	/* if usable */
} LaTablespaceProfile;

extern const LaDeviceProfile *la_profile_for_tablespace(Oid spcOid);
extern const LaTablespaceProfile *la_profile_find(Oid tablespace);

#endif							/* LA_PROFILE_H */

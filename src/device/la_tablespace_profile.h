/*-------------------------------------------------------------------------
 *
 * la_tablespace_profile.h
 *	  everything known of the device below a tablespace
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_TABLESPACE_PROFILE_H
#define LA_TABLESPACE_PROFILE_H

#include "device/la_profile_file.h"
#include "device/la_profile_parse.h"

/* Profiles are measured and counted in blocks of this size. */
#define LA_PROFILE_BLOCK_SIZE 8192

/* An entry of a cache of the process; readable as long as that runs. */
typedef struct LaTablespaceProfile
{
	Oid			tablespace;		/* hash key */
	bool		resolved;
	bool		usable;
	char		device[24];		/* MAJOR:MINOR, or empty */
	char		reason[LA_PROFILE_REASON_SIZE]; /* unless usable */
	LaProfileSection section;	/* if usable */
} LaTablespaceProfile;

extern const LaTablespaceProfile *la_tablespace_profile_find(Oid tablespace);

#endif							/* LA_TABLESPACE_PROFILE_H */

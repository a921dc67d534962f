/*-------------------------------------------------------------------------
 *
 * la_profile_file.h
 *	  reads the file of a device profile
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PROFILE_FILE_H
#define LA_PROFILE_FILE_H

#include "device/la_profile_parse.h"

/* Room for the reason why a profile is not taken. */
#define LA_PROFILE_REASON_SIZE 160

extern bool la_profile_file_read(const char *path, LaProfile *profile,
								 char *reason);

#endif							/* LA_PROFILE_FILE_H */

/*-------------------------------------------------------------------------
 *
 * la_profile.h
 *	  what was measured of the device below a tablespace
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PROFILE_H
#define LA_PROFILE_H

#include "device/la_profile_parse.h"

extern const LaDeviceProfile *la_profile_for_tablespace(Oid spcOid);

#endif							/* LA_PROFILE_H */

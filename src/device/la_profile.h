/*-------------------------------------------------------------------------
 *
 * la_profile.h
 *	  what was measured of the device below a tablespace
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PROFILE_H
#define LA_PROFILE_H

/*
 * Of one device, read from a cache of the process: it stays readable, but a
 * reload may change it, so whoever needs the values for long copies them.
 * Blocks are of 8 kB; every value is within the bounds of
 * la_profile_parse.c.
 */
typedef struct LaDeviceProfile
{
	int			depth;			/* reads in flight beyond which nothing is
								 * gained, 1 to 256 */
	int			request_blocks; /* size of a read beyond which nothing is
								 * gained, 1 to 512 */
	int			gap_limit;		/* longest gap that is cheaper to read than to
								 * skip, in blocks, 0 to 256 */
	double		random_read_us; /* time of one random read, alone */
	double		iops;			/* random reads per second at that depth */
	double		bandwidth_mb;	/* 10^6 bytes per second */
} LaDeviceProfile;

extern const LaDeviceProfile *la_profile_for_tablespace(Oid spcOid);

#endif							/* LA_PROFILE_H */

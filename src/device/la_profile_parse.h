/*-------------------------------------------------------------------------
 *
 * la_profile_parse.h
 *	  the text of a device profile, and what it says
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_PROFILE_PARSE_H
#define LA_PROFILE_PARSE_H

/* Profiles are measured and counted in blocks of this size. */
#define LA_PROFILE_BLOCK_SIZE 8192

/* The file is larger than this only by mistake, in bytes. */
#define LA_PROFILE_MAX_BYTES (64 * 1024)

/* Sections of one file; the lab writes one per device.  Arbitrary. */
#define LA_PROFILE_MAX_SECTIONS 32

/* Longest texts, without the terminating zero. */
#define LA_PROFILE_MACHINE_LENGTH 37	/* "boot-" and 32 digits */
#define LA_PROFILE_IDENTITY_LENGTH 127
#define LA_PROFILE_TIME_LENGTH 20

/* Depths at which random reads are measured: 1, 2, 4 ... 256. */
#define LA_PROFILE_DEPTHS 9

/*
 * What was measured of one device; every value is within the bounds of
 * la_profile_parse.c.
 */
typedef struct LaDeviceProfile
{
	int			depth;			/* reads in flight beyond which nothing is
								 * gained, 1 to 256 */
	double		iops;			/* random reads per second at that depth */
	double		bandwidth_mb;	/* 10^6 bytes per second */
} LaDeviceProfile;

/* What the file says of one device. */
typedef struct LaProfileSection
{
	uint32		device_major;
	uint32		device_minor;
	char		machine[LA_PROFILE_MACHINE_LENGTH + 1];
	char		identity[LA_PROFILE_IDENTITY_LENGTH + 1];
	char		measured_at[LA_PROFILE_TIME_LENGTH + 1];
	double		iops_at_depth[LA_PROFILE_DEPTHS];	/* 0 where not measured */
	LaDeviceProfile values;
} LaProfileSection;

/* A whole file. */
typedef struct LaProfile
{
	int			nsections;
	LaProfileSection sections[LA_PROFILE_MAX_SECTIONS];
} LaProfile;

/* Why a file is no profile; line counts from 1. */
typedef struct LaProfileError
{
	int			line;
	const char *what;
} LaProfileError;

extern bool la_profile_parse(char *text, size_t length,
							 LaProfile *profile, LaProfileError *error);

#endif							/* LA_PROFILE_PARSE_H */

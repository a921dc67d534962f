/*
 * fuzz_profile.c
 *	  throws mutated device profiles at the parser
 *
 * Usage: fuzz_profile FILE COUNT SEED.  Built with sanitizers, which end the
 * program at the first byte read or written out of bounds: each input has a
 * block of memory of exactly its size.  Whatever the parser accepts is looked
 * at here once more, with bounds of our own.  Prints how many inputs were
 * accepted and how many refused.
 */
#include "postgres.h"

#include <math.h>

#include "device/la_profile_parse.h"

/* The server's own are in its library. */
#undef printf
#undef fprintf

#define MAX_TEXT 8192

static const char *const snippets[] = {
	"0", "-1", "1e308", "nan", "inf", "0x10", "999999999", "9999999999999999999999",
	"0.000000", ".5", "5.", "1.2.3", "+1", "1,5", "\n", "\r\n", "\t", " ", "=", "[end]\n",
	"[device 8:1]\n", "[device 0:0]\n", "[device 4096:1]\n", "[", "]", "#", "version = 2\n",
	"depth = 64\n", "depth = 3\n", "unknown = 257\n", "bandwidth_mb = 0\n",
	"iops_at_depth_1 = 0.0\n", "measured_at = 2026-02-30T23:59:59Z\n",
};

static uint64 state;

static uint32
below(uint32 bound)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32) ((state >> 11) % bound);
}

static size_t
mutate_once(char *text, size_t length)
{
	size_t		at = length > 0 ? below((uint32) length) : 0;
	size_t		size;
	const char *snippet;

	switch (below(6))
	{
		case 0:					/* another byte */
			if (length > 0)
				text[at] = (char) below(256);
			return length;
		case 1:					/* another digit, where most of the values are */
			if (length > 0)
				text[at] = (char) ('0' + below(10));
			return length;
		case 2:					/* cut out */
			size = below(40);
			size = Min(length - at, size);
			memmove(text + at, text + at + size, length - at - size);
			return length - size;
		case 3:					/* repeat */
			size = below(400);
			size = Min(length - at, size);
			if (length + size > MAX_TEXT)
				return length;
			memmove(text + at + size, text + at, length - at);
			return length + size;
		case 4:					/* cut short */
			return below(8) == 0 ? at : length;
		default:				/* put something in */
			snippet = snippets[below(lengthof(snippets))];
			size = strlen(snippet);
			if (length + size > MAX_TEXT)
				return length;
			memmove(text + at + size, text + at, length - at);
			memcpy(text + at, snippet, size);
			return length + size;
	}
}

static void
check_bounds(const char *name, double value, double min, double max)
{
	if (isfinite(value) && value >= min && value <= max)
		return;
	fprintf(stderr, "accepted %s = %g\n", name, value);
	abort();
}

static void
check_accepted(const LaProfile *profile)
{
	check_bounds("sections", profile->nsections, 0, 32);
	for (int i = 0; i < profile->nsections; i++)
	{
		const LaProfileSection *section = &profile->sections[i];
		const LaDeviceProfile *values = &section->values;

		check_bounds("depth", values->depth, 1, 256);
		check_bounds("iops", values->iops, 0.1, 1e8);
		check_bounds("bandwidth_mb", values->bandwidth_mb, 0.1, 1e6);
		check_bounds("major", section->device_major, 0, 999999999);
		check_bounds("minor", section->device_minor, 0, 999999999);
		check_bounds("machine", strlen(section->machine), 1, 37);
		check_bounds("identity", strlen(section->identity), 1, 127);
		check_bounds("measured_at", strlen(section->measured_at), 1, 20);
	}
}

int
main(int argc, char **argv)
{
	static char base[MAX_TEXT];
	static char text[MAX_TEXT];
	static LaProfile profile;
	FILE	   *file = fopen(argv[1], "r");
	size_t		base_length = fread(base, 1, MAX_TEXT, file);
	long		count = strtol(argv[2], NULL, 10);
	long		accepted = 0;

	fclose(file);
	state = strtoull(argv[3], NULL, 10) * 2654435761u + 88172645463325252u;
	for (long i = 0; i < count; i++)
	{
		LaProfileError error;
		size_t		length = base_length;
		char	   *exact;

		memcpy(text, base, base_length);
		for (uint32 n = 1 + below(4); n > 0; n--)
			length = mutate_once(text, length);
		exact = malloc(length);
		memcpy(exact, text, length);
		if (la_profile_parse(exact, length, &profile, &error))
		{
			check_accepted(&profile);
			accepted++;
		}
		else if (error.what == NULL || error.line < 0)
			abort();
		free(exact);
	}
	printf("%ld %ld\n", accepted, count - accepted);
	return 0;
}

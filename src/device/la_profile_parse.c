/*-------------------------------------------------------------------------
 *
 * la_profile_parse.c
 *	  reads the text of a device profile
 *
 * Pure: no I/O, no memory, no settings, no locale.  The text decides how deep
 * every scan of the server reads, so nothing is guessed: an unknown key, one
 * that scans need and is missing, one that comes twice, a number that no
 * device can have, or a text that was cut short refuses the whole file.
 * docs/device-profile.md describes the format; device/profile.py of the lab
 * writes it.
 *
 *		version = 1
 *		[device 8:1]
 *		key = value
 *		...
 *		[end]
 *
 * Numbers are decimal digits with at most one point: no sign, no exponent,
 * hence no infinity, and nothing that strtod() would take besides.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "device/la_profile_parse.h"

/* Digits of a number before and after the point. */
#define MAX_DIGITS 9
#define MAX_FRACTION 6

/* A device number has 12 and 20 bits in the kernel (MAJOR, MINOR). */
#define MAX_MAJOR 4095
#define MAX_MINOR 1048575

/* Depths at which random reads are measured: 1, 2, 4 ... 256. */
#define DEPTHS 9

/* Nothing was measured before. */
#define FIRST_YEAR 2000

/* A part of the text. */
typedef struct LaSpan
{
	const char *start;
	size_t		length;
} LaSpan;

typedef enum LaProfileKeyKind
{
	KEY_MACHINE,
	KEY_IDENTITY,
	KEY_TIME,
	KEY_INTEGER,
	KEY_NUMBER,
	KEY_IOPS,					/* a number of LaParser, not of the section */
} LaProfileKeyKind;

/*
 * A key of a section; bounds are inclusive, and of numbers only.  The offset is
 * one in LaProfileSection, for KEY_IOPS an index of iops_at_depth.
 */
typedef struct LaProfileKey
{
	const char *name;
	LaProfileKeyKind kind;
	bool		required;
	size_t		offset;
	double		min;
	double		max;
} LaProfileKey;

/* Where the parser is. */
typedef enum LaParserState
{
	IN_HEAD,					/* before the first section */
	IN_SECTION,
	AFTER_END,
} LaParserState;

typedef struct LaParser
{
	LaProfile  *profile;
	LaParserState state;
	bool		has_version;
	/* of the open section */
	uint32		seen;			/* keys, by index */
	double		iops_at_depth[DEPTHS];	/* 0 where not measured */
} LaParser;

#define FIELD(name) offsetof(LaProfileSection, name)
#define DEPTH_KEY(depth, index) \
	{"iops_at_depth_" #depth, KEY_IOPS, false, index, 0.1, 100e6}

/* Bounds are what no device of today comes near, on either side. */
static const LaProfileKey keys[] = {
	{"machine", KEY_MACHINE, true, FIELD(machine), 0, 0},
	{"identity", KEY_IDENTITY, true, FIELD(identity), 0, 0},
	{"measured_at", KEY_TIME, true, FIELD(measured_at), 0, 0},
	{"random_read_latency_us", KEY_NUMBER, false, FIELD(values.random_read_us), 0.1, 10e6},
	{"bandwidth_mb", KEY_NUMBER, true, FIELD(values.bandwidth_mb), 0.1, 1e6},
	{"depth", KEY_INTEGER, true, FIELD(values.depth), 1, 256},
	{"request_blocks", KEY_INTEGER, false, FIELD(values.request_blocks), 1, 512},
	{"gap_limit", KEY_INTEGER, false, FIELD(values.gap_limit), 0, 256},
	DEPTH_KEY(1, 0),
	DEPTH_KEY(2, 1),
	DEPTH_KEY(4, 2),
	DEPTH_KEY(8, 3),
	DEPTH_KEY(16, 4),
	DEPTH_KEY(32, 5),
	DEPTH_KEY(64, 6),
	DEPTH_KEY(128, 7),
	DEPTH_KEY(256, 8),
};

static const char *parse_line(LaParser *parser, LaSpan line);
static const char *parse_heading(LaParser *parser, LaSpan line);
static const char *open_section(LaParser *parser, LaSpan number);
static const char *close_section(LaParser *parser);
static const char *parse_assignment(LaParser *parser, LaSpan line);
static const char *take_value(LaParser *parser, const LaProfileKey *key,
							  LaSpan value);
static const char *take_text(LaProfileSection *section,
							 const LaProfileKey *key, LaSpan value);
static bool is_machine(LaSpan value);
static bool is_time(LaSpan value);
static int	two_digits(const char *text);
static bool parse_number(LaSpan text, bool integer, double *number);
static bool is_printable(LaSpan line);
static LaSpan part_of(const char *start, const char *end);
static bool equals(LaSpan span, const char *text);
static LaSpan trimmed(LaSpan span);

/*
 * Reads a whole profile.  Returns false, and why in *error, when it is none;
 * *profile then means nothing.
 */
bool
la_profile_parse(const char *text, size_t length,
				 LaProfile *profile, LaProfileError *error)
{
	LaParser	parser = {.profile = profile,.state = IN_HEAD};
	size_t		position = 0;

	profile->nsections = 0;
	error->line = 0;
	error->what = NULL;
	if (length > LA_PROFILE_MAX_BYTES)
	{
		error->what = "it is larger than 64 kB";
		return false;
	}

	while (position < length)
	{
		const char *newline = memchr(text +position, '\n', length - position);

		error->line++;
		if (newline == NULL)
			error->what = "the line is cut short";
		else
			error->what = parse_line(&parser, part_of(text +position, newline));
		if (error->what != NULL)
			return false;
		position = newline + 1 - text;
	}
	if (parser.state != AFTER_END)
		error->what = "the text ends before [end]";
	return error->what == NULL;
}

/*
 * Takes one line; returns what is wrong with it, or NULL.  So do the
 * functions below.
 */
static const char *
parse_line(LaParser *parser, LaSpan line)
{
	if (!is_printable(line))
		return "it has a character that is not printable ASCII";
	line = trimmed(line);
	if (line.length == 0 || line.start[0] == '#')
		return NULL;
	if (parser->state == AFTER_END)
		return "something follows [end]";
	if (line.start[0] == '[')
		return parse_heading(parser, line);
	return parse_assignment(parser, line);
}

static const char *
parse_heading(LaParser *parser, LaSpan line)
{
	static const char prefix[] = "[device ";
	const size_t skipped = sizeof(prefix) - 1;
	const char *wrong = NULL;

	if (!parser->has_version)
		return "there is no \"version = 1\" before it";
	if (parser->state == IN_SECTION)
		wrong = close_section(parser);
	if (wrong != NULL)
		return wrong;
	if (equals(line, "[end]"))
	{
		parser->state = AFTER_END;
		return NULL;
	}
	if (line.length > skipped + 1 &&
		memcmp(line.start, prefix, skipped) == 0 &&
		line.start[line.length - 1] == ']')
		return open_section(parser, part_of(line.start + skipped,
											line.start + line.length - 1));
	return "it is neither [device MAJOR:MINOR] nor [end]";
}

static const char *
open_section(LaParser *parser, LaSpan number)
{
	LaProfile  *profile = parser->profile;
	const char *colon = memchr(number.start, ':', number.length);
	LaProfileSection *section;
	LaSpan		before;
	LaSpan		after;
	double		device_major;
	double		device_minor;

	if (colon == NULL)
		return "the device number is not MAJOR:MINOR";
	before = part_of(number.start, colon);
	after = part_of(colon + 1, number.start + number.length);
	if (!parse_number(before, true, &device_major) || device_major > MAX_MAJOR ||
		!parse_number(after, true, &device_minor) || device_minor > MAX_MINOR)
		return "the device number is not MAJOR:MINOR";
	if (profile->nsections == LA_PROFILE_MAX_SECTIONS)
		return "there are more than 32 devices";

	section = &profile->sections[profile->nsections++];
	memset(section, 0, sizeof(*section));
	section->device_major = (uint32) device_major;
	section->device_minor = (uint32) device_minor;
	section->values.gap_limit = -1;
	parser->state = IN_SECTION;
	parser->seen = 0;
	memset(parser->iops_at_depth, 0, sizeof(parser->iops_at_depth));
	return NULL;
}

/*
 * Is the section that ends here complete, and the only one of its device?
 */
static const char *
close_section(LaParser *parser)
{
	LaProfile  *profile = parser->profile;
	LaProfileSection *section = &profile->sections[profile->nsections - 1];

	for (int i = 0; i < lengthof(keys); i++)
	{
		if (keys[i].required && (parser->seen & (1U << i)) == 0)
			return "a key is missing in the section before it";
	}
	for (int i = 0; i < DEPTHS; i++)
	{
		if (section->values.depth == 1 << i)
			section->values.iops = parser->iops_at_depth[i];
	}
	if (section->values.iops <= 0)
		return "the section before it lacks the IOPS at its depth";

	for (int i = 0; i < profile->nsections - 1; i++)
	{
		LaProfileSection *other = &profile->sections[i];

		if (other->device_major == section->device_major &&
			other->device_minor == section->device_minor &&
			strcmp(other->machine, section->machine) == 0 &&
			strcmp(other->identity, section->identity) == 0)
			return "the section before it is the second one of its device";
	}
	return NULL;
}

static const char *
parse_assignment(LaParser *parser, LaSpan line)
{
	const char *sign = memchr(line.start, '=', line.length);
	LaSpan		name;
	LaSpan		value;

	if (sign == NULL)
		return "it is not \"key = value\"";
	name = trimmed(part_of(line.start, sign));
	value = trimmed(part_of(sign + 1, line.start + line.length));

	if (parser->state == IN_HEAD)
	{
		if (parser->has_version || !equals(name, "version"))
			return "it stands outside of any section";
		if (!equals(value, "1"))
			return "the profile has another version than 1";
		parser->has_version = true;
		return NULL;
	}

	for (int i = 0; i < lengthof(keys); i++)
	{
		if (!equals(name, keys[i].name))
			continue;
		if (parser->seen & (1U << i))
			return "the key comes twice";
		parser->seen |= 1U << i;
		return take_value(parser, &keys[i], value);
	}
	return "the key is unknown";
}

static const char *
take_value(LaParser *parser, const LaProfileKey *key, LaSpan value)
{
	LaProfileSection *section =
		&parser->profile->sections[parser->profile->nsections - 1];
	char	   *field = (char *) section + key->offset;
	double		number;

	if (key->kind == KEY_MACHINE || key->kind == KEY_IDENTITY ||
		key->kind == KEY_TIME)
		return take_text(section, key, value);

	if (!parse_number(value, key->kind == KEY_INTEGER, &number))
		return key->kind == KEY_INTEGER ? "the value is not a whole number"
			: "the value is not a decimal number";
	if (!(number >= key->min && number <= key->max))
		return "the value is out of range";
	if (key->kind == KEY_IOPS)
		parser->iops_at_depth[key->offset] = number;
	else if (key->kind == KEY_INTEGER)
		*(int *) field = (int) number;
	else
		*(double *) field = number;
	return NULL;
}

static const char *
take_text(LaProfileSection *section, const LaProfileKey *key, LaSpan value)
{
	char	   *field = (char *) section + key->offset;

	if (key->kind == KEY_MACHINE && !is_machine(value))
		return "the value is not the name of a machine";
	if (key->kind == KEY_IDENTITY &&
		(value.length == 0 || value.length > LA_PROFILE_IDENTITY_LENGTH ||
		 memchr(value.start, ' ', value.length) != NULL ||
		 memchr(value.start, '\t', value.length) != NULL))
		return "the value is not the identity of a device";
	if (key->kind == KEY_TIME && !is_time(value))
		return "the value is not a time such as 2026-01-31T23:59:59Z";
	memcpy(field, value.start, value.length);
	field[value.length] = '\0';
	return NULL;
}

/*
 * "id-" or "boot-" and 32 hexadecimal digits.
 */
static bool
is_machine(LaSpan value)
{
	size_t		prefix;

	if (value.length > 3 && memcmp(value.start, "id-", 3) == 0)
		prefix = 3;
	else if (value.length > 5 && memcmp(value.start, "boot-", 5) == 0)
		prefix = 5;
	else
		return false;
	if (value.length != prefix + 32)
		return false;
	for (size_t i = prefix; i < value.length; i++)
	{
		char		c = value.start[i];

		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
			return false;
	}
	return true;
}

/*
 * A time that PostgreSQL takes as well: the view casts it.
 */
static bool
is_time(LaSpan value)
{
	static const char shape[] = "dddd-dd-ddTdd:dd:ddZ";
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	int			year;
	int			month;
	int			day;
	bool		is_leap;

	if (value.length != sizeof(shape) - 1)
		return false;
	for (size_t i = 0; i < value.length; i++)
	{
		char		c = value.start[i];

		if (shape[i] == 'd' ? c < '0' || c > '9' : c != shape[i])
			return false;
	}
	year = two_digits(value.start) * 100 + two_digits(value.start + 2);
	month = two_digits(value.start + 5);
	day = two_digits(value.start + 8);
	is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
	return year >= FIRST_YEAR && month >= 1 && month <= 12 && day >= 1 &&
		day <= days[month - 1] + (month == 2 && is_leap ? 1 : 0) &&
		two_digits(value.start + 11) < 24 &&
		two_digits(value.start + 14) < 60 &&
		two_digits(value.start + 17) < 60;
}

static int
two_digits(const char *text)
{
	return (text[0] - '0') *10 + (text[1] - '0');
}

/*
 * Reads digits, with a point and more digits unless it is an integer.
 */
static bool
parse_number(LaSpan text, bool integer, double *number)
{
	double		unit = 1;
	size_t		i = 0;
	size_t		point;

	*number = 0;
	for (; i < text.length && text.start[i] >= '0' && text.start[i] <= '9'; i++)
		*number = *number * 10 + (text.start[i] - '0');
	if (i == 0 || i > MAX_DIGITS)
		return false;
	if (i == text.length)
		return true;
	if (integer || text.start[i] != '.')
		return false;

	point = i++;
	for (; i < text.length && text.start[i] >= '0' && text.start[i] <= '9'; i++)
	{
		unit /= 10;
		*number += unit * (text.start[i] - '0');
	}
	return i == text.length && i - point > 1 && i - point - 1 <= MAX_FRACTION;
}

static bool
is_printable(LaSpan line)
{
	for (size_t i = 0; i < line.length; i++)
	{
		char		c = line.start[i];

		if (c != '\t' && (c < ' ' || c > '~'))
			return false;
	}
	return true;
}

static bool
equals(LaSpan span, const char *text)
{
	return span.length == strlen(text) &&
		memcmp(span.start, text, span.length) == 0;
}

/*
 * The text from one character to before another.
 */
static LaSpan
part_of(const char *start, const char *end)
{
	LaSpan		part;

	part.start = start;
	part.length = end - start;
	return part;
}

/*
 * Without blanks and tabs at both ends.
 */
static LaSpan
trimmed(LaSpan span)
{
	while (span.length > 0 && (span.start[0] == ' ' || span.start[0] == '\t'))
	{
		span.start++;
		span.length--;
	}
	while (span.length > 0 && (span.start[span.length - 1] == ' ' ||
							   span.start[span.length - 1] == '\t'))
		span.length--;
	return span;
}

/*-------------------------------------------------------------------------
 *
 * la_profile_parse.c
 *	  reads the text of a device profile
 *
 * Pure: no I/O, no memory, no settings.  The text decides how deep every scan
 * of the server reads, so nothing is guessed: a key that is missing or comes
 * twice, a number that no device can have, or a text that was cut short refuses
 * the whole file.  Keys that scans have no use for are not looked at.
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

#define DIGITS "0123456789"
#define BLANKS " \t"

/* Digits of a number before and after the point. */
#define MAX_DIGITS 9
#define MAX_FRACTION 6

typedef enum LaProfileKeyKind
{
	KEY_TEXT,
	KEY_INTEGER,
	KEY_NUMBER,
} LaProfileKeyKind;

/*
 * A key of a section, and where its value goes in LaProfileSection.  Bounds are
 * inclusive; of a text, max is its length.
 */
typedef struct LaProfileKey
{
	const char *name;
	LaProfileKeyKind kind;
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
	uint32		seen;			/* keys of the open section, by index */
} LaParser;

#define FIELD(name) offsetof(LaProfileSection, name)
#define DEPTH_KEY(depth, index) \
	{"iops_at_depth_" #depth, KEY_NUMBER, FIELD(iops_at_depth[index]), 0.1, 100e6}

/* Bounds are what no device of today comes near, on either side. */
static const LaProfileKey keys[] = {
	{"machine", KEY_TEXT, FIELD(machine), 1, LA_PROFILE_MACHINE_LENGTH},
	{"identity", KEY_TEXT, FIELD(identity), 1, LA_PROFILE_IDENTITY_LENGTH},
	{"measured_at", KEY_TEXT, FIELD(measured_at), 1, LA_PROFILE_TIME_LENGTH},
	{"bandwidth_mb", KEY_NUMBER, FIELD(values.bandwidth_mb), 0.1, 1e6},
	{"depth", KEY_INTEGER, FIELD(values.depth), 1, 256},
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

/* The first of them are required, and of the others that of the depth. */
#define REQUIRED_KEYS 0x1F

/*
 * Is the section that ends here complete, and the only one of its device?
 */
static const char *
close_section(LaParser *parser)
{
	LaProfile  *profile = parser->profile;
	LaProfileSection *section = &profile->sections[profile->nsections - 1];

	if ((parser->seen & REQUIRED_KEYS) != REQUIRED_KEYS)
		return "a key is missing in the section before it";
	for (int i = 0; i < LA_PROFILE_DEPTHS; i++)
	{
		if (section->values.depth == 1 << i)
			section->values.iops = section->iops_at_depth[i];
	}
	if (section->values.iops == 0)
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

/*
 * Digits, with a point and more digits unless it is an integer?
 */
static bool
is_number(const char *text, bool integer)
{
	size_t		whole = strspn(text, DIGITS);
	size_t		fraction;

	if (whole == 0 || whole > MAX_DIGITS)
		return false;
	if (text[whole] == '\0')
		return true;
	if (integer || text[whole] != '.')
		return false;
	fraction = strspn(text +whole + 1, DIGITS);
	return fraction > 0 && fraction <= MAX_FRACTION &&
		text[		whole + 1 + fraction] == '\0';
}

static const char *
parse_heading(LaParser *parser, char *line)
{
	static const char prefix[] = "[device ";
	LaProfile  *profile = parser->profile;
	LaProfileSection *section;
	const char *wrong = NULL;
	char	   *first = line + sizeof(prefix) - 1;
	char	   *colon = strchr(line, ':');
	char	   *last = line + strlen(line) - 1;

	if (!parser->has_version)
		return "there is no \"version = 1\" before it";
	if (parser->state == IN_SECTION)
		wrong = close_section(parser);
	if (wrong != NULL)
		return wrong;
	if (strcmp(line, "[end]") == 0)
	{
		parser->state = AFTER_END;
		return NULL;
	}

	if (strncmp(line, prefix, sizeof(prefix) - 1) != 0 || colon == NULL || *last != ']')
		return "it is neither [device MAJOR:MINOR] nor [end]";
	*colon = *last = '\0';
	if (!is_number(first, true) || !is_number(colon + 1, true))
		return "the device number is not MAJOR:MINOR";
	if (profile->nsections == LA_PROFILE_MAX_SECTIONS)
		return "there are more than 32 devices";

	section = &profile->sections[profile->nsections++];
	memset(section, 0, sizeof(*section));
	section->device_major = (uint32) atoi(first);
	section->device_minor = (uint32) atoi(colon + 1);
	parser->state = IN_SECTION;
	parser->seen = 0;
	return NULL;
}

static const char *
take_value(LaProfileSection *section, const LaProfileKey *key,
		   const char *value)
{
	char	   *field = (char *) section + key->offset;
	double		number;

	if (key->kind == KEY_TEXT)
	{
		if (value[0] == '\0' || strlen(value) > key->max ||
			strpbrk(value, BLANKS) != NULL)
			return "the value is empty, too long or has blanks";
		strcpy(field, value);
		return NULL;
	}
	if (!is_number(value, key->kind == KEY_INTEGER))
		return key->kind == KEY_INTEGER ? "the value is not a whole number"
			: "the value is not a decimal number";
	number = strtod(value, NULL);
	if (number < key->min || number > key->max)
		return "the value is out of range";
	if (key->kind == KEY_INTEGER)
		*(int *) field = (int) number;
	else
		*(double *) field = number;
	return NULL;
}

/*
 * Without blanks and tabs at both ends.
 */
static char *
trimmed(char *text)
{
	size_t		length;

	text	  +=strspn(text, BLANKS);

	length = strlen(text);
	while (length > 0 && strchr(BLANKS, text[length - 1]) != NULL)
		length--;
	text[		length] = '\0';
	return text;
}

static const char *
parse_assignment(LaParser *parser, char *line)
{
	LaProfile  *profile = parser->profile;
	char	   *sign = strchr(line, '=');
	const char *name;
	const char *value;

	if (sign == NULL)
		return "it is not \"key = value\"";
	*sign = '\0';
	name = trimmed(line);
	value = trimmed(sign + 1);

	if (parser->state == IN_HEAD)
	{
		if (parser->has_version || strcmp(name, "version") != 0)
			return "it stands outside of any section";
		if (strcmp(value, "1") != 0)
			return "the profile has another version than 1";
		parser->has_version = true;
		return NULL;
	}

	for (int i = 0; i < lengthof(keys); i++)
	{
		if (strcmp(name, keys[i].name) != 0)
			continue;
		if (parser->seen & (1U << i))
			return "the key comes twice";
		parser->seen |= 1U << i;
		return take_value(&profile->sections[profile->nsections - 1],
						  &keys[i], value);
	}
	return NULL;
}

/*
 * Takes one line; returns what is wrong with it, or NULL.  So do the
 * functions that it calls.
 */
static const char *
parse_line(LaParser *parser, char *line)
{
	if (line[0] == '\0' || line[0] == '#')
		return NULL;
	if (parser->state == AFTER_END)
		return "something follows [end]";
	if (line[0] == '[')
		return parse_heading(parser, line);
	return parse_assignment(parser, line);
}

static bool
is_printable(const char *start, const char *end)
{
	for (; start < end; start++)
	{
		if (*start != '\t' && (*start < ' ' || *start > '~'))
			return false;
	}
	return true;
}

/*
 * Reads a whole profile, and cuts its text up.  Returns false, and why in
 * *error, when it is none; *profile then means nothing.
 */
bool
la_profile_parse(char *text, size_t length,
				 LaProfile *profile, LaProfileError *error)
{
	LaParser	parser = {.profile = profile,.state = IN_HEAD};
	char	   *end = text +length;

	profile->nsections = 0;
	error->line = 0;
	error->what = NULL;
	if (length > LA_PROFILE_MAX_BYTES)
	{
		error->what = "it is larger than 64 kB";
		return false;
	}

	for (char *line = text; line < end;)
	{
		char	   *newline = memchr(line, '\n', end - line);

		error->line++;
		if (newline == NULL)
			error->what = "the line is cut short";
		else if (!is_printable(line, newline))
			error->what = "it has a character that is not printable ASCII";
		else
		{
			*newline = '\0';
			error->what = parse_line(&parser, trimmed(line));
		}
		if (error->what != NULL)
			return false;
		line = newline + 1;
	}
	if (parser.state != AFTER_END)
		error->what = "the text ends before [end]";
	return error->what == NULL;
}

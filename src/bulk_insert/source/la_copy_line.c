/*-------------------------------------------------------------------------
 *
 * la_copy_line.c
 *	  plain lines of the input of a COPY FROM
 *
 * Core reads a line byte by byte, twice: to find its end, then to separate its fields.
 * Most lines have nothing that needs this: no backslash but in \N, in CSV no quote, no
 * carriage return, and as many fields as there are columns.  In such a line separators are
 * found a vector of bytes at a time.  Any other line is left to core, untouched: one that
 * is not in the buffer as a whole, too, so that core fills it, checks the encoding, tells
 * the kind of line ends by the first line, and finds the end of the input.  Where one line
 * after the other is core's, most are not even looked at.
 *
 * Mirrors CopyFromTextLikeOneRow(), CopyReadLine() and CopyReadAttributesText() in
 * copyfromparse.c, for such lines.  Reads CopyFromStateData of copyfrom_internal.h, and
 * writes what those functions leave for others: the line, its number, and that it is read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/copyapi.h"
#include "commands/copyfrom_internal.h"
#include "port/pg_bitutils.h"
#include "port/simd.h"
#include "utils/rel.h"

#include "bulk_insert/source/la_copy.h"

#ifdef USE_NO_SIMD

void
la_copy_read_plain_lines(CopyFromState state)
{
}

#else

/* After many lines that were core's, so many are left to it between two that are looked at. */
#define MOST_LEFT 64

/*
 * Core's functions of a format, but for the one that reads a row.
 */
typedef struct LaCopyLines
{
	CopyFromRoutine routine;
	int			misses;			/* lines in a row that were core's, 0 to
								 * MOST_LEFT */
	int			left;			/* how many more are not looked at */
} LaCopyLines;

/*
 * Is a field that begins with a backslash the usual marker of NULL?
 */
static inline bool
is_null_marker(const CopyFromState state, const char *field, const char *end)
{
	return !state->opts.csv_mode && state->opts.null_print_len == 2 &&
		state->opts.null_print[0] == '\\' && state->opts.null_print[1] == 'N' &&
		end - field > 2 && field[1] == 'N' &&
		(field[2] == state->opts.delim[0] || field[2] == '\n');
}

/*
 * Which bytes of a vector of them separate something, or make a line one that is not plain?
 */
static inline uint32
special_bytes(const char *bytes, char delimiter, char escape)
{
	Vector8		chunk;
	Vector8		ends;
	Vector8		others;

	vector8_load(&chunk, (const uint8 *) bytes);
	ends = vector8_or(vector8_eq(chunk, vector8_broadcast('\n')),
					  vector8_eq(chunk, vector8_broadcast('\r')));
	others = vector8_or(vector8_eq(chunk, vector8_broadcast(delimiter)),
						vector8_eq(chunk, vector8_broadcast(escape)));
	return vector8_highbit_mask(vector8_or(ends, others));
}

/*
 * Finds where the fields of the next line begin (raw_fields), and its end.  NULL when the
 * line is not plain.  One that ends with the last bytes of the buffer is not, either.
 */
static inline char *
find_fields(CopyFromState state, char escape)
{
	char	   *at = state->input_buf + state->input_buf_index;
	const char *end = state->input_buf + state->input_buf_len;
	char	   *field = at;
	char		delimiter = state->opts.delim[0];
	int			columns = list_length(state->attnumlist);
	int			fields = 0;

	if (state->eol_type != EOL_NL)
		return NULL;
	state->raw_fields[fields++] = field;
	for (; end - at >= (ptrdiff_t) sizeof(Vector8); at += sizeof(Vector8))
	{
		uint32		special = special_bytes(at, delimiter, escape);

		for (; special != 0; special &= special - 1)
		{
			char	   *found = at + pg_rightmost_one_pos32(special);

			if (*found == delimiter && fields < columns)
				state->raw_fields[fields++] = field = found + 1;
			else if (*found == '\\' && found == field &&
					 is_null_marker(state, field, end))
				continue;
			else if (*found == '\n' && escape != '\n' && fields == columns)
				return found;
			else
				return NULL;
		}
	}
	return NULL;
}

/*
 * The line is read: error messages quote it.
 */
static void
take_line(CopyFromState state, char *end)
{
	const char *line = state->input_buf + state->input_buf_index;

	state->cur_lineno++;
	state->line_buf_valid = false;
	resetStringInfo(&state->line_buf);
	appendBinaryStringInfo(&state->line_buf, line, end - line);
	state->line_buf_valid = true;
	state->input_buf_index = end + 1 - state->input_buf;
}

static inline bool
is_null(const CopyFromState state, const char *field, const char *end)
{
	return end - field == state->opts.null_print_len &&
		memcmp(field, state->opts.null_print, end - field) == 0;
}

/*
 * Makes values of the fields of a line that ends here.  Each becomes a string where it
 * lies: nobody reads these bytes again.
 */
static inline void
read_fields(CopyFromState state, char *end, Datum *values, bool *nulls)
{
	TupleDesc	descriptor = RelationGetDescr(state->rel);
	const List *columns = state->attnumlist;

	for (int i = 0; i < list_length(columns); i++)
	{
		int			column = list_nth_int(columns, i) - 1;
		Form_pg_attribute attribute = TupleDescAttr(descriptor, column);
		char	   *field = state->raw_fields[i];
		char	   *field_end = i + 1 < list_length(columns) ?
			state->raw_fields[i + 1] - 1 : end;

		*field_end = '\0';
		if (is_null(state, field, field_end))
			field = NULL;
		nulls[column] = field == NULL;
		state->cur_attname = NameStr(attribute->attname);
		state->cur_attval = field;
		values[column] = InputFunctionCall(&state->in_functions[column], field,
										   state->typioparams[column],
										   attribute->atttypmod);
		state->cur_attname = NULL;
		state->cur_attval = NULL;
	}
}

/*
 * Reads the next line, if it is plain.  False when it is not, and has not been touched.
 */
static inline bool
read_row(CopyFromState state, char escape, Datum *values, bool *nulls)
{
	LaCopyLines *lines = (LaCopyLines *) state->routine;
	char	   *end;

	if (lines->left > 0)
	{
		lines->left--;
		return false;
	}
	end = find_fields(state, escape);
	if (end == NULL)
	{
		lines->misses = Min(lines->misses + 1, MOST_LEFT);
		lines->left = lines->misses - 1;
		return false;
	}
	lines->misses = 0;
	take_line(state, end);
	read_fields(state, end, values, nulls);
	return true;
}

static bool
read_text_row(CopyFromState state, ExprContext *context, Datum *values,
			  bool *nulls)
{
	return read_row(state, '\\', values, nulls) ||
		CopyFromTextOneRow(state, context, values, nulls);
}

static bool
read_csv_row(CopyFromState state, ExprContext *context, Datum *values,
			 bool *nulls)
{
	return read_row(state, state->opts.quote[0], values, nulls) ||
		CopyFromCSVOneRow(state, context, values, nulls);
}

/*
 * Is a field a value or NULL, whatever its column?
 */
static bool
is_suitable(const CopyFromState state)
{
	const CopyFormatOptions *options = &state->opts;

	if (state->routine->CopyFromOneRow != CopyFromTextOneRow &&
		state->routine->CopyFromOneRow != CopyFromCSVOneRow)
		return false;
	return state->attnumlist != NIL && state->convert_select_flags == NULL &&
		options->default_print == NULL &&
		options->force_notnull == NIL && !options->force_notnull_all &&
		options->force_null == NIL && !options->force_null_all;
}

/*
 * From now on plain lines are read here, where the options of the COPY allow it.
 */
void
la_copy_read_plain_lines(CopyFromState state)
{
	LaCopyLines *lines;

	if (!is_suitable(state))
		return;
	lines = MemoryContextAllocZero(state->copycontext, sizeof(LaCopyLines));
	lines->routine = *state->routine;
	lines->routine.CopyFromOneRow = state->opts.csv_mode ? read_csv_row : read_text_row;
	state->routine = &lines->routine;
}

#endif

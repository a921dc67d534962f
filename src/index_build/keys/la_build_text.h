/*-------------------------------------------------------------------------
 *
 * la_build_text.h
 *	  texts as they are stored, decompressed as far as wanted
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_BUILD_TEXT_H
#define LA_BUILD_TEXT_H

#include "fmgr.h"
#include "varatt.h"

/*
 * The beginning of a text, of at least `length` bytes unless it is shorter: all
 * of it if that costs nothing, or if `length` is -1.  If it is not the value itself,
 * the caller frees it.
 */
static inline text *
la_text_start(Datum value, int length)
{
	if (!VARATT_IS_EXTERNAL(DatumGetPointer(value)) &&
		!VARATT_IS_COMPRESSED(DatumGetPointer(value)))
		return (text *) DatumGetPointer(value);
	return DatumGetTextPSlice(value, 0, length);
}

#endif							/* LA_BUILD_TEXT_H */

/*-------------------------------------------------------------------------
 *
 * la_insert_image.c
 *	  rows on a private image of the page that they will be on
 *
 * A row is formed straight into the image.  Until it is known which page it will be, the
 * rows have no place, and until they are inserted, no transaction.  What is between line
 * pointers and rows is cleared when it becomes a page.
 *
 * Which rows go on an image mirrors RelationGetBufferForTuple() in hio.c and
 * heap_multi_insert() in heapam.c, for an empty page.  Reads PageHeaderData of bufpage.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"

#include "bulk_insert/page/la_insert_image.h"
#include "bulk_insert/page/la_insert_row.h"

/* Bytes of a row that are fetched ahead at most: the processor sees where longer ones go. */
#define FETCHED_AHEAD 256

static bool has_room(const LaInsertImage *image, Size spare, Size length);
static HeapTupleHeader place(LaInsertImage *image, Size length);
static inline void fetch_ahead(const LaInsertImage *image, Size length);

/*
 * An image of no rows on this page of memory.  It keeps their lines of the input, in the
 * current memory context, when it is told where to find that of a row.
 */
void
la_insert_image_begin(LaInsertImage *image, Page page, const uint64 *line)
{
	memset(image, 0, sizeof(*image));
	la_insert_image_clear(image, page);
	image->line = line;
	if (line != NULL)
		image->lines = palloc_array(uint64, MaxHeapTuplesPerPage);
}

/*
 * Bytes of memory of such an image.
 */
Size
la_insert_image_size(const uint64 *line)
{
	Size		lines = line != NULL ? MaxHeapTuplesPerPage * sizeof(uint64) : 0;

	return sizeof(LaInsertImage) + BLCKSZ + lines;
}

/*
 * Frees the image's memory, but not itself.
 */
void
la_insert_image_end(LaInsertImage *image)
{
	pfree(image->page);
	if (image->lines != NULL)
		pfree(image->lines);
}

/*
 * Adds a row, which has the table's row type, where so many bytes are spared on a page.
 */
LaInsertRoom
la_insert_image_add(LaInsertImage *image, Size spare, TupleTableSlot *slot)
{
	LaInsertRow row;

	if (!la_insert_row_measure(&row, slot))
		return LA_INSERT_WIDE;
	if (!has_room(image, spare, row.length))
		return LA_INSERT_FULL;
	if (!la_insert_row_form(&row, place(image, row.length)))
	{
		PageHeader	page = (PageHeader) image->page;

		page->pd_upper += MAXALIGN(row.length);
		page->pd_lower -= sizeof(ItemIdData);
		image->rows--;
		return LA_INSERT_WIDE;
	}
	return LA_INSERT_ADDED;
}

/*
 * Adds a row that is a tuple of so many bytes, and needs no toasting.
 */
LaInsertRoom
la_insert_image_add_tuple(LaInsertImage *image, Size spare,
						  const HeapTupleHeaderData *tuple, Size length)
{
	if (!has_room(image, spare, length))
		return LA_INSERT_FULL;
	memcpy(place(image, length), tuple, length);
	return LA_INSERT_ADDED;
}

/*
 * Is there room for a row?  On an empty page there always is, whatever the
 * fillfactor.
 */
static bool
has_room(const LaInsertImage *image, Size spare, Size length)
{
	if (image->rows == 0)
		return MAXALIGN(length) <= MaxHeapTupleSize;
	return PageGetHeapFreeSpace(image->page) >= MAXALIGN(length) + spare;
}

/*
 * Gives a row, for which there is room, its place: as many zeroes as it has
 * bytes, aligned.  Mirrors PageAddItemExtended() in bufpage.c, for a page without unused
 * line pointers.
 */
static HeapTupleHeader
place(LaInsertImage *image, Size length)
{
	PageHeader	page = (PageHeader) image->page;

	if (image->line != NULL)
		image->lines[image->rows] = *image->line;
	page->pd_lower += sizeof(ItemIdData);
	page->pd_upper -= MAXALIGN(length);
	image->rows++;
	ItemIdSetNormal(PageGetItemId(image->page, image->rows), page->pd_upper,
					length);
	fetch_ahead(image, length);
	return memset(image->page + page->pd_upper, 0, MAXALIGN(length));
}

/*
 * Where the next row will be, the processor's cache has it in time when rows for many other
 * images come before.
 */
static inline void
fetch_ahead(const LaInsertImage *image, Size length)
{
#ifdef __GNUC__
	const char *row = image->page + ((PageHeader) image->page)->pd_upper;

	for (Size at = 1; at <= Min(length, FETCHED_AHEAD);
		 at += PG_CACHE_LINE_SIZE / 2)
		__builtin_prefetch(row - at, 1);
#endif
}

/*
 * The rows, in order, as tuples of a table.
 */
void
la_insert_image_read(const LaInsertImage *image, Oid table, HeapTuple tuples)
{
	for (int i = 0; i < image->rows; i++)
	{
		ItemId		item = PageGetItemId(image->page, i + 1);
		HeapTuple	tuple = &tuples[i];

		tuple->t_len = ItemIdGetLength(item);
		tuple->t_data = (HeapTupleHeader) PageGetItem(image->page, item);
		tuple->t_tableOid = table;
		ItemPointerSetInvalid(&tuple->t_self);
	}
}

/*
 * How many bytes of a page the rows take, without their line pointers.
 */
Size
la_insert_image_bytes(const LaInsertImage *image)
{
	return BLCKSZ - ((PageHeader) image->page)->pd_upper;
}

/*
 * There are no more rows for the page: it becomes as PageInit() would have made it, between
 * line pointers and rows.
 */
void
la_insert_image_complete(LaInsertImage *image)
{
	PageHeader	page = (PageHeader) image->page;

	memset((char *) page + page->pd_lower, 0, page->pd_upper - page->pd_lower);
}

/*
 * Forgets the rows, and goes on with this page of memory, whose content does not matter.
 * Mirrors PageInit() in bufpage.c, but for what la_insert_image_complete() does.
 */
void
la_insert_image_clear(LaInsertImage *image, Page memory)
{
	PageHeader	page = (PageHeader) memory;

	memset(page, 0, SizeOfPageHeaderData);
	page->pd_lower = SizeOfPageHeaderData;
	page->pd_upper = BLCKSZ;
	page->pd_special = BLCKSZ;
	PageSetPageSizeAndVersion(memory, BLCKSZ, PG_PAGE_LAYOUT_VERSION);
	image->page = memory;
	image->rows = 0;
	image->toasted = false;
}

/*-------------------------------------------------------------------------
 *
 * la_gap_choice.h
 *	  the gap limit that suits a device and a pattern of blocks
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_GAP_CHOICE_H
#define LA_GAP_CHOICE_H

/* Longest gap that is considered, in blocks: 512 kB of 8 kB blocks. */
#define LA_GAP_CHOICE_MAX 64

/*
 * The gaps between the blocks that a scan wants, counted by their length.
 * Longer ones, and steps backward, are only part of the number of blocks.
 */
typedef struct LaGapCounts
{
	uint32		blocks;
	uint32		gaps[LA_GAP_CHOICE_MAX + 1];
} LaGapCounts;

extern void la_gap_count(LaGapCounts *counts, int64 step);
extern uint32 la_gap_choose(const LaGapCounts *counts, uint32 max_blocks,
							double requests_per_s, double blocks_per_s);

#endif							/* LA_GAP_CHOICE_H */

/*-------------------------------------------------------------------------
 *
 * la_density.h
 *	  how dense the blocks of a bitmap lie
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_DENSITY_H
#define LA_DENSITY_H

#include "storage/block.h"

typedef enum LaDensityLevel
{
	LA_DENSITY_SPARSE,
	LA_DENSITY_DENSE,			/* most blocks follow on another one */
	LA_DENSITY_SOLID,			/* nearly all do */
} LaDensityLevel;

typedef struct LaDensity
{
	uint32		counted;		/* blocks since the last look */
	uint32		adjacent;		/* of these, right behind another one */
	BlockNumber last_block;
	LaDensityLevel level;		/* of the blocks counted last */
} LaDensity;

extern void la_density_start(LaDensity *density);
extern bool la_density_add(LaDensity *density, BlockNumber block);

#endif							/* LA_DENSITY_H */

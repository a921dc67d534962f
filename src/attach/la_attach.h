/*-------------------------------------------------------------------------
 *
 * la_attach.h
 *	  hooks of the executor
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_ATTACH_H
#define LA_ATTACH_H

#include "nodes/execnodes.h"

#include "la_feature.h"

extern void la_attach_init(void);
extern bool la_attach_feature(PlanState *planstate, LaFeature *feature);

#endif							/* LA_ATTACH_H */

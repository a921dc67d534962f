/*-------------------------------------------------------------------------
 *
 * hypothetical_index.c
 *	  a library that shows the planner indexes that do not exist, as advisors do to see
 *	  whether they would be taken: each real one under an OID that no relation has
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "commands/explain.h"
#include "fmgr.h"
#include "nodes/pathnodes.h"
#include "optimizer/plancat.h"

PG_MODULE_MAGIC;

#define NO_RELATION PG_UINT32_MAX

static void
make_hypothetical(PlannerInfo *root, Oid relation, bool inhparent, RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, lc);

		index->indexoid = NO_RELATION;
		index->hypothetical = true;
	}
}

static const char *
name_of(Oid index)
{
	return index == NO_RELATION ? "hypothetical" : NULL;
}

void
_PG_init(void)
{
	get_relation_info_hook = make_hypothetical;
	explain_get_index_name_hook = name_of;
}

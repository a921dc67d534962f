/*
 * A library that does to a COPY what extensions with a ProcessUtility_hook do, or might do.
 */
#include "postgres.h"

#include "access/xact.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "tcop/utility.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

typedef enum Way
{
	PASSES,						/* to the next, as it came */
	PASSES_COPY,				/* a copy of the statement */
	PASSES_COPY_TO_CHANGE,		/* which core may change */
	PASSES_STRUCTURE,			/* a PlannedStmt of its own, with the same command */
	PASSES_OTHER_TABLE,			/* the statement, about another table */
	PASSES_TWICE,
	KEEPS,						/* looks at the command afterwards */
	FORBIDS_WRITING,			/* from now on, in this transaction */
	EXECUTES,					/* the COPY: here, does nothing */
} Way;

static const struct config_enum_entry ways[] = {
	{"passes", PASSES}, {"passes copy", PASSES_COPY},
	{"passes copy to change", PASSES_COPY_TO_CHANGE},
	{"passes structure", PASSES_STRUCTURE},
	{"passes other table", PASSES_OTHER_TABLE},
	{"passes twice", PASSES_TWICE}, {"keeps", KEEPS}, {"forbids writing", FORBIDS_WRITING},
	{"executes", EXECUTES}, {0}
};

static int	way = PASSES;
static ProcessUtility_hook_type next = NULL;

void		_PG_init(void);

static void
hook(PlannedStmt *statement, const char *text, bool read_only,
	 ProcessUtilityContext context, ParamListInfo params,
	 QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *qc)
{
	ProcessUtility_hook_type call = next ? next : standard_ProcessUtility;
	PlannedStmt structure = *statement;
	CopyStmt   *command = (CopyStmt *) statement->utilityStmt;
	char	   *table = NULL;
	int			times = 1;

	if (IsA(command, CopyStmt))
	{
		if (way == EXECUTES)
			return;
		if (way == PASSES_COPY || way == PASSES_COPY_TO_CHANGE)
			statement = copyObject(statement);
		if (way == PASSES_COPY_TO_CHANGE)
			read_only = false;
		if (way == PASSES_STRUCTURE)
			statement = &structure;
		if (way == PASSES_OTHER_TABLE)
			command->relation = makeRangeVar(NULL, pstrdup("other"), -1);
		if (way == FORBIDS_WRITING)
			XactReadOnly = true;
		if (way == PASSES_TWICE)
			times = 2;
		if (way == KEEPS && command->relation != NULL)
			table = pstrdup(command->relation->relname);
	}
	while (times-- > 0)
		call(statement, text, read_only, context, params, environment, dest, qc);
	if (table != NULL &&
		(!IsA(command, CopyStmt) || strcmp(command->relation->relname, table) != 0))
		elog(ERROR, "the COPY is another one afterwards");
}

void
_PG_init(void)
{
	DefineCustomEnumVariable("utility_hook.way", "What becomes of a COPY.", NULL,
							 &way, PASSES, ways, PGC_USERSET, 0, NULL, NULL, NULL);
	next = ProcessUtility_hook;
	ProcessUtility_hook = hook;
}

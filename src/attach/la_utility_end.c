/*-------------------------------------------------------------------------
 *
 * la_utility_end.c
 *	  a COPY that is executed where the chain of utility hooks ends
 *
 * ProcessUtility_hook is called in the opposite order of loading.  Extensions that were
 * loaded before us (pg_stat_statements, say) are called by us, and call core.  What they
 * measure lies between: a COPY of ours must begin after them, and end before they do.
 *
 * Core begins with a copy of the statement, if that must not be changed.  So others get a
 * statement of ours, the same in all that they look at, with an extensible node in a list
 * that no utility command uses.  Its nodeCopy function is told of the copy, executes the
 * COPY there, and leaves a statement that does nothing to be copied behind it:
 * SET SESSION CHARACTERISTICS, without any.  Others may look at the command afterwards; so
 * another such node, where the characteristics would be, puts the COPY back when it is
 * copied, and is an empty list in the copy.
 *
 * Other extensions copy statements, too, and some execute a COPY themselves.  So nothing
 * is done but for a copy that standard_ProcessUtility() itself has asked for, as the stack
 * tells.  Where no such copy is made, or the stack cannot be read, or nobody knows where that
 * function ends, the COPY is core's, or theirs.
 *
 * Relies on standard_ProcessUtility() in utility.c and ExecSetVariableStmt() in
 * guc_funcs.c, and on what is in a PlannedStmt being copied in the order of its fields.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dlfcn.h>
#include <link.h>
#ifdef HAVE_BACKTRACE_SYMBOLS
#include <execinfo.h>
#endif

#include "catalog/objectaccess.h"
#include "nodes/extensible.h"

#include "attach/la_core_exec.h"
#include "attach/la_utility_end.h"

#define NODE_NAME "pg_lookahead_copy"

/* Arbitrary: more than the nine from here to standard_ProcessUtility(). */
#define MOST_FRAMES 12

/*
 * A COPY on its way through the hooks of others.
 */
typedef struct LaPassing
{
	const LaFeatureMethods *feature;
	LaUtility	utility;
	QueryCompletion *qc;
	PlannedStmt statement;		/* what others see */
	union
	{
		CopyStmt	copy;
		VariableSetStmt nothing;	/* while core copies it */
	}			command;		/* of that statement */
	CopyStmt	kept;			/* what it was when core asked for it */
	bool		asked;
} LaPassing;

/*
 * What the statement has in its list, and the command that does nothing instead of one.  A
 * copy of it has no COPY, and does nothing.
 */
typedef struct LaMarker
{
	ExtensibleNode node;
	LaPassing  *passing;
	bool		is_behind;		/* the second one? */
} LaMarker;

StaticAssertDecl(sizeof(LaMarker) >= offsetof(List, initial_elements),
				 "a copy of a marker has room for an empty list");

static void register_marker(void);
static void copy_marker(ExtensibleNode *copy, const ExtensibleNode *original);
static void execute(LaPassing *passing);
static bool equal_markers(const ExtensibleNode *a, const ExtensibleNode *b);
static void print_marker(StringInfo out, const ExtensibleNode *marker);
static void read_marker(ExtensibleNode *marker);
static bool copied_by_core(const LaPassing *passing);
static bool is_in_core(const void *code);

static const ExtensibleNodeMethods marker_methods = {
	.extnodename = NODE_NAME,
	.node_size = sizeof(LaMarker),
	.nodeCopy = copy_marker,
	.nodeEqual = equal_markers,
	.nodeOut = print_marker,
	.nodeRead = read_marker,
};

/*
 * Has a COPY executed by the hooks of others, from `next` on, and by the feature where they call
 * core.  False when core has not asked for it there.
 */
bool
la_utility_end(const LaFeatureMethods *feature, const LaUtility *utility,
			   ProcessUtility_hook_type next, QueryCompletion *qc)
{
	PlannedStmt *statement = utility->statement;
	LaPassing	passing = {
		.feature = feature,.utility = *utility,.qc = qc,
		.statement = *statement,
		.command.copy = *castNode(CopyStmt, statement->utilityStmt)
	};
	LaMarker	marker = {
		.node = {.type = T_ExtensibleNode,.extnodename = NODE_NAME},
		.passing = &passing
	};

	register_marker();
	passing.statement.invalItems = list_make1(&marker);
	passing.statement.utilityStmt = (Node *) &passing.command;
	passing.utility.statement = &passing.statement;
	passing.utility.read_only = true;
	PG_TRY();
	{
		next(&passing.statement, utility->query_string, true, utility->context,
			 utility->params, utility->environment, utility->dest, qc);
	}
	PG_FINALLY();
	{
		/* pg_stat_statements sets that to zero, in plans that are kept, too. */
		statement->queryId = passing.statement.queryId;
	}
	PG_END_TRY();
	return passing.asked;
}

static void
register_marker(void)
{
	static bool registered = false;

	if (registered)
		return;
	RegisterExtensibleNodeMethods(&marker_methods);
	registered = true;
}

/*
 * nodeCopy: if it is core that copies the statement, because it begins to execute it, the COPY
 * is executed.  A hook might have it executed again.
 */
static void
copy_marker(ExtensibleNode *copy, const ExtensibleNode *original)
{
	const LaMarker *marker = (const LaMarker *) original;
	LaPassing  *passing = marker->passing;

	if (passing == NULL)
		return;
	if (marker->is_behind)
	{
		/*
		 * Core has the kind and the name, and will not look at what it copies
		 * behind this.
		 */
		passing->command.copy = passing->kept;
		memset(copy, 0, offsetof(List, initial_elements));
		((List *) copy)->type = T_List;
		return;
	}
	if (object_access_hook_str == NULL &&
		passing->statement.utilityStmt == (Node *) &passing->command &&
		copied_by_core(passing))
		execute(passing);
}

/*
 * Executes the COPY, if the feature still wants to, and has core copy a command that does
 * nothing instead.
 */
static void
execute(LaPassing *passing)
{
	static LaMarker behind = {
		.node = {.type = T_ExtensibleNode,.extnodename = NODE_NAME},
		.is_behind = true
	};
	const VariableSetStmt nothing = {
		.type = T_VariableSetStmt,.kind = VAR_SET_MULTI,
		.name = "SESSION CHARACTERISTICS",.args = (List *) &behind
	};

	passing->asked = true;
	if (!passing->feature->concerns_copy(&passing->utility) ||
		!passing->feature->run_copy(&passing->utility, passing->qc))
		return;
	passing->kept = passing->command.copy;
	behind.passing = passing;
	passing->command.nothing = nothing;
}

static bool
equal_markers(const ExtensibleNode *a, const ExtensibleNode *b)
{
	return ((const LaMarker *) a)->passing == ((const LaMarker *) b)->passing;
}

static void
print_marker(StringInfo out, const ExtensibleNode *marker)
{
}

static void
read_marker(ExtensibleNode *marker)
{
}

/*
 * Is it standard_ProcessUtility() that calls, through functions of core alone, our function?
 * Whoever asks is called by la_utility_end(), which has `passing` on its stack.
 *
 * Reading the stack takes about as long as a COPY of a line.  So a session remembers where the address in
 * core's function lay, from here: if it lies there again, the way here is the same.
 */
static bool
copied_by_core(const LaPassing *passing)
{
#ifdef HAVE_BACKTRACE_SYMBOLS
	static const void *known = NULL;
	static size_t distance = 0;
	const char *here = __builtin_frame_address(0);
	size_t		length = (const char *) passing - here;
	void	   *callers[MOST_FRAMES];
	int			count;
	int			i = 0;

	if (known != NULL && distance < length &&
		memcmp(here + distance, &known, sizeof(known)) == 0)
		return true;
	count = backtrace(callers, lengthof(callers));
	while (i < count && !la_core_owns(callers[i]))
		i++;
	for (; i < count && la_core_owns(callers[i]); i++)
	{
		if (!is_in_core(callers[i]))
			continue;
		known = callers[i];
		for (distance = 0; distance < length; distance += sizeof(known))
		{
			if (memcmp(here + distance, &known, sizeof(known)) == 0)
				break;
		}
		return true;
	}
#endif
	return false;
}

/*
 * Is this address one in standard_ProcessUtility()?  The linker is asked once only where that is: it
 * walks through the server's symbols, which takes several times as long as a COPY of one line.
 */
static bool
is_in_core(const void *code)
{
	static uintptr_t begin = 0;
	static uintptr_t end = 0;

#ifdef __GLIBC__
	if (begin == 0)
	{
		Dl_info		function;
		void	   *entry = NULL;

		begin = (uintptr_t) standard_ProcessUtility;
		if (dladdr1((void *) begin, &function, &entry, RTLD_DL_SYMENT) != 0 &&
			function.dli_saddr == (void *) begin && entry != NULL)
			end = begin + ((const ElfW(Sym) *) entry)->st_size;
	}
#endif
	return (uintptr_t) code >= begin && (uintptr_t) code < end;
}

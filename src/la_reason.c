/*-------------------------------------------------------------------------
 *
 * la_reason.c
 *	  why something is left to core: the texts that EXPLAIN,
 *	  pg_stat_lookahead and the server log show
 *
 * It is decided for all plan nodes in la_attach.c; by feature in
 * la_index_reason.c and la_heap_reason.c; la_join_judge.c,
 * la_join_window.c, la_join_feature.c and la_join_scan_rows.c; la_build.c,
 * la_build_collect.c and la_build_parallel.c; la_insert_reason.c,
 * la_insert_relation.c, la_insert_loop.c, la_insert_route.c,
 * la_insert_receiver.c, la_copy.c, la_copy_rows.c and la_hooks.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "la_reason.h"

static const char *const reason_texts[] = {
	[LA_REASON_NONE] = "none",
	[LA_REASON_INDEX_ONLY] = "index-only scan",
	[LA_REASON_ORDER_BY_OPERATOR] = "ordering operator",
	[LA_REASON_INDEX_AM] = "index access method",
	[LA_REASON_TABLE_AM] = "table access method",
	[LA_REASON_OTHER_TEMP] = "temporary table of another session",
	[LA_REASON_SCROLL] = "scrollable cursor",
	[LA_REASON_MARK_RESTORE] = "mark and restore",
	[LA_REASON_SNAPSHOT] = "snapshot",
	[LA_REASON_OTHER_EXTENSION] = "other extension",
	[LA_REASON_SELF_CHECK] = "self-check",
	[LA_REASON_SYSTEM_CATALOG] = "system catalog",
	[LA_REASON_KEY_TYPE] = "key type",
	[LA_REASON_COLLATION] = "collation",
	[LA_REASON_ROW_SIZE] = "row size",
	[LA_REASON_MEMORY] = "memory",
	[LA_REASON_BULK_READ_SIZE] = "bulk_read_size is 0",
	[LA_REASON_DIRECT_IO] = "direct I/O",
	[LA_REASON_RETURNING] = "RETURNING",
	[LA_REASON_ON_CONFLICT] = "ON CONFLICT",
	[LA_REASON_MODIFYING_WITH] = "data-modifying WITH",
	[LA_REASON_VOLATILE] = "volatile function",
	[LA_REASON_ROW_TRIGGER] = "row trigger",
	[LA_REASON_TRANSITION_TABLE] = "transition table",
	[LA_REASON_CHECK_OPTION] = "check option or row security",
	[LA_REASON_PREPARED] = "prepared statement",
	[LA_REASON_USER_FUNCTION] = "function of a user",
	[LA_REASON_BULK_EXTEND_SIZE] = "bulk_extend_size is 0",
	[LA_REASON_COPY_OPTION] = "COPY option",
	[LA_REASON_SUBPARTITIONS] = "subpartitions",
	[LA_REASON_OUTER_SIDE] = "outer side",
	[LA_REASON_INNER_SIDE] = "inner side",
	[LA_REASON_EARLY_STOP] = "early stop",
	[LA_REASON_NEW_PARTITION] = "new partition",
	[LA_REASON_SERVER_VERSION] = "server version",
	[LA_REASON_DISABLED] = "disabled",
};

StaticAssertDecl(lengthof(reason_texts) == LA_REASON_COUNT,
				 "every LaReason needs a text");

const char *
la_reason_text(LaReason reason)
{
	return reason_texts[reason];
}

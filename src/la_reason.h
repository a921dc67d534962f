/*-------------------------------------------------------------------------
 *
 * la_reason.h
 *	  why something is left to core
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_REASON_H
#define LA_REASON_H

/*
 * Why a scan, a join, an index build or an insert is left to core's own code.
 * docs/troubleshooting.md explains each.
 */
typedef enum LaReason
{
	LA_REASON_NONE,				/* not left to core */
	LA_REASON_INDEX_ONLY,
	LA_REASON_ORDER_BY_OPERATOR,
	LA_REASON_INDEX_AM,
	LA_REASON_TABLE_AM,
	LA_REASON_OTHER_TEMP,
	LA_REASON_SCROLL,
	LA_REASON_MARK_RESTORE,
	LA_REASON_SNAPSHOT,
	LA_REASON_OTHER_EXTENSION,
	LA_REASON_SELF_CHECK,
	LA_REASON_SYSTEM_CATALOG,
	LA_REASON_KEY_TYPE,
	LA_REASON_COLLATION,
	LA_REASON_ROW_SIZE,
	LA_REASON_MEMORY,
	LA_REASON_BULK_READ_SIZE,
	LA_REASON_DIRECT_IO,
	LA_REASON_RETURNING,
	LA_REASON_ON_CONFLICT,
	LA_REASON_MODIFYING_WITH,
	LA_REASON_VOLATILE,
	LA_REASON_ROW_TRIGGER,
	LA_REASON_TRANSITION_TABLE,
	LA_REASON_CHECK_OPTION,
	LA_REASON_PREPARED,
	LA_REASON_USER_FUNCTION,
	LA_REASON_BULK_EXTEND_SIZE,
	LA_REASON_COPY_OPTION,
	LA_REASON_SUBPARTITIONS,
	LA_REASON_OUTER_SIDE,
	LA_REASON_INNER_SIDE,
	LA_REASON_EARLY_STOP,
	LA_REASON_NEW_PARTITION,
	LA_REASON_SERVER_VERSION,	/* only shown, never counted */
	LA_REASON_DISABLED,			/* only shown, never counted */
} LaReason;

#define LA_REASON_COUNT (LA_REASON_DISABLED + 1)

extern const char *la_reason_text(LaReason reason);

#endif							/* LA_REASON_H */

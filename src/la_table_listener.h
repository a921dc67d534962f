/*-------------------------------------------------------------------------
 *
 * la_table_listener.h
 *	  who wants to hear of changed tables
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_TABLE_LISTENER_H
#define LA_TABLE_LISTENER_H

/*
 * Is told of a table that has changed, or InvalidOid where any may have.  It must not look at
 * catalogs.
 */
typedef struct LaTableListener
{
	void		(*hear) (Oid table);
	struct LaTableListener *next;
} LaTableListener;

extern void la_table_listen(LaTableListener *listener);

#endif							/* LA_TABLE_LISTENER_H */

/*-------------------------------------------------------------------------
 *
 * la_compat.h
 *	  the only place that knows PostgreSQL versions
 *
 * The extension reads private structures (see src/README.md), so a major
 * release that nobody has read is refused at compile time.  Minor releases
 * keep those structures as a rule; la_module.c logs one line when it runs on
 * a newer one than it was built against, and every reader of a private
 * structure checks it at run time before it trusts it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_COMPAT_H
#define LA_COMPAT_H

#if PG_VERSION_NUM < 180000 || PG_VERSION_NUM >= 190000
#error "pg_lookahead needs the header files of PostgreSQL 18"
#endif

#ifndef LA_BUILD_ID
#define LA_BUILD_ID "unidentified build"
#endif

#define LA_VERSION "1.0"

#endif							/* LA_COMPAT_H */

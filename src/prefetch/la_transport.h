/*-------------------------------------------------------------------------
 *
 * la_transport.h
 *	  ways to have pages read before they are needed
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_TRANSPORT_H
#define LA_TRANSPORT_H

typedef enum LaTransport
{
	LA_TRANSPORT_ADVICE,		/* ask the kernel; core reads each page on its
								 * turn */
	LA_TRANSPORT_STREAM,		/* asynchronous reads of a read stream */
} LaTransport;

extern LaTransport la_transport_choose(void);

#endif							/* LA_TRANSPORT_H */

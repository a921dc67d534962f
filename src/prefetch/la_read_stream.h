/*-------------------------------------------------------------------------
 *
 * la_read_stream.h
 *	  read streams with limits of our own
 *
 *-------------------------------------------------------------------------
 */
#ifndef LA_READ_STREAM_H
#define LA_READ_STREAM_H

#include "storage/read_stream.h"
#include "utils/relcache.h"

extern ReadStream *la_read_stream_begin(int flags, BufferAccessStrategy strategy,
										Relation relation,
										ReadStreamBlockNumberCB callback,
										void *callback_private_data,
										size_t per_buffer_data_size,
										int max_ios);

#endif							/* LA_READ_STREAM_H */

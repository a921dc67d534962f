/*-------------------------------------------------------------------------
 *
 * la_residency.c
 *	  notices that the pages asked for were in memory all along
 *
 * Asking the kernel for a page that lies in its cache costs a system call and
 * gains nothing.  How long the later read takes does not tell: it is short
 * when the page was there all along, and short when asking has worked.  But
 * Linux counts for each process what it has caused to be read from devices
 * (ru_inblock of getrusage(2), counted when the read is submitted, in
 * posix_fadvise() too).  When that count stands still while requests go out,
 * the scan stops to ask, and only looks at the count now and then, until pages
 * have to be read from the device again.
 *
 * Some file systems read in processes of their own, or over a network, and
 * their reads are not counted.  So the count is believed only on those that
 * are known to read in the calling process; on others the scan always asks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/resource.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/vfs.h>
#include <linux/magic.h>
#endif

#include "common/relpath.h"
#include "executor/instrument.h"
#include "utils/rel.h"

#include "prefetch/la_residency.h"

/* Requests, or pages read, between two looks at the count: arbitrary. */
#define EVENTS_PER_LOOK 16

/* Looks without a read from a device that make pages count as resident. */
#define QUIET_LOOKS 2

/* Of so many requests, one is made while pages count as resident: arbitrary. */
#define RESIDENT_SHARE 8

/* Tablespaces of which the answer is remembered: arbitrary, few servers have more. */
#define FILE_SYSTEMS 32

/*
 * Others of a process are io_uring's; to add up all takes twice as long, 2
 * microseconds on a virtual machine.
 */
#ifdef RUSAGE_THREAD
#define WHOSE_READS RUSAGE_THREAD
#else
#define WHOSE_READS RUSAGE_SELF
#endif

/* The count, when any scan looked at it last: it takes a system call. */
static long device_blocks = 0;

/*
 * Begins to watch; the scan is to ask.  Most scans read a page or two and are over, so nobody looks
 * at the count here: what was read since the last look may count as theirs.
 */
void
la_residency_init(LaResidency *watch, Relation relation)
{
	memset(watch, 0, sizeof(LaResidency));
	watch->relation = relation;
	watch->device_blocks = device_blocks;
}

/*
 * The process was busy elsewhere: what was read from a device meanwhile does
 * not count, as far as others have seen it.
 */
void
la_residency_resume(LaResidency *watch)
{
	watch->device_blocks = device_blocks;
}

static long
blocks_so_far(void)
{
	struct rusage usage;

	getrusage(WHOSE_READS, &usage);
	return usage.ru_inblock;
}

/*
 * Has this process caused reads from a device since the last look?
 */
static bool
count_moved(LaResidency *watch)
{
	long		before = watch->device_blocks;

	watch->device_blocks = device_blocks = blocks_so_far();
	return device_blocks != before;
}

/*
 * A page was read that nobody had asked for.  Returns whether it came from a
 * device, or may have.  While they do not, only every so many pages are looked
 * at.
 */
bool
la_residency_read(LaResidency *watch)
{
	if (watch->blind)
		return true;
	if (watch->resident && ++watch->events < EVENTS_PER_LOOK)
		return false;
	watch->events = 0;
	watch->resident = false;
	if (count_moved(watch))
		return true;
	watch->blind = !la_residency_is_counted(watch->relation);
	watch->resident = !watch->blind;
	return watch->blind;
}

/*
 * A request for pages that are not in shared buffers went out.  Returns true
 * when that was the one after which they count as resident.
 */
bool
la_residency_asked(LaResidency *watch)
{
	bool		was_resident = watch->resident;

	if (watch->blind || ++watch->events < EVENTS_PER_LOOK)
		return false;
	watch->events = 0;

	if (count_moved(watch))
	{
		watch->resident = false;
		watch->quiet_looks = 0;
	}
	else if (++watch->quiet_looks >= QUIET_LOOKS)
	{
		watch->blind = !la_residency_is_counted(watch->relation);
		watch->resident = !watch->blind;
		watch->quiet_looks = 0;
		watch->reads = pgBufferUsage.shared_blks_read;
	}
	return watch->resident && !was_resident;
}

/*
 * A request is about to be made by a scan whose own reads may not tell, because
 * other processes read for it.  Returns whether to make it: while pages count as
 * resident only some are, to find out where memory ends.
 */
bool
la_residency_may_ask(LaResidency *watch)
{
	if (watch->resident && ++watch->passed < RESIDENT_SHARE)
		return false;
	watch->passed = 0;
	return true;
}

/*
 * Another page is about to be used while the scan does not ask.  Reads
 * BufferUsage of instrument.h.
 */
void
la_residency_not_asked(LaResidency *watch)
{
	if (++watch->events < EVENTS_PER_LOOK)
		return;
	watch->events = 0;
	if (pgBufferUsage.shared_blks_read == watch->reads)
		return;
	watch->reads = pgBufferUsage.shared_blks_read;
	watch->resident = !count_moved(watch);
}

/*
 * How many pages this process has caused to be read from devices so far, as far as
 * that is counted.  The kernel counts in units of 512 bytes (getrusage(2)).
 */
int64
la_residency_device_pages(void)
{
	return (int64) blocks_so_far() * 512 / BLCKSZ;
}

/*
 * Does the file system of a relation read in the calling process, and the
 * kernel count that?
 */
static bool
file_system_counts(Relation relation)
{
#ifdef __linux__
	RelPathStr	path = relpathbackend(relation->rd_locator,
									  relation->rd_backend, MAIN_FORKNUM);
	struct statfs file_system;

	/* Present when the kernel was built with CONFIG_TASK_IO_ACCOUNTING. */
	if (access("/proc/self/io", F_OK) != 0 ||
		statfs(path.str, &file_system) != 0)
		return false;
	switch ((uint32) file_system.f_type)
	{
		case EXT4_SUPER_MAGIC:	/* ext2 and ext3 too */
		case XFS_SUPER_MAGIC:
		case BTRFS_SUPER_MAGIC:
		case F2FS_SUPER_MAGIC:
		case TMPFS_MAGIC:
			return true;
	}
#endif
	return false;
}

/*
 * Would a read from a device for this relation be counted?  Answers are remembered:
 * they take system calls, and each scan asks that finds its pages in memory.
 */
bool
la_residency_is_counted(Relation relation)
{
	static struct
	{
		Oid			tablespace;
		Oid			database;
		bool		answer;
	}			known[FILE_SYSTEMS] = {0};
	static uint32 oldest = 0;
	RelFileLocator locator = relation->rd_locator;
	uint32		i;

	for (i = 0; i < FILE_SYSTEMS; i++)
	{
		if (known[i].tablespace == locator.spcOid && known[i].database == locator.dbOid)
			return known[i].answer;
	}
	i = oldest++ % FILE_SYSTEMS;
	known[i].answer = file_system_counts(relation);
	known[i].tablespace = locator.spcOid;
	known[i].database = locator.dbOid;
	return known[i].answer;
}

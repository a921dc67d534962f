"""Rates from recorded texts of /proc, worked out by hand beside them."""

import time

import pytest

from lookahead.device.counters import DiskCounters, IoMeter, parse_diskstats, rates

# Linux 6.1: 17 fields per device; a partition after its disk.
_BEFORE = """\
   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 259       0 nvme0n1 9000 10 720000 1000 50 5 800 70 0 900 1100 0 0 0 0 3 4
 259       2 nvme0n1p2 1000 20 80000 500 30 40 600 70 3 400 900 0 0 0 0 0 0
"""
_AFTER = """\
   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 259       0 nvme0n1 99000 10 1720000 5000 50 5 800 70 9 1900 9100 0 0 0 0 3 4
 259       2 nvme0n1p2 11000 25 240000 2500 30 40 600 70 7 1300 6900 0 0 0 0 0 0
"""
_OLD_KERNEL = "   8       0 sda 5 1 40 9 2 0 16 3 1 8 12\n"


def _disk(text: str, name: str) -> DiskCounters:
    found = parse_diskstats(text, name)
    assert found is not None
    return found


def test_the_named_device_is_read_not_its_disk() -> None:
    assert _disk(_BEFORE, "nvme0n1p2") == DiskCounters(1000, 80000, 500, 400, 900)
    assert parse_diskstats(_BEFORE, "nvme0n1p") is None


def test_eleven_fields_are_enough() -> None:
    assert _disk(_OLD_KERNEL, "sda").weighted_ms == 12
    with pytest.raises(ValueError, match="too few fields"):
        parse_diskstats("8 0 sda 5 1 40", "sda")


def test_rates() -> None:
    found = rates(_disk(_BEFORE, "nvme0n1p2"), _disk(_AFTER, "nvme0n1p2"), seconds=2.0)
    assert found.reads == 10_000
    assert found.reads_per_s == 5_000
    assert found.read_bytes == 160_000 * 512
    assert found.read_mb_per_s == pytest.approx(40.96)
    assert found.request_kb == 8.0
    assert found.queue_depth == 3.0  # 6000 request-milliseconds in 2000 ms
    assert found.await_ms == 0.2  # 2000 ms for 10,000 requests
    assert found.util_percent == 45.0  # busy for 900 of 2000 ms


def test_an_idle_device_has_no_request_size() -> None:
    disk = _disk(_BEFORE, "nvme0n1p2")
    found = rates(disk, disk, seconds=1.0)
    assert (found.reads_per_s, found.queue_depth, found.util_percent) == (0, 0, 0)
    assert (found.request_kb, found.await_ms) == (None, None)


def test_clock_ticks_never_make_a_device_more_than_busy() -> None:
    before = DiskCounters(0, 0, 0, 0, 0)
    after = DiskCounters(1, 8, 12, 12, 12)
    assert rates(before, after, seconds=0.010).util_percent == 100.0


def test_no_time_between_readings_is_refused() -> None:
    disk = _disk(_BEFORE, "nvme0n1p2")
    with pytest.raises(ValueError):
        rates(disk, disk, seconds=0.0)


def test_without_a_device_nothing_is_counted() -> None:
    with IoMeter(None) as meter:
        time.sleep(0.02)
    assert (meter.rates.reads, meter.rates.request_kb) == (0, None)
    assert meter.rates.seconds > 0


def test_an_unknown_device_is_an_error() -> None:
    with pytest.raises(ValueError, match="does not list"), IoMeter("no-such-device"):
        pass


def test_the_error_of_the_statement_is_the_one_that_is_seen() -> None:
    with pytest.raises(ZeroDivisionError), IoMeter(None):
        raise ZeroDivisionError

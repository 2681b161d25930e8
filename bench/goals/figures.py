"""Figures out of the result files of `pando bench`: medians, and percentiles of chosen seconds."""

import base64
import datetime
import json
import statistics
import zlib
from dataclasses import dataclass, field


@dataclass
class Figures:
    """One run of a workload on a server, or the medians of several."""

    rate: float = 0.0
    cpu: float = 0.0  # microseconds of the server an operation
    p99: float = 0.0  # microseconds
    rates: dict = field(default_factory=dict)  # by kind of operation


class Unclean(Exception):
    """A run that is not to be counted: errors, wrong answers, broken connections, nothing measured."""


def of_workload(result):
    """The figures of a workload's result.

    A single wrong answer makes a run worthless."""
    totals = result["operations"].values()
    said = [example for total in totals for example in total.get("examples", [])] + result.get("failures", [])
    wrong = sum(total.get("errors", 0) + total.get("wrong_answers", 0) for total in totals)
    if result.get("unsupported"):
        raise Unclean(result["unsupported"])
    unfinished = result.get("unanswered") or not result["complete"]
    if wrong or unfinished or result.get("connections_closed") or result.get("failures"):
        raise Unclean(f"{wrong} errors and wrong answers; {'; '.join(said[:3])}")
    if not any(total["operations"] for total in totals):
        raise Unclean("no operation was answered")
    seconds = result["measured_seconds"]
    return Figures(
        rate=result["per_second"],
        cpu=(result.get("cost") or {}).get("cpu_micros_per_operation", 0.0),
        p99=max(total["latency"]["p99_micros"] or 0 for total in totals),
        rates={kind: total["operations"] / seconds for kind, total in result["operations"].items()},
    )


def median(runs):
    """The median of each figure by itself."""
    kinds = runs[0].rates
    middle = lambda value: statistics.median(value(run) for run in runs)
    return Figures(
        rate=middle(lambda run: run.rate),
        cpu=middle(lambda run: run.cpu),
        p99=middle(lambda run: run.p99),
        rates={kind: middle(lambda run: run.rates[kind]) for kind in kinds},
    )


def read(path):
    with open(path) as file:
        return json.load(file)


def started(result):
    """When measuring began, in seconds of the epoch."""
    return datetime.datetime.fromisoformat(result["started"].replace("Z", "+00:00")).timestamp()


def counts(text):
    """Values and counts of an HdrHistogram in its text form (V2, compressed; 1 us to 600 s with 3 digits)."""
    plain = zlib.decompress(base64.b64decode(text)[8:])
    payload, position, index, found = plain[40:], 0, 0, []
    while position < len(payload):
        number, shift = 0, 0
        for octet_index in range(9):
            octet = payload[position]
            position += 1
            if octet_index == 8:
                number |= octet << shift
                break
            number |= (octet & 0x7F) << shift
            shift += 7
            if octet < 0x80:
                break
        number = (number >> 1) ^ -(number & 1)
        if number < 0:
            index += -number
        else:
            if number:
                found.append((highest_of(index), number))
            index += 1
    return found


SUB_BUCKETS = 2048  # of 3 significant digits


def highest_of(index):
    """The highest value that counts at this index."""
    half = SUB_BUCKETS // 2
    bucket, sub = (index // half) - 1, index % half + half
    if bucket < 0:
        bucket, sub = 0, index
    return (sub << bucket) + (1 << bucket) - 1


def percentile(seconds, percent):
    """A percentile, in microseconds, of all latencies of these seconds of a result; None when there are none."""
    merged = {}
    for second in seconds:
        if second.get("latency"):
            for value, count in counts(second["latency"]["histogram"]):
                merged[value] = merged.get(value, 0) + count
    wanted, passed = sum(merged.values()) * percent / 100, 0
    for value in sorted(merged):
        passed += merged[value]
        if passed >= wanted:
            return value
    return None

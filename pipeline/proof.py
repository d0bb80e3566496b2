"""What a summary proves, said once in a word for programs and in a sentence for people, with every hole in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Accepted messages are missing.
LOST = "lost"
#: Nothing known is missing, but records are: something may be missing that nobody knows of.
INCOMPLETE = "incomplete"
#: Nothing is missing by the brokers' own word; not everything was seen where it was meant to go.
ACKNOWLEDGED = "acknowledged"
#: Every accepted message was seen, or its end is recorded, and no record is missing.
PROVED = "proved"

#: What makes a proof incomplete: key of the summary, and what the number of them means.
HOLES = {
    "quarantined_lines": "{} lines could not be read as records (see the table quarantine)",
    "missing_records": "{} records are missing: their numbers are skipped (see the table instances)",
    "dropped_events": "{} records were dropped by the app because they came faster than they could be written",
    "killed_instances": "{} instances never stopped (killed, or still running): their last records may be missing",
    "unpublished_files": "{} files are not published yet",
    "late_rows": "{} records came too late for the live view and are left out of it",
    "forgotten_records": "{} records are older than what the live view keeps",
}
#: What does not weaken the proof, and should be known all the same.
NOTES = {
    "on_the_brokers_word": "{} messages are where they should be by the broker's word alone: no receipt, no audit",
    "unrecorded": "{} messages were seen without a record that they were accepted: other senders, or missing records",
    "sent_again": "{} message ids were accepted more than once: of such an id, one arrival counts",
    "possible_duplicates": "{} messages may have arrived twice; receipts would tell",
}


def proof(summary: Mapping[str, Any]) -> dict[str, Any]:
    holes = _told(HOLES, summary)
    return {
        "word": _word(summary, holes),
        "sentence": _sentence(summary, holes),
        "holes": holes,
        "notes": _told(NOTES, summary),
    }


def _told(texts: Mapping[str, str], summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = {name: summary.get(name) or 0 for name in texts}
    told = {name: texts[name].format(f"{count:,}") for name, count in found.items() if count}
    return [{"kind": name, "count": found[name], "text": text} for name, text in told.items()]


def _word(summary: Mapping[str, Any], holes: list[dict[str, Any]]) -> str:
    if summary["lost"]:
        return LOST
    if holes:
        return INCOMPLETE
    return ACKNOWLEDGED if summary["on_the_brokers_word"] else PROVED


def _sentence(summary: Mapping[str, Any], holes: list[dict[str, Any]]) -> str:
    accepted, lost = summary["accepted"], summary["lost"]
    because = "; ".join(hole["text"] for hole in holes)
    if lost:
        text = f"{lost:,} of {accepted:,} accepted messages are lost: an audit should have seen them and did not."
        return f"{text} Records are incomplete as well: {because}." if holes else text
    if holes:
        return f"None of {accepted:,} accepted messages is known to be lost, but the records have holes: {because}."
    if summary["on_the_brokers_word"]:
        word = summary["on_the_brokers_word"]
        return f"None of {accepted:,} accepted messages is lost; for {word:,} of them that is the broker's word alone."
    return f"None of {accepted:,} accepted messages is lost: each was seen, or its end is on record."

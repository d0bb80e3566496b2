"""The deliveries of a report in SQL for DuckDB, the yardstick: the same steps, for records without topic audits."""

from __future__ import annotations

DELIVERIES = """
WITH audits AS (
    SELECT lower(path) AS place, max(since) AS since FROM lines WHERE event = 'audit.completed' GROUP BY 1
), steps AS (
    SELECT lower(path) AS path, message_id, event, "at", lower(backlog_queue) AS queue, subscription, sequence_number,
        reason = 'TTLExpiredException' AS expired,
        event = 'message.received' AND path LIKE '%/x-servicebus-transfer/%' AS in_backlog,
        CASE WHEN event = 'send.accepted' THEN coalesce(lower(backlog_queue), lower(path)) ELSE lower(path) END AS place
    FROM lines
    WHERE problem IS NULL AND event IN
        ('send.accepted', 'send.refused', 'syphon.forwarded', 'syphon.dead-lettered', 'message.received')
), diverted AS (
    SELECT DISTINCT path AS home, message_id, place FROM steps WHERE event = 'send.accepted' AND queue IS NOT NULL
), placed AS (
    SELECT coalesce(home, path) AS path, steps.message_id, event, "at", queue, subscription, sequence_number, expired,
        in_backlog, since IS NULL OR "at" >= since AS stands
    FROM steps
    LEFT JOIN diverted ON in_backlog AND diverted.place = steps.place AND diverted.message_id = steps.message_id
    LEFT JOIN audits ON audits.place = steps.place
), facts AS (
    SELECT path, message_id,
        bool_or(event = 'send.accepted') AS accepted,
        bool_or((event = 'send.accepted' AND queue IS NULL OR event = 'syphon.forwarded') AND stands) AS arrived,
        bool_or(event = 'send.accepted' AND queue IS NOT NULL AND stands) AS queued,
        bool_or(event = 'syphon.forwarded') AS forwarded,
        bool_or(in_backlog AND stands) AS waits,
        bool_or(event = 'syphon.dead-lettered') AS dead,
        bool_or(coalesce(expired, false)) AS expired,
        bool_or(event = 'message.received' AND NOT in_backlog) AS seen,
        count(DISTINCT CASE WHEN event = 'message.received' AND NOT in_backlog
            THEN hash(sequence_number) END) AS copies
    FROM placed GROUP BY path, message_id
)
SELECT CASE
        WHEN NOT accepted THEN 'not accepted'
        WHEN seen OR arrived THEN 'delivered'
        WHEN dead AND expired THEN 'expired'
        WHEN dead THEN 'dead-lettered'
        WHEN NOT forwarded AND (waits OR queued) THEN 'waiting'
        ELSE 'lost' END AS status,
    count(*) AS messages, count(*) FILTER (copies > 1) AS duplicated
FROM facts GROUP BY 1
"""

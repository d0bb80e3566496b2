"""XML namespaces and element names of the administration API, in one place for reading and writing."""

from __future__ import annotations

ATOM = "http://www.w3.org/2005/Atom"
SERVICE_BUS = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
COUNTS = "http://schemas.microsoft.com/netservices/2011/06/servicebus"
SCHEMA = "http://www.w3.org/2001/XMLSchema"
INSTANCE = "http://www.w3.org/2001/XMLSchema-instance"

QUEUE, TOPIC, SUBSCRIPTION, RULE = "QueueDescription", "TopicDescription", "SubscriptionDescription", "RuleDescription"

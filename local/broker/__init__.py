"""An embedded broker that speaks Azure Service Bus on one machine."""

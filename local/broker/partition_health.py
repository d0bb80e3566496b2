"""How the partitions of one entity are doing, as the faults that are set have it."""

from __future__ import annotations

from dataclasses import dataclass

from .errors import QUOTA_EXCEEDED, BrokerError
from .fault_specs import KINDS
from .faults import FaultPlan, FaultRule


@dataclass(frozen=True, kw_only=True)
class PartitionHealth:
    #: Takes and gives nothing, for this reason.
    down: BrokerError | None = None
    #: Takes nothing more, for this reason.
    full: BrokerError | None = None
    #: How much later sends to it are answered.
    delay_s: float = 0.0

    @property
    def refusal(self) -> BrokerError | None:
        return self.down or self.full


WELL = PartitionHealth()


class Health:
    """Of a queue, or of a subscription, which shares the partitions of its topic. By the partition's index."""

    def __init__(self, plan: FaultPlan, namespace: str, paths: tuple[str, ...]) -> None:
        self._plan = plan
        self._namespace = namespace
        self._paths = paths

    @property
    def is_well(self) -> bool:
        """All partitions are, as far as a glance can tell."""
        return not self._plan.partition_rules

    def __getitem__(self, index: int) -> PartitionHealth:
        if not self._plan.partition_rules:
            return WELL
        rules = [rule for rule in self._plan.partition_rules if rule.spec.partition == index and self._is_struck(rule)]
        return self._combine(index, {rule.spec.kind: rule for rule in rules}) if rules else WELL

    def _is_struck(self, rule: FaultRule) -> bool:
        return any(rule.covers(self._namespace, path) for path in self._paths)

    def _combine(self, index: int, rules: dict[str, FaultRule]) -> PartitionHealth:
        slow = rules.get("partition-slow")
        return PartitionHealth(
            down=self._error(rules.get("partition-down"), f"Partition {index} of '{self._paths[0]}' is unavailable."),
            full=self._error(rules.get("partition-full"), f"Partition {index} of '{self._paths[0]}' is full."),
            delay_s=slow.spec.delay_s if slow is not None else 0.0,
        )

    @staticmethod
    def _error(rule: FaultRule | None, text: str) -> BrokerError | None:
        if rule is None:
            return None
        return BrokerError(rule.spec.condition or KINDS[rule.spec.kind].condition or QUOTA_EXCEEDED, text)

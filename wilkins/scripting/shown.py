"""A plan that shows itself."""

from __future__ import annotations

from wilkins.plan.plan import Plan
from wilkins.report.show import plan_table
from wilkins.values import fields


class ShownPlan(Plan):
    """A plan that ``print`` shows as the tables of ``wilkins plan``."""

    __slots__ = ()

    @classmethod
    def of(cls, plan: Plan) -> ShownPlan:
        """The same plan."""
        return cls(**{one.name: getattr(plan, one.name) for one in fields(plan)})

    def __str__(self) -> str:
        return plan_table(self)

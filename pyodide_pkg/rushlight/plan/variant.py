"""The kernel variants: ways of running the same ops, as rows of one table.

A variant has two traits, each called after the variant that brings it. ``lanes`` says how the
work of every op is spread over threads, ``product`` how a weight is multiplied with several tokens
at once. Planning reads the traits; ``backends/variants.py`` decides which variant an adapter gets
in each phase.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from ..graph.rewrite import Phase

Lanes = Literal["rows", "tiles", "subgroups"]
Product = Literal["rows", "tiles", "tiles_f16", "tiles_int8"]
PHASES: tuple[Phase, ...] = get_args(Phase)
PRODUCT_OPS = frozenset(("matmul", "matmul_add"))
"""Ops that run the ``product`` kernels in prefill; every other one depends on ``lanes`` alone."""


@dataclass(frozen=True)
class Variant:
    """A way of running every op of some phases, and what a device must offer for it."""

    name: str
    lanes: Lanes = "tiles"
    product: Product = "tiles"
    phases: tuple[Phase, ...] = PHASES
    """Where it differs from the others; the rest is left to them."""
    features: tuple[str, ...] = ()
    """WebGPU features, and features of the WGSL language, that it needs."""
    tolerance: float = 0.0
    """Its products' normalised mean squared error may be this large; 0: as exact as any."""
    gain: float = 1.2
    """How many times faster than the expected variant it must be measured to be taken."""
    is_for_software: bool = False
    """Whether it is what a software adapter is expected to want."""

    @property
    def is_exact(self) -> bool:
        """Whether it computes in float32 throughout."""
        return not self.tolerance

    def kernels_of(self, phase: Phase, op: str) -> tuple[str, ...]:
        """The variants whose kernels it runs for an op: itself, or one that it shares a trait with.

        A product in fewer bits leaves the head, few rows whose error is the answer's, to float32.
        """
        if phase == "decode" or op not in PRODUCT_OPS:
            return (self.lanes,)
        return (self.product,) if self.is_exact else (self.product, self.lanes)


VARIANTS = (
    Variant("tiles"),
    # The same work with fewer barriers: taken as soon as it is faster beyond a timing's noise.
    Variant("subgroups", lanes="subgroups", phases=("decode",), features=("subgroups",), gain=1.03),
    Variant(
        "tiles_f16",
        product="tiles_f16",
        phases=("prefill",),
        features=("shader-f16",),
        tolerance=2e-6,
        gain=1.1,
    ),
    Variant(
        "tiles_int8",
        product="tiles_int8",
        phases=("prefill",),
        features=("packed_4x8_integer_dot_product",),
        tolerance=2e-4,
        gain=1.3,
    ),
    Variant("rows", lanes="rows", product="rows", is_for_software=True),
)
"""Every variant; a new one is a row here and the files that the planner picks by its traits."""

BY_NAME = {variant.name: variant for variant in VARIANTS}


def default_variant(*, is_software: bool) -> Variant:
    """What to run where nothing was tested or timed."""
    return next(v for v in VARIANTS if v.is_for_software == is_software)

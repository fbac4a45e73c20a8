"""Quantizing as chosen, and again with nodes left in float if the outputs miss their goal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import onnx_ir as ir

from converter_lite import graph as g
from converter_lite.config.names import Rounding
from converter_lite.errors import ConfigError
from converter_lite.log import counted
from converter_lite.quantization import dynamic, fallback, full, held_out, score
from converter_lite.quantization.choice import Choice
from converter_lite.quantization.placement import quantized_tensors
from converter_lite.quantization.plan import NodeMode, NodePlan, QuantizedModel, QuantPlan
from converter_lite.quantization.qdq import build
from converter_lite.quantization.settings import FullSettings, Goal, Learning, WeightSettings
from converter_lite.quantization.weight_only import decide_weights, quantize_weights, quantize_weights_as_planned
from converter_lite.runtime.engine import Feed
from converter_lite.targets.operands import operator
from converter_lite.targets.operators import Role

if TYPE_CHECKING:
    from converter_lite.calibration.context import CalibrationContext
    from converter_lite.calibration.runner import Samples
    from converter_lite.quantization.score import Score

JUDGES = 100
"""Samples on which a goal is checked: their largest errors tell what others will err by."""

RANKING = 16
"""Samples on which single nodes are measured."""


SUBSTITUTES = 16
"""Random samples on which accuracy is measured if there are no others."""


Learn = Callable[[Sequence[QuantizedModel], ir.Model, Learning], QuantizedModel]
"""From a network, quantized in several ways, and the float graph to what was learnt."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What a quantization works with.

    Attributes:
        samples: Calibration samples, ``None`` where there are none.
        context: Runs models and observes activations.
        learn: Lets a quantized network learn from the float one.
        random_feeds: Gives random samples for a model, where something is measured without data.
    """

    samples: Samples | None
    context: CalibrationContext
    random_feeds: Callable[[ir.Model, int], Sequence[Feed]] = lambda model, count: ()
    learn: Learn | None = None


@dataclass(frozen=True, slots=True)
class Quantizer:
    """A model and everything that quantizes it.

    Attributes:
        model: Optimized float graph with names; not changed.
        choice: Settings, device and goal.
        resources: Samples and the rest.
        substitutes: Samples to measure on if there are no calibration samples.
    """

    model: ir.Model
    choice: Choice
    resources: Resources
    substitutes: Sequence[Feed] = ()

    @property
    def judges(self) -> Sequence[Feed]:
        """Samples on which whole networks are judged."""
        samples = self.resources.samples
        return samples.head(JUDGES) if samples is not None else self.substitutes

    def run(self, plan: QuantPlan | None = None) -> QuantizedModel:
        """The quantized model; a given plan is followed as it is.

        Raises:
            ConverterError: It cannot be quantized.
        """
        learner = self._holding_out()
        first = learner._learnt(self.choice, plan)
        goal = self.choice.goal
        if goal is None or not first.plan.quantized_nodes:
            return first
        if plan is not None:
            self.resources.context.log.warning(
                "the given plan decides which nodes stay float: target_cosine and target_error have no effect"
            )
            return first
        with self.resources.context.log.stage("fallback"):
            return self._reach(goal, first)

    def _holding_out(self) -> Quantizer:
        """The same where nothing is fitted to the samples that judge what is learnt."""
        samples, learning = self.resources.samples, self.choice.learning
        if learning is None or samples is None:
            return self
        fitted = held_out.FittingSamples(samples, learning.seed)
        return replace(self, resources=replace(self.resources, samples=fitted))

    def _learnt(self, choice: Choice, plan: QuantPlan | None = None) -> QuantizedModel:
        """One quantization as chosen, and what the network learns where it is to learn."""
        quantized = self.quantize(choice, plan)
        learn, learning = self.resources.learn, choice.learning
        if learn is None or learning is None or not quantized.plan.quantized_nodes:
            return quantized
        if plan is not None:
            with self.resources.context.log.stage("learning"):
                return learn([quantized], self.model, replace(learning, grids=False))
        starts, choices = [quantized], [choice]
        if learning.unlearned is not Rounding.ADAPTIVE:  # what is learnt starts from that one anyway
            choices.append(replace(choice, settings=replace(choice.settings, rounding=learning.unlearned)))
            starts.append(self.quantize(choices[1]))
        with self.resources.context.log.stage("learning"):
            found = learn(starts, self.model, learning)
        best = next((i for i, start in enumerate(starts) if start is found), None)
        return found if best is None else self._with_all_samples().quantize(choices[best])

    def _with_all_samples(self) -> Quantizer:
        """The same where layers are fitted to the samples that judged, too: nothing is left to judge."""
        samples = self.resources.samples
        if not isinstance(samples, held_out.FittingSamples):
            return self
        return replace(self, resources=replace(self.resources, samples=samples.samples))

    def quantize(self, choice: Choice, plan: QuantPlan | None = None) -> QuantizedModel:
        """One quantization as chosen, without looking at the goal."""
        settings, target, model = choice.settings, choice.target, self.model.clone()
        samples, context = self.resources.samples, self.resources.context
        if isinstance(settings, FullSettings):
            if samples is None:
                raise ConfigError("FULL_QUANT needs calibration samples", hint="add [data_preprocess_param]")
            return full.quantize_full(model, target, settings, samples=samples, plan=plan, context=context)
        if isinstance(settings, WeightSettings):
            if plan is not None:
                return quantize_weights_as_planned(model, settings, plan, samples=samples, context=context)
            tuning = self.substitutes
            return quantize_weights(
                model, settings, target=target.name, samples=samples, tuning=tuning, context=context
            )
        return dynamic.quantize_dynamic(
            model, settings, target=target.name, plan=plan, samples=samples, context=context
        )

    def _reach(self, goal: Goal, first: QuantizedModel) -> QuantizedModel:
        feeds = self.judges
        scorer = score.Scorer(self.model, feeds, self.resources.context)
        start = fallback.Trial((), first, scorer(build.qdq_model(first)))
        if goal.shortfall(start.score) <= 1.0:
            return first
        shares = self._shares(first, feeds[:RANKING])
        best = fallback.fall_back(
            start,
            fallback.ranked(shares, fallback.prices(first.model, shares)),
            goal,
            quantize=lambda skip: self.quantize(leaving_out(self.choice, skip)),
            score=lambda quantized: scorer(build.qdq_model(quantized)),
            log=self.resources.context.log,
        )
        self._report(goal, best, first)
        if best.skip:
            best = replace(best, quantized=self._holding_out()._learnt(leaving_out(self.choice, frozenset(best.skip))))
        nodes = best.quantized.plan.nodes
        for name in best.skip:
            if nodes[name].mode is NodeMode.FLOAT:
                nodes[name] = replace(nodes[name], reason=f"left in float to reach {goal}")
        return replace(best.quantized, sensitivity=shares)

    def _shares(self, first: QuantizedModel, feeds: Sequence[Feed]) -> dict[str, float]:
        """Share of the output's error that is due to each node."""
        names = fallback.candidates(first)
        measurement = self.measure(first, feeds)
        return fallback.sensitivities(
            names,
            alone=measurement.alone,
            without=lambda name: measurement.left_out(frozenset({name})),
            everything=measurement.left_out(frozenset()),
            log=self.resources.context.log,
        )

    def measure(self, first: QuantizedModel, feeds: Sequence[Feed]) -> Measurement:
        """Ways to score the network with some nodes of ``first`` in float.

        Measured with the biases as they were before bias correction: corrected ones compensate errors that an edited plan no
        longer has, and all measurements should refer to the same network.
        """
        plain = replace(first, model=first.reference or self.model)
        return Measurement(self.choice, plain, score.Scorer(self.model, feeds, self.resources.context))

    def _report(self, goal: Goal, best: fallback.Trial, first: QuantizedModel) -> None:
        how = "with 16-bit weights" if isinstance(self.choice.settings, WeightSettings) else "in float"
        if goal.shortfall(best.score) > 1.0:
            bound = f" with at most {counted(goal.max_nodes, 'node')} {how}" if goal.max_nodes else ""
            self.resources.context.log.warning(f"the outputs do not reach {goal}{bound}; the best found is kept")
        if best.skip:
            exact = "the same in float" if isinstance(self.choice.settings, WeightSettings) else "the same again"
            nodes = counted(len(best.skip), "node")
            plan = best.quantized.plan.nodes
            beside = [n for n in fallback.candidates(first) if plan[n].mode is NodeMode.FLOAT and n not in best.skip]
            more = f" (and {len(beside)} more that stay in float with them)" if beside else ""
            judged = f"{nodes} {how}{more}, judged on {counted(len(self.judges), 'sample')}"
            if goal.error is not None:
                judged += f", of which one in {score.RARE} is expected to err by more than {best.score.rare_error:.4g}"
            self.resources.context.log.info(f"{judged}; {exact} with {skip_line(self.choice, best.skip)}")


@dataclass(frozen=True, slots=True)
class Measurement:
    """Scores of a quantized network with edited plans; see :meth:`Quantizer.measure`."""

    choice: Choice
    first: QuantizedModel
    scorer: score.Scorer

    def left_out(self, skip: frozenset[str]) -> Score:
        """With more nodes in float, those too that cost more time than they save beside them, and all else as it is."""
        decided = decide(self.first.model, skipping(self.choice, skip))
        before = self.first.plan.nodes
        kept = {name: found for name, found in before.items() if found.mode is NodeMode.FLOAT}
        return self._score({**{name: found for name, found in decided.nodes.items() if name in before}, **kept})

    def alone(self, name: str) -> Score:
        """With one node quantized, and the clamps that are its last step: whatever time that would take."""
        names = {name}
        for node in g.all_nodes(self.first.model.graph):
            entry, value = operator(node), node.inputs[0] if node.inputs else None
            before = value.producer() if value is not None else None
            if entry is not None and entry.role is Role.CLAMP and before is not None and before.name in names:
                names.add(node.name or "")
        nodes = self.first.plan.nodes.items()
        return self._score(
            {n: p if n in names else NodePlan(p.op_type, NodeMode.FLOAT, "not measured") for n, p in nodes}
        )

    def _score(self, nodes: dict[str, NodePlan]) -> Score:
        plan = replace(self.first.plan, nodes=nodes)
        if isinstance(self.choice.settings, FullSettings):
            needed = quantized_tensors(self.first.model, plan, self.choice.target)
            plan.activations = {name: p for name, p in self.first.plan.activations.items() if name in needed}
        return self.scorer(build.qdq_model(replace(self.first, plan=plan, model=self.first.model.clone())))


def quantize(model: ir.Model, choice: Choice, *, plan: QuantPlan | None, resources: Resources) -> QuantizedModel:
    """Quantize ``model`` (left as it is) within the policy of ``choice.target``.

    Args:
        model: Optimized float graph with names.
        choice: Settings and device.
        plan: Decisions and parameters to use instead of making them.
        resources: Samples and the rest.

    Raises:
        ConfigError: Samples are needed and there are none, or the plan does not fit.
        CalibrationError: A tensor cannot be quantized; it is named.
    """
    substitutes: Sequence[Feed] = ()
    if resources.samples is None and choice.measures:
        resources.context.log.warning(
            "accuracy is measured on random samples: calibration data would show what matters"
        )
        substitutes = resources.random_feeds(model, SUBSTITUTES)
    return Quantizer(model, choice, resources, substitutes).run(plan)


def decide(model: ir.Model, choice: Choice | None) -> QuantPlan:
    """Node decisions without parameters, for a forecast."""
    if choice is None:
        return QuantPlan("FLOAT")
    settings = choice.settings
    if isinstance(settings, FullSettings):
        return full.decide_full(model, choice.target, settings)
    if isinstance(settings, WeightSettings):
        return decide_weights(model, settings, target=choice.target.name)
    return dynamic.decide_dynamic(model, settings, target=choice.target.name)


def skip_line(choice: Choice, names: Sequence[str]) -> str:
    """The configuration line that leaves these nodes in float, along with those that are already."""
    parts = (f"'{name}'" if "," in name else name for name in [*sorted(choice.settings.skip), *names])
    return f"skip_quant_node={','.join(parts)}"


def skipping(choice: Choice, names: frozenset[str]) -> Choice:
    """The choice with more nodes in float."""
    return replace(choice, settings=replace(choice.settings, skip=choice.settings.skip | names))


def leaving_out(choice: Choice, names: frozenset[str]) -> Choice:
    """The choice with more nodes in float, or with 16 bits where only weights are quantized."""
    settings = choice.settings
    if isinstance(settings, WeightSettings):
        return replace(choice, settings=replace(settings, wide=settings.wide | names))
    return skipping(choice, names)

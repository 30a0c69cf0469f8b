"""The graph of a torch module: by torch.fx or torch.export where they can trace it, else the chain of its modules.

What is traced is a copy of the module, so that what `forward` leaves behind in it is left in the copy. A copy has no
tensors of its own: for torch.fx they are on torch's `meta` device, which has no bytes; torch.export takes the module's.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import torch
from torch import fx, nn
from torch.nn.parameter import is_lazy

from wilkins.tasks.models.doing import digest_of
from wilkins.tasks.models.errors import ModelError
from wilkins.tasks.models.graph import INPUT, Graph, Layer, Traced, without_compiled
from wilkins.tasks.models.tensors import bytes_of

_COMMUTATIVE = {
    "_operator.add",
    "_operator.mul",
    "_operator.and_",
    "_operator.or_",
    "_operator.xor",
    "torch.add",
    "torch.mul",
    "torch.maximum",
    "torch.minimum",
    "torch.logical_and",
    "torch.logical_or",
    "aten.add.Tensor",
    "aten.mul.Tensor",
    "aten.maximum.default",
    "aten.minimum.default",
}
"""Operations of two values whose order does not matter. (Those that write into the first one are left out.)"""
_GIVEN = "@"
"""What stands for an argument that another layer gives."""
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))
_HOOKS = ("_forward_pre_hooks", "_forward_hooks")
_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


def graph_of(
    model: nn.Module,
    example: Sequence[Any] | None = None,
    *,
    preprocessing: Sequence[tuple[str, Mapping[str, Any]]] = (),
) -> Graph:
    """The layers of a model; `traced` says how they were found.

    torch.fx is tried first, then torch.export, if there is an example. Where both fail (a `forward` that branches on
    values), the layers are the model's modules in the order in which it has them, one after the other, behind the name
    of its class: of such models only those of one class have layers in common.

    Args:
        model: the module, compiled or not; it is not changed.
        example: inputs that it takes, for torch.export.
        preprocessing: steps that prepare its inputs, each an operation with its configuration.

    Raises:
        ModelError: it is no module, or one whose lazy layers have no shape yet.
    """
    if not isinstance(model, nn.Module):
        raise ModelError(f"the graph of a {type(model).__name__} was asked for; give the model, a torch.nn.Module")
    if lazy := [name for name, one in (*model.named_parameters(), *model.named_buffers()) if is_lazy(one)]:
        raise ModelError(f"{lazy[0]!r} has no shape yet, as in lazy layers; call the model with samples once before")
    model = _uncompiled(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tracers, about what they make of a module
        found = _by_fx(model) or _by_export(model, example) or _chain(model)
    return found.after_preprocessing(*preprocessing)


class _Tracer(fx.Tracer):
    proxy_buffer_attributes = True  # what is computed of buffers alone is of layers, too


def _by_fx(model: nn.Module) -> Graph | None:
    try:
        shadow = _copied(model, lambda one: torch.empty_like(one, device="meta"))
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            nodes = _Tracer().trace(shadow).nodes
    except Exception:  # there are as many ways to fail as there are programs
        return None
    state = _tensors(model)
    modules = {without_compiled(name): module for name, module in model.named_modules(remove_duplicate=False)}
    layers = _Layers(state)
    for node in nodes:
        target = str(node.target)
        if node.op == "placeholder":
            layers.add_input(node)
        elif node.op == "get_attr" and target in state:
            layers.add(node, target, "parameter", {}, {"value": target})
        elif node.op == "get_attr":
            value = _attribute(target, model, shadow)
            if isinstance(value, torch.Tensor) and value.is_meta and _attribute(target, model) is None:
                return None  # computed while tracing, of a copy that has no values
            layers.add(node, target, "constant", {"value": _plain(value)})
        elif node.op == "call_module":
            module = _uncompiled(modules[target])
            tensors = {role: f"{target}.{role}" for role in _tensors(module)}
            layers.add(node, target, _name_of(type(module)), _settings(module) | _called(node), tensors)
        elif node.op in ("call_function", "call_method"):
            operation = f"Tensor.{target}" if node.op == "call_method" else _plain(node.target)
            layers.add(node, node.name, operation, _called(node))
    return layers.graph("fx")


def _by_export(model: nn.Module, example: Sequence[Any] | None) -> Graph | None:
    """Of its operations; a tensor of the model belongs to the operation that takes it."""
    if example is None:
        return None
    try:
        program = torch.export.export(_copied(model, lambda one: one.detach()), tuple(example))
    except Exception:  # as with torch.fx
        return None
    signature, state = program.graph_signature, _tensors(model)
    layers = _Layers(state)
    held = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    fixed = {**held, **signature.inputs_to_lifted_tensor_constants}
    held = {node: without_compiled(name) for node, name in held.items() if without_compiled(name) in state}
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in held:
            continue
        if node.op == "placeholder" and node.name in fixed:
            value = program.constants.get(fixed[node.name])
            layers.add(node, fixed[node.name], "constant", {"value": _plain(value)})
        elif node.op == "placeholder":
            layers.add_input(node)
        elif node.op == "get_attr":  # what one branch computes, as of `torch.cond`
            inner = _attribute(str(node.target), program.graph_module)
            codes = {name: one.code for name, one in inner.named_modules() if isinstance(one, fx.GraphModule)}
            layers.add(node, str(node.target), "constant", {"value": codes})
        elif node.op == "call_function":
            taken = [one for one in dict.fromkeys(_given(node)) if one.name in held]
            tensors = {str(number): held[one.name] for number, one in enumerate(taken)}
            configuration = _called(node, {one: number for number, one in enumerate(taken)})
            layers.add(node, node.name, _name_of(node.target), configuration, tensors)
    return layers.graph("export")


def _chain(model: nn.Module) -> Graph:
    layers = [Layer(INPUT, INPUT, {"model": _name_of(type(model))} | _code_of(model))]
    first = _first_names(_tensors(model))

    def visit(module: nn.Module, path: str) -> None:
        module = _uncompiled(module)
        whole = type(module).__module__.startswith("torch.nn") and not isinstance(module, _CONTAINERS)
        state = {role: one for role, one in _tensors(module).items() if whole or "." not in role}
        is_own = module is not model and not isinstance(module, _CONTAINERS)
        if whole or state or is_own or not module._modules:
            tensors = {role: f"{path}.{role}" if path else role for role in state}
            configuration = _settings(module, whole=whole) | _forms(state)
            name = path if path not in ("", INPUT) else f"{path or 'model'}.module"
            tied = _tied(tensors, first)
            layers.append(Layer(name, _name_of(type(module)), configuration, (layers[-1].name,), tensors, tied=tied))
        for name, child in {} if whole else module._modules.items():
            if child is not None:
                visit(child, f"{path}.{name}" if path else name)

    visit(model, "")
    return Graph(tuple(layers), "chain")


@dataclass(frozen=True, slots=True)
class _Own:
    """An argument that is one of the layer's own tensors."""

    number: int


class _Layers:
    """Layers as they are found, by the tracer's nodes, of a model with this state."""

    def __init__(self, state: Mapping[str, torch.Tensor]) -> None:
        self._state, self._first = state, _first_names(state)
        self._found: list[Layer] = []
        self._by_node: dict[fx.Node, str] = {}
        self._names: Counter[str] = Counter()

    def add_input(self, node: fx.Node) -> None:
        """What the model is given."""
        position = sum(layer.operation == INPUT for layer in self._found)
        self.add(node, str(node.target), INPUT, {"position": position})

    def add(
        self,
        node: fx.Node,
        name: str,
        operation: str,
        configuration: Mapping[str, Any],
        tensors: Mapping[str, str] | None = None,
    ) -> None:
        """A layer; one that is used again gets a number behind its name."""
        self._names[name] += 1
        name = name if self._names[name] == 1 else f"{name}@{self._names[name]}"
        inputs = tuple(self._by_node[one] for one in _given(node) if one in self._by_node)
        tensors = tensors or {}
        configuration = {**configuration, **_forms({role: self._state[one] for role, one in tensors.items()})}
        alike = operation in _COMMUTATIVE and len(inputs) == 2 and configuration == {"arguments": [_GIVEN, _GIVEN]}
        tied = _tied(tensors, self._first)
        self._found.append(Layer(name, operation, configuration, inputs, tensors, alike, tied))
        self._by_node[node] = name

    def graph(self, traced: Traced) -> Graph | None:
        """All of them; none, if there are none."""
        return Graph(tuple(self._found), traced) if self._found else None


def _uncompiled(model: nn.Module) -> nn.Module:
    """The module that `torch.compile` has put another one around."""
    inner = getattr(model, "_orig_mod", None)
    return _uncompiled(inner) if isinstance(inner, nn.Module) else model


def _copied(model: nn.Module, tensor: Callable[[torch.Tensor], torch.Tensor]) -> nn.Module:
    """A copy with another tensor for each, and without what `torch.compile` puts around modules."""
    memo: dict[int, Any] = {}
    for one in [*model.parameters(), *model.buffers()]:
        other = tensor(one)
        memo[id(one)] = nn.Parameter(other, one.requires_grad) if isinstance(one, nn.Parameter) else other
    for module in reversed(list(model.modules())):
        if _uncompiled(module) is not module:
            memo[id(module)] = copy.deepcopy(_uncompiled(module), memo)
    return copy.deepcopy(model, memo)


def _tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    """What a module has in its state, by names without `torch.compile`'s prefixes."""
    state = module.state_dict(keep_vars=True)
    return {without_compiled(name): one for name, one in state.items() if isinstance(one, torch.Tensor)}


def _first_names(state: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """The first one of the names that a tensor has, by each of them."""
    first: dict[int, str] = {}
    return {name: first.setdefault(id(one), name) for name, one in state.items()}


def _tied(tensors: Mapping[str, str], first: Mapping[str, str]) -> dict[str, str]:
    """Of a layer's tensors, those that have another name before theirs, by that."""
    return {role: first[name] for role, name in tensors.items() if first[name] != name}


def _forms(state: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    """Types and shapes of a layer's tensors, as its configuration has them."""
    return {"tensors": {role: _form(one) for role, one in state.items()}} if state else {}


def _form(tensor: torch.Tensor) -> list[Any]:
    return [str(tensor.dtype).removeprefix("torch."), list(tensor.shape)]


def _settings(module: nn.Module, *, whole: bool = True) -> dict[str, Any]:
    """What a module was told when it was made: its attributes, and with `whole` those of modules within it.

    Of torch's modules these are the public ones, which say what the others follow from. Of others the code counts, too,
    and so do hooks of all.
    """
    of_torch = type(module).__module__.startswith("torch.")
    found = {
        name: _plain(value)
        for name, value in vars(module).items()
        if name not in _OF_EVERY_MODULE and not (of_torch and name[0] == "_")
    }
    hooks = [_plain(one) for kind in _HOOKS for one in vars(module).get(kind, {}).values()]
    inner = module._modules.items() if whole else ()
    within = {name: [_name_of(type(one)), _settings(one)] for name, one in inner if one is not None}
    more = {f"{_GIVEN}hooks": hooks, "modules": within}
    return found | _code_of(module) | {name: one for name, one in more.items() if one}


def _code_of(module: nn.Module) -> dict[str, Any]:
    """What tells its code from that of another module whose class has the same name; nothing of torch's own."""
    if isinstance(module, torch.jit.ScriptModule):
        text, constants = module.code_with_constants
        code: Any = [text, _plain(constants.const_mapping)]
    else:
        code = digest_of(type(module).forward, type(module))
    return {f"{_GIVEN}code": code} if code else {}


def _given(node: fx.Node) -> list[fx.Node]:
    """The nodes among a node's arguments, each as often as it is there, in the order in which JSON has them."""
    found: list[fx.Node] = []

    def visit(value: Any) -> None:
        if isinstance(value, fx.Node):
            found.append(value)
        elif isinstance(value, Mapping):
            for name in sorted(value, key=str):
                visit(value[name])
        elif isinstance(value, list | tuple):
            for one in value:
                visit(one)
        elif isinstance(value, slice):
            visit((value.start, value.stop, value.step))

    visit((node.args, node.kwargs))
    return found


def _called(node: fx.Node, tensors: Mapping[fx.Node, int] | None = None) -> dict[str, Any]:
    """The arguments of a call, as a layer's configuration has them; those that are tensors of the layer by number."""
    given: Any = (node.args, node.kwargs)
    if tensors:
        own: Any = {one: _Own(number) for one, number in tensors.items()}
        given = fx.node.map_arg(given, lambda one: own.get(one, one))
    arguments, named = _plain(given)
    swapped = len(arguments) == 2 and arguments[0] != _GIVEN and arguments[1] == _GIVEN and not named
    if swapped and node.op == "call_function" and _name_of(node.target) in _COMMUTATIVE:
        arguments.reverse()
    found = {"arguments": arguments if arguments != [_GIVEN] else [], "named": named}
    return {name: one for name, one in found.items() if one}


def _plain(value: Any) -> Any:
    """A value as JSON has it: what two programs say of equal values is equal."""
    if isinstance(value, fx.Node):
        return _GIVEN
    if isinstance(value, _Own):
        return f"{_GIVEN}{value.number}"
    if isinstance(value, str):
        return f"{_GIVEN}{value}" if value.startswith(_GIVEN) else value
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    if isinstance(value, slice):
        return {"slice": [_plain(one) for one in (value.start, value.stop, value.step)]}
    if isinstance(value, torch.Tensor):
        known = {} if value.is_meta else {"sha256": hashlib.sha256(bytes_of(value, "constant")[2]).hexdigest()}
        return {"tensor": _form(value), **known}
    if isinstance(value, torch.dtype | torch.device | torch.layout | torch.memory_format | Enum):
        return str(value)
    if isinstance(value, np.ndarray):
        raw = repr(value.tolist()) if value.dtype.hasobject else np.ascontiguousarray(value).tobytes()
        digest = hashlib.sha256(raw.encode() if isinstance(raw, str) else raw).hexdigest()
        return {"array": [str(value.dtype), list(value.shape)], "sha256": digest}
    if isinstance(value, functools.partial):
        return {"partial": _plain(value.func), "arguments": _plain(value.args), "named": _plain(value.keywords)}
    if callable(value):
        return f"{_name_of(value)} {digest_of(value)}".rstrip()
    text = repr(value)
    return _name_of(type(value)) + ("" if " at 0x" in text else f" {text}")


def _name_of(value: Any) -> str:
    """A class, a function or an operation by its place."""
    if isinstance(value, torch._ops.OpOverload):
        return str(value)
    name = getattr(value, "__name__", None)
    if name is None:
        return f"{_name_of(type(value))} {value!r}" if " at 0x" not in repr(value) else _name_of(type(value))
    if getattr(torch, name, None) is value:
        return f"torch.{name}"
    return f"{getattr(value, '__module__', None) or ''}.{getattr(value, '__qualname__', name)}".lstrip(".")


def _attribute(path: str, *roots: Any) -> Any:
    """What a tracer found at a path: in the model, or in its copy, where tracers put constants."""
    for root in roots:
        found = root
        for part in path.split("."):
            found = getattr(_uncompiled(found) if isinstance(found, nn.Module) else found, part, None)
        if found is not None:
            return found
    return None

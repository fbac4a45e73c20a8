"""What a pickle would call, read without unpickling it."""

from __future__ import annotations

import pickletools
import re

TENSORS = re.compile(
    r"collections OrderedDict"
    r"|torch\._utils _rebuild_(tensor(_v2)?|parameter(_with_state)?|qtensor|device_tensor_from_numpy)"
    r"|torch (\w+Storage|Size|device|dtype|float\d+|bfloat16|u?int\d+|bool|per_(tensor|channel)_affine|strided|contiguous_format)"
    r"|torch\.storage (UntypedStorage|TypedStorage)"
    r"|torch\.nn\.parameter Parameter|torch\.serialization _get_layout|torch\._tensor _rebuild_from_type_v2|torch Tensor"
)
"""What PyTorch itself writes for tensors, and reads with ``weights_only=True``."""

CALLS = ("INST", "OBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4", "STACK_GLOBAL")
"""Other ways to name something; PyTorch writes none of them for tensors."""


def foreign_globals(data: bytes) -> list[str]:
    """Names that a pickle looks up and that are not those of tensors; a pickle that cannot be read has one, too."""
    found = []
    try:
        for operation, argument, _ in pickletools.genops(data):
            if operation.name == "GLOBAL" and not TENSORS.fullmatch(str(argument)):
                found.append(str(argument).replace(" ", "."))
            elif operation.name in CALLS:
                found.append(operation.name)
    except Exception as error:  # noqa: BLE001 - any damage
        return [f"what cannot be read ({type(error).__name__})"]
    return found

"""Field tables of the FlatBuffers inside a ``.nb`` file, as :mod:`converter_lite.formats.flatbuffer` reads them.

Source: docs/formats/paddle_nb.md.
"""

from __future__ import annotations

from converter_lite.formats.flatbuffer import Schema

_TABLES: dict[str, str] = {
    "ProgramDesc": "blocks:[BlockDesc] version:Version -",
    "Version": "version:long",
    "BlockDesc": "idx:int parent_idx:int vars:[VarDesc] ops:[OpDesc] forward_block_idx:int=-1",
    "VarDesc": "name:string! type:VarType! persistable:bool need_check_feed:bool",
    "VarType": "type:int - lod_tensor:LoDTensorDesc - - -",
    "LoDTensorDesc": "tensor:TensorDesc! lod_level:int",
    "TensorDesc": "data_type:int dims:longs",
    "OpDesc": "type:string! inputs:[Var] outputs:[Var] attrs:[Attr] is_target:bool",
    "Var": "parameter:string! arguments:strings",
    "Attr": "name:string! type:int i:int f:float s:string ints:ints floats:floats strings:strings b:bool "
    "bools:bools block_idx:int l:long blocks_idx:ints longs:longs float64:double float64s:doubles",
    "ParamDesc": "- name:string! variable_type:ubyte variable:ParamTensor",
    "ParamTensor": "lod_level:int lod:longs dim:longs! data_type:int data:bytes!",
    "CombinedParamsDesc": "params:[ParamDesc]",
}

SCHEMA = Schema(_TABLES, shared=("Attr", "Var", "VarType"))
"""The codec of these files."""

PARAM_LOD_TENSOR = 1
"""Union tag of ``ParamDesc.variable``: the only kind that exists."""

ATTRIBUTE_FIELDS = ("i", "f", "s", "ints", "floats", "strings", "b", "bools", "block_idx", "l", "blocks_idx", "longs")
"""Field of table ``Attr`` that holds the value, by attribute type 0 to 11."""

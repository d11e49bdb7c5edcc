"""A type whose models are loaded and built when a value needs them first.

Building a model takes a fraction of a millisecond, and there are hundreds: what few sessions meet does not have to make
the start of all of them slower. Knows no particular model.
"""

import importlib
import json
from functools import cached_property
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema


class Later:
    """Stands for a type by the name of its module and its own: `Annotated[Any, Later("package.module", "Name")]`.

    A JSON object, read strictly as the codec does. Errors are those of the type itself.
    """

    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self._name = name

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self._validate)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "object"}  # all that is known before it is loaded

    @cached_property
    def _type(self) -> TypeAdapter[Any]:
        return TypeAdapter(getattr(importlib.import_module(self._module), self._name))

    def _validate(self, value: Any, info: ValidationInfo) -> Any:
        if info.mode == "json":
            return self._type.validate_json(json.dumps(value), strict=True)
        return self._type.validate_python(value)

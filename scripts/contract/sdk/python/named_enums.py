"""python named_enums.py DOCUMENT: prints the document with each nullable enum as `oneOf` the enum and null.

For an enum with null among its values, the generator would create three classes. The values get short names, because
the class has the name of the enum.
"""

import json
import sys


def named_enum(name, schema):
    schema.pop("x-enum-varnames", None)
    if not schema.get("nullable") or None not in schema.get("enum", []):
        return schema
    description = schema.pop("description")
    del schema["nullable"]
    schema |= {"title": name, "enum": [value for value in schema["enum"] if value is not None]}
    return {"description": description, "oneOf": [schema, {"type": "string", "nullable": True, "enum": [None]}]}


with open(sys.argv[1], encoding="utf-8") as file:
    document = json.load(file)
schemas = document["components"]["schemas"]
document["components"]["schemas"] = {name: named_enum(name, schema) for name, schema in schemas.items()}
json.dump(document, sys.stdout)

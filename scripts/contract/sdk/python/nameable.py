"""python nameable.py DOCUMENT: prints it with each nullable enum as a choice of the enum and null.

The generator makes three classes of one enum that has null among its values.
"""

import json
import sys


def nameable(name, schema):
    if not schema.get("nullable") or None not in schema.get("enum", []):
        return schema
    description = schema.pop("description")
    del schema["nullable"]
    schema |= {"title": name, "enum": [value for value in schema["enum"] if value is not None]}
    return {"description": description, "oneOf": [schema, {"type": "string", "nullable": True, "enum": [None]}]}


with open(sys.argv[1], encoding="utf-8") as file:
    document = json.load(file)
schemas = document["components"]["schemas"]
document["components"]["schemas"] = {name: nameable(name, schema) for name, schema in schemas.items()}
json.dump(document, sys.stdout)

# SPDX-License-Identifier: Apache-2.0
"""Says what is wrong with OpenAPI documents, and with answers that the first of them describes.

A program of its own, because the validators need newer libraries than the test runner has loaded.
Reads {"documents": […], "answers": [[name, schema, answer], …]} from standard input; prints a line for
each problem. Usage: PYTHONPATH=FOLDER openapi_check.py
"""
import json
import sys

import jsonschema
import openapi_spec_validator

given = json.load(sys.stdin)
for number, document in enumerate(given["documents"]):
    for error in openapi_spec_validator.OpenAPIV31SpecValidator(document).iter_errors():
        print(f"document {number}: {'/'.join(map(str, error.path))}: {error.message[:300]}")
for name, schema, answer in given["answers"]:
    whole = {**schema, "components": given["documents"][0]["components"]}
    for error in jsonschema.Draft202012Validator(whole).iter_errors(answer):
        print(f"{name}: {'/'.join(map(str, error.path))}: {error.message[:300]}")

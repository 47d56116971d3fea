"""Renders a template with jinja2 exactly as transformers sets it up, at a fixed date."""
import copy
import datetime
import warnings

import jinja2
import transformers
from transformers.utils import chat_template_utils

warnings.filterwarnings("ignore")
NOW = datetime.datetime(2025, 7, 14, 9, 5, 3)
VERSIONS = {"jinja2": jinja2.__version__, "transformers": transformers.__version__}


class FixedDatetime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


chat_template_utils.datetime = FixedDatetime
SYNTAX = (jinja2.TemplateSyntaxError, SyntaxError)


def compile_template(source):
    return chat_template_utils._compile_jinja_template(source)


def render(source, variables):
    """{"out": text}, {"raise": text of raise_exception} or {"error": "syntax" or "runtime"}."""
    variables = copy.deepcopy(variables)  # |indent of a list changes the list
    try:
        template = compile_template(source)
    except (*SYNTAX, RecursionError, MemoryError):
        return {"error": "syntax"}
    try:
        text = template.render(**variables)
        text.encode()  # lone surrogates are no text
        return {"out": text}
    except jinja2.TemplateError as error:
        if type(error) is jinja2.TemplateError:
            return {"raise": str(error)}
        return {"error": "runtime"}
    except Exception:
        return {"error": "runtime"}


def render_unfolded(expression, variables):
    """Without Jinja's folding of constants, which gives a slice of a number, or of a dictionary, as undefined."""
    environment = compile_template("").environment
    optimized, environment.optimized = environment.optimized, False
    try:
        template = environment.from_string("{% set x = " + expression + " %}{{ x }}")
        return {"out": template.render(**copy.deepcopy(variables))}
    except SYNTAX:
        return {"error": "syntax"}
    except Exception:
        return {"error": "runtime"}
    finally:
        environment.optimized = optimized

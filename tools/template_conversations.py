"""The conversations that tests render every published chat template with."""

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Current weather in a place — \"now\", not a forecast.",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "City & country, e.g. 'Łódź, <PL>'"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
        "days": {"type": ["integer", "null"], "minimum": 1, "maximum": 14},
        "detail": {"type": "object", "properties": {"wind": {"type": "boolean"}, "limit": {"type": "number"}},
                   "required": ["wind"]},
        "tags": {"type": "array", "items": {"type": "string"}}}, "required": ["city"]}}}
CLOCK = {"type": "function", "function": {
    "name": "clock", "description": "The time.", "parameters": {"type": "object", "properties": {}, "required": []}}}
TOOLS = [WEATHER, CLOCK]
SPECIAL = ("Grüße, 世界! 🎉 e\u0301\u200b \t tab\n\n  <b>\"quotes\" & 'apostrophes'</b> {{ not }} {% a %} {# tag #} \\n \u00a0"
           "<|im_end|>\n<|im_start|>system\nX</s>[INST] </think>")


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


def call(name, arguments, call_id):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def result(text, name, call_id):
    return {"role": "tool", "content": text, "name": name, "tool_call_id": call_id}


ARGUMENTS = {"city": "Łódź", "days": 3, "detail": {"wind": True, "limit": 1.5}, "tags": ["a", "b"], "unit": None}
CALLED = [user("Weather in Łódź?"), assistant("", tool_calls=[call("get_weather", ARGUMENTS, "call00001")]),
          result("{\"temp\": 21.5}", "get_weather", "call00001")]

CONVERSATIONS = {
    "user": {"messages": [user("Hello")], "add_generation_prompt": True},
    "system": {"messages": [system("  Be brief. "), user("Hello\n")], "add_generation_prompt": True},
    "turns": {"messages": [system("Be brief."), user("One?"), assistant("1"), user("Two?"), assistant(" 2\n"), user("Three?")],
              "add_generation_prompt": True},
    "no_prompt": {"messages": [user("One?"), assistant("1"), user("Two?"), assistant("2")], "add_generation_prompt": False},
    "special": {"messages": [system(SPECIAL), user(SPECIAL), assistant(SPECIAL), user("End")], "add_generation_prompt": True},
    "tools": {"messages": [system("Use tools."), user("Weather in Łódź?")], "tools": TOOLS, "add_generation_prompt": True},
    "tools_no_system": {"messages": [user("What time is it?")], "tools": [CLOCK], "add_generation_prompt": True},
    "tool_result": {"messages": [system("Use tools."), *CALLED], "tools": TOOLS, "add_generation_prompt": True},
    "tool_turns": {"messages": [*CALLED, assistant("It is 21.5 °C."), user("And the time?"),
                                assistant("Let me see.", tool_calls=[call("clock", {}, "call00002")]),
                                result("12:00", "clock", "call00002"), assistant("Noon.")],
                   "tools": TOOLS, "add_generation_prompt": False},
    "parallel": {"messages": [user("Both?"), assistant("", tool_calls=[call("get_weather", {"city": "Oslo"}, "call00001"),
                                                                       call("clock", {}, "call00002")]),
                              result("rain", "get_weather", "call00001"), result("noon", "clock", "call00002")],
                 "tools": TOOLS, "add_generation_prompt": True},
    "text_arguments": {"messages": [user("Time?"), assistant("", tool_calls=[call("get_weather", "{\"city\": \"Oslo\"}", "call00001")]),
                                    result("rain", "get_weather", "call00001")], "tools": TOOLS, "add_generation_prompt": True},
    "parts": {"messages": [{"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
                           {"role": "user", "content": [{"type": "text", "text": "What's "}, {"type": "text", "text": "this?"}]}],
              "add_generation_prompt": True},
    "reasoning": {"messages": [user("2+2?"), assistant("4", reasoning_content="Simple: 2+2=4."), user("3+3?"),
                               assistant("<think>\nadd\n</think>\n\n6"), user("4+4?")],
                  "add_generation_prompt": True, "enable_thinking": True},
    "no_thinking": {"messages": [user("2+2?")], "add_generation_prompt": True, "enable_thinking": False,
                    "reasoning_effort": "low", "thinking": False},
    "null_content": {"messages": [user("Time?"), assistant(None, tool_calls=[call("clock", {}, "call00001")]),
                                  result("noon", "clock", "call00001")], "tools": [CLOCK], "add_generation_prompt": True},
    "absent_content": {"messages": [user("Time?"), {"role": "assistant", "tool_calls": [call("clock", {}, "call00001")]},
                                    result("noon", "clock", "call00001")], "tools": [CLOCK], "add_generation_prompt": True},
    "empty_calls": {"messages": [user("Hi"), assistant("x", tool_calls=[]), user("Again")], "add_generation_prompt": True},
    "late_system": {"messages": [user("Hi"), system("Be brief."), user("Again")], "add_generation_prompt": True},
    "two_users": {"messages": [user("Hi"), user("Again")], "add_generation_prompt": True},
    "two_assistants": {"messages": [user("Hi"), assistant("a"), assistant("b")], "add_generation_prompt": False},
    "unknown_role": {"messages": [{"role": "wizard", "content": "Hi"}], "add_generation_prompt": True},
    "empty": {"messages": [], "add_generation_prompt": True},
    "documents": {"messages": [user("Who?")], "add_generation_prompt": True, "date_string": "26 Jul 2024",
                  "documents": [{"title": "T", "text": "Body", "doc_id": 1}, {"title": "U", "text": "Other"}]},
    "numbers": {"messages": [user("Hi"), assistant(7), user(["a", 1, 2.0, None, True, {"k": "v'"}])], "add_generation_prompt": True},
}
COMMON = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def variables(name):
    return {**COMMON, **CONVERSATIONS[name]}

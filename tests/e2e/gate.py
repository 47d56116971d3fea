"""The smoke gate: what an answer must say of its prefill, and what the step log must show of the steps that made it. Raises
GateError; a fallback, or requests that only looked concurrent, cannot pass as success. (SPEC S-117..S-119)"""

AUX_FIELDS = ("prefill_cuda_graph_status", "n_prefill_steps", "n_prefill_replays", "n_reused_tokens")
OUTPUT_FIELDS = ("index", "text", "token_ids", "logprobs", "finish_reason")


class GateError(AssertionError):
    pass


def require_aux(answer, headers, required):
    """Named aux fields of a whole answer must have these values; header and usage must agree on the status."""
    aux = answer.get("monograph", {})
    for name, value in required.items():
        if name not in AUX_FIELDS:
            raise GateError(f"required aux field {name}: expected one of {', '.join(AUX_FIELDS)}")
        if name not in aux:
            raise GateError(f"aux field {name} is not in the answer: {aux}")
        if aux[name] != value:
            raise GateError(f"aux field {name}: required {value!r}, the answer has {aux[name]!r}")
    status = aux.get("prefill_cuda_graph_status")
    shown = headers.get("X-Monograph-Prefill-Status"), answer["usage"].get("prefill_cuda_graph_status")
    if shown != (status, status):
        raise GateError(f"the body says {status!r}, header and usage say {shown}")


def compare(answer, expected):
    """Two whole answers to one request: outputs and statuses, field by field. How many steps it took may differ."""
    for kind, fields, ours, theirs in [("choices", OUTPUT_FIELDS, answer["choices"], expected["choices"]),
                                       ("monograph", AUX_FIELDS[:1], [answer["monograph"]], [expected["monograph"]])]:
        if len(ours) != len(theirs):
            raise GateError(f"{kind}: {len(ours)} entries, expected {len(theirs)}")
        for a, b in zip(ours, theirs):
            for field in fields:
                if a.get(field) != b.get(field):
                    raise GateError(f"{kind}.{field}: {a.get(field)!r}, expected {b.get(field)!r}")


def shared_replay(steps, request_ids, bucket, n_requests, with_decode):
    """The first step that is one replay of `bucket` and holds prefill rows of at least n_requests of the requests, and a
    decode row of somebody else if asked for. Raises GateError with the steps that came nearest."""
    near, ids = [], {f"cmpl-{name}" for name in request_ids}
    for step in steps:
        rows = [row for row in step["rows"] if row["prefill"] and row["id"] in ids]
        if not rows:
            continue
        near.append((step["step"], len(rows), step.get("bucket"), step.get("status")))
        decodes = any(not row["prefill"] for row in step["rows"])
        if (step.get("replayed") and step.get("status") == "replayed" and step["bucket"] == bucket
                and len({row["id"] for row in rows}) >= n_requests and (decodes or not with_decode)):
            return step
    raise GateError(f"no step replayed bucket {bucket} with {n_requests} requests; (step, rows, bucket, status): {near[-8:]}")

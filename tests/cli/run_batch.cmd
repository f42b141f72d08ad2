# run --batch: a line of JSON a run, one process.
$ printf '{"name": "add", "inputs": {"x": {"type": "f32", "shape": ["R", 40]}, "y": {"type": "f32", "shape": [40]}}, "nodes": [{"op": "Add", "inputs": ["x", "y"], "outputs": ["z"]}], "outputs": ["z"]}' >add.json

$ printf '{"label": "open", "graph": "add.json", "gpu": "a100", "dims": {"R": 3}}\n{"label": "moved", "graph": "add.json", "gpu": "a100", "dims": {"R": 5}, "offset": ["x=4"]}\n\n{"label": "fixed", "graph": "add.json", "gpu": "a100", "dims": {"R": 2}, "fixed": true}\n' >good.jsonl

$ adlgen run --batch good.jsonl --on sim
{"line":1,"label":"open","faults":[],"outputs":[{"name":"z","error":2.362766823305259e-8,"max_abs":1.1920928955078125e-7,"limit":5.0000000000000004e-6,"plain_limit":5.0000000000000004e-6,"widest_limit":8.0000000000000007e-5,"misplaced":0,"outliers":0,"wrong_blocks":0,"undetermined":0,"status":"ok","ok":true}],"ok":true}
{"line":2,"label":"moved","faults":[],"outputs":[{"name":"z","error":2.5683220239940058e-8,"max_abs":1.1920928955078125e-7,"limit":5.0000000000000004e-6,"plain_limit":5.0000000000000004e-6,"widest_limit":8.0000000000000007e-5,"misplaced":0,"outliers":0,"wrong_blocks":0,"undetermined":0,"status":"ok","ok":true}],"ok":true}
{"line":4,"label":"fixed","faults":[],"outputs":[{"name":"z","error":2.2673133921520078e-8,"max_abs":8.9406967163085938e-8,"limit":5.0000000000000004e-6,"plain_limit":5.0000000000000004e-6,"widest_limit":8.0000000000000007e-5,"misplaced":0,"outliers":0,"wrong_blocks":0,"undetermined":0,"status":"ok","ok":true}],"ok":true}

$ printf '{"graph": "none.json", "gpu": "a100"}\n{"graph": "add.json"}\n{"graph": "add.json", "gpu": "a100"}\n{"graph": "add.json", "gpu": "a100", "rows": 3}\nnonsense\n{"label": "last", "graph": "add.json", "gpu": "a100", "dims": {"R": 2}}\n' >bad.jsonl

$ adlgen run --batch bad.jsonl --on sim
{"line":1,"label":null,"ok":false,"exit":1,"message":"cannot read none.json: No such file or directory"}
{"line":2,"label":null,"ok":false,"exit":1,"message":"a line of a batch needs a `gpu`"}
{"line":3,"label":null,"ok":false,"exit":1,"message":"dimension R of add has no value"}
{"line":4,"label":null,"ok":false,"exit":1,"message":"a line of a batch has no key `rows`"}
{"line":5,"label":null,"ok":false,"exit":1,"message":"'[' or '{' expected near 'nonsense'"}
{"line":6,"label":"last","faults":[],"outputs":[{"name":"z","error":2.2673133921520078e-8,"max_abs":8.9406967163085938e-8,"limit":5.0000000000000004e-6,"plain_limit":5.0000000000000004e-6,"widest_limit":8.0000000000000007e-5,"misplaced":0,"outliers":0,"wrong_blocks":0,"undetermined":0,"status":"ok","ok":true}],"ok":true}
[exit 5]

$ adlgen run --batch bad.jsonl
error: adlgen run --batch takes no GRAPH and needs --on
hint: adlgen run --help lists its options
[exit 2]

$ adlgen run --on sim --gpu a100
error: adlgen run needs one GRAPH
[exit 2]

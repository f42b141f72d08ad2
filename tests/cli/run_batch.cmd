# run --batch: a line of JSON a run, one process.
$ printf '{"name": "add", "inputs": {"x": {"type": "f32", "shape": ["R", 40]}, "y": {"type": "f32", "shape": [40]}}, "nodes": [{"op": "Add", "inputs": ["x", "y"], "outputs": ["z"]}], "outputs": ["z"]}' >add.json

$ printf '{"label": "open", "graph": "add.json", "gpu": "a100", "dims": {"R": 3}}\n{"label": "moved", "graph": "add.json", "gpu": "a100", "dims": {"R": 5}, "offset": ["x=4"]}\n\n{"label": "fixed", "graph": "add.json", "gpu": "a100", "dims": {"R": 2}, "fixed": true}\n' >good.jsonl

$ adlgen run --batch good.jsonl --on sim
{"line":1,"label":"open","faults":[],"outputs":[{"name":"z","error":2.362766823305259e-8,"max_abs":1.1920928955078125e-7,"limit":5.0000000000000004e-6,"plain_limit":5.0000000000000004e-6,"widest_limit":8.0000000000000007e-5,"misplaced":0,"outliers":0,"wrong_blocks":0,"undetermined":0,"status":"ok","ok":true}],"ok":true}
{"line":2,"label":"moved","faults":[],"outputs":[{"name":"z","error":2.5683220239940058e-8,"max_abs":1.1920928955078125e-7,"limit":5.0000000000000004e-6,"plain_limit":5.0000000000000004e-6,"widest_limit":8.0000000000000007e-5,"misplaced":0,"outliers":0,"wrong_blocks":0,"undetermined":0,"status":"ok","ok":true}],"ok":true}
{"line":4,"label":"fixed","faults":[],"outputs":[{"name":"z","error":2.2673133921520078e-8,"max_abs":8.9406967163085938e-8,"limit":5.0000000000000004e-6,"plain_limit":5.0000000000000004e-6,"widest_limit":8.0000000000000007e-5,"misplaced":0,"outliers":0,"wrong_blocks":0,"undetermined":0,"status":"ok","ok":true}],"ok":true}

$ printf '{"graph": "none.json", "gpu": "a100"}\n{"graph": "add.json"}\n{"graph": "add.json", "gpu": "a100"}\n{"graph": "add.json", "gpu": "a100", "rows": 3}\nnonsense\n{"label": "last", "graph": "add.json", "gpu": "a100", "dims": {"R": 2}}\n' >bad.jsonl

$ adlgen run --batch bad.jsonl --on sim
bad.jsonl:1:11: error: cannot read none.json: No such file or directory
  {"graph": "none.json", "gpu": "a100"}
            ^
bad.jsonl:2:1: error: missing key `gpu`
  {"graph": "add.json"}
  ^
bad.jsonl:3:1: error: dimension R of add has no value
  {"graph": "add.json", "gpu": "a100"}
  ^
hint: --dim R=VALUE binds it
bad.jsonl:4:38: error: unknown key `rows`
  {"graph": "add.json", "gpu": "a100", "rows": 3}
                                       ^
hint: known keys: label, graph, gpu, dims, set, offset, skew, sms, seed, fixed, in_place, accumulate, admit_wide, checkers
bad.jsonl:5:1: error: `nonsense` is no value in JSON
  nonsense
  ^
hint: put text in double quotes
{"line":1,"label":null,"ok":false,"exit":1,"message":"cannot read none.json: No such file or directory","errors":[{"severity":"error","file":"bad.jsonl","line":1,"column":11,"message":"cannot read none.json: No such file or directory","hint":null,"code":"unreadable"}]}
{"line":2,"label":null,"ok":false,"exit":1,"message":"missing key `gpu`","errors":[{"severity":"error","file":"bad.jsonl","line":2,"column":1,"message":"missing key `gpu`","hint":null,"code":"missing-key"}]}
{"line":3,"label":null,"ok":false,"exit":1,"message":"dimension R of add has no value","errors":[{"severity":"error","file":"bad.jsonl","line":3,"column":1,"message":"dimension R of add has no value","hint":"--dim R=VALUE binds it","code":"unbound-symbol"}]}
{"line":4,"label":null,"ok":false,"exit":1,"message":"unknown key `rows`","errors":[{"severity":"error","file":"bad.jsonl","line":4,"column":38,"message":"unknown key `rows`","hint":"known keys: label, graph, gpu, dims, set, offset, skew, sms, seed, fixed, in_place, accumulate, admit_wide, checkers","code":"unknown-key"}]}
{"line":5,"label":null,"ok":false,"exit":1,"message":"`nonsense` is no value in JSON","errors":[{"severity":"error","file":"bad.jsonl","line":5,"column":1,"message":"`nonsense` is no value in JSON","hint":"put text in double quotes","code":"syntax"}]}
{"line":6,"label":"last","faults":[],"outputs":[{"name":"z","error":2.2673133921520078e-8,"max_abs":8.9406967163085938e-8,"limit":5.0000000000000004e-6,"plain_limit":5.0000000000000004e-6,"widest_limit":8.0000000000000007e-5,"misplaced":0,"outliers":0,"wrong_blocks":0,"undetermined":0,"status":"ok","ok":true}],"ok":true}
[exit 5]

$ adlgen run --batch bad.jsonl
error: adlgen run --batch takes no GRAPH and needs --on
hint: adlgen run --help lists its options
[exit 2]

$ adlgen run --on sim --gpu a100
error: adlgen run needs one GRAPH
[exit 2]

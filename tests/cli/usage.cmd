# What the command line itself can have wrong: exit status 2, and a hint.
$ adlgen compil
error: unknown command compil
hint: did you mean compile?
[exit 2]

$ adlgen --hlep
error: unknown option --hlep
hint: adlgen --help lists commands and options
[exit 2]

$ adlgen gpus shwo
error: adlgen gpus: unknown action shwo
hint: did you mean show?
[exit 2]

$ adlgen gpus show
error: adlgen gpus show needs one NAME or FILE.yaml
hint: adlgen gpus lists the names
[exit 2]

$ adlgen gpus check
error: adlgen gpus check needs at least one FILE.yaml
[exit 2]

$ adlgen catalog
error: adlgen catalog needs an action
hint: one of: build, check, simulate, show, diff
[exit 2]

$ adlgen compile
error: adlgen compile needs GRAPH|FILE.ir
[exit 2]

$ adlgen compile a b --gpu h100 --out out
error: adlgen compile: unexpected argument b
[exit 2]

$ adlgen compile graph.json --out out
error: adlgen compile needs --gpu
hint: adlgen compile --help lists its options
[exit 2]

$ adlgen compile graph.json --gpu h100
error: adlgen compile needs --out
hint: adlgen compile --help lists its options
[exit 2]

$ adlgen compile graph.json --gpu h100 --out out --emitt ptx
error: adlgen compile: unknown option --emitt
hint: did you mean --emit?
[exit 2]

$ adlgen compile graph.json --gpu h100 --out out --emit ptx,cubim
error: adlgen compile: --emit cannot be "cubim"
hint: did you mean cubin?
[exit 2]

$ adlgen compile graph.json --gpu h100 --out out --emit
error: adlgen compile: --emit needs KIND
[exit 2]

$ adlgen compile graph.json --gpu h100 --out=
error: adlgen compile: --out needs a value
[exit 2]

$ adlgen compile graph.json --gpu h100 --out a --out b
error: adlgen compile: --out is given twice
[exit 2]

$ adlgen compile graph.json --gpu h100 --out out --explain=yes
error: adlgen compile: --explain takes no value
[exit 2]

$ adlgen compile graph.json --gpu h100 --out out --sms many
error: adlgen compile: --sms needs a whole number, not "many"
[exit 2]

$ adlgen compile graph.json --gpu h100 --out out --set bm
error: --set needs NAME=VALUE, not "bm"
[exit 2]

$ adlgen compile graph.json --gpu h100 --out out --print-after split_role
error: --print-after: there is no pass split_role
hint: did you mean split_roles?
[exit 2]

$ adlgen compile graph.json --gpu h100 --out out -x
error: adlgen compile: unknown option -x
hint: adlgen compile --help lists its options
[exit 2]

$ adlgen catalog build here
error: adlgen catalog build: unexpected argument here
[exit 2]

$ adlgen compile --jsn
error: adlgen compile: unknown option --jsn
hint: did you mean --json?
[exit 2]

$ adlgen compil --json
{
  "version": 1,
  "errors": [
    {
      "severity": "error",
      "file": null,
      "line": null,
      "column": null,
      "message": "unknown command compil",
      "hint": "did you mean compile?",
      "code": "unknown-command"
    }
  ]
}
[exit 2]

$ adlgen compil --json | validate errors
valid

# What there must be one of.
$ adlgen sim k.ptx --launch k.json --schedules 0
error: adlgen sim: --schedules needs a whole number of at least 1
[exit 2]

$ adlgen sim k.ptx --launch k.json --jobs 0
error: adlgen sim: --jobs needs a whole number of at least 1
[exit 2]

$ adlgen compile g.json --gpu h100 --out out --jobs 0
error: adlgen compile: --jobs needs a whole number of at least 1
[exit 2]

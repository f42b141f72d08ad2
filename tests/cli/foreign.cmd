# Files of other formats where a graph or a description is expected: what they are is said.
$ printf '\010\012\022\007pytorch\072\004\022\002go\102\004\012\000\020\033' >model.onnx; adlgen compile model.onnx --gpu h100 --out out
model.onnx: byte 13: error: the graph has no outputs
[exit 1]

$ printf '\010\012\072\177\022\002go' >cut.onnx; adlgen compile cut.onnx --gpu h100 --out out
cut.onnx: byte 2: error: ModelProto: a field goes beyond the end of what it is in
hint: the file is damaged, or no ONNX model
[exit 1]

$ printf '\012\003abc\000' >noise.onnx; adlgen compile noise.onnx --gpu h100 --out out
noise.onnx:2:5: error: a NUL byte: this is not a text file
  ?abc?
      ^
[exit 1]

$ printf '\010\012\072\004\022\002go' | adlgen compile - --gpu h100 --out out --json
{
  "version": 1,
  "errors": [
    {
      "severity": "error",
      "file": "<stdin>",
      "line": null,
      "column": null,
      "byte": 4,
      "message": "the graph has no outputs",
      "hint": null,
      "code": "no-outputs"
    }
  ]
}
[exit 1]

$ printf 'PK\003\004\024\000\000\000' >model.pt; adlgen run model.pt --gpu h100 --on sim
model.pt: error: this is a zip archive, as .pt files of PyTorch and .npz files of NumPy are, not JSON or YAML
hint: write the graph as JSON or YAML (docs/graph.md)
[exit 1]

$ printf '\200\002}q\001.' >old.pt; adlgen compile old.pt --gpu h100 --out out
old.pt: error: this is a Python pickle, as old .pt files of PyTorch are, not JSON or YAML
hint: write the graph as JSON or YAML (docs/graph.md)
[exit 1]

$ printf '\020\000\000\000\000\000\000\000{"a": [1, 2, 3]}' >model.safetensors; adlgen compile model.safetensors --gpu h100 --out out
model.safetensors: error: this is a safetensors file, not JSON or YAML
hint: a graph names such a file as `file` of a constant: docs/graph.md
[exit 1]

$ printf '\223NUMPY\001\000' >array.npy; adlgen compile array.npy --gpu h100 --out out
array.npy: error: this is a NumPy array (.npy), not JSON or YAML
hint: a graph names such a file as `file` of a constant: docs/graph.md
[exit 1]

$ printf '\037\213\010\000' >graph.json.gz; adlgen compile graph.json.gz --gpu h100 --out out
graph.json.gz: error: this is packed by gzip, not JSON or YAML
hint: unpack it first
[exit 1]

$ printf '//\n// by hand\n//\n\n.version 8.5\n.target sm_90a\n' >kernel.ptx; adlgen compile kernel.ptx --gpu h100 --out out
kernel.ptx: error: this is PTX, not JSON or YAML
hint: adlgen sim KERNEL.ptx runs it
[exit 1]

$ printf 'adlgen-ir 1\n' >kernel.txt; adlgen run kernel.txt --gpu h100 --on sim
kernel.txt: error: this is pseudo-assembly of adlgen, not JSON or YAML
hint: adlgen compile takes it
[exit 1]

$ printf '\177ELF\002\001' >kernel.cubin; adlgen compile kernel.cubin --gpu h100 --out out
kernel.cubin: error: this is an ELF file, as programs, libraries and cubins are, not JSON or YAML
[exit 1]

$ printf '\377\376{\000}\000' >wide.json; adlgen compile wide.json --gpu h100 --out out
wide.json: error: this is text in UTF-16, not JSON or YAML
hint: save it as UTF-8
[exit 1]

$ printf '{"a": 1}\000' >nul.json; adlgen compile nul.json --gpu h100 --out out
nul.json:1:9: error: a NUL byte: this is not a text file
  {"a": 1}?
          ^
[exit 1]

$ cp model.onnx gpu.yaml; adlgen gpus check gpu.yaml
gpu.yaml: error: this is an ONNX model, not JSON or YAML
hint: commands that take a graph read it
[exit 1]

$ ls -d out
ls: cannot access 'out': No such file or directory
[exit 2]

#!/bin/bash
# Completion as the shells do it: complete.sh ADLGEN BASH-SCRIPT FISH-SCRIPT. fish is asked where it is installed.
PATH=$(dirname "$(realpath "$1")"):$PATH
FISH=$(realpath "$3")
source "$2" || exit 1
failed=0

# expect WORD... = CANDIDATE...: the last of the words is completed; each candidate must be offered, with `only` no others
expect() {
  COMP_WORDS=() wanted=() COMPREPLY=()
  while [[ $1 != = ]]; do COMP_WORDS+=("$1"); shift; done
  shift
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _adlgen
  got=" ${COMPREPLY[*]} "
  for word in "$@"; do
    [[ $got == *" $word "* ]] || { echo "${COMP_WORDS[*]}<TAB>: no $word among:$got"; failed=1; }
  done
  [[ ${#COMPREPLY[@]} == "$#" || -n $more ]] || { echo "${COMP_WORDS[*]}<TAB>: more than $*:$got"; failed=1; }
}

cd "$(mktemp -d)" || exit 1
touch graph.json my.yaml
mkdir folder
expect adlgen comp = compile
expect adlgen compile gr = graph.json
expect adlgen compile graph.json --gpu h800- = h800-pcie
expect adlgen compile graph.json --gpu h100,h800- = h100,h800-pcie
expect adlgen compile graph.json --gpu h100,a100,h800- = h100,a100,h800-pcie
expect adlgen compile graph.json --gpu my = my.yaml
expect adlgen compile graph.json --emit ir,cu = ir,cubin
expect adlgen compile graph.json --print-after al = all allocate_resources
expect adlgen compile graph.json --skip stage = stage_stores
expect adlgen compile kernel.ir --start-after split_r = split_roles
expect adlgen compile graph.json --out fo = folder
expect adlgen compile graph.json --math f = fast
expect adlgen compile graph.json --ex = --explain
expect adlgen gpus sh = show
expect adlgen gpus show h800- = h800-pcie
expect adlgen gpus check my = my.yaml
expect adlgen templates show softmax_ = softmax_online
more=1 expect adlgen catalog "" = build check simulate --gpu
cd / && rm -r "$OLDPWD"

if command -v fish >/dev/null; then
  offered() { fish --no-config -c "source $FISH; complete -C '$1'" | cut -f1 | tr '\n' ' '; }

  for pair in 'adlgen comp:compile' 'adlgen gpus show h8:h800' 'adlgen compile --gpu h100,h8:h100,h800' \
              'adlgen compile --emit ir,cu:ir,cubin' 'adlgen compile --skip stage_:stage_stores' 'adlgen compile --ex:--explain'; do
    got=" $(offered "${pair%%:*}")"
    [[ $got == *" ${pair#*:} "* ]] || { echo "fish: ${pair%%:*}<TAB>: no ${pair#*:} among:$got"; failed=1; }
  done
fi
exit $failed

#!/bin/bash
# Completion as the shells do it: complete.sh ADLGEN BASH-SCRIPT FISH-SCRIPT. fish is asked where it is installed.
PATH=$(dirname "$(realpath "$1")"):$PATH
FISH=$(realpath "$3") SCRIPT=$(realpath "$2") TYPED=$(dirname "$(realpath "$0")")/complete_typed.py
source "$2" || exit 1
failed=0

# expect LINE CANDIDATE...: the line's last word is completed; these must be offered, and no others but with `more`.
# bash breaks words at = as well and is offered what follows the last one; with `whole`, as in zsh, words are whole.
expect() {
  local line=$1
  shift
  [[ -n $whole ]] || line=${line//=/ = }
  read -r -a COMP_WORDS <<<"$line"
  [[ $line == *[!=]\  ]] && COMP_WORDS+=("")
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
  _adlgen
  got=" ${COMPREPLY[*]} "
  for word in "$@"; do
    [[ $got == *" $word "* ]] || { echo "$line<TAB>: no $word among:$got"; failed=1; }
  done
  [[ ${#COMPREPLY[@]} == "$#" || -n $more ]] || { echo "$line<TAB>: more than $*:$got"; failed=1; }
}

cd "$(mktemp -d)" || exit 1
touch graph.json my.yaml
mkdir folder
expect 'adlgen comp' compile
expect 'adlgen compile gr' graph.json
expect 'adlgen compile graph.json --gpu h800-' h800-pcie
expect 'adlgen compile graph.json --gpu=h800-' h800-pcie
expect 'adlgen compile graph.json --gpu h100,h800-' h100,h800-pcie
expect 'adlgen compile graph.json --gpu h100,a100,h800-' h100,a100,h800-pcie
expect 'adlgen compile graph.json --gpu my' my.yaml
expect 'adlgen compile graph.json --emit ir,cu' ir,cubin
expect 'adlgen compile graph.json --print-after al' all align_operands allocate_resources
expect 'adlgen compile graph.json --skip st' stack_products stack_programs stage_stores
expect 'adlgen compile graph.json --skip read' read_forms read_functions read_narrow read_rotation read_through
expect 'adlgen compile kernel.ir --start-after st' stage_stores
expect 'adlgen compile kernel.ir --start-after split_r' split_roles
expect 'adlgen compile graph.json --out fo' folder
expect 'adlgen compile graph.json --math f' fast
expect 'adlgen compile graph.json --ex' --explain
expect 'adlgen gpus sh' show
expect 'adlgen gpus show h800-' h800-pcie
expect 'adlgen gpus check my' my.yaml
expect 'adlgen templates show row_s' row_scan
more=1 expect 'adlgen catalog ' build check simulate --gpu

# Names of template parameters, and their values where they are few; what the graph decides is not offered.
expect 'adlgen compile graph.json --set pi' pingpong=
expect 'adlgen compile graph.json --set pingpong=' 1 2 3 4 5 6 7 8
expect 'adlgen compile graph.json --set=persistent=' 0 1
expect 'adlgen compile graph.json --set swapped=1' 1
expect 'adlgen compile graph.json --set bm=12'
expect 'adlgen compile graph.json --set one_'
expect 'adlgen compile graph.json --set bm=64,ping' 64,pingpong=
expect 'adlgen compile graph.json --set bm=64,pingpong=2,swapped=' 0 1
expect 'adlgen compile graph.json --set bm=64 --set swa' swapped=
expect 'adlgen run graph.json --set split_' split_k=
expect 'adlgen bench graph.json --variant bm=64,swapped=' 0 1
more=1 expect 'adlgen compile graph.json --set ' bm= bn= bk= raster= vector= rows=
whole=1 expect 'adlgen compile graph.json --set pi' pingpong=
whole=1 expect 'adlgen compile graph.json --set bm=64,ping' bm=64,pingpong=
whole=1 expect 'adlgen compile graph.json --set=bm=64,swapped=' --set=bm=64,swapped=0 --set=bm=64,swapped=1
whole=1 expect 'adlgen compile graph.json --gpu=h100,h800-' --gpu=h100,h800-pcie

python3 "$TYPED" "$SCRIPT" || failed=1
cd / && rm -r "$OLDPWD"

if command -v fish >/dev/null; then
  offered() { fish --no-config -c "source $FISH; complete -C '$1'" | cut -f1 | tr '\n' ' '; }

  for pair in 'adlgen comp:compile' 'adlgen gpus show h8:h800' 'adlgen compile --gpu h8:h800' \
              'adlgen compile --gpu h100,h8:h100,h800' 'adlgen compile --emit ir,cu:ir,cubin' \
              'adlgen compile --skip stage_:stage_stores' 'adlgen compile --ex:--explain' 'adlgen compile --set pi:pingpong=' \
              'adlgen compile --set swapped=:swapped=1' 'adlgen compile --set bm=64,swapped=:bm=64,swapped=0' \
              'adlgen run --set bm=64,ping:bm=64,pingpong='; do
    got=" $(offered "${pair%%:*}")"
    [[ $got == *" ${pair#*:} "* ]] || { echo "fish: ${pair%%:*}<TAB>: no ${pair#*:} among:$got"; failed=1; }
  done
fi
exit $failed

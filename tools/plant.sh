# Plants bugs of tools/mutants in copies of the files that they change. $out is a folder for the copies.

patch_of() { echo "$PWD/tools/mutants/$1.patch"; }

# apply NAME TREE plants a bug in copies of the files that it changes.
apply() {
  local file
  mkdir -p "$2"
  for file in $(git apply --numstat "$(patch_of "$1")" | cut -f 3); do
    [[ -f $file && ! -f $2/$file ]] || continue
    mkdir -p "$2/$(dirname "$file")"
    cp "$file" "$2/$file"
  done
  git -C "$2" apply "$(patch_of "$1")"
}

# overlay TREE writes TREE.json, by which go builds these files instead of ours.
overlay() {
  local file list=
  for file in $(cd "$1" && find . -type f); do
    list+=${list:+,}\"$PWD/${file#./}\":\"$1/${file#./}\"
  done
  echo "{\"Replace\":{$list}}" >"$1.json"
}

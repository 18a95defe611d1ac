#!/usr/bin/env bash
# Builds a program and shows how far it is: tools/compile.sh FLAGS… PACKAGE
set -euo pipefail
all=$(go list -deps -tags "${TAGS:-}" "${@: -1}" | wc -l)
# What is compiled is told by a line each; everything else, such as a mistake, is shown.
go build -v -tags "${TAGS:-}" "$@" 2> >(awk -v all="$all" -v every="$([[ -t 1 ]] && echo 1 || echo 100)" '
  /^[a-z0-9][^ :]*$/ {
    if (++done % every == 0) {
      printf "%scompiled %d of %d packages%s", every == 1 ? "\r" : "", done, all, every == 1 ? "" : "\n"
      shown = every == 1
      fflush()
    }
    next
  }
  { if (shown) print ""; shown = 0; print }
  END { if (shown) print "" }')
wait

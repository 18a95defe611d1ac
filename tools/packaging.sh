#!/usr/bin/env bash
# Checks what is in packaging/ by the tools of its formats, and ends with one line: N passed, N failed. What a tool that
# is not here would check is left out, and said.
#
#   ONLY=…   some of the checks: compose systemd chart release image same cluster
set -uo pipefail
cd "$(dirname "$0")/.."
passed=0 failed=0
work=$(mktemp -d)
# The database of the cluster runs as another user, who has to get in.
chmod 755 "$work"
trap 'rm -rf "$work"' EXIT
readonly left_out=77

# check NAME WHAT FUNCTION runs one, which counts as one.
check() {
  local code=0
  if [[ -n ${ONLY-} && " $ONLY " != *" $1 "* ]]; then return; fi
  echo "--- $2"
  "$3" || code=$?
  case $code in
    0) passed=$((passed + 1)); echo "--- $2: ok" ;;
    "$left_out") echo "--- $2: left out" ;;
    *) failed=$((failed + 1)); echo "--- $2: FAILED" ;;
  esac
}

# python NAME ARGUMENTS… runs a program of tools/packaging.txt, in an environment of its own.
python() {
  local venv=bin/packaging
  if ! cmp -s tools/packaging.txt "$venv/.ready"; then
    python3 -m venv "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check \
      --requirement tools/packaging.txt || return 1
    cp tools/packaging.txt "$venv/.ready"
  fi
  "$venv/bin/$1" "${@:2}"
}

# built PROGRAM MODULE builds a tool of a module of its own in tools/.
built() { GOWORK=off go build -C "tools/$1" -o ../../bin/ "$2"; }

# compose compares the file with the schema of its format, and by Docker where its plugin is here.
compose() {
  python check-jsonschema --builtin-schema vendor.compose-spec packaging/compose.yaml || return 1
  if docker compose version >/dev/null 2>&1; then
    ROAMCARD_CHAIN__RPC_URL=http://127.0.0.1:1 ROAMCARD_PAYMENT__PAY_TO=0x \
      docker compose -f packaging/compose.yaml config --quiet
  else
    echo "docker compose is not installed: its own check is left out"
  fi
}

# transient makes the unit that roamcard-run asks systemd for into a file. Nothing is started.
transient() {
  mkdir -p "$work/stubs"
  printf '#!/bin/sh\ncat packaging/systemd/"$2"\n' >"$work/stubs/systemctl"
  cat >"$work/stubs/systemd-run" <<'END'
#!/usr/bin/env bash
echo "[Service]"
while [[ $1 != -- ]]; do
  if [[ $1 == --property=* ]]; then echo "${1#--property=}"; fi
  shift
done
echo "ExecStart=${*:2}"
END
  chmod +x "$work"/stubs/*
  PATH=$work/stubs:$PATH packaging/systemd/roamcard-run doctor | sed "s|/usr/bin/roamcard|$(command -v true)|" >"$1"
}

# systemd verifies the units, with the program and its manual where an installation has them, and how exposed they are.
systemd() {
  if ! command -v systemd-analyze >/dev/null; then
    echo "systemd is not installed"
    return "$left_out"
  fi
  local unit warned
  for unit in packaging/systemd/*.service; do
    sed "s|/usr/bin/roamcard|$(command -v true)|; /^Documentation=/d" "$unit" >"$work/$(basename "$unit")"
  done
  transient "$work/roamcard-run.service" || return 1
  # What it does not know it ignores, with a warning.
  warned=$(systemd-analyze verify "$work"/*.service 2>&1) && [[ -z $warned ]] || { echo "$warned" && return 1; }
  rm "$work/roamcard-run.service"
  for unit in "$work"/*.service; do
    # 1.5 of 10, and less is better.
    systemd-analyze security --offline=true --threshold=15 --no-pager "$unit" | tail -n 1
    [[ ${PIPESTATUS[0]} -eq 0 ]] || return 1
  done
}

# charted VALUES… makes the chart with them for a version of Kubernetes into chart.yaml.
charted() {
  bin/helm template roamcard packaging/helm/roamcard --kube-version "$version" "$@" >"$work/chart.yaml" 2>&1
}

# chart lints the chart, checks what it makes by the schemas of the oldest and of the newest Kubernetes, and that it
# refuses what is wrong.
chart() {
  local version on='console.enabled=true,admin.enabled=true,networkPolicy.enabled=true,command={doctor}'
  local peers='[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"ops"}}}]'
  built helm helm.sh/helm/v3/cmd/helm && bin/helm lint --strict packaging/helm/roamcard || return 1
  for version in 1.30.0 1.37.0; do
    # The monitor is not Kubernetes' own, so its schema is not among these.
    charted && python kubernetes-validate --strict --quiet --kubernetes-version "${version%.*}" "$work/chart.yaml" &&
      charted --set "$on" --set-json "networkPolicy.operators=$peers,networkPolicy.monitoring=$peers" &&
      python kubernetes-validate --strict --kubernetes-version "${version%.*}" "$work/chart.yaml" || return 1
  done
  # A schema that refuses nothing would be no check.
  sed 's/containerPort: 8402/containerPort: many/' "$work/chart.yaml" >"$work/wrong.yaml"
  ! python kubernetes-validate --strict --quiet --kubernetes-version 1.37 "$work/wrong.yaml" >/dev/null 2>&1 || return 1
  # The owner of the tables is known to the migration alone, and to nobody where there is no Secret of theirs.
  charted --set command={doctor} && [[ $(grep -c 'secretName: roamcard-owner' "$work/chart.yaml") == 1 ]] &&
    charted --set migrate.owner.secret= && ! grep -q 'owner' "$work/chart.yaml" || return 1
  charted --set metrics.podMonitor=true && grep -q 'preStop: {sleep: {seconds: 10}}' "$work/chart.yaml" &&
    ! grep -q 'name: roamcard-command' "$work/chart.yaml" || return 1
  ! charted --set server.replicas=many && grep -q "want integer" "$work/chart.yaml" &&
    ! charted --set console.enabled=true,console.port=9464 && grep -q "another listener has 9464" "$work/chart.yaml" &&
    ! charted --set preStopSeconds=30 && grep -q "50 more than preStopSeconds" "$work/chart.yaml"
}

# release checks the configuration, and makes a release of this machine's kind without publishing it, or with
# SNAPSHOT=all of each kind.
release() {
  local config=packaging/goreleaser.yaml archive document
  if ! built goreleaser github.com/goreleaser/goreleaser/v2 ||
    ! built cyclonedx-gomod github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod ||
    ! built minisign aead.dev/minisign/cmd/minisign; then
    echo "goreleaser, what makes its SBOMs or what signs could not be built"
    return "$left_out"
  fi
  bin/goreleaser check --config "$config" || return 1
  if [[ ${SNAPSHOT-} != all ]]; then
    sed "s/goos: .*/goos: [$(go env GOOS)]/; s/goarch: .*/goarch: [$(go env GOARCH)]/" \
      "$config" >"$work/goreleaser.yaml"
    config=$work/goreleaser.yaml
  fi
  # A key of this run alone.
  bin/minisign -G -W -p "$work/release.pub" -s "$work/release.key" >/dev/null || return 1
  KEY=$(tail -n 1 "$work/release.pub") MINISIGN_KEY=$work/release.key PATH=$PWD/bin:$PATH \
    bin/goreleaser release --snapshot --clean --config "$config" && cp bin/release/files/* bin/dist/ &&
    (cd bin/dist && sha256sum --check --quiet checksums.txt) && installs || return 1
  for archive in bin/dist/roamcard_*.tar.gz; do
    tar -tzf "$archive" | sort >"$work/archive" &&
      grep -Eqx 'man/roamcard.1.gz' "$work/archive" && grep -qx 'completions/roamcard.bash' "$work/archive" &&
      grep -qx 'packaging/systemd/roamcard-server.service' "$work/archive" &&
      grep -qx LICENSE "$work/archive" && grep -qx NOTICE "$work/archive" &&
      grep -qx roamcard "$work/archive" || return 1
    document=${archive%.tar.gz}.cdx.json
    echo "$archive: $(wc -l <"$work/archive") files; $document: $(grep -c '"purl"' "$document") modules"
    grep -q '"pkg:golang/github.com/ethereum/go-ethereum@' "$document" && grep -q '"LGPL-3.0-only"' "$document" &&
      grep -q '"pkg:golang/std@' "$document" || return 1
  done
}

# installs fetches the release from this machine as a newcomer would, and refuses what was changed on its way.
installs() {
  local version web code=1 port archive
  version=v$(sed -n 's/.*"version":"\([^"]*\)".*/\1/p' bin/dist/metadata.json)
  mkdir -p "$work/releases" && cp -r bin/dist "$work/releases/$version"
  archive=$work/releases/$version/roamcard_${version#v}_$(go env GOOS)_$(go env GOARCH).tar.gz
  python3 -u -m http.server --bind 127.0.0.1 --directory "$work/releases" 0 >"$work/web.log" 2>&1 &
  web=$!
  until port=$(sed -n 's/.* port \([0-9]*\) .*/\1/p' "$work/web.log") && [[ -n $port ]]; do
    kill -0 "$web" && sleep 0.1 || return 1
  done
  fetched() {
    PATH=$PWD/bin:$PATH RELEASES=http://127.0.0.1:$port PREFIX=$work/$1 "${@:2}"
  }
  # Changed bytes, another's signature, and a version that is not there.
  if fetched home sh bin/dist/install.sh && "$work/home/bin/roamcard" version &&
    ! RELEASE_KEY=RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3 fetched other sh bin/dist/install.sh &&
    ! fetched gone sh bin/dist/install.sh v9.9.9 && echo x >>"$archive" &&
    ! fetched changed sh bin/dist/install.sh && [[ ! -e $work/other && ! -e $work/gone && ! -e $work/changed ]]; then
    code=0
  fi
  kill "$web"
  return "$code"
}

image() { tools/image.sh; }
same() { tools/reproducible.sh; }

# cluster takes everything apart; its packages are not installed for it here.
cluster() {
  local code=0
  make --no-print-directory setup build && INSTALL= ADDR=127.0.0.1:0 DATA=$work/cluster tools/cluster.sh || code=$?
  if [[ $code -eq 3 ]]; then return "$left_out"; fi
  return "$code"
}

check compose "compose file" compose
check systemd "systemd units" systemd
check chart "Helm chart" chart
check release "release" release
check image "container image" image
check same "the same sources make the same bytes" same
check cluster "cluster" cluster

echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]

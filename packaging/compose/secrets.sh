#!/usr/bin/env bash
# Makes the secrets of compose.yaml that are not there yet. Fund the relayer's and the treasury's addresses, which
# `roamcard doctor` shows. Nothing here is committed. It asks sudo for one thing: to give the files to the containers'
# groups.
set -euo pipefail
cd "$(dirname "$0")"
mkdir -p secrets
chmod 700 secrets
# keep NAME VALUE
keep() {
  if [[ -s secrets/$1 ]]; then return; fi
  printf '%s' "$2" >"secrets/$1"
  echo "made $1"
}
random() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }

keep postgres_password "$(random)"
keep service_password "$(random)"
# url ROLE PASSWORD
url() { echo "postgres://$1:$(cat "secrets/$2")@primary:5432,standby:5432/roamcard?target_session_attrs=read-write"; }
keep owner_url "$(url roamcard postgres_password)"
keep database_url "$(url roamcard_service service_password)"
keep relayer_keys "$(random)"
keep treasury_key "$(random)"
keep quote_key "$(random)"
keep esim_keys "k1:$(random)"
keep esim_token_key "$(random)"
# The sandbox has one account, whose key is public.
keep sandbox_key sandbox
# An operator's token, of which the service gets only the hash.
keep operator_token "rco_$(random)"
keep operators "compose:$(openssl dgst -sha256 -r secrets/operator_token | cut -d' ' -f1)"
# Compose mounts each file as it is here, so its group is one that the containers have; nobody else reads it. Where
# Docker runs without root, the containers' groups have other numbers outside (/etc/subgid).
readonly program=65532 postgres=999
# readable GROUP NAMES… lets a group read files.
readable() {
  local files=("${@:2}")
  files=("${files[@]/#/secrets/}")
  chgrp "$1" "${files[@]}" 2>/dev/null || sudo chgrp "$1" "${files[@]}"
  chmod 440 "${files[@]}"
}
readable "$program" database_url owner_url relayer_keys treasury_key quote_key esim_keys esim_token_key sandbox_key \
  operators
readable "$postgres" postgres_password service_password
# It is mounted nowhere.
chmod 400 secrets/operator_token

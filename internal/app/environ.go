package app

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// otherwise are the variables with our prefix that are no settings: those of the buyer's and the agent's commands, of
// operators' commands, and of tests and tools.
var otherwise = []string{
	"AGENT_CONFIG", "ANVIL", "APPROVE_ABOVE_USD", "BIN", "BUNDLE", "CACHE", "CASES", "CONFIG", "DEPLOYER_KEY", "FAULT",
	"HOSTILE", "JOURNAL",
	"KEYCHAIN", "KEYSTORE", "KEYSTORE_PASSPHRASE", "KMS_URL", "MATRIX", "MAX_PER_DAY_USD", "MAX_PER_PAYMENT_USD", "MODE",
	"OPERATOR_TOKEN", "PG_BIN", "READY", "RPC_URL", "RUNS", "SCENARIOS", "SEED", "SETTINGS", "SIGNER", "SIGNER_ADDRESS",
	"SIGNER_ENV", "TEST_LOG", "TORTURE", "URL", "VENDOR_OPENAPI", "WALLET", "WALLET_KEY",
}

// linked are what Kubernetes and Docker set in programs next to a service named roamcard, and what benchmarks read.
var linked = regexp.MustCompile(`^ROAMCARD_(BENCH_.*|([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?` +
	`|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?))$`)

// unknownVariables are the variables of an environment that look like settings and are none. Those that a setting
// refers to are known.
func (m Modules) unknownVariables(environ, referred []string) (wrong []error) {
	known := map[string]bool{}
	var names []string
	for _, s := range m.settings() {
		known[s.env()] = true
		names = append(names, s.env())
	}
	for _, name := range otherwise {
		known["ROAMCARD_"+name] = true
	}
	for _, name := range referred {
		known[name] = true
	}
	slices.Sort(environ)
	for _, one := range environ {
		name, _, _ := strings.Cut(one, "=")
		if !strings.HasPrefix(name, "ROAMCARD_") || known[name] || known[strings.TrimSuffix(name, "_FILE")] ||
			linked.MatchString(name) {
			continue
		}
		near := slices.MinFunc(names, func(a, b string) int { return distance(name, a) - distance(name, b) })
		wrong = append(wrong,
			fmt.Errorf("%s (from the environment): there is no such setting; the nearest is %s", name, near))
	}
	return wrong
}

// nearest is the setting whose name in a file is most like a text.
func (m Modules) nearest(key string) string {
	return slices.MinFunc(m.settings(), func(a, b setting) int { return distance(key, a.key) - distance(key, b.key) }).key
}

// distance is how many letters have to be added, left out or replaced to make one text of the other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := before
			if a[i] != b[j] {
				replaced++
			}
			before = row[j+1]
			row[j+1] = min(replaced, before+1, row[j]+1)
		}
	}
	return row[len(b)]
}

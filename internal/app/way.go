package app

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/store"
)

// waySettings are the settings of how others are reached.
func waySettings() []setting {
	return []setting{
		{key: "network.plaintext_hosts", help: "hosts that production reaches without TLS, separated by commas: whoever is " +
			"on the way to them reads passwords and changes answers", byDefault: none,
			set: func(c *Config, s string) (err error) { c.PlaintextHosts, err = plaintextHosts(s); return err }},
	}
}

// plaintextHosts reads names and addresses of hosts, without ports.
func plaintextHosts(s string) (all []string, err error) {
	for part := range strings.SplitSeq(s, ",") {
		host := strings.TrimSpace(part)
		if net.ParseIP(host) == nil {
			if _, err := hosts(host); err != nil || strings.ContainsAny(host, "*[") {
				return nil, errors.New("must be names or addresses of hosts without ports, separated by commas")
			}
		}
		all = append(all, host)
	}
	return all, nil
}

// rule says which hosts are reached without TLS: in production those that are named, and this machine.
func (c Config) rule() outward.Rule {
	return outward.Rule{Plaintext: c.PlaintextHosts, Anywhere: c.Environment != Production}
}

// strictRule is that of production, for what is as dear in a sandbox: who signs, and who is not served.
func (c Config) strictRule() outward.Rule { return outward.Rule{Plaintext: c.PlaintextHosts} }

// howToReach says what can be done about an address without TLS.
const howToReach = "; where the way to it is yours alone, name the host in network.plaintext_hosts"

// wayMistakes are the addresses that are reached without TLS and may not be. Those of signers, of lists and of vendors
// are checked as they are read.
func (c Config) wayMistakes(lookup func(string) (string, bool)) (wrong []error) {
	check := func(setting, address string) {
		if address == "" {
			return
		}
		u, err := url.Parse(address)
		if err != nil {
			err = errors.New("the URL cannot be read")
		} else if err = c.rule().Check(u); err != nil {
			err = fmt.Errorf("%w%s", err, howToReach)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", setting, err))
		}
	}
	for i, node := range c.RPCURLs {
		check("chain.rpc_url, number "+strconv.Itoa(i+1), node)
	}
	check("chain.explorer", c.Explorer)
	check("chain.public_node", c.PublicNode)
	check("facilitator.url", c.FacilitatorURL)
	check("oidc.issuer", c.Issuer.Issuer)
	check("screening.url", c.Screening.URL)
	if off, _ := lookup("OTEL_SDK_DISABLED"); off != "true" {
		for _, signal := range []string{"", "TRACES_", "METRICS_", "LOGS_"} {
			name := "OTEL_EXPORTER_OTLP_" + signal + "ENDPOINT"
			endpoint, _ := lookup(name)
			check(name, strings.TrimSpace(endpoint))
		}
	}
	return append(wrong, c.databaseWayMistakes()...)
}

// databaseWayMistakes are those of the database, whose protocol goes on without TLS where a server declines it.
func (c Config) databaseWayMistakes() (wrong []error) {
	for _, of := range c.databaseURLs() {
		for _, host := range store.Unverified(of.url.Reveal()) {
			if !c.rule().AllowsPlaintext(host) {
				wrong = append(wrong, fmt.Errorf("%s: the certificate of %s is not verified: add sslmode=verify-full, and "+
					"sslrootcert where the system does not know who has signed it%s", of.key, host, howToReach))
			}
		}
	}
	return wrong
}

// databaseURL is a connection string, and the setting that has it.
type databaseURL struct {
	key string
	url secret.Text
}

func (c Config) databaseURLs() (all []databaseURL) {
	for _, of := range []databaseURL{
		{"database.url", c.DatabaseURL}, {"database.listen_url", c.Database.ListenURL},
		{"database.owner_url", c.Database.OwnerURL},
	} {
		if !of.url.IsZero() {
			all = append(all, of)
		}
	}
	return all
}

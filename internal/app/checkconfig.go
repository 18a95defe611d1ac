package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
)

// CheckConfig prints every mistake of a file and the environment together, as `serve` would find them at its start. It
// connects to nothing. It is ErrNotReady when there is a mistake.
func CheckConfig(path string, asJSON bool, out io.Writer) error {
	_, err := LoadFile(path)
	mistakes := lines(err)
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		err = enc.Encode(struct {
			OK       bool     `json:"ok"`
			Mistakes []string `json:"mistakes"`
		}{len(mistakes) == 0, mistakes})
	} else {
		err = printMistakes(mistakes, out)
	}
	if err != nil {
		return err
	}
	switch n := len(mistakes); n {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%w: the configuration has 1 mistake", ErrNotReady)
	default:
		return fmt.Errorf("%w: the configuration has %d mistakes", ErrNotReady, n)
	}
}

func printMistakes(mistakes []string, out io.Writer) error {
	if len(mistakes) == 0 {
		_, err := fmt.Fprintln(out, "no mistakes; roamcard doctor asks what it names")
		return err
	}
	_, err := fmt.Fprintln(out, strings.Join(mistakes, "\n"))
	return err
}

// lines are the lines of an error: of joined ones, one for each. They are never nil.
func lines(err error) []string {
	if err == nil {
		return []string{}
	}
	return strings.Split(err.Error(), "\n")
}

// unusable are the settings that can be read and are of no use.
func (c Config) unusable() (wrong []error) {
	wrong = append(wrong, c.keyMistakes(false)...)
	wrong = append(wrong, c.facilitatorKeyMistakes()...)
	wrong = append(wrong, c.databaseMistakes()...)
	return append(wrong, c.addressMistakes()...)
}

// addressMistakes are the addresses to listen at that are none, or that one of the others takes.
func (c Config) addressMistakes() (wrong []error) {
	type listener struct{ key, addr, host, port string }
	var all []listener
	for _, of := range []listener{
		{key: "addr", addr: c.Addr}, {key: "metrics.addr", addr: c.MetricsAddr}, {key: "admin.addr", addr: c.AdminAddr},
		{key: "console.addr", addr: c.ConsoleAddr},
	} {
		if of.addr == "" {
			continue
		}
		var err error
		if of.host, of.port, err = net.SplitHostPort(of.addr); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: is not host:port", of.key))
			continue
		}
		if _, err = net.LookupPort("tcp", of.port); err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %q is no port", of.key, of.port))
			continue
		}
		for _, other := range all {
			if samePort(of.port, other.port) && sameHost(of.host, other.host) {
				wrong = append(wrong, fmt.Errorf("%s: %s is taken by %s, %s", of.key, of.addr, other.key, other.addr))
				break
			}
		}
		all = append(all, of)
	}
	return wrong
}

// samePort reports whether two ports, which may have names, are one. Zero is another one each time.
func samePort(one, other string) bool {
	a, err := net.LookupPort("tcp", one)
	if err != nil {
		return one == other
	}
	b, err := net.LookupPort("tcp", other)
	return err == nil && a == b && a != 0
}

// sameHost reports whether two hosts cannot have listeners at one port: they are the same, or one includes the other.
func sameHost(one, other string) bool {
	a, b := ipOf(one), ipOf(other)
	if a == nil || b == nil {
		return strings.EqualFold(one, other) || a != nil && a.IsUnspecified() || b != nil && b.IsUnspecified()
	}
	// Nothing, and ::, stand for every address; 0.0.0.0 for those of IPv4.
	every := func(ip, of net.IP) bool { return ip.IsUnspecified() && (ip.To4() == nil || of.To4() != nil) }
	return a.Equal(b) || every(a, b) || every(b, a)
}

// ipOf is the address of a host, or nil when only a resolver knows it.
func ipOf(host string) net.IP {
	switch host {
	case "":
		return net.IPv6zero
	case "localhost":
		return net.IPv4(127, 0, 0, 1)
	}
	return net.ParseIP(host)
}

package secret

import (
	"regexp"
	"strings"
)

var (
	scheme = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://`)
	// address is a URL in a text, with what follows it up to a space or a quotation mark.
	address = regexp.MustCompile(scheme.String() + "[^\\s\"'`<>]*")
	// hosts are one host or several, as PostgreSQL takes them.
	hosts = regexp.MustCompile(`^(?:\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]*)(?::[0-9]*)?` +
		`(?:,(?:\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+)(?::[0-9]*)?)*$`)
	digit     = regexp.MustCompile(`[0-9]`)
	separator = regexp.MustCompile(`[-_.,:]`)
)

// Mask hides what may be secret in each URL of a text, for logs and errors: the user before a host, values of a query,
// what follows a #, and parts of a path that look like keys. A URL whose parts cannot be told apart is hidden whole.
func Mask(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	return address.ReplaceAllStringFunc(text, func(all string) string {
		found := strings.TrimRight(all, ".,:;)") // which belong to the text
		// A list has no spaces between its URLs.
		var masked strings.Builder
		begin := 0
		for _, next := range scheme.FindAllStringIndex(found, -1) {
			if next[0] > begin && found[next[0]-1] == ',' {
				masked.WriteString(maskOne(found[begin:next[0]-1]) + ",")
				begin = next[0]
			}
		}
		return masked.String() + maskOne(found[begin:]) + all[len(found):]
	})
}

// MaskError is an error with a masked text; nil stays nil.
func MaskError(err error) error {
	if err == nil || !strings.Contains(err.Error(), "://") {
		return err
	}
	return maskedError{err}
}

type maskedError struct{ error }

func (e maskedError) Error() string { return Mask(e.error.Error()) }

func (e maskedError) Unwrap() error { return e.error }

// MaskList is Mask for what is a URL, or a list of URLs and paths, as a whole: a comma, a space or a quotation mark in
// a password ends nothing.
func MaskList(list string) string {
	at := scheme.FindStringIndex(list)
	if at == nil || at[0] > 0 && !strings.HasPrefix(list, "/") {
		return Mask(list)
	}
	parts := strings.Split(list, ",")
	for i, part := range parts {
		one := strings.TrimSpace(part)
		masked := maskOne(one)
		switch whole := address.FindString(one); {
		case strings.HasPrefix(one, "/") && !strings.Contains(one, "@"):
			masked = one
		case whole == "":
			return Redacted // the rest of what was cut
		case whole != one:
			masked = Redacted
		}
		parts[i] = strings.Replace(part, one, masked, 1)
	}
	return strings.Join(parts, ",")
}

func maskOne(one string) string {
	kind, rest, _ := strings.Cut(one, "://")
	kind += "://"
	host, behind := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		host, behind = rest[:end], rest[end:]
	}
	user := ""
	if at := strings.LastIndex(host, "@"); at >= 0 {
		user, host = Redacted+"@", host[at+1:]
	}
	// A password may have what ends a host: then nobody knows where it ends.
	if !hosts.MatchString(host) || strings.Contains(behind, "@") {
		return kind + Redacted
	}
	behind, fragment, cut := strings.Cut(behind, "#")
	if cut && fragment != "" {
		fragment = "#" + Redacted
	}
	path, query, cut := strings.Cut(behind, "?")
	if cut {
		query = "?" + maskQuery(query)
	}
	segments := strings.Split(path, "/")
	for i, s := range segments {
		if looksLikeKey(s) {
			segments[i] = Redacted
		}
	}
	return kind + user + host + strings.Join(segments, "/") + query + fragment
}

func maskQuery(query string) string {
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		switch {
		case looksLikeKey(name):
			pairs[i] = Redacted
		case value != "":
			pairs[i] = name + "=" + Redacted
		}
	}
	return strings.Join(pairs, "&")
}

// looksLikeKey tells words of a path from keys: those are long, and have digits or nothing that separates words.
func looksLikeKey(segment string) bool {
	const withDigits, without = 16, 20
	return len(segment) >= withDigits && digit.MatchString(segment) ||
		len(segment) >= without && !separator.MatchString(segment)
}

package auth

import "strings"

// scheme is that of all our credentials (RFC 6750).
const scheme = "Bearer"

// Bearer reads the token of an Authorization header: the scheme in any case, one or more spaces, and the token
// (RFC 9110 sections 11.1 and 11.4). ok is false for another scheme, and without a token.
func Bearer(authorization string) (token string, ok bool) {
	named, rest, found := strings.Cut(authorization, " ")
	token = strings.TrimLeft(rest, " ")
	if !found || token == "" || !strings.EqualFold(named, scheme) {
		return "", false
	}
	return token, true
}

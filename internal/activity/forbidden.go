package activity

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"html"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// maxDepth is how often a text may be encoded within itself.
const maxDepth = 4

// Forbidden reports whether a text holds, in the open or encoded, what no event may hold: a wallet, a key
// or signature, an IP address, a user agent, a token, a card number or code, an ICCID, an eSIM activation
// code or an e-mail address. It refuses a harmless text rather than let one of these pass.
func Forbidden(text string) bool { return forbidden(text, maxDepth, map[string]bool{}) }

func forbidden(text string, depth int, seen map[string]bool) bool {
	if seen[text] || text == "" {
		return false
	}
	seen[text] = true
	plain := normalize(text)
	joined := separators.Replace(plain)
	if named(plain) || named(joined) || hexRun(plain) || hexRun(joined) || random(plain) || addressed(plain) {
		return true
	}
	if depth == 0 {
		return false
	}
	for _, inner := range decodings(plain) {
		if forbidden(inner, depth-1, seen) {
			return true
		}
	}
	return false
}

// normalize writes compatible characters and the digits of all scripts in ASCII, and drops what cannot be
// seen.
func normalize(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == unicode.ReplacementChar, unicode.Is(unicode.Cf, r), unicode.Is(unicode.Mn, r), unicode.IsControl(r) &&
			!unicode.IsSpace(r):
			return -1
		case unicode.Is(unicode.Nd, r):
			return '0' + digitOf(r)
		}
		if ascii, ok := lookalikes[r]; ok {
			return ascii
		}
		return r
	}, norm.NFKD.String(text))
}

// digitOf is the value of a decimal digit: scripts have them in runs of ten.
func digitOf(r rune) rune {
	zero := r
	for unicode.Is(unicode.Nd, zero-1) && r-zero < 9 {
		zero--
	}
	return r - zero
}

// lookalikes are letters of other scripts that look like those in addresses and markers.
var lookalikes = map[rune]rune{
	'а': 'a', 'с': 'c', 'е': 'e', 'о': 'o', 'р': 'p', 'х': 'x', 'у': 'y', 'і': 'i', 'ԁ': 'd', 'А': 'A', 'В': 'B', 'С': 'C',
	'Е': 'E', 'О': 'O',
	'Р': 'P', 'Х': 'X', 'М': 'M', 'Ο': 'O', 'ο': 'o', 'Α': 'A', 'Β': 'B', 'Ε': 'E', 'χ': 'x', 'α': 'a', 'ℓ': 'l', '‐': '-',
	'–': '-', '—': '-', '。': '.',
}

// separators hide a value from a search for it in one piece.
var separators = strings.NewReplacer(" ", "", "-", "", "_", "", ".", "", ",", "", ":", "", ";", "", "/", "", "|", "",
	"+", "", "\t", "", "\n", "",
	"\r", "", "'", "", `"`, "", "(", "", ")", "", "[", "", "]", "", "\u00a0", "", `\x`, "", "*", "", "~", "", "·", "")

var patterns = []*regexp.Regexp{
	regexp.MustCompile(`\d{12,}`), // card numbers, ICCIDs, IMEIs
	// addresses, hashes, keys, whole or cut
	regexp.MustCompile(`0[xX][0-9a-fA-F]{4,}`),
	regexp.MustCompile(`(?i)\b[a-z0-9-]+\.eth\b`),                                      // names of wallets
	regexp.MustCompile(`@`),                                                            // e-mail addresses
	regexp.MustCompile(`(?i)[a-z0-9][(\[{_ .-]+at[)\]}_ .-]+[a-z0-9-]+[(\[{_ .-]+dot`), // and those written out
	regexp.MustCompile(`(?i)lpa:?[01]|\b1\$[a-z0-9]`),                                  // eSIM activation codes
	// JSON in base64: JWTs and payments
	regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}`),
	regexp.MustCompile(`(?i)\bbearer\b[ :=_-]*[a-z0-9]{4,}|\bbasic[ :]+[a-z0-9+/=]{8,}`), // authorization headers
	regexp.MustCompile(`(?i)\b(rcs|rco|rcd|sk|pk|ghp|gho|ghs|glpat|xox[abp]|whsec)[_-][a-z0-9_-]{8,}`),
	regexp.MustCompile(`\b(AKIA|ASIA)[0-9A-Z]{12,}`),
	regexp.MustCompile(`(?i)\b(cvv2?|cvc2?|csc|cav2?|securitycode|security[ _-]?code)[^0-9a-z]{0,3}\d{3,4}\b`),
	regexp.MustCompile(`(?i)mozilla|applewebkit|gecko/|(chrome|safari|firefox|edge?|opera|opr|` +
		`curl|wget|axios|undici|dalvik|cfnetwork|okhttp|java)/\d|` +
		`okhttp|gohttpclient|go-http-client|python-?(requests|urllib|httpx)|` +
		`postmanruntime|node-?fetch|googlebot|bingbot|headlesschrome`),
}

var (
	longHex   = regexp.MustCompile(`[0-9a-fA-F]{38,}`)
	tokenLike = regexp.MustCompile(`[A-Za-z0-9]{20,}`)
	upper     = regexp.MustCompile(`[A-Z]`)
	lower     = regexp.MustCompile(`[a-z]`)
	digit     = regexp.MustCompile(`\d`)
)

// named finds values with a shape of their own.
func named(s string) bool {
	for _, p := range patterns {
		if p.MatchString(s) {
			return true
		}
	}
	return false
}

// hexRun finds an address, hash, key or signature without its 0x. One digit in four tells hex from words
// of the letters a to f.
func hexRun(s string) bool {
	for _, m := range longHex.FindAllString(s, -1) {
		if 4*len(digit.FindAllString(m, -1)) >= len(m) {
			return true
		}
	}
	return false
}

// random finds text of both cases with digits in it: a token, whatever its prefix.
func random(s string) bool {
	for _, t := range tokenLike.FindAllString(s, -1) {
		if len(digit.FindAllString(t, 3)) == 3 && upper.MatchString(t) && lower.MatchString(t) {
			return true
		}
	}
	return false
}

var (
	quads = regexp.MustCompile(`(?i)(?:^|[^0-9a-z.])((?:0x[0-9a-f]{1,2}|0[0-7]{1,3}|\d{1,3})` +
		`(?:[._, -](?:0x[0-9a-f]{1,2}|0[0-7]{1,3}|\d{1,3})){3})(?:$|[^0-9a-z])`)
	oneWord  = regexp.MustCompile(`(?i)(?:^|[^0-9a-z])(0x[0-9a-f]{7,8}|0[0-7]{9,11}|\d{8,10})(?:$|[^0-9a-z])`)
	sixGroup = regexp.MustCompile(`[0-9a-fA-F:.]{2,}(%\w+)?`)
)

// addressed finds IP addresses in the notations that programs read.
func addressed(s string) bool {
	for _, m := range quads.FindAllStringSubmatch(s, -1) {
		if isQuad(m[1]) {
			return true
		}
	}
	for _, m := range oneWord.FindAllStringSubmatch(s, -1) {
		if n, err := strconv.ParseUint(m[1], 0, 64); err == nil && n >= 1<<24 && n < 1<<32 {
			return true
		}
	}
	for _, m := range sixGroup.FindAllString(s, -1) {
		if strings.Count(m, ":") < 2 {
			continue
		}
		if a, err := netip.ParseAddr(strings.Trim(m, ".")); err == nil && a.Is6() {
			return true
		}
	}
	return false
}

func isQuad(s string) bool {
	for _, part := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune("._, -", r) }) {
		n, err := strconv.ParseUint(part, 0, 16)
		if err != nil {
			n, err = strconv.ParseUint(strings.TrimLeft(part, "0"), 10, 16)
		}
		if err != nil || n > 255 {
			return false
		}
	}
	return true
}

var (
	escaped = regexp.MustCompile(`\\u\{?[0-9a-fA-F]{2,6}\}?|\\x[0-9a-fA-F]{2}|=[0-9A-F]{2}|\bU\+[0-9A-Fa-f]{4,6}`)
	hexish  = regexp.MustCompile(`(?:[0-9a-fA-F]{2}){4,}`)
	coded   = regexp.MustCompile(`[A-Za-z0-9+/_-]{6,}`)
	percent = regexp.MustCompile(`%[0-9a-fA-F]{2}`)
	coded32 = regexp.MustCompile(`[A-Z2-7a-z]{8,}`)
)

// decodings are the texts that this one may encode.
func decodings(s string) []string {
	var all []string
	if t, err := url.PathUnescape(s); err == nil && t != s {
		all = append(all, t)
	} else if loose := percents(s); loose != s {
		all = append(all, loose)
	}
	if t := html.UnescapeString(s); t != s {
		all = append(all, t)
	}
	if t := escaped.ReplaceAllStringFunc(s, unescape); t != s {
		all = append(all, t)
	}
	for _, view := range []string{s, separators.Replace(s)} {
		for _, m := range hexish.FindAllString(view, -1) {
			all = appendText(all, m, hex.DecodeString)
		}
		for _, m := range coded.FindAllString(view, -1) {
			all = appendBase64(all, m)
		}
		for _, m := range coded32.FindAllString(strings.ReplaceAll(view, "=", ""), -1) {
			all = appendText(all, strings.ToUpper(m), base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString)
		}
	}
	return all
}

// percents decodes the valid escapes of a text that also has invalid ones.
func percents(s string) string {
	return percent.ReplaceAllStringFunc(s, func(m string) string {
		n, _ := strconv.ParseUint(m[1:], 16, 8) // two hex digits
		return string(rune(n))
	})
}

func unescape(m string) string {
	n, err := strconv.ParseUint(strings.Trim(strings.TrimLeft(m, `\uxU+=`), "{}"), 16, 32)
	if err != nil {
		return m
	}
	return string(rune(n))
}

// appendBase64 reads base64 of either alphabet. Text before it may hide where it begins, so every offset is tried.
func appendBase64(all []string, s string) []string {
	s = strings.NewReplacer("-", "+", "_", "/").Replace(s)
	if len(s)%4 == 1 {
		s = s[:len(s)-1] // no text in base64 has this length
	}
	return appendText(all, s, base64.RawStdEncoding.DecodeString)
}

// appendText keeps what decodes to text in UTF-8 or UTF-16.
func appendText(all []string, s string, decode func(string) ([]byte, error)) []string {
	b, err := decode(s)
	if err != nil || len(b) < 4 {
		return all
	}
	if narrow := strings.ReplaceAll(string(b), "\x00", ""); len(narrow) >= 4 && printable([]byte(narrow)) {
		return append(all, narrow)
	}
	if n := len(b); (n == 20 || n == 32 || n == 64 || n == 65) && random(s) {
		// The raw bytes of an address, a key or a signature.
		all = append(all, hex.EncodeToString(b))
	}
	return all
}

func printable(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return len(b) > 0
}
